"""Variables that tf.estimator 2.15 trained give its predictions through our layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.features import fast_path

v1 = tf.compat.v1
fc = est.feature_column


@pytest.mark.parametrize("fast", [True, False], ids=["dense_ids", "plain"])
def test_wide_and_deep_checkpoint(upstream_model_dirs: Path, fast: bool) -> None:
    case = upstream_model_dirs / "wide_deep"
    data = dict(np.load(case / "data.npz", allow_pickle=True))
    expected = np.load(case / "predictions.npz")["logits"]
    age = fc.numeric_column("age")
    hours = fc.numeric_column("hours", normalizer_fn=lambda x: (x - 40.0) / 10.0)
    age_buckets = fc.bucketized_column(age, [25, 35, 45, 60])
    occupation = fc.categorical_column_with_hash_bucket("occ", 50)
    education = fc.categorical_column_with_vocabulary_list(
        "edu", ["hs", "bachelors", "masters"], num_oov_buckets=1
    )
    wide = [age_buckets, occupation, education, fc.crossed_column([age_buckets, "occ"], 200)]
    deep = [hours, fc.embedding_column(occupation, 4), fc.indicator_column(education), age_buckets]
    with tf.Graph().as_default(), v1.Session() as session, fast_path(fast):
        features = {k: tf.constant(data[k]) for k in ("age", "hours", "occ", "edu")}
        with v1.variable_scope("dnn"):
            with v1.variable_scope("input_from_feature_columns"):
                x = fc.input_layer(features, deep)
            for name in ("hiddenlayer_0", "hiddenlayer_1", "logits"):
                width = {"hiddenlayer_0": 16, "hiddenlayer_1": 8, "logits": 1}[name]
                kernel = v1.get_variable(f"{name}/kernel", [x.shape[1], width])
                x = tf.matmul(x, kernel) + v1.get_variable(f"{name}/bias", [width])
                x = x if name == "logits" else tf.nn.relu(x)
        with v1.variable_scope("linear"):
            logits = x + fc.linear_model(features, wide)
        session.run(v1.tables_initializer())
        checkpoint = tf.train.latest_checkpoint(str(case / "model_dir"))
        v1.train.Saver(v1.global_variables()).restore(session, checkpoint)
        np.testing.assert_allclose(session.run(logits), expected, rtol=1e-4, atol=1e-5)
