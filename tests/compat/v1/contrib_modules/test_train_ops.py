"""`create_train_op` of contrib.training and of slim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.v1 import contrib

v1 = tf.compat.v1
slim = contrib.slim


def test_a_step_runs_updates_multiplies_and_clips() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        a, b = v1.get_variable("a", initializer=[3.0, 4.0]), v1.get_variable("b", initializer=1.0)
        updated = v1.get_variable("updated", initializer=0.0, trainable=False)
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_add(updated, 1.0))
        loss = tf.reduce_sum(a * a) + 3.0 * b
        train_op = slim.learning.create_train_op(
            loss,
            v1.train.GradientDescentOptimizer(1.0),
            clip_gradient_norm=1.0,
            gradient_multipliers={"b": 0.1},
            summarize_gradients=True,
        )
        session.run(v1.global_variables_initializer())
        assert session.run(train_op) == 28.0
        np.testing.assert_allclose(session.run(a), [3 - 0.6, 4 - 0.8], rtol=1e-5)
        assert session.run(b) == pytest.approx(1 - 0.3)
        assert session.run(updated) == 1.0
        assert session.run(v1.train.get_global_step()) == 1


def test_as_the_train_op_of_a_model_function(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        loss = tf.reduce_mean((features["x"] * v1.get_variable("w", initializer=0.0) - labels) ** 2)
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        clip = contrib.training.clip_gradient_norms_fn(10.0)
        train_op = contrib.training.create_train_op(loss, optimizer, transform_grads_fn=clip)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = est.Estimator(model_fn, config=est.RunConfig(str(tmp_path), progress=False))
    data = tf.data.Dataset.from_tensors(({"x": [1.0, 2.0]}, [2.0, 4.0])).repeat()
    estimator.train(lambda: data, steps=40)
    assert estimator.get_variable_value("w") == pytest.approx(2.0, abs=1e-3)
    assert estimator.get_variable_value("global_step") == 40
