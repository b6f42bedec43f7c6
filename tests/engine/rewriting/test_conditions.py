"""Conditions that the single-threaded executor and XLA run, also inside of one another."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.model_dir import RunRecord
from estimand.engine.rewriting import conditions
from estimand.engine.rewriting.inlining import GraphCopy
from estimand.engine.running.compiled import SINGLE_THREAD, Compiled

v1 = tf.compat.v1
LEVELS = (tf.config.threading.get_inter_op_parallelism_threads() or os.cpu_count() or 1) + 2


def traced(function: Callable[..., Any], *specs: tf.TensorSpec) -> Any:
    return tf.function(function, autograph=False).get_concrete_function(*specs)


def as_loops(function: Callable[..., Any], *values: Any) -> list[np.ndarray]:
    """What `function` gives of `values`, run by the single-threaded executor as loops."""
    tensors = [tf.convert_to_tensor(value) for value in values]
    whole = traced(function, *(tf.TensorSpec(t.shape, t.dtype) for t in tensors))
    kinds: set[str] = set()

    def rewrite(part: Any) -> Any:
        part = conditions.as_loops(part)
        called = [node for f in part.library.function for node in f.node_def]
        kinds.update(node.op for node in part.node)
        kinds.update(n.op for n in called if n.name.startswith("estimand"))
        return part

    def build(*given: tf.Tensor) -> Any:
        inputs = whole.graph.inputs[: len(given)]
        return GraphCopy(whole.graph).place(whole.outputs, inputs, given, rewrite)

    results = Compiled(build, SINGLE_THREAD, *tensors)(*tensors)
    assert not kinds & {"If", "Case", "StatelessIf", "StatelessCase"}
    for ours, theirs in zip(results, tf.nest.flatten(whole(*tensors)), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    return [result.numpy() for result in results]


@pytest.mark.parametrize("x", [-2.0, 3.0])
def test_both_branches_give_what_they_did(x: float) -> None:
    as_loops(lambda x: tf.cond(x > 0.0, lambda: (x * 2.0, x), lambda: (x - 1.0, -x)), x)


@pytest.mark.parametrize("which", [-1, 0, 1, 2, 3, 7])
def test_a_number_out_of_range_is_the_last_branch(which: int) -> None:
    branches = [lambda x=x: tf.constant(x) for x in (10.0, 20.0, 30.0)]
    [value] = as_loops(lambda i: tf.switch_case(i, branches), which)
    assert value == (10.0 * (which + 1) if 0 <= which <= 2 else 30.0)


@pytest.mark.parametrize("word", ["", "a"])
def test_results_of_all_types_and_shapes(word: str) -> None:
    def choose(word: tf.Tensor, flag: tf.Tensor) -> Any:
        array = tf.TensorArray(tf.float32, 2)
        array = tf.cond(
            flag, lambda: array.write(0, 1.0).write(1, 2.0), lambda: array.write(0, 3.0)
        )
        ragged = tf.cond(flag, lambda: tf.strings.split([word, "b c"]).values, lambda: word[None])
        return array.stack(), ragged, tf.cond(flag, lambda: 1j * tf.ones([2], tf.complex64),
                                              lambda: tf.zeros([0], tf.complex64))  # fmt: skip

    as_loops(choose, word, True)
    as_loops(choose, word, False)


def test_results_of_a_type_that_numpy_has_not() -> None:
    def choose(x: tf.Tensor, flag: tf.Tensor) -> tf.Tensor:
        quantized = [lambda: tf.quantization.quantize(x, -3.0, 3.0, tf.qint8).output,
                     lambda: tf.quantization.quantize(-x, -3.0, 3.0, tf.qint8).output]  # fmt: skip
        return tf.quantization.dequantize(tf.cond(flag, *quantized), -3.0, 3.0)

    as_loops(choose, [1.0, 2.0], True)
    as_loops(choose, [1.0, 2.0], False)


def test_conditions_deeper_than_there_are_threads_in_branches_loops_and_functions() -> None:
    def nested(x: tf.Tensor, level: int) -> tf.Tensor:
        if level == 0:
            return 2.0 * x
        function = tf.function(lambda: nested(x + 1.0, level - 1), autograph=False)
        again = lambda i, _: (i + 1, function())  # noqa: E731
        looped = lambda: tf.while_loop(lambda i, _: i < 1, again, (0, x))[1]  # noqa: E731
        return tf.cond(x > -1e9, looped if level % 2 else function, lambda: x)

    [value] = as_loops(lambda x: nested(x, LEVELS), 1.0)
    assert value == 2.0 * (1 + LEVELS)


def test_a_function_that_was_traced_for_the_ordinary_executor() -> None:
    @tf.function
    def halved(x: tf.Tensor) -> tf.Tensor:
        while x > 1.0:
            x = x * 0.5 if x > 2.0 else x - 0.5
        return x

    halved(tf.constant(9.0))  # marked for switches
    as_loops(lambda x: halved(x) + 1.0, 9.0)


def test_branches_that_write_wait_and_fail() -> None:
    variable = tf.Variable(1.0)

    def write(x: tf.Tensor) -> tf.Tensor:
        before = variable.read_value()
        with tf.control_dependencies([before]):
            done = tf.cond(x > 0.0, lambda: tf.group(variable.assign_add(x)), lambda: tf.no_op())
        with tf.control_dependencies([done] if done is not None else []):
            return before, variable.read_value()

    def run(x: float) -> list[np.ndarray]:
        whole = traced(write, tf.TensorSpec([]))

        def build(x: tf.Tensor) -> Any:
            inputs = whole.graph.inputs[:1]
            return GraphCopy(whole.graph).place(whole.outputs, inputs, [x], conditions.as_loops)

        return [r.numpy() for r in Compiled(build, SINGLE_THREAD, tf.constant(x))(tf.constant(x))]

    assert run(2.0) == [1.0, 3.0]
    assert run(-2.0) == [3.0, 3.0]
    check = lambda x: tf.debugging.check_numerics(x / 0.0, "not a number")  # noqa: E731
    with pytest.raises(tf.errors.InvalidArgumentError, match="not a number"):
        as_loops(lambda x: tf.cond(x > 0.0, lambda: check(x), lambda: x), 1.0)
    as_loops(lambda x: tf.cond(x > 0.0, lambda: check(x), lambda: x), -1.0)


# ------------------------------------------------------------------ in training


def input_fn() -> tf.data.Dataset:
    x = np.random.RandomState(0).normal(size=[64, 3]).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices(({"x": x}, x.sum(axis=1)))
    return dataset.repeat().batch(8, drop_remainder=True)


def scheduled(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    """A learning rate by step, as old code has it: conditions inside of conditions."""
    step = v1.train.get_or_create_global_step()
    rate = v1.train.piecewise_constant(step, [4, 8, 12], [0.2, 0.1, 0.05, 0.01])
    return with_rate(rate, features, labels, mode)


def warmed_up(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    return with_rate(0.1, features, labels, mode)


def with_rate(rate: Any, features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    step = v1.train.get_or_create_global_step()
    later = lambda: tf.cond(step < 9, lambda: rate, lambda: rate * 0.5)  # noqa: E731
    rate = tf.cond(step < 3, lambda: tf.cast(step, tf.float32) * rate, later)
    kernel = v1.get_variable("kernel", [3, 1], initializer=v1.ones_initializer())
    predicted = tf.squeeze(features["x"] @ kernel, 1)
    predictions = tf.cond(step < 0, lambda: -predicted, later_than(step, predicted))
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions=predictions)
    loss = tf.reduce_mean((predicted - labels) ** 2)
    v1.summary.scalar("rate", rate)
    train_op = v1.train.GradientDescentOptimizer(rate).minimize(loss, step)
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def later_than(step: tf.Tensor, values: tf.Tensor) -> Callable[[], tf.Tensor]:
    return lambda: tf.cond(step < 5, lambda: values * 0.0, lambda: values)


def kernel_after(model_fn: Any, folder: Path, mode: str, *stops: int) -> np.ndarray:
    """The weights at the end of one call after the other."""
    config = est.RunConfig(str(folder), tf_random_seed=3, block_mode=mode, progress=False)
    for stop in stops:
        estimator = est.Estimator(model_fn, config=config)
        estimator.train(input_fn, max_steps=stop)
    return estimator.get_variable_value("kernel")


@pytest.mark.parametrize("model_fn", [scheduled, warmed_up])
def test_a_schedule_of_conditions_trains_in_the_single_threaded_executor(
    model_fn: Any, tmp_path: Path
) -> None:
    plain = kernel_after(model_fn, tmp_path / "plain", "plain", 15)
    alone = kernel_after(model_fn, tmp_path / "auto", "auto", 15)
    assert RunRecord.load(str(tmp_path / "auto")).block_mode == SINGLE_THREAD
    np.testing.assert_array_equal(alone, plain)
    resumed = kernel_after(model_fn, tmp_path / "resumed", "auto", 2, 7, 11, 15)
    np.testing.assert_array_equal(resumed, alone)


class Looking(est.SessionRunHook):
    """At every step, so that each is run by itself."""

    def before_run(self, run_context: Any) -> est.SessionRunArgs:
        return est.SessionRunArgs(v1.train.get_global_step())


@pytest.mark.parametrize("mode", ["plain", "single_thread", "xla"])
def test_a_schedule_of_conditions_that_is_looked_at_does_not_wait_for_ever(
    mode: str, tmp_path: Path
) -> None:
    config = est.RunConfig(str(tmp_path), tf_random_seed=3, block_mode=mode, progress=False)
    estimator = est.Estimator(scheduled, config=config)
    estimator.train(input_fn, max_steps=14, hooks=[Looking()])
    assert estimator.get_variable_value("global_step") == 14


def test_a_schedule_of_conditions_is_compiled_where_it_checks_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = kernel_after(warmed_up, tmp_path / "plain", "plain", 15)
    compiled = kernel_after(warmed_up, tmp_path / "xla", "xla", 5, 15)
    assert "cannot be compiled" not in caplog.text
    np.testing.assert_allclose(compiled, plain, rtol=1e-5)
    # Its conditions have an assertion beside them, which XLA would not see.
    kernel_after(scheduled, tmp_path / "asserting", "xla", 5)
    assert "cannot be compiled by XLA: it uses the op Assert" in caplog.text


def test_predictions_behind_conditions(tmp_path: Path) -> None:
    config = est.RunConfig(str(tmp_path), tf_random_seed=3, progress=False)
    estimator = est.Estimator(warmed_up, config=config)
    for steps, zero in ((4, True), (8, False)):
        estimator.train(input_fn, max_steps=steps)
        rows = estimator.predict(lambda: input_fn().take(3))
        assert [value == 0.0 for value in rows] == [zero] * 24


def test_what_gives_a_resource_is_left_to_the_ordinary_executor() -> None:
    variables = [tf.Variable(1.0), tf.Variable(2.0)]

    def choose(flag: tf.Tensor) -> tf.Tensor:
        return tf.cond(flag, lambda: variables[0].handle, lambda: variables[1].handle)

    graph = traced(lambda flag: tf.raw_ops.ReadVariableOp(resource=choose(flag), dtype=tf.float32),
                   tf.TensorSpec([], tf.bool)).graph  # fmt: skip
    problems = [conditions.problem(op.node_def) for op in graph.get_operations()]
    [problem] = [p for p in problems if p is not None]
    assert "gives a resource" in problem
