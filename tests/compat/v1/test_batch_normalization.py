"""Batch normalization against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.compat.v1 import layers
from tests.compat.layer_programs import batches

v1 = tf.compat.v1

PLAIN, FUSED = (6, 3), (4, 3, 2, 3)
MOMENTUM, EPSILON = 0.9, 1e-3


def moved(average: np.ndarray, value: np.ndarray) -> np.ndarray:
    return MOMENTUM * average + (1 - MOMENTUM) * value


def train(shape: tuple[int, ...], *, run_updates: bool) -> dict[str, Any]:
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None, *shape[1:]])
        layer = layers.BatchNormalization(momentum=MOMENTUM, epsilon=EPSILON)
        outputs = layer(x, training=True)
        idle = layer(x)
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for batch in batches(shape):
                session.run([outputs, *(updates if run_updates else [])], {x: batch})
            fetches = {
                "mean": layer.moving_mean,
                "variance": layer.moving_variance,
                "outputs": outputs,
                "idle": idle,
            }
            return session.run(fetches, {x: batches(shape)[0]})


@pytest.mark.parametrize("shape", [PLAIN, FUSED], ids=["plain", "fused"])
def test_three_steps_move_the_averages_as_numpy_does(shape: tuple[int, ...]) -> None:
    count = np.prod(shape[:-1])
    # The fused kernel corrects the variance for the size of the sample, the plain one does not.
    correction = count / (count - 1) if shape == FUSED else 1.0
    mean, variance = np.zeros(3), np.ones(3)
    for batch in batches(shape):
        rows = batch.reshape(-1, 3).astype(np.float64)
        mean = moved(mean, rows.mean(axis=0))
        variance = moved(variance, rows.var(axis=0) * correction)
    result = train(shape, run_updates=True)
    np.testing.assert_allclose(result["mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(result["variance"], variance, rtol=1e-5)


@pytest.mark.parametrize("shape", [PLAIN, FUSED], ids=["plain", "fused"])
def test_nothing_moves_unless_the_update_ops_run(shape: tuple[int, ...]) -> None:
    result = train(shape, run_updates=False)
    np.testing.assert_array_equal(result["mean"], np.zeros(3))
    np.testing.assert_array_equal(result["variance"], np.ones(3))


@pytest.mark.parametrize("shape", [PLAIN, FUSED], ids=["plain", "fused"])
def test_training_uses_the_batch_and_prediction_the_past(shape: tuple[int, ...]) -> None:
    result = train(shape, run_updates=True)
    batch = batches(shape)[0].astype(np.float64)
    rows = batch.reshape(-1, 3)
    of_batch = (batch - rows.mean(axis=0)) / np.sqrt(rows.var(axis=0) + EPSILON)
    np.testing.assert_allclose(result["outputs"], of_batch, rtol=1e-4, atol=1e-5)
    of_past = (batch - result["mean"]) / np.sqrt(result["variance"] + EPSILON)
    np.testing.assert_allclose(result["idle"], of_past, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [PLAIN, FUSED], ids=["plain", "fused"])
@pytest.mark.parametrize("training", [True, False])
def test_a_switch_known_only_at_run_time_decides(shape: tuple[int, ...], training: bool) -> None:
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, shape)
        switch = v1.placeholder(tf.bool, [])
        layer = layers.BatchNormalization(momentum=MOMENTUM)
        layer(x, training=switch)
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        assert len(updates) == 2
        batch = batches(shape)[1]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(updates, {x: batch, switch: training})
            mean = session.run(layer.moving_mean)
    batch_mean = batch.reshape(-1, 3).mean(axis=0)
    expected = moved(np.zeros(3), batch_mean) if training else np.zeros(3)
    np.testing.assert_allclose(mean, expected, rtol=1e-5)


def test_eagerly_the_averages_move_at_once() -> None:
    layer = layers.BatchNormalization(momentum=MOMENTUM)
    batch = batches(PLAIN)[1]
    layer(batch, training=True)
    np.testing.assert_allclose(layer.moving_mean, moved(np.zeros(3), batch.mean(axis=0)), rtol=1e-5)


@pytest.mark.parametrize("shape", [PLAIN, FUSED], ids=["plain", "fused"])
def test_half_precision_inputs_keep_their_dtype_over_full_precision_variables(
    shape: tuple[int, ...],
) -> None:
    with tf.Graph().as_default():
        outputs = layers.batch_normalization(v1.placeholder(tf.float16, shape), training=True)
        assert outputs.dtype == tf.float16
        assert {v.dtype.base_dtype for v in v1.global_variables()} == {tf.float32}
