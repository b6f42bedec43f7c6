"""What code of TensorFlow 1 does with its variables, and functions that are traced do not allow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1


@pytest.fixture
def old_variables() -> Iterator[None]:
    """As after `disable_v2_behavior()`."""
    v1.disable_resource_variables()
    yield
    v1.enable_resource_variables()


def averaged(average: Any) -> Any:
    def getter(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        variable = getter(name, *args, **kwargs)
        return average.average(variable) if average.average(variable) else variable

    return getter


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    def predicted(**scope: Any) -> tf.Tensor:
        with v1.variable_scope("model", **scope):
            weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
        return weight * features

    loss = tf.reduce_mean((predicted() - 1.0) ** 2)
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    average = v1.train.ExponentialMovingAverage(0.5)
    with tf.control_dependencies([train_op]):
        train_op = average.apply(v1.trainable_variables())
    predictions = {
        "now": predicted(reuse=True),
        "averaged": predicted(reuse=True, custom_getter=averaged(average)),
    }
    return est.EstimatorSpec(mode, predictions, loss, train_op)


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors([1.0]).repeat()


def test_an_average_is_true_if_there_is_one(old_variables: None, tmp_path: Path) -> None:
    estimator = est.Estimator(model_fn, str(tmp_path))
    estimator.train(input_fn, max_steps=3)
    weight = average = 0.0
    for _ in range(3):
        weight -= 0.2 * (weight - 1.0)
        average = 0.5 * average + 0.5 * weight
    row = next(estimator.predict(input_fn))
    np.testing.assert_allclose([row["now"], row["averaged"]], [weight, average], rtol=1e-6)


def test_elsewhere_a_variable_is_as_true_as_its_value(tmp_path: Path) -> None:
    with pytest.raises(est.errors.ModelFnError, match="uses a tensor as a Python value"):
        est.Estimator(model_fn, str(tmp_path)).train(input_fn, max_steps=1)
