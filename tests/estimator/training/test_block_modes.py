"""The ways of running a block of steps: same numbers, whoever looks; XLA only where it fits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.core import tf_private
from estimand.engine import block_mode
from estimand.engine.model_dir import RunRecord
from estimand.engine.running.program import StepProgram
from tests.estimator.conftest import (
    START,
    Weights,
    X,
    Y,
    assert_weights,
    input_fn,
    model_fn_of,
    numpy_gradients,
    numpy_loss,
    numpy_train,
    run_config,
    v1_logits,
    weights_of,
)

v1 = tf.compat.v1
MODES = ["plain", "single_thread", "xla", "onednn"]
XLA_SAYS_NO = "cannot be compiled by XLA"


def momentum() -> Any:
    return v1.train.MomentumOptimizer(0.2, 0.9)


def numpy_momentum() -> Callable[[np.ndarray, int], np.ndarray]:
    speed = 0.0

    def rule(gradient: np.ndarray, step: int) -> np.ndarray:
        nonlocal speed
        speed = 0.9 * speed + gradient
        return -0.2 * speed

    return rule


class LossAtEveryStep(est.SessionRunHook):
    def __init__(self) -> None:
        self.seen: list[tuple[int, float]] = []

    def before_run(self, run_context: Any) -> Any:
        step = v1.train.get_global_step()
        losses = v1.get_default_graph().get_collection(v1.GraphKeys.LOSSES)
        return est.SessionRunArgs([step, losses[-1]])

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen.append(tuple(run_values.results))


def train(model_dir: Path | str, mode: str, steps: int = 20, hooks: Any = ()) -> est.Estimator:
    config = run_config(block_mode=mode)
    estimator = est.Estimator(model_fn_of(v1_logits, momentum), str(model_dir), config)
    return estimator.train(input_fn, steps=steps, hooks=hooks)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Weights, Weights, list]]:
    """For each mode the weights without anybody looking, those with a look at every step, and
    what was seen."""
    found = {}
    for mode in MODES:
        alone = train(tmp_path_factory.mktemp(mode), mode)
        hook = LossAtEveryStep()
        watched = train(tmp_path_factory.mktemp(mode), mode, hooks=[hook])
        found[mode] = (weights_of(alone), weights_of(watched), hook.seen)
    return found


@pytest.mark.parametrize("mode", MODES)
def test_weights_are_those_of_numpy(trained: Any, mode: str) -> None:
    expected = numpy_train(numpy_momentum, 20)
    for name, value in expected.items():
        np.testing.assert_allclose(trained[mode][0][name], value, rtol=0, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_a_look_changes_no_bit(trained: Any, mode: str) -> None:
    alone, watched, _ = trained[mode]
    assert [n for n in alone if alone[n].tobytes() != watched[n].tobytes()] == []


@pytest.mark.parametrize("mode", MODES)
def test_a_look_sees_step_and_loss_from_before_the_update(trained: Any, mode: str) -> None:
    seen = trained[mode][2]
    assert [step for step, _ in seen] == list(range(20))
    assert seen[0][1] == pytest.approx(numpy_loss(START, X[:12], Y[:12]), abs=1e-5)
    after_first = {n: START[n] - 0.2 * g for n, g in numpy_gradients(START, X[:12], Y[:12]).items()}
    assert seen[1][1] == pytest.approx(numpy_loss(after_first, X[12:24], Y[12:24]), abs=1e-5)


def test_xla_is_used_when_pinned(model_dir: str, warnings_logged: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(block_mode, "guess", lambda trace: pytest.fail("another way was taken"))
    train(model_dir, "xla", steps=3)
    assert not warnings_logged(XLA_SAYS_NO)
    assert RunRecord.load(model_dir).block_mode == "xla"


def test_a_label_out_of_range_is_told_by_xla_too(model_dir: str) -> None:
    labels = np.where(np.arange(len(Y)) == 13, 3, Y)  # in the second batch

    def wrong() -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices(({"x": X}, labels.astype(np.int32)))
        return data.batch(12, drop_remainder=True)

    config = run_config(block_mode="xla")
    estimator = est.Estimator(model_fn_of(v1_logits, momentum), model_dir, config)
    told = r"Received a label value of 3 which is outside the valid range of \[0, 3\)"
    with pytest.raises(tf.errors.InvalidArgumentError, match=told):
        estimator.train(wrong)


def with_python_inside(features: Any, labels: tf.Tensor, mode: str) -> est.EstimatorSpec:
    x = tf.ensure_shape(tf.numpy_function(lambda x: x, [features["x"]], tf.float32), [None, 4])
    return model_fn_of(v1_logits, momentum)({"x": x}, labels, mode)


def batches_of_unknown_size() -> tf.data.Dataset:
    return input_fn().map(lambda x, y: (x, y + 0))  # more than an arrangement


def an_unknown_number_of_batches() -> tf.data.Dataset:
    rows = tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).repeat(5).batch(12, True)
    return rows.filter(lambda x, y: True)


@pytest.mark.parametrize(
    ("model_fn", "data", "reason"),
    [
        (with_python_inside, input_fn, "it uses the op PyFunc"),
        (None, batches_of_unknown_size, "the shape (None, 4) of its input is not fixed"),
        (None, an_unknown_number_of_batches, "the length of its input is not known"),
    ],
)
def test_a_model_that_cannot_be_compiled_is_run_otherwise_and_told_in_one_line(
    model_dir: str, warnings_logged: Any, model_fn: Any, data: Any, reason: str
) -> None:
    config = run_config(block_mode="xla")
    model_fn = model_fn or model_fn_of(v1_logits, momentum)
    estimator = est.Estimator(model_fn, model_dir, config).train(data, steps=20)
    [said] = warnings_logged(XLA_SAYS_NO)
    assert reason in said and "single_thread" in said
    assert_weights(estimator, numpy_train(numpy_momentum, 20))


def test_a_fetched_op_that_changes_something_is_run_once(model_dir: str) -> None:
    class Count(est.SessionRunHook):
        def begin(self) -> None:
            self.counter = v1.get_variable("looks", [], tf.int64, v1.zeros_initializer())
            self.count = v1.assign_add(self.counter, 1)

        def before_run(self, run_context: Any) -> Any:
            return est.SessionRunArgs(self.count)

    estimator = train(model_dir, "xla", steps=4, hooks=[Count()])
    assert estimator.get_variable_value("looks") == 4
    assert_weights(estimator, numpy_train(numpy_momentum, 4))


def test_a_long_run_tries_xla_and_keeps_it_for_the_resumed_run(
    tmp_path: Path, monkeypatch: Any
) -> None:
    tried = []

    def take_xla(seconds: dict[str, list[float]], expected: str) -> str:
        tried.append(list(seconds))
        return "xla" if "xla" in seconds else expected

    monkeypatch.setattr(block_mode, "_winner", take_xla)
    monkeypatch.setattr(block_mode, "MIN_SECONDS_FOR_COMPILING", 0.0)
    monkeypatch.setattr(block_mode, "_TRIAL_SECONDS", 0.001)
    monkeypatch.setattr(block_mode, "MIN_SECONDS_FOR_TRIAL", 0.0)
    model_fn = model_fn_of(v1_logits, momentum)
    stop = est.StopAtStepHook(last_step=20)
    estimator = est.Estimator(model_fn, str(tmp_path), run_config(tf_random_seed=None))
    estimator.train(input_fn, max_steps=5000, hooks=[stop])
    assert tried == [["plain", "single_thread"], ["single_thread", "xla"]]
    assert_weights(estimator, numpy_train(numpy_momentum, 20))  # trial steps left no trace
    assert "xla" in [json.loads(p.read_text()).get("block_mode") for p in tmp_path.glob("*.json")]


@pytest.mark.parametrize(("steps", "mode"), [(49_999, "single_thread"), (50_000, "xla")])
def test_a_seeded_run_with_input_in_memory_is_compiled_by_rule(
    tmp_path: Path, monkeypatch: Any, steps: int, mode: str
) -> None:
    monkeypatch.setattr(block_mode, "measure", lambda *_, **__: pytest.fail("a stopwatch"))
    estimator = est.Estimator(model_fn_of(v1_logits, momentum), str(tmp_path), run_config())
    stop = est.StopAtStepHook(last_step=20)
    estimator.train(input_fn, max_steps=steps, hooks=[stop])
    assert_weights(estimator, numpy_train(numpy_momentum, 20))
    assert mode in [json.loads(p.read_text()).get("block_mode") for p in tmp_path.glob("*.json")]


def test_a_short_run_does_not_try_xla(tmp_path: Path, monkeypatch: Any) -> None:
    tried: list[str] = []
    monkeypatch.setattr(
        block_mode, "_winner", lambda seconds, expected: tried.extend(seconds) or expected
    )
    monkeypatch.setattr(block_mode, "_TRIAL_SECONDS", 0.001)
    monkeypatch.setattr(block_mode, "MIN_SECONDS_FOR_TRIAL", 0.0)
    estimator = est.Estimator(
        model_fn_of(v1_logits, momentum), str(tmp_path), run_config(tf_random_seed=None)
    )
    estimator.train(input_fn, max_steps=1000, hooks=[est.StopAtStepHook(last_step=2)])
    assert tried == ["plain", "single_thread"]


def test_a_run_that_is_soon_over_compares_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(block_mode, "_winner", lambda *_: pytest.fail("a comparison"))
    monkeypatch.setattr(block_mode, "MIN_SECONDS_FOR_TRIAL", 1e9)
    estimator = est.Estimator(
        model_fn_of(v1_logits, momentum), str(tmp_path), run_config(tf_random_seed=None)
    )
    estimator.train(input_fn, max_steps=1000, hooks=[est.StopAtStepHook(last_step=20)])
    assert_weights(estimator, numpy_train(numpy_momentum, 20))  # trial steps left no trace
    records = [json.loads(p.read_text()) for p in tmp_path.glob("*.json")]
    assert "single_thread" in [record.get("block_mode") for record in records]


def test_a_run_that_is_soon_over_is_known_by_a_few_steps(tmp_path: Path, monkeypatch: Any) -> None:
    tried: list[int] = []
    run = StepProgram.try_out

    def counted(self: Any, supply: Any, steps: int, mode: str) -> Any:
        tried.append(steps)
        return run(self, supply, steps, mode)

    monkeypatch.setattr(StepProgram, "try_out", counted)
    monkeypatch.setattr(block_mode, "MIN_SECONDS_FOR_TRIAL", 1e9)
    estimator = est.Estimator(
        model_fn_of(v1_logits, momentum), str(tmp_path), run_config(tf_random_seed=None)
    )
    estimator.train(input_fn, max_steps=1000, hooks=[est.StopAtStepHook(last_step=2)])
    assert tried == [2, 2]  # to compile, and to measure


def with_a_convolution(features: Any, labels: tf.Tensor, mode: str) -> est.EstimatorSpec:
    kernel = v1.get_variable("kernel", [2, 2, 1, 1], initializer=v1.ones_initializer())
    pictures = tf.reshape(features["x"], [-1, 2, 2, 1])
    x = tf.reshape(tf.nn.conv2d(pictures, kernel, 1, "SAME"), [-1, 4])
    return model_fn_of(v1_logits, momentum)({"x": x}, labels, mode)


@pytest.mark.skipif(
    not tf_private.onednn_kernels_to_ask_for(),
    reason="TensorFlow uses oneDNN by itself here, or has none",
)
def test_convolutions_try_onednn_in_runs_of_some_length(tmp_path: Path, monkeypatch: Any) -> None:
    tried: list[str] = []
    monkeypatch.setattr(
        block_mode, "_winner", lambda seconds, expected: tried.extend(seconds) or "onednn"
    )
    monkeypatch.setattr(block_mode, "_TRIAL_SECONDS", 0.001)
    monkeypatch.setattr(block_mode, "MIN_SECONDS_FOR_TRIAL", 0.0)
    estimator = est.Estimator(with_a_convolution, str(tmp_path), run_config(tf_random_seed=None))
    stop = est.StopAtStepHook(last_step=2)
    estimator.train(input_fn, max_steps=200, hooks=[stop])
    assert tried == ["single_thread", "onednn"]
    records = [json.loads(p.read_text()) for p in tmp_path.glob("*.json")]
    assert "onednn" in [record.get("block_mode") for record in records]


def test_a_resumed_run_tells_that_tensorflow_was_switched_to_other_kernels(
    tmp_path: Path, monkeypatch: Any, warnings_logged: Any
) -> None:
    class Crash(est.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            raise ConnectionError

    model_fn = model_fn_of(v1_logits, momentum)
    with pytest.raises(ConnectionError):
        est.Estimator(model_fn, str(tmp_path), run_config(tf_random_seed=None)).train(
            input_fn, max_steps=4, hooks=[Crash()]
        )
    now = tf_private.onednn_in_all_graphs()
    monkeypatch.setattr(tf_private, "onednn_in_all_graphs", lambda: not now)
    est.Estimator(model_fn, str(tmp_path), run_config(tf_random_seed=None)).train(
        input_fn, max_steps=4
    )
    assert warnings_logged(f"TF_ENABLE_ONEDNN_OPTS={now:d}")


# Looks beside a compiled step


def watched_model(features: Any, labels: tf.Tensor, mode: str) -> est.EstimatorSpec:
    logits = v1_logits(features["x"])
    one_hot = tf.one_hot(labels, 3)
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(one_hot, logits))
    # A metric of the training, as TF1 code has it: looking at it updates it.
    accuracy = v1.metrics.accuracy(labels, tf.argmax(logits, 1))
    v1.summary.scalar("accuracy", accuracy[1])
    op = momentum().minimize(loss, v1.train.get_global_step())
    with tf.control_dependencies([op]):
        weights = next(v for v in v1.trainable_variables() if v.op.name == "logits/bias")
        tf.identity(weights.read_value(), name="after_the_step")
    return est.EstimatorSpec(mode, loss=loss, train_op=op)


class AfterTheStep(est.SessionRunHook):
    cadence = est.every(steps=3)

    def __init__(self) -> None:
        self.seen: Any = None

    def before_run(self, run_context: Any) -> Any:
        return est.SessionRunArgs("after_the_step:0")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen = run_values.results


def test_looks_that_change_something_leave_the_compiled_step_alone(tmp_path: Path) -> None:
    found = []
    hook = AfterTheStep()
    for name, every, hooks in (("none", None, []), ("metric", 7, []), ("after", 5, [hook])):
        config = run_config(block_mode="xla", save_summary_steps=every)
        estimator = est.Estimator(watched_model, str(tmp_path / name), config)
        estimator.train(input_fn, steps=19, hooks=hooks)
        found.append({n: v.tobytes() for n, v in weights_of(estimator).items()})
    assert found[0] == found[1] == found[2]
    np.testing.assert_allclose(hook.seen, estimator.get_variable_value("logits/bias"), atol=1e-6)


def test_a_run_with_a_seed_is_not_measured(model_dir: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(block_mode, "measure", lambda *_, **__: pytest.fail("measured"))
    config = run_config(block_mode="auto", tf_random_seed=1)
    estimator = est.Estimator(model_fn_of(v1_logits, momentum), model_dir, config)
    estimator.train(input_fn, steps=1200)


class Shapes(est.SessionRunHook):
    def before_run(self, run_context: Any) -> Any:
        return est.SessionRunArgs(["shape_of_x:0", "handed_on:0"])

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen = [value.tolist() for value in run_values.results]


@pytest.mark.parametrize("mode", ["plain", "single_thread"])
def test_a_shape_can_be_looked_at(model_dir: str, mode: str) -> None:
    def model_fn(features: Any, labels: tf.Tensor, mode: str) -> est.EstimatorSpec:
        tf.identity(tf.shape(features["x"], name="shape_of_x"), name="handed_on")
        return model_fn_of(v1_logits, momentum)(features, labels, mode)

    hook = Shapes()
    est.Estimator(model_fn, model_dir, run_config(block_mode=mode)).train(
        input_fn, steps=2, hooks=[hook]
    )
    assert hook.seen == [[12, 4], [12, 4]]


@pytest.mark.parametrize(
    ("plain", "single_thread", "expected", "winner"),
    [
        ([6.7, 8.5, 8.7], [6.1, 6.2, 6.3], "plain", "single_thread"),  # as an LSTM
        ([6.2, 7.4, 8.1], [6.8, 6.9, 7.1], "plain", "single_thread"),  # one lucky turn
        ([3.0, 5.2, 6.0], [4.5, 4.8, 4.9], "plain", "plain"),  # others were busy meanwhile
        ([6.2, 6.3, 8.1], [6.2, 6.3, 7.1], "plain", "plain"),
        ([1.2, 1.3, 1.3], [2.0, 2.1, 2.2], "plain", "plain"),
        ([6.0, 6.1, 6.2], [6.7, 6.8, 6.9], "single_thread", "single_thread"),  # no clear lead
        ([4.0, 4.1, 4.2], [6.7, 6.8, 6.9], "single_thread", "plain"),
    ],
)
def test_one_thread_need_not_lead_clearly(
    plain: list[float], single_thread: list[float], expected: str, winner: str
) -> None:
    seconds = {"plain": plain, "single_thread": single_thread}
    assert block_mode._winner(seconds, expected) == winner
