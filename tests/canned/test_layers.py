"""The layers of canned models, in model functions around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1


def test_a_step_around_a_canned_model_finds_the_updates_of_its_batch_normalization() -> None:
    """As wrappers do that minimize a loss of their own."""
    column = tf.feature_column.numeric_column("x")
    base = est.DNNClassifier([2], [column], batch_norm=True)

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        spec = base.model_fn(features, labels, mode, config)
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        step = optimizer.minimize(spec.loss * 2.0, global_step=v1.train.get_global_step())
        return spec._replace(train_op=tf.group(step, *updates))

    around = est.Estimator(model_fn, config=est.RunConfig(progress=False))
    rows = {"x": [[1.0], [3.0]]}, [[0], [1]]
    around.train(lambda: tf.data.Dataset.from_tensors(rows), steps=1)
    moved = around.get_variable_value("dnn/hiddenlayer_0/batchnorm_0/moving_variance")
    assert np.all(moved != 1.0)
