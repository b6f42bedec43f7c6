"""`est.fine_tuning`: freezing, choosing variables, several optimizers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.bridge.conversions import AMOUNT, X, convert, read

v1 = tf.compat.v1


def layered() -> Any:
    keras.utils.set_random_seed(3)
    inner = keras.Sequential(
        [
            keras.Input([4]),
            keras.layers.Dense(4, name="low"),
            keras.layers.BatchNormalization(name="bn"),
            keras.layers.Dense(3, name="high"),
        ],
        name="base",
    )
    x = keras.Input([4])
    return keras.Model(x, keras.layers.Dense(1, name="head")(inner(x)))


def trained_names(model: Any) -> set[str]:
    """Layers that have something to train."""
    return {layer.name for layer in model.get_layer("base").layers if layer.trainable_variables} | {
        layer.name for layer in model.layers if layer.trainable_variables
    }


def changed(estimator: est.Estimator, steps: int = 2) -> set[str]:
    """The weights that a few steps change."""
    estimator.train(read(X, AMOUNT), steps=1)
    names = [n for n in estimator.get_variable_names() if n.split("/")[-1] in WEIGHTS]
    before = {n: estimator.get_variable_value(n) for n in names}
    estimator.train(read(X, AMOUNT), steps=steps)
    return {n for n in names if not np.array_equal(before[n], estimator.get_variable_value(n))}


WEIGHTS = {"kernel", "bias", "gamma", "beta", "moving_mean", "moving_variance"}


# ------------------------------------------------------------------ freezing


def test_freezing_by_pattern_reaches_inner_layers() -> None:
    model = layered()
    assert est.fine_tuning.freeze(model, "^low$", "^bn$") == ["low", "bn"]
    assert trained_names(model) == {"base", "high", "head"}


def test_freezing_a_layer_object_freezes_what_it_holds() -> None:
    model = layered()
    assert est.fine_tuning.freeze(model, model.get_layer("base")) == ["base"]
    assert trained_names(model) == {"head"}


def test_one_layer_of_a_frozen_model_is_unfrozen_alone() -> None:
    model = layered()
    est.fine_tuning.freeze(model)
    assert not model.trainable_variables
    assert est.fine_tuning.unfreeze(model, "^high$") == ["high"]
    assert trained_names(model) == {"base", "high"}


def test_a_pattern_without_a_layer_names_those_there_are() -> None:
    with pytest.raises(est.errors.ConfigError, match=r"no layer of '\w+' is 'heda'.*low, bn, high"):
        est.fine_tuning.freeze(layered(), "heda")


def test_an_estimator_of_a_frozen_base_trains_the_rest_only(tmp_path: Path) -> None:
    model = layered()
    est.fine_tuning.freeze(model, "^base$")
    model.compile(keras.optimizers.Adam(0.1), "mse")
    # Frozen batch normalization does not move its averages, either.
    assert changed(convert(model, tmp_path)) == {"head/kernel", "head/bias"}


# ------------------------------------------------------------------ choosing variables


def two_parts(loss_op: Any) -> Any:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        with v1.variable_scope("base"):
            w = v1.get_variable("w", [4, 2])
        outputs = keras.layers.Dense(1, name="head")(features @ w)
        loss = tf.reduce_mean(tf.square(outputs - labels))
        return est.EstimatorSpec(mode, loss=loss, train_op=loss_op(loss))

    return model_fn


def only(pattern: str, **kwargs: Any) -> Any:
    return lambda loss: est.minimize(
        keras.optimizers.SGD(0.1), loss, est.fine_tuning.trainable_variables(pattern, **kwargs)
    )


@pytest.mark.parametrize(
    ("loss_op", "expected"),
    [
        (only("^head/"), {"head/kernel", "head/bias"}),
        (only(".", exclude="bias"), {"base/w", "head/kernel"}),
        (only("^base"), {"base/w"}),
    ],
)
def test_only_the_chosen_variables_are_trained(
    loss_op: Any, expected: set[str], tmp_path: Path
) -> None:
    estimator = est.Estimator(two_parts(loss_op), str(tmp_path))
    estimator.train(read(X, AMOUNT), steps=1)
    before = {n: estimator.get_variable_value(n) for n in ("base/w", "head/kernel", "head/bias")}
    estimator.train(read(X, AMOUNT), steps=2)
    moved = {n for n, v in before.items() if np.any(v != estimator.get_variable_value(n))}
    assert moved == expected


def test_a_scope_given_to_a_v1_optimizer(tmp_path: Path) -> None:
    def loss_op(loss: Any) -> Any:
        variables = est.fine_tuning.trainable_variables("^base/")
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        return optimizer.minimize(loss, v1.train.get_global_step(), var_list=variables)

    estimator = est.Estimator(two_parts(loss_op), str(tmp_path))
    estimator.train(read(X, AMOUNT), steps=1)
    before = estimator.get_variable_value("head/kernel")
    estimator.train(read(X, AMOUNT), steps=2)
    np.testing.assert_array_equal(estimator.get_variable_value("head/kernel"), before)


def test_a_pattern_without_a_variable_names_those_there_are(tmp_path: Path) -> None:
    estimator = est.Estimator(two_parts(only("^nothing")), str(tmp_path))
    with pytest.raises(est.errors.ModelFnError, match=r"matches '\^nothing'.*base/w, head/kernel"):
        estimator.train(read(X, AMOUNT), steps=1)


def test_outside_of_a_model_function() -> None:
    with pytest.raises(est.errors.ModelFnError, match="outside of a model function"):
        est.fine_tuning.trainable_variables()


# ------------------------------------------------------------------ several optimizers


@pytest.mark.parametrize("eager", [False, True])
def test_each_group_moves_at_its_own_rate(eager: bool, tmp_path: Path) -> None:
    """Of (a + b + c)^2 the gradient is 2 (a + b + c) for each of them."""

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        a, b, c = (v1.get_variable(n, [], initializer=v1.ones_initializer()) for n in "abc")
        loss = tf.reduce_mean(tf.square(a + b + c + 0.0 * features[:, :1]))
        groups = est.fine_tuning.Groups(
            {
                "^a": keras.optimizers.SGD(0.01),
                "^b": v1.train.GradientDescentOptimizer(0.1),
                "^c": None,
            }
        )
        return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(groups, loss))

    config = est.RunConfig(model_dir=str(tmp_path), run_eagerly=eager)
    estimator = est.Estimator(model_fn, config=config).train(read(X, AMOUNT), steps=2)
    a, b = 1.0, 1.0
    for _ in range(2):
        gradient = 2 * (a + b + 1.0)
        a, b = a - 0.01 * gradient, b - 0.1 * gradient
    found = [estimator.get_variable_value(n) for n in "abc"]
    np.testing.assert_allclose(found, [a, b, 1.0], rtol=1e-6)
    assert estimator.get_variable_value("global_step") == 2


def test_groups_instead_of_the_optimizer_of_a_model(tmp_path: Path) -> None:
    model = layered()
    model.compile("sgd", "mse")
    groups = est.fine_tuning.Groups(
        {"^base/low": None, "^base/": keras.optimizers.Adam(1e-3), ".": keras.optimizers.Adam(0.1)}
    )
    estimator = convert(model, tmp_path, optimizer=groups)
    moved = changed(estimator)
    assert not any(name.startswith("base/low") for name in moved)
    assert {"base/high/kernel", "head/kernel"} <= moved
    # Adam's first steps have the length of its rate.
    start = model.get_layer("head").get_weights()[0]
    step = np.abs(estimator.get_variable_value("head/kernel") - start).max()
    assert 0.1 < step < 0.4


def test_a_variable_that_no_pattern_covers(tmp_path: Path) -> None:
    model = layered()
    model.compile("sgd", "mse")
    groups = est.fine_tuning.Groups({"^base/": keras.optimizers.SGD(0.1)})
    with pytest.raises(est.errors.ConfigError, match=r"no pattern for the variable 'head/kernel'"):
        convert(model, tmp_path, optimizer=groups).train(read(X, AMOUNT), steps=1)


def test_groups_without_an_optimizer() -> None:
    with pytest.raises(est.errors.ConfigError, match="no optimizer"):
        est.fine_tuning.Groups({"^base/": None})
