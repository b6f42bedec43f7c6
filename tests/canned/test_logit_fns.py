"""est.experimental: the logits of canned models in model functions of one's own."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.canned import cases

C = cases.columns()
CASE = cases.Case(lambda use, c, more: None, "number")


def test_builders_make_variables_in_the_scope_they_are_called_in() -> None:
    deep = est.experimental.dnn_logit_fn_builder(
        units=1,
        hidden_units=[3],
        feature_columns=C.deep,
        activation_fn=tf.nn.relu,
        dropout=None,
        input_layer_partitioner=None,
        batch_norm=True,
    )
    linear = est.experimental.linear_logit_fn_builder(units=1, feature_columns=C.wide)

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> est.EstimatorSpec:
        call = est.experimental.call_logit_fn
        with tf.compat.v1.variable_scope("one"):
            logits = call(deep, features, mode, {}, config)
        with tf.compat.v1.variable_scope("two"):
            logits += call(linear, features, mode, {}, config)
        updates = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
        return est.RegressionHead().create_estimator_spec(
            features=features,
            mode=mode,
            logits=logits,
            labels=labels,
            optimizer=tf.compat.v1.train.AdamOptimizer(0.05),
            trainable_variables=tf.compat.v1.trainable_variables(),
            update_ops=updates,
        )

    estimator = est.Estimator(model_fn, config=est.RunConfig(tf_random_seed=1))
    before = estimator.evaluate(CASE.input_fn)["average_loss"]
    estimator.train(lambda: CASE.input_fn(repeat=True), steps=60)
    assert estimator.evaluate(CASE.input_fn)["average_loss"] < before
    names = set(estimator.get_variable_names())
    assert {
        "one/hiddenlayer_0/kernel",
        "one/input_from_feature_columns/input_layer/word_embedding/embedding_weights",
        "one/logits/bias",
        "two/linear_model/word/weights",
        "two/linear_model/bias_weights",
    } <= names
    averages = estimator.get_variable_value("one/hiddenlayer_0/batchnorm_0/moving_variance")
    assert np.all(averages != 1.0)


def test_call_logit_fn_passes_what_is_declared() -> None:
    seen = {}

    def logit_fn(features: Any, mode: str, scale: float, params: Any) -> tf.Tensor:
        seen.update(mode=mode, scale=scale, params=params)
        return features["x"]

    logits = est.experimental.call_logit_fn(
        functools.partial(logit_fn, scale=2.0), {"x": tf.ones([1])}, "eval", {"a": 1}, None
    )
    assert logits.shape == [1]
    assert seen == {"mode": "eval", "scale": 2.0, "params": {"a": 1}}


@pytest.mark.parametrize("wrong", [3, [tf.ones(1)], {1: tf.ones(1)}, {"a": 3}])
def test_call_logit_fn_wants_tensors(wrong: Any) -> None:
    with pytest.raises(ValueError, match="logit_fn should return a Tensor or a dictionary"):
        est.experimental.call_logit_fn(lambda features: wrong, {}, "train", None, None)


def test_units_must_be_an_int() -> None:
    with pytest.raises(ValueError, match="units must be an int"):
        est.experimental.linear_logit_fn_builder("1", [C.x])
