"""Optimizers of `tf.train` in `model.compile`, against the same steps in NumPy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.bridge.v1_in_keras import V1InKeras
from estimand.compat.install import installed
from tests.bridge.conversions import numbers, read

train = tf.compat.v1.train
X, Y, START = numbers(12, 3), numbers(12, 1, seed=1), numbers(3, 1, seed=2)
BATCH, RATE = 4, 0.1


@pytest.fixture(autouse=True)
def keras_takes_v1_optimizers() -> Iterator[None]:
    with installed():
        yield


def gradients(weights: np.ndarray, batch: int) -> np.ndarray:
    rows = slice(batch * BATCH, (batch + 1) * BATCH)
    return 2 * X[rows].T @ (X[rows] @ weights - Y[rows]) / BATCH


def gradient_descent() -> np.ndarray:
    weights = START
    for batch in range(3):
        weights = weights - RATE * gradients(weights, batch)
    return weights


def rms_prop() -> np.ndarray:
    weights, mean_square = START, np.ones_like(START)
    for batch in range(3):
        slope = gradients(weights, batch)
        mean_square = 0.9 * mean_square + 0.1 * slope**2
        weights = weights - RATE * slope / np.sqrt(mean_square + 1e-10)
    return weights


def adam() -> np.ndarray:
    weights, mean, square = START, np.zeros_like(START), np.zeros_like(START)
    for batch in range(3):
        slope = gradients(weights, batch)
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        rate = RATE * np.sqrt(1 - 0.999 ** (batch + 1)) / (1 - 0.9 ** (batch + 1))
        weights = weights - rate * mean / (np.sqrt(square) + 1e-8)
    return weights


def model(optimizer: Any) -> Any:
    result = keras.Sequential(
        [keras.Input([3]), keras.layers.Dense(1, use_bias=False, name="dense")]
    )
    result.set_weights([START])
    result.compile(optimizer=optimizer, loss="mean_squared_error", metrics=["mae"])
    return result


@pytest.mark.parametrize(
    ("make", "expected", "state"),
    [
        (train.GradientDescentOptimizer, gradient_descent, []),
        (train.RMSPropOptimizer, rms_prop, ["dense/kernel/RMSProp", "dense/kernel/RMSProp_1"]),
        (
            train.AdamOptimizer,
            adam,
            [
                "dense/kernel/Adam",
                "dense/kernel/Adam_1",
                "training/beta1_power",
                "training/beta2_power",
            ],
        ),
    ],
)
def test_fit_and_the_estimator_take_the_same_steps(
    make: Callable[[float], Any], expected: Callable[[], np.ndarray], state: list[str]
) -> None:
    fitted = model(make(RATE))
    estimator = est.keras.model_to_estimator(fitted)
    fitted.fit(X, Y, batch_size=BATCH, shuffle=False, verbose=0)
    np.testing.assert_allclose(fitted.get_weights()[0], expected(), rtol=1e-4)
    # The state that `fit` has left in the optimizer is not the estimator's.
    estimator.train(read(X, Y, epochs=1, batch=BATCH))
    np.testing.assert_allclose(estimator.get_variable_value("dense/kernel"), expected(), rtol=1e-4)
    # The names that tf.estimator 2.15 gave.
    names = sorted(["dense/kernel", "global_step", *state])
    assert sorted(estimator.get_variable_names()) == names


def test_the_rate_can_be_read_and_not_be_set() -> None:
    optimizer = model(train.AdamOptimizer(lambda: 0.25)).optimizer
    assert optimizer.learning_rate == 0.25
    with pytest.raises(est.errors.ConfigError, match=r"AdamOptimizer.* is fixed when it is made"):
        optimizer.learning_rate = 0.5


def test_constraints_hold() -> None:
    dense = keras.layers.Dense(
        1, kernel_initializer="ones", kernel_constraint=keras.constraints.NonNeg()
    )
    constrained = keras.Sequential([keras.Input([3]), dense])
    constrained.compile(train.GradientDescentOptimizer(10.0), "mse")
    constrained.fit(np.ones([4, 3]), -np.ones([4, 1]), verbose=0)
    assert constrained.get_weights()[0].tolist() == [[0.0]] * 3


def test_a_model_is_saved_without_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    saved, path = model(train.AdamOptimizer(RATE)), str(tmp_path / "model.keras")
    with caplog.at_level(logging.WARNING, "tensorflow"):
        saved.save(path)
    assert "AdamOptimizer) is not saved with a Keras model" in caplog.text
    loaded = keras.models.load_model(path)
    np.testing.assert_array_equal(loaded.get_weights()[0], START)
    with pytest.raises(est.errors.ConfigError, match=r"Call model.compile\(...\) again"):
        est.keras.model_to_estimator(keras_model_path=path)


def test_without_the_installation_keras_refuses_as_ever() -> None:
    from estimand.compat.install import uninstall

    uninstall()
    with pytest.raises(ValueError, match="Could not interpret optimizer identifier"):
        model(train.AdamOptimizer(RATE))
    model(V1InKeras(train.AdamOptimizer(RATE)))
