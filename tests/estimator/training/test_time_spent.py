"""Where the time of trainings went: compared by kind, for nothing here depends on a clock."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.engine import time_spent
from estimand.engine.running import waiting
from estimand.engine.time_spent import CHECKPOINTS, EVALUATION, INPUT, LOOKS, STARTING, STEPS
from estimand.estimator.training import run

ROWS = np.random.default_rng(0).normal(size=(64, 2)).astype("float32")
NAP = 0.03


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    w = tf.compat.v1.get_variable("w", [2, 1], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(features["x"] @ w - labels))
    train_op = est.minimize(tf.compat.v1.train.GradientDescentOptimizer(0.1), loss)
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def in_memory() -> tf.data.Dataset:
    rows = tf.data.Dataset.from_tensor_slices(({"x": ROWS}, ROWS.sum(axis=1, keepdims=True)))
    return rows.repeat().batch(16, drop_remainder=True)


def from_an_iterator() -> tf.data.Dataset:
    return in_memory().map(lambda x, y: ({"x": x["x"] * 1.5}, y))


def slow(seconds: float = NAP) -> tf.data.Dataset:
    """Known to be endless, so that XLA takes it, too."""

    def after_a_nap(x: np.ndarray) -> np.ndarray:
        time.sleep(seconds)
        return x

    def nap(x: Any, y: Any) -> Any:
        x["x"] = tf.ensure_shape(tf.numpy_function(after_a_nap, [x["x"]], tf.float32), [16, 2])
        return x, y

    return in_memory().map(nap)


def very_slow() -> tf.data.Dataset:
    return slow(4 * NAP)


def ending() -> tf.data.Dataset:
    def batches() -> Iterator[Any]:
        for _ in range(12):
            time.sleep(NAP)
            yield {"x": ROWS[:16]}, ROWS[:16].sum(axis=1, keepdims=True)

    signature = {"x": tf.TensorSpec([16, 2])}, tf.TensorSpec([16, 1])
    return tf.data.Dataset.from_generator(batches, output_signature=signature)


def estimator(model_dir: Path, **config: Any) -> est.Estimator:
    config = {"progress": False, "tf_random_seed": 1, **config}
    return est.Estimator(model_fn, str(model_dir), config=est.RunConfig(**config))


BLOCK_MODES = [{"block_mode": mode} for mode in ("plain", "single_thread", "xla")]


def strategy() -> tf.distribute.Strategy:
    return tf.distribute.OneDeviceStrategy("cpu:0")


WAYS = [
    *BLOCK_MODES,
    {"run_eagerly": True},
    {"train_distribute": strategy},
    {"log_step_count_steps": 1},  # each step is looked at
]


@pytest.mark.parametrize("config", WAYS, ids=lambda config: next(iter(config)))
def test_a_slow_input_is_what_steps_wait_for(config: dict[str, Any], tmp_path: Path) -> None:
    config = {name: value() if callable(value) else value for name, value in config.items()}
    begin = time.perf_counter()
    estimator(tmp_path, **config).train(very_slow, steps=8)
    total = time.perf_counter() - begin
    seconds = time_spent.load(tmp_path)
    assert sum(seconds.values()) <= total
    assert seconds[INPUT] > 5 * NAP  # some batches are prepared while others are computed on
    assert seconds[STARTING] > 0 and seconds[STEPS] > 0 and seconds[CHECKPOINTS] > 0


@pytest.mark.parametrize("config", BLOCK_MODES, ids=str)
def test_rows_in_memory_are_not_timed(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting.Waiting, "timed", None)
    estimator(tmp_path, **config).train(in_memory, steps=50)
    seconds = time_spent.load(tmp_path)
    assert seconds[STEPS] > 0 and seconds[INPUT] > 0  # that the numbers of the rows took


def test_waiting_counts_also_in_the_call_in_which_the_input_ends(tmp_path: Path) -> None:
    estimator(tmp_path).train(ending)
    assert time_spent.load(tmp_path)[INPUT] > 5 * NAP


def test_calls_and_resumed_runs_add_up(tmp_path: Path) -> None:
    made = estimator(tmp_path)
    made.train(slow, steps=6)
    first = time_spent.load(tmp_path)
    made.train(slow, steps=6)  # by the same program
    second = time_spent.load(tmp_path)
    estimator(tmp_path).train(slow, steps=6)
    third = time_spent.load(tmp_path)
    for kind in (STARTING, INPUT, STEPS, CHECKPOINTS):
        assert 0 < first[kind] < second[kind] < third[kind]


def test_evaluation_at_a_checkpoint_is_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_spent, "_SECONDS_BETWEEN_NOTES", 0.0)  # also note it there

    def evaluated() -> tf.data.Dataset:
        return slow().take(10)

    spec = est.EvalSpec(evaluated, steps=None, every_n_steps=10)
    est.train_and_evaluate(estimator(tmp_path), est.TrainSpec(in_memory, max_steps=20), spec)
    seconds = time_spent.load(tmp_path)
    assert seconds[EVALUATION] > 2 * 8 * NAP and seconds[EVALUATION] > seconds[INPUT]


def test_the_evaluation_after_the_training_counts(tmp_path: Path) -> None:
    spec = est.EvalSpec(lambda: slow().take(10), steps=None, throttle_secs=600)
    made = estimator(tmp_path)
    est.train_and_evaluate(made, est.TrainSpec(in_memory, max_steps=20), spec)
    assert time_spent.load(tmp_path)[EVALUATION] > 8 * NAP


def test_evaluation_by_a_hook_is_no_look(tmp_path: Path) -> None:
    made = estimator(tmp_path)
    hook = est.experimental.InMemoryEvaluatorHook(made, lambda: slow().take(10), every_n_iter=50)
    made.train(in_memory, steps=20, hooks=[hook])  # before the first step, and after the last
    seconds = time_spent.load(tmp_path)
    assert seconds[EVALUATION] > 2 * 8 * NAP and seconds[EVALUATION] > seconds.get(LOOKS, 0)


class Looker(tf.compat.v1.train.SessionRunHook):
    def after_run(self, run_context: Any, run_values: Any) -> None:
        time.sleep(NAP)


class Listener(tf.compat.v1.train.CheckpointSaverListener):
    def after_save(self, session: Any, global_step_value: int) -> None:
        time.sleep(10 * NAP)


def test_hooks_are_looks_and_listeners_checkpoints(tmp_path: Path) -> None:
    made = estimator(tmp_path)
    made.train(in_memory, steps=10, hooks=[Looker()], saving_listeners=[Listener()])
    seconds = time_spent.load(tmp_path)
    assert seconds[LOOKS] >= 10 * NAP and seconds[CHECKPOINTS] >= 20 * NAP


def test_time_is_noted_also_when_a_step_fails(tmp_path: Path) -> None:
    class Failing(tf.compat.v1.train.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            raise KeyError("mine")

    with pytest.raises(KeyError):
        estimator(tmp_path).train(in_memory, steps=10, hooks=[Failing()])
    assert time_spent.load(tmp_path)[STEPS] > 0


def test_timing_one_call_of_several_changes_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"max_steps_per_call": 7, "block_mode": "single_thread"}
    always = estimator(tmp_path / "a", **config).train(from_an_iterator, steps=300)
    for name, value in (("_SHORT_STEP", 1e9), ("_SECONDS_BEFORE_SAMPLING", 0.0)):
        monkeypatch.setattr(waiting, name, value)
    calls: list[bool] = []
    around_call = waiting.Waiting.around_call

    @functools.wraps(around_call)
    def noting(self: Any, steps: int, *, timed: bool) -> Any:
        calls.append(timed)
        return around_call(self, steps, timed=timed)

    monkeypatch.setattr(waiting.Waiting, "around_call", noting)
    sampled = estimator(tmp_path / "b", **config).train(from_an_iterator, steps=300)
    assert 0 < calls.count(True) < calls.count(False)
    np.testing.assert_array_equal(sampled.get_variable_value("w"), always.get_variable_value("w"))


@pytest.mark.parametrize(("input_fn", "told"), [(very_slow, True), (in_memory, False)])
def test_only_an_input_that_holds_up_steps_is_told(
    input_fn: Callable[[], Any],
    told: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(run, "_SECONDS_WORTH_A_WORD", 6 * NAP)
    with caplog.at_level(logging.INFO, "estimand"):
        estimator(tmp_path, progress=None).train(input_fn, steps=12)
    assert ("input-bound: " in caplog.text) == told


def test_short_runs_are_not_bothered_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "estimand"):
        estimator(tmp_path, progress=None).train(slow, steps=20)
    assert "training" in caplog.text and "input-bound" not in caplog.text
