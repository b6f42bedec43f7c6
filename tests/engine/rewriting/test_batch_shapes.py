"""A step for batches of one size: what is computed from their shapes alone is gone from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.engine.running import gates
from estimand.engine.tracing.trace import Trace, trace_model
from estimand.engine.variables.store import VariableStore

v1 = tf.compat.v1
OF_SHAPES = {"Shape", "Size", "FloorMod", "GatherV2", "DynamicStitch", "Prod"}
BATCH = np.arange(12, dtype=np.float32).reshape(4, 3)


def traced(loss_of: Callable[[tf.Tensor], tf.Tensor]) -> Trace:
    """A linear model, traced for batches of any size."""

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        weights = v1.get_variable("w", [3, 2], initializer=v1.ones_initializer())
        loss = loss_of(features["x"] @ weights)
        step = v1.train.get_global_step()
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    return trace_model(
        model_fn,
        ModeKeys.TRAIN,
        ({"x": tf.TensorSpec([None, 3])}, None),
        VariableStore(),
        seed=1,
        create_global_step=lambda graph: v1.train.create_global_step(graph),
    )


def targets(trace: Trace) -> list[Any]:
    return [trace.spec.loss, trace.spec.train_op]


def ops_for(trace: Trace, rows: int | None) -> set[str]:
    part = trace.part(targets(trace), [tf.TensorShape([rows, 3])])
    assert part is not None
    return {node.op for node in part.node}


def mean_of_squares(outputs: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.square(outputs))


def mean_of_rows_first(outputs: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.reduce_mean(tf.square(outputs), axis=-1))


LOSSES = [
    mean_of_squares,
    mean_of_rows_first,
    lambda outputs: keras.losses.MeanSquaredError()(tf.zeros_like(outputs), outputs),
    lambda outputs: v1.losses.softmax_cross_entropy(tf.ones_like(outputs), outputs),
]


@pytest.mark.parametrize("loss", LOSSES)
def test_shapes_are_computed_where_batches_differ_and_known_where_they_do_not(loss: Any) -> None:
    trace = traced(loss)
    assert ops_for(trace, None) & OF_SHAPES
    assert not ops_for(trace, 4) & OF_SHAPES


@pytest.mark.parametrize("loss", LOSSES)
def test_models_with_a_mean_may_be_compiled_for_batches_of_one_size(loss: Any) -> None:
    trace = traced(loss)
    shapes = [tf.TensorShape([4, 3])]
    assert gates.compiling_problem(trace, targets(trace), shapes, asked=False) is None


@pytest.mark.parametrize("loss", LOSSES)
def test_the_step_computes_the_same_bits(loss: Any) -> None:
    trace = traced(loss)

    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def any_batch(batch: tf.Tensor) -> Any:
        return trace.place([trace.spec.loss], trace.inputs, [batch])

    @tf.function(input_signature=[tf.TensorSpec([4, 3])])
    def this_batch(batch: tf.Tensor) -> Any:
        return trace.place([trace.spec.loss], trace.inputs, [batch])

    assert any_batch(BATCH)[0].numpy().tobytes() == this_batch(BATCH)[0].numpy().tobytes()


def test_a_step_that_does_not_fit_fails_when_it_runs_as_it_does_otherwise() -> None:
    trace = traced(lambda outputs: tf.reduce_sum(tf.reshape(outputs, [6])))
    assert trace.part(targets(trace), [tf.TensorShape([4, 3])]) is None

    @tf.function(input_signature=[tf.TensorSpec([4, 3])])
    def run(batch: tf.Tensor) -> Any:
        return trace.place([trace.spec.loss], trace.inputs, [batch])

    with pytest.raises(tf.errors.InvalidArgumentError, match="8 values, but the requested shape"):
        run(BATCH)


@pytest.mark.parametrize("asked", [True, False])
def test_random_numbers_are_those_of_a_seed_so_not_those_of_xla(asked: bool) -> None:
    trace = traced(lambda outputs: tf.reduce_mean(tf.nn.dropout(outputs, 0.5)))
    problem = gates.compiling_problem(trace, targets(trace), [tf.TensorShape([4, 3])], asked=asked)
    assert problem is not None and "StatelessRandom" in problem


def test_an_assertion_still_fails_before_what_waits_for_it() -> None:
    def checked(outputs: tf.Tensor) -> tf.Tensor:
        rows = tf.shape(outputs)[0]
        with tf.control_dependencies([tf.raw_ops.Assert(condition=rows < 4, data=["too many"])]):
            return tf.reduce_mean(outputs)

    trace = traced(checked)

    @tf.function(input_signature=[tf.TensorSpec([4, 3])])
    def run(batch: tf.Tensor) -> Any:
        return trace.place([trace.spec.loss], trace.inputs, [batch])

    with pytest.raises(tf.errors.InvalidArgumentError, match="too many"):
        run(BATCH)
