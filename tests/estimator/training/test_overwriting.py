"""What v1 code writes to one variable twice in a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1


def input_fn() -> Any:
    return tf.data.Dataset.from_tensors({"x": [1.0]}).repeat()


def of_v1() -> tf.Variable:
    return v1.get_variable("weight", [], initializer=v1.ones_initializer())


def of_keras() -> tf.Variable:
    layer = keras.layers.Layer(name="layer")
    return layer.add_weight(shape=(), initializer="ones", name="weight").value


def clipped(weight: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(weight, -0.75, 0.75)


def clipped_in_a_branch(weight: tf.Variable) -> tf.Tensor:
    return tf.cond(tf.abs(weight) > 0.75, lambda: weight * 0 + 0.75, lambda: tf.identity(weight))


@pytest.mark.parametrize("clip_of", [clipped, clipped_in_a_branch])
@pytest.mark.parametrize("make", [of_v1, of_keras])
def test_a_weight_is_clipped_after_its_update(tmp_path: Path, make: Any, clip_of: Any) -> None:
    """As in Wasserstein GANs: nothing wires the clipping to the optimizer."""

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        weight = make()
        loss = tf.reduce_mean(weight * features["x"])
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        update = optimizer.minimize(loss, v1.train.get_global_step())
        clip = weight.assign(clip_of(weight))
        return est.EstimatorSpec(mode, loss=loss, train_op=tf.group(update, clip))

    estimator = est.Estimator(model_fn, str(tmp_path))
    values = []
    for _ in range(3):
        estimator.train(input_fn, steps=1)
        [name] = [n for n in estimator.get_variable_names() if n.endswith("weight")]
        values.append(estimator.get_variable_value(name))
    assert values == pytest.approx([0.75, 0.65, 0.55])
