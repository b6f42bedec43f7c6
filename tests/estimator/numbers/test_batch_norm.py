"""Moving averages of batch normalization, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.v1 import layers as v1_layers
from tests.estimator.conftest import BATCH_SIZE, X, eval_input_fn, input_fn, run_config, v1

MOMENTUM, EPSILON, STEPS = 0.9, 1e-3, 7


def moving_averages(steps: int) -> tuple[np.ndarray, np.ndarray]:
    mean, variance = np.zeros(4), np.ones(4)
    for step in range(steps):
        rows = np.arange(step * BATCH_SIZE, (step + 1) * BATCH_SIZE) % len(X)
        batch = X[rows].astype(np.float64)
        mean = MOMENTUM * mean + (1 - MOMENTUM) * batch.mean(axis=0)
        variance = MOMENTUM * variance + (1 - MOMENTUM) * batch.var(axis=0)
    return mean, variance


def assert_moved(estimator: est.Estimator, scope: str, steps: int) -> None:
    mean, variance = moving_averages(steps)
    found = estimator.get_variable_value
    np.testing.assert_allclose(found(f"{scope}/moving_mean"), mean, atol=1e-6)
    np.testing.assert_allclose(found(f"{scope}/moving_variance"), variance, atol=1e-6)


def keras_norm() -> Any:
    import keras

    return keras.layers.BatchNormalization(momentum=MOMENTUM, epsilon=EPSILON, name="norm")


def estimator_with(
    model_dir: str, make_norm: Callable[[], Any], style: str = "keras", **config: Any
) -> est.Estimator:
    """The normalized inputs are the predictions, and go through one trained layer."""

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        normalized = make_norm()(features["x"], training=mode == est.ModeKeys.TRAIN)
        if mode == est.ModeKeys.PREDICT:
            return est.EstimatorSpec(mode, predictions=normalized)
        kernel = v1.get_variable("kernel", initializer=np.full((4, 3), 0.1, np.float32))
        loss = v1.losses.sparse_softmax_cross_entropy(labels, tf.matmul(normalized, kernel))
        return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer(), loss))

    def optimizer() -> Any:
        if style == "v1":
            return v1.train.GradientDescentOptimizer(0.1)
        import keras

        return keras.optimizers.SGD(0.1)

    return est.Estimator(model_fn, model_dir, run_config(**config))


@pytest.mark.parametrize("config", [{}, {"run_eagerly": True}], ids=["traced", "eager"])
@pytest.mark.parametrize("style", ["keras", "v1"])
def test_keras_layer_inside_the_model_function(
    model_dir: str, style: str, config: dict[str, Any]
) -> None:
    estimator = estimator_with(model_dir, keras_norm, style, **config)
    assert_moved(estimator.train(input_fn, steps=STEPS), "norm", STEPS)


@pytest.mark.parametrize("config", [{}, {"run_eagerly": True}], ids=["traced", "eager"])
@pytest.mark.parametrize("built", [True, False], ids=["built", "not built yet"])
def test_keras_layer_made_outside(model_dir: str, built: bool, config: dict[str, Any]) -> None:
    norm = keras_norm()
    if built:
        norm.build((None, 4))
    estimator = estimator_with(model_dir, lambda: norm, **config)
    estimator.train(input_fn, steps=STEPS)
    assert_moved(estimator, "norm", STEPS)
    np.testing.assert_allclose(norm.moving_mean.numpy(), moving_averages(STEPS)[0], atol=1e-6)


def test_resumed_run_moves_them_on(model_dir: str) -> None:
    estimator_with(model_dir, keras_norm).train(input_fn, steps=4)
    estimator = estimator_with(model_dir, keras_norm).train(input_fn, steps=3)
    assert_moved(estimator, "norm", 7)  # 4 steps are one pass over the rows


def test_prediction_and_evaluation_use_but_do_not_move_them(model_dir: str) -> None:
    estimator = estimator_with(model_dir, keras_norm).train(input_fn, steps=STEPS)
    trained = {n: estimator.get_variable_value(n) for n in estimator.get_variable_names()}
    mean, variance = moving_averages(STEPS)
    expected = (X - mean) / np.sqrt(variance + EPSILON) * trained["norm/gamma"]
    expected += trained["norm/beta"]
    for _ in range(2):
        rows = list(estimator.predict(eval_input_fn))
        np.testing.assert_allclose(rows, expected, atol=1e-5)
        estimator.evaluate(eval_input_fn)


def test_keras_functional_model_with_norm_and_v1_optimizer_outside(model_dir: str) -> None:
    import keras

    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(3)(keras_norm()(inputs)))

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        logits = model(features["x"], training=mode == est.ModeKeys.TRAIN)
        loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss))

    estimator = est.Estimator(model_fn, model_dir, run_config()).train(input_fn, steps=STEPS)
    assert_moved(estimator, "norm", STEPS)


def v1_model_fn(features: Any, labels: Any, mode: str, params: Any) -> est.EstimatorSpec:
    normalized = v1_layers.batch_normalization(
        features["x"],
        momentum=MOMENTUM,
        epsilon=EPSILON,
        training=mode == est.ModeKeys.TRAIN,
        name="norm",
    )
    logits = v1_layers.dense(normalized, 3)
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS) if params["wired"] else []
    with v1.control_dependencies(updates):
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_v1_layer_moves_when_its_update_ops_are_wired(model_dir: str, warnings_logged) -> None:
    estimator = est.Estimator(v1_model_fn, model_dir, run_config(), params={"wired": True})
    assert_moved(estimator.train(input_fn, steps=STEPS), "norm", STEPS)
    assert warnings_logged("UPDATE_OPS") == []


def test_v1_layer_stays_and_warns_once_when_they_are_not(model_dir: str, warnings_logged) -> None:
    estimator = est.Estimator(v1_model_fn, model_dir, run_config(), params={"wired": False})
    estimator.train(input_fn, steps=3)
    estimator.train(input_fn, steps=3)
    assert_moved(estimator, "norm", 0)
    assert len(warnings_logged("UPDATE_OPS")) == 1


def test_evaluation_does_not_warn_about_update_ops(model_dir: str, warnings_logged) -> None:
    estimator = est.Estimator(v1_model_fn, model_dir, run_config(), params={"wired": False})
    estimator.evaluate(eval_input_fn)
    assert warnings_logged("UPDATE_OPS") == []
