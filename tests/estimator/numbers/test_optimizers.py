"""Steps of a small net, against the same steps in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import estimand as est
from tests.estimator.conftest import (
    START,
    Rule,
    X,
    Y,
    assert_weights,
    eval_input_fn,
    input_fn,
    keras_layers,
    keras_logits,
    model_fn_of,
    numpy_loss,
    numpy_train,
    run_config,
    v1,
    v1_logits,
)

RATE = 0.3
EAGER = {"run_eagerly": True}
EVAL_BATCHES = [slice(0, 20), slice(20, 40), slice(40, 48)]


# The rules in NumPy


def sgd(rate: Callable[[int], float] = lambda step: RATE) -> Callable[[], Rule]:
    return lambda: lambda gradient, step: -rate(step) * gradient


def momentum() -> Rule:
    velocity: Any = 0.0

    def rule(gradient: np.ndarray, step: int) -> np.ndarray:
        nonlocal velocity
        velocity = 0.9 * velocity + gradient
        return -RATE * velocity

    return rule


def adam(epsilon: float) -> Callable[[], Rule]:
    def make() -> Rule:
        first: Any = 0.0
        second: Any = 0.0

        def rule(gradient: np.ndarray, step: int) -> np.ndarray:
            nonlocal first, second
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            rate = 0.05 * np.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
            return -rate * first / (np.sqrt(second) + epsilon)

        return rule

    return make


def decayed(step: int) -> float:
    return RATE * 0.5 ** (step / 3)


# The optimizers


def keras_optimizer(name: str, *args: Any, **kwargs: Any) -> Callable[[], Any]:
    def make() -> Any:
        import keras

        return getattr(keras.optimizers, name)(*args, **kwargs)

    return make


def keras_decayed() -> Any:
    import keras

    schedule = keras.optimizers.schedules.ExponentialDecay(RATE, decay_steps=3, decay_rate=0.5)
    return keras.optimizers.SGD(schedule)


def v1_decayed() -> Any:
    step = v1.train.get_global_step()
    return v1.train.GradientDescentOptimizer(v1.train.exponential_decay(RATE, step, 3, 0.5))


def train(model_dir: str, logits_fn: Any, optimizer: Any, steps: int, **config: Any) -> Any:
    model_fn = model_fn_of(logits_fn, optimizer)
    return est.Estimator(model_fn, model_dir, run_config(**config)).train(input_fn, steps=steps)


STYLES = {
    "v1": (v1_logits, lambda: v1.train.GradientDescentOptimizer(RATE)),
    "keras": (keras_logits, keras_optimizer("SGD", RATE)),
    "v1 variables, keras optimizer": (v1_logits, keras_optimizer("SGD", RATE)),
    "keras layers, v1 optimizer": (keras_logits, lambda: v1.train.GradientDescentOptimizer(RATE)),
}


@pytest.mark.parametrize("config", [{}, EAGER], ids=["traced", "eager"])
@pytest.mark.parametrize("style", STYLES)
def test_twenty_sgd_steps(model_dir: str, style: str, config: dict[str, Any]) -> None:
    estimator = train(model_dir, *STYLES[style], 20, **config)
    expected = numpy_train(sgd(), 20)
    assert_weights(estimator, expected)
    moved = max(np.abs(expected[name] - START[name]).max() for name in START)
    assert moved > 0.1  # else the tolerance would prove nothing
    losses = [numpy_loss(expected, X[rows], Y[rows]) for rows in EVAL_BATCHES]
    result = estimator.evaluate(eval_input_fn)
    assert result["loss"] == pytest.approx(np.mean(losses), abs=1e-5)
    assert result["global_step"] == 20


@pytest.mark.parametrize("block_mode", ["plain", "single_thread"])
def test_way_of_running_blocks_changes_no_number(model_dir: str, block_mode: str) -> None:
    estimator = train(model_dir, *STYLES["v1"], 20, block_mode=block_mode)
    assert_weights(estimator, numpy_train(sgd(), 20))


CASES: dict[str, tuple[Any, Any, Any]] = {
    "v1 momentum": (v1_logits, lambda: v1.train.MomentumOptimizer(RATE, 0.9), lambda: momentum),
    "keras momentum": (
        keras_logits,
        keras_optimizer("SGD", RATE, momentum=0.9),
        lambda: momentum,
    ),
    "v1 adam": (v1_logits, lambda: v1.train.AdamOptimizer(0.05), lambda: adam(1e-8)),
    "keras adam": (keras_logits, keras_optimizer("Adam", 0.05), lambda: adam(1e-7)),
    "v1 decayed rate": (v1_logits, v1_decayed, lambda: sgd(decayed)),
    "keras decayed rate": (keras_logits, keras_decayed, lambda: sgd(decayed)),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", CASES)
def test_five_steps(model_dir: str, case: str) -> None:
    logits_fn, optimizer, rule = CASES[case]
    assert_weights(train(model_dir, logits_fn, optimizer, 5), numpy_train(rule(), 5))


@pytest.mark.parametrize("case", ["v1 adam", "keras adam", "v1 decayed rate", "keras decayed rate"])
def test_five_eager_steps(model_dir: str, case: str) -> None:
    logits_fn, optimizer, rule = CASES[case]
    assert_weights(train(model_dir, logits_fn, optimizer, 5, **EAGER), numpy_train(rule(), 5))


@pytest.mark.parametrize("case", ["v1 adam", "keras adam", "keras momentum", "keras decayed rate"])
def test_optimizer_goes_on_where_the_checkpoint_left_it(model_dir: str, case: str) -> None:
    logits_fn, optimizer, rule = CASES[case]
    # An input is begun anew by each call: 4 steps are one pass, so the fifth is the first again.
    train(model_dir, logits_fn, optimizer, 4)
    resumed = train(model_dir, logits_fn, optimizer, 2)
    assert_weights(resumed, numpy_train(rule(), 6))


@pytest.mark.parametrize("config", [{}, EAGER], ids=["traced", "eager"])
@pytest.mark.parametrize("built", [True, False], ids=["built", "not built yet"])
def test_keras_model_made_outside_of_the_model_function(
    model_dir: str, built: bool, config: dict[str, Any]
) -> None:
    import keras

    net, optimizer = keras_layers(), keras.optimizers.Adam(0.05)
    if built:
        net.build((None, 4))
    estimator = train(model_dir, net, lambda: optimizer, 5, **config)
    expected = numpy_train(adam(1e-7), 5)
    assert_weights(estimator, expected)
    # The user's own objects are the ones that were trained.
    np.testing.assert_allclose(net.layers[1].kernel.numpy(), expected["logits/kernel"], atol=1e-5)
    assert int(optimizer.iterations.numpy()) == 5
    losses = [numpy_loss(expected, X[rows], Y[rows]) for rows in EVAL_BATCHES]
    assert estimator.evaluate(eval_input_fn)["loss"] == pytest.approx(np.mean(losses), abs=1e-5)


def test_keras_model_made_outside_takes_its_weights_from_the_checkpoint(model_dir: str) -> None:
    import keras

    def made_outside() -> tuple[Any, Any]:
        return keras_layers(), keras.optimizers.Adam(0.05, name="adam_of_the_net")

    for net, optimizer in (made_outside(), made_outside()):
        estimator = train(model_dir, net, lambda optimizer=optimizer: optimizer, 4)
    assert_weights(estimator, numpy_train(adam(1e-7), 8))


def test_predictions_come_from_the_trained_weights(model_dir: str) -> None:
    estimator = train(model_dir, *STYLES["keras"], 5)
    expected = numpy_train(sgd(), 5)
    hidden = np.tanh(X @ expected["hidden/kernel"] + expected["hidden/bias"])
    rows = [row["logits"] for row in estimator.predict(eval_input_fn)]
    np.testing.assert_allclose(
        rows, hidden @ expected["logits/kernel"] + expected["logits/bias"], atol=1e-5
    )
