"""Every run of a random op draws its own numbers, and a resumed run those it would have drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.estimator.conftest import run_config

v1 = tf.compat.v1
X = np.random.RandomState(0).randn(64, 8).astype("float32")
ACCUMULATED = 4


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices({"x": X}).repeat().batch(8, drop_remainder=True)


def accumulating(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    """The global step moves with every fourth batch only."""
    mask = tf.identity(tf.nn.dropout(tf.ones([1, 8]), rate=0.5), name="mask")
    w = v1.get_variable("w", [8, 1], initializer=v1.ones_initializer())
    loss = tf.reduce_mean(tf.square((features["x"] * mask) @ w))
    optimizer = v1.train.GradientDescentOptimizer(0.01)
    [(gradient, _)] = optimizer.compute_gradients(loss, [w])
    kept = {"initializer": v1.zeros_initializer(), "trainable": False}
    total = v1.get_variable("total", [8, 1], **kept)
    count = v1.get_variable("count", [], tf.int32, **kept)
    step = v1.train.get_global_step()
    with tf.control_dependencies([total.assign_add(gradient), count.assign_add(1)]):

        def apply() -> tf.Operation:
            update = optimizer.apply_gradients([(total.read_value() / ACCUMULATED, w)], step)
            with tf.control_dependencies([update]):
                return tf.group(total.assign(tf.zeros_like(total)), count.assign(0))

        op = tf.cond(tf.equal(count.read_value(), ACCUMULATED), apply, lambda: tf.no_op())
    return est.EstimatorSpec(mode, loss=loss, train_op=op)


class Masks(est.SessionRunHook):
    def __init__(self, crash_after: int | None = None) -> None:
        self.seen: list[bytes] = []
        self._crash_after = crash_after

    def before_run(self, run_context: Any) -> Any:
        return est.SessionRunArgs("mask:0")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen.append(run_values.results.tobytes())
        if len(self.seen) == self._crash_after:
            raise RuntimeError("crash")


def train(model_dir: Path, model_fn: Any, steps: int, hooks: Any, **settings: Any) -> dict:
    config = run_config(tf_random_seed=3, save_checkpoints_steps=2, **settings)
    estimator = est.Estimator(model_fn, str(model_dir), config)
    estimator.train(input_fn, max_steps=steps, hooks=hooks)
    return {n: estimator.get_variable_value(n) for n in estimator.get_variable_names()}


@pytest.mark.parametrize("mode", ["plain", "single_thread"])
def test_each_micro_batch_has_a_mask_of_its_own(tmp_path: Path, mode: str) -> None:
    hook = Masks()
    train(tmp_path, accumulating, 5, [hook], block_mode=mode)
    assert len(hook.seen) == 20 and len(set(hook.seen)) > 17  # of 256 masks, few by chance


def test_masks_go_on_after_a_crash_between_two_moves_of_the_step(tmp_path: Path) -> None:
    whole = Masks()
    expected = train(tmp_path / "whole", accumulating, 8, [whole])
    first, second = Masks(crash_after=22), Masks()
    with pytest.raises(RuntimeError, match="crash"):
        train(tmp_path / "crashed", accumulating, 8, [first])
    found = train(tmp_path / "crashed", accumulating, 8, [second])
    assert whole.seen[-len(second.seen) :] == second.seen
    assert {n: v.tobytes() for n, v in found.items()} == {
        n: v.tobytes() for n, v in expected.items()
    }


def noisy(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    noise = tf.random.normal([3], name="noise")
    tf.identity(noise, name="drawn")
    w = v1.get_variable("w", [3], initializer=v1.ones_initializer())
    loss = tf.reduce_mean(tf.square(w - noise))
    op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=op)


class RunsThreeTimes(est.SessionRunHook):
    def __init__(self) -> None:
        self.between: list[bytes] = []
        self.steps: list[bytes] = []

    def before_run(self, run_context: Any) -> Any:
        for _ in range(3):
            self.between.append(run_context.session.run("drawn:0").tobytes())
        return est.SessionRunArgs("drawn:0")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.steps.append(run_values.results.tobytes())


def test_runs_between_steps_draw_their_own_and_change_no_steps_numbers(tmp_path: Path) -> None:
    hook = RunsThreeTimes()
    disturbed = train(tmp_path / "disturbed", noisy, 5, [hook])
    assert len(set(hook.between + hook.steps)) == 20
    alone = train(tmp_path / "alone", noisy, 5, [])
    assert disturbed["w"].tobytes() == alone["w"].tobytes()


# In bodies, and of the rarer kinds


def in_function() -> tf.Tensor:
    return tf.function(lambda: tf.random.uniform([3]))()


def in_branch() -> tf.Tensor:
    step = v1.train.get_global_step()
    return tf.cond(step >= 0, lambda: tf.random.normal([3]), lambda: tf.zeros([3]))


def in_loop() -> tf.Tensor:
    def body(i: tf.Tensor, rows: tf.TensorArray) -> Any:
        return i + 1, rows.write(i, tf.random.truncated_normal([]))

    rows = tf.TensorArray(tf.float32, 3)
    return tf.while_loop(lambda i, _: i < 3, body, (tf.constant(0), rows))[1].stack()


def in_map() -> tf.Tensor:
    return tf.map_fn(
        lambda _: tf.nn.dropout(tf.ones([]), 0.5) + tf.random.uniform([]), tf.zeros([3])
    )


def categories() -> tf.Tensor:
    return tf.cast(tf.random.categorical(tf.zeros([1, 1000]), 3)[0], tf.float32)


def gamma() -> tf.Tensor:
    return tf.random.gamma([3], 2.0)


def poisson() -> tf.Tensor:
    return tf.random.poisson([3], 500.0)


def shuffled() -> tf.Tensor:
    return tf.cast(tf.random.shuffle(tf.range(1000))[:3], tf.float32)


KINDS = [in_function, in_branch, in_loop, in_map, categories, gamma, poisson, shuffled]


def drawing(draw: Any) -> Any:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        numbers = tf.identity(draw(), name="mask")
        w = v1.get_variable("w", [3], initializer=v1.ones_initializer())
        loss = tf.reduce_mean(tf.square(w - numbers / 100))
        op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=op)

    return model_fn


@pytest.mark.parametrize("draw", KINDS)
def test_every_kind_draws_anew_and_resumes_exactly(tmp_path: Path, draw: Any, caplog: Any) -> None:
    model_fn, whole = drawing(draw), Masks()
    expected = train(tmp_path / "whole", model_fn, 8, [whole], block_mode="plain")
    assert len(set(whole.seen)) == 8
    numbers = {n for seen in whole.seen for n in np.frombuffer(seen, "float32").tolist()}
    assert len(numbers) >= 20  # also within a step each draw is another
    with pytest.raises(RuntimeError, match="crash"):
        train(tmp_path / "crashed", model_fn, 8, [Masks(crash_after=5)], block_mode="plain")
    again = Masks()
    found = train(tmp_path / "crashed", model_fn, 8, [again], block_mode="plain")
    assert again.seen == whole.seen[-len(again.seen) :]
    assert found["w"].tobytes() == expected["w"].tobytes()
    other = Masks()
    train(tmp_path / "other", model_fn, 8, [other], block_mode="single_thread")
    assert other.seen == whole.seen
    assert "will not be the same again" not in caplog.text


@pytest.mark.parametrize("draw", [in_function, in_branch, in_loop])
def test_looking_does_not_change_what_bodies_draw(tmp_path: Path, draw: Any) -> None:
    class Runs(est.SessionRunHook):
        def before_run(self, run_context: Any) -> None:
            run_context.session.run("mask:0")

    alone = train(tmp_path / "alone", drawing(draw), 6, [])
    watched = train(tmp_path / "watched", drawing(draw), 6, [Runs(), Masks()])
    assert alone["w"].tobytes() == watched["w"].tobytes()


def test_no_gradient_passes_a_shuffle_as_none_passes_tensorflows(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        w = v1.get_variable("w", [3], initializer=v1.ones_initializer())
        loss = tf.reduce_sum(tf.random.shuffle(w * 2.0)) + tf.reduce_sum(w)
        op = v1.train.GradientDescentOptimizer(0.5).minimize(loss, v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=op)

    estimator = est.Estimator(model_fn, str(tmp_path))
    estimator.train(input_fn, max_steps=1)
    assert estimator.get_variable_value("w").tolist() == [0.5, 0.5, 0.5]
