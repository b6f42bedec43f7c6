"""Models that tf.estimator trained, exported here, answer what tf.estimator predicted."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import estimand as est

fc = est.feature_column


def columns() -> tuple[list[object], list[object]]:
    age = fc.numeric_column("age")
    hours = fc.numeric_column("hours", normalizer_fn=lambda x: (x - 40.0) / 10.0)
    age_range = fc.bucketized_column(age, [25, 35, 45, 60])
    occupation = fc.categorical_column_with_hash_bucket("occ", 50)
    education = fc.categorical_column_with_vocabulary_list(
        "edu", ["hs", "bachelors", "masters"], num_oov_buckets=1
    )
    cross = fc.crossed_column([age_range, "occ"], 200)
    embedded = fc.embedding_column(occupation, 4)
    wide = [age_range, occupation, education, cross]
    return wide, [hours, embedded, fc.indicator_column(education), age_range]


def dnn_classifier(model_dir: Path) -> est.Estimator:
    _, deep = columns()
    return est.DNNClassifier([10, 10], deep, n_classes=3, model_dir=str(model_dir))


def wide_deep(model_dir: Path) -> est.Estimator:
    wide, deep = columns()
    return est.DNNLinearCombinedClassifier(
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=[16, 8],
        model_dir=str(model_dir),
    )


@pytest.mark.parametrize("make", [dnn_classifier, wide_deep])
def test_exported_predictions_are_those_of_tf_estimator(
    upstream_model_dirs: Path, tmp_path: Path, make: Callable[[Path], est.Estimator]
) -> None:
    case = upstream_model_dirs / make.__name__
    shutil.copytree(case / "model_dir", tmp_path / "model")
    features = dict(np.load(case / "data.npz"))
    del features["label"]
    receiver_fn = est.export.build_raw_serving_input_receiver_fn(features)
    make(tmp_path / "model").export_saved_model(tmp_path / "out", receiver_fn)
    wanted = np.load(case / "predictions.npz")
    with est.load_model(tmp_path / "out") as model:
        found = model(features)
    assert {"logits", "probabilities", "class_ids"} <= set(wanted.files)
    for name in wanted.files:
        np.testing.assert_allclose(found[name], wanted[name], rtol=0, atol=1e-5, err_msg=name)
