"""One small net, written for every style of model function and once more in NumPy.

The net: 4 inputs, 5 tanh units, 3 classes, softmax cross entropy, mean over the batch. Its
weights start at fixed values, its data come in a fixed order, so that a run of any style can be
recomputed step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1

ROWS, BATCH_SIZE = 48, 12
_random = np.random.RandomState(7)
X = _random.normal(size=(ROWS, 4)).astype(np.float32)
Y = _random.randint(0, 3, size=ROWS).astype(np.int32)
START = {
    "hidden/kernel": _random.normal(scale=0.5, size=(4, 5)).astype(np.float32),
    "hidden/bias": _random.normal(scale=0.1, size=5).astype(np.float32),
    "logits/kernel": _random.normal(scale=0.5, size=(5, 3)).astype(np.float32),
    "logits/bias": np.zeros(3, np.float32),
}
Weights = dict[str, np.ndarray]
# Gradient and step number (from 0) of one variable to what is added to it.
Rule = Callable[[np.ndarray, int], np.ndarray]


def input_fn() -> tf.data.Dataset:
    """The rows in order, over and over."""
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).repeat().batch(BATCH_SIZE)


def eval_input_fn() -> tf.data.Dataset:
    """The rows once, in batches of 20, 20 and 8."""
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).batch(20)


# The net as model functions


def v1_logits(x: tf.Tensor) -> tf.Tensor:
    def dense(inputs: tf.Tensor, name: str) -> tf.Tensor:
        with v1.variable_scope(name):
            kernel = v1.get_variable("kernel", initializer=START[f"{name}/kernel"])
            bias = v1.get_variable("bias", initializer=START[f"{name}/bias"])
        return tf.matmul(inputs, kernel) + bias

    return dense(tf.tanh(dense(x, "hidden")), "logits")


def keras_logits(x: tf.Tensor) -> tf.Tensor:
    return keras_layers()(x)


def keras_layers() -> Any:
    import keras

    def dense(units: int, name: str, activation: str | None) -> Any:
        return keras.layers.Dense(
            units,
            activation,
            kernel_initializer=keras.initializers.Constant(START[f"{name}/kernel"]),
            bias_initializer=keras.initializers.Constant(START[f"{name}/bias"]),
            name=name,
        )

    layers = [dense(5, "hidden", "tanh"), dense(3, "logits", None)]
    return keras.Sequential(layers, name="net")


def model_fn_of(
    logits_fn: Callable[[tf.Tensor], tf.Tensor], make_optimizer: Callable[[], Any]
) -> Callable[..., est.EstimatorSpec]:
    """A model function whose optimizer, of whatever kind, is made inside of it."""

    def model_fn(features: Any, labels: tf.Tensor, mode: str) -> est.EstimatorSpec:
        logits = logits_fn(features["x"])
        if mode == est.ModeKeys.PREDICT:
            return est.EstimatorSpec(mode, predictions={"logits": logits})
        loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
        if mode == est.ModeKeys.EVAL:
            return est.EstimatorSpec(mode, loss=loss)
        return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(make_optimizer(), loss))

    return model_fn


# The net in NumPy


def numpy_loss(weights: Weights, x: np.ndarray, y: np.ndarray) -> float:
    _, log_probabilities = _forward(weights, x)
    return float(-log_probabilities[np.arange(len(y)), y].mean())


def numpy_gradients(weights: Weights, x: np.ndarray, y: np.ndarray) -> Weights:
    hidden, log_probabilities = _forward(weights, x)
    of_logits = np.exp(log_probabilities)
    of_logits[np.arange(len(y)), y] -= 1
    of_logits /= len(y)
    of_hidden = (of_logits @ weights["logits/kernel"].T) * (1 - hidden**2)
    return {
        "hidden/kernel": x.astype(np.float64).T @ of_hidden,
        "hidden/bias": of_hidden.sum(axis=0),
        "logits/kernel": hidden.T @ of_logits,
        "logits/bias": of_logits.sum(axis=0),
    }


def _forward(weights: Weights, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    hidden = np.tanh(x.astype(np.float64) @ weights["hidden/kernel"] + weights["hidden/bias"])
    logits = hidden @ weights["logits/kernel"] + weights["logits/bias"]
    logits -= logits.max(axis=1, keepdims=True)
    return hidden, logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def numpy_train(make_rule: Callable[[], Rule], steps: int) -> Weights:
    """Train the net on what `input_fn` gives; every variable gets a rule of its own."""
    weights = {name: value.astype(np.float64) for name, value in START.items()}
    rules = {name: make_rule() for name in weights}
    for step in range(steps):
        rows = np.arange(step * BATCH_SIZE, (step + 1) * BATCH_SIZE) % ROWS
        gradients = numpy_gradients(weights, X[rows], Y[rows])
        for name, gradient in gradients.items():
            weights[name] = weights[name] + rules[name](gradient, step)
    return weights


# Running and reading


def run_config(**settings: Any) -> est.RunConfig:
    settings = {"tf_random_seed": 1, "progress": False, "log_step_count_steps": None, **settings}
    return est.RunConfig(**settings)


def weights_of(estimator: est.Estimator) -> Weights:
    """The net's weights in the latest checkpoint, under the names of START."""
    found = {}
    for name in estimator.get_variable_names():
        for wanted in START:
            if name == wanted or name.endswith(f"/{wanted}"):
                found[wanted] = estimator.get_variable_value(name)
    assert found.keys() == START.keys(), estimator.get_variable_names()
    return found


def assert_weights(estimator: est.Estimator, expected: Weights, tolerance: float = 1e-5) -> None:
    found = weights_of(estimator)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance, err_msg=name)


@pytest.fixture
def model_dir(tmp_path: Path) -> str:
    return str(tmp_path / "model")


@pytest.fixture
def warnings_logged(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[str], list[str]]]:
    """The logged messages that contain a text, warnings and worse."""
    caplog.set_level("WARNING", "tensorflow")
    yield lambda text: [m for m in caplog.messages if text in m]
