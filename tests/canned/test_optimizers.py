"""What may be given as optimizer, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.canned import optimizers
from estimand.canned.optimizers import LegacyOptimizer, choose_optimizer
from tests.canned import cases

C = cases.columns()
CASE = cases.Case(lambda use, c, more: None)
V1 = tf.compat.v1.train


def trained(optimizer: Any, steps: int = 3) -> est.Estimator:
    config = est.RunConfig(tf_random_seed=1)
    estimator = est.DNNClassifier([3], C.deep, optimizer=optimizer, config=config)
    return estimator.train(lambda: CASE.input_fn(repeat=True), steps=steps)


def weights(estimator: est.Estimator) -> dict[str, np.ndarray]:
    names = [n for n in estimator.get_variable_names() if n.startswith("dnn/")]
    return {n: estimator.get_variable_value(n) for n in names if n.count("/") < 3 or "emb" in n}


def assert_same_weights(one: est.Estimator, other: est.Estimator) -> None:
    first, second = weights(one), weights(other)
    assert len(first) == 6
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, rtol=1e-5, atol=1e-7, err_msg=name)


PAIRS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "Adagrad": (
        lambda: keras.optimizers.Adagrad(0.05, initial_accumulator_value=0.2),
        lambda: optimizers.Adagrad(0.05, initial_accumulator_value=0.2),
    ),
    "Adam": (
        lambda: keras.optimizers.Adam(0.01, beta_1=0.8, amsgrad=True),
        lambda: optimizers.Adam(0.01, beta_1=0.8, amsgrad=True),
    ),
    "Ftrl": (
        lambda: keras.optimizers.Ftrl(0.1, l1_regularization_strength=0.01),
        lambda: optimizers.Ftrl(0.1, l1_regularization_strength=0.01),
    ),
    "RMSprop": (
        lambda: keras.optimizers.RMSprop(0.01, momentum=0.5, centered=True),
        lambda: optimizers.RMSprop(0.01, momentum=0.5, centered=True),
    ),
    "SGD": (
        lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True, clipnorm=0.01),
        lambda: optimizers.SGD(0.1, momentum=0.9, nesterov=True, clipnorm=0.01),
    ),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", PAIRS)
def test_keras_optimizers_become_ours_of_the_same_kind(kind: str) -> None:
    make_keras, make_ours = PAIRS[kind]
    instance = trained(make_keras())
    ours = trained(make_ours())
    names = ours.get_variable_names()
    assert f"training/{kind}/learning_rate" in names
    assert instance.get_variable_names() == names
    assert_same_weights(instance, ours)


def test_a_function_that_makes_one_is_as_good() -> None:
    make_keras, make_ours = PAIRS["Adam"]
    from_callable, ours = trained(make_keras), trained(make_ours())
    assert from_callable.get_variable_names() == ours.get_variable_names()
    assert_same_weights(from_callable, ours)


def test_a_name_given_to_a_keras_optimizer_is_kept() -> None:
    assert choose_optimizer(keras.optimizers.Adam(name="mine")).name == "mine"
    assert choose_optimizer(keras.optimizers.RMSprop()).name == "RMSprop"


@pytest.mark.parametrize(
    "make",
    [lambda: keras.optimizers.Nadam(0.01), lambda: keras.optimizers.Adam(0.01, weight_decay=0.1)],
)
def test_other_keras_optimizers_are_used_as_they_are(make: Callable[[], Any]) -> None:
    assert not isinstance(choose_optimizer(make()), LegacyOptimizer)
    for optimizer in (make(), make):
        estimator = trained(optimizer)
        assert not any(n.startswith("training/") for n in estimator.get_variable_names())
        assert estimator.get_variable_value("global_step") == 3


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_an_instance_of_another_kind_goes_on_in_several_calls(run_eagerly: bool) -> None:
    config = est.RunConfig(tf_random_seed=1, run_eagerly=run_eagerly)

    def estimator(optimizer: Any) -> est.Estimator:
        return est.DNNClassifier([3], C.deep, optimizer=optimizer, config=config)

    def input_fn() -> tf.data.Dataset:
        return CASE.input_fn(repeat=False).take(2).repeat()

    in_two_calls = estimator(keras.optimizers.Nadam(0.01, name="nadam"))
    in_two_calls.train(input_fn, steps=2).train(input_fn, steps=2)
    in_one = estimator(lambda: keras.optimizers.Nadam(0.01)).train(input_fn, steps=4)
    assert in_two_calls.get_variable_names() == in_one.get_variable_names()
    assert_same_weights(in_two_calls, in_one)


def test_one_instance_for_both_parts() -> None:
    optimizer = keras.optimizers.Nadam(0.01)
    estimator = est.DNNLinearCombinedClassifier(
        linear_feature_columns=C.wide,
        linear_optimizer=optimizer,
        dnn_feature_columns=C.deep,
        dnn_optimizer=optimizer,
        dnn_hidden_units=[3],
    )
    for _ in range(2):
        estimator.train(CASE.input_fn, steps=2)
    assert estimator.get_variable_value("global_step") == 4


def test_schedules_follow_the_global_step() -> None:
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([1], [0.1, 0.0])
    one = trained(keras.optimizers.SGD(schedule), steps=2)
    more = trained(keras.optimizers.SGD(schedule), steps=5)
    assert "training/SGD/learning_rate" not in one.get_variable_names()
    assert_same_weights(one, more)


def test_a_schedule_class_that_keras_does_not_know() -> None:
    class Halving(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step: Any) -> Any:
            return 0.1 * 0.5 ** tf.cast(step, tf.float32)

    known = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
    assert_same_weights(
        trained(keras.optimizers.SGD(Halving())), trained(keras.optimizers.SGD(known))
    )


def decayed() -> tf.Tensor:
    return V1.exponential_decay(0.1, V1.get_global_step(), 1, 0.5)


def test_decay_tensors_from_a_callable() -> None:
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
    expected = trained(optimizers.SGD(schedule))
    assert_same_weights(trained(lambda: optimizers.SGD(decayed())), expected)
    assert_same_weights(trained(lambda: keras.optimizers.SGD(decayed)), expected)
    assert_same_weights(trained(lambda: keras.optimizers.SGD(decayed())), expected)
    assert_same_weights(trained(lambda: V1.GradientDescentOptimizer(decayed())), expected)


def test_v1_optimizers_keep_their_state_under_v1_names() -> None:
    names = trained(V1.AdamOptimizer(0.01)).get_variable_names()
    assert "dnn/logits/kernel/t_0/Adam_1" in names
    assert "dnn/head/beta1_power" in names


def test_the_learning_rate_in_a_checkpoint_wins_over_the_one_given() -> None:
    first = trained(optimizers.SGD(0.1))
    second = est.DNNClassifier(
        [3], C.deep, optimizer=optimizers.SGD(0.7), model_dir=first.model_dir
    )
    second.train(lambda: CASE.input_fn(repeat=True), steps=1)
    assert second.get_variable_value("training/SGD/learning_rate") == pytest.approx(0.1)


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match=r"Unsupported optimizer name: Foo\. Supported names are"):
        trained("Foo")


@pytest.mark.parametrize("given", [3, lambda: None])
def test_what_is_no_optimizer(given: Any) -> None:
    message = r"The given object is not a tf\.keras\.optimizers\.Optimizer instance"
    with pytest.raises(ValueError, match=message):
        trained(given)


def test_a_class_is_a_function_that_returns_an_optimizer() -> None:
    assert "training/Adam/learning_rate" in trained(keras.optimizers.Adam).get_variable_names()


# The arithmetic, where fixtures of the original do not reach


def applied(optimizer: LegacyOptimizer, gradients: list[Any], start: Any) -> np.ndarray:
    """The value of one variable after some steps with given gradients."""
    rows = len(np.shape(start)) > 0

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        w = tf.compat.v1.get_variable("w", initializer=tf.constant(start))
        value = tf.gather(w, features["rows"]) if rows else w
        loss = tf.reduce_sum(value * features["gradient"])
        return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss))

    estimator = est.Estimator(model_fn)
    estimator.train(
        lambda: tf.data.Dataset.from_generator(
            lambda: iter(gradients),
            output_signature=(
                {"gradient": tf.TensorSpec([None]), "rows": tf.TensorSpec([None], tf.int32)}
            )
            if rows
            else {"gradient": tf.TensorSpec([])},
        )
    )
    return estimator.get_variable_value("w")


def test_rows_that_come_twice_are_summed_before_they_are_squared() -> None:
    steps = [{"gradient": [1.0, 2.0, 3.0], "rows": [1, 0, 1]}]
    got = applied(optimizers.Adagrad(0.5, initial_accumulator_value=0.0), steps, np.zeros(3, "f4"))
    np.testing.assert_allclose(got, [-0.5, -0.5, 0.0], rtol=1e-5)


def test_clipping_sees_the_summed_rows() -> None:
    steps = [{"gradient": [3.0, 3.0], "rows": [1, 1]}]
    got = applied(optimizers.SGD(1.0, clipvalue=4.0), steps, np.zeros(2, "f4"))
    np.testing.assert_allclose(got, [0.0, -4.0], rtol=1e-6)


def test_rate_decays_with_time() -> None:
    got = applied(optimizers.SGD(0.1, decay=1.0), [{"gradient": 1.0}] * 3, np.float32(0))
    assert got == pytest.approx(-0.1 * (1 + 1 / 2 + 1 / 3))


@pytest.mark.parametrize("momentum", [-0.1, 1.5])
def test_momentum_out_of_range(momentum: float) -> None:
    with pytest.raises(ValueError, match=r"`momentum` must be between \[0, 1\]"):
        optimizers.SGD(momentum=momentum)
