"""Which ways of running a step are open to it: what is known to be safe, in all that it calls."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import tensorflow as tf

from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.engine import block_mode
from estimand.engine.running import gates
from estimand.engine.running.compiled import PLAIN, SINGLE_THREAD
from estimand.engine.tracing.trace import trace_model
from estimand.engine.variables.store import VariableStore

v1 = tf.compat.v1
OUTSIDE = tf.Variable(0.0)
SPEC = ({"x": tf.TensorSpec([4, 3]), "ids": tf.TensorSpec([4], tf.int32)}, None)


def traced(extra):
    """A trace of a small linear model with `extra(features)` added to its loss."""

    def model_fn(features, labels, mode):
        weights = v1.get_variable("w", [3, 1], initializer=v1.ones_initializer())
        loss = tf.reduce_mean(tf.square(features["x"] @ weights)) + extra(features)
        step = v1.train.get_global_step()
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    def step(graph):
        return v1.train.create_global_step(graph)

    return trace_model(
        model_fn, ModeKeys.TRAIN, SPEC, VariableStore(), seed=1, create_global_step=step
    )


def compiling(trace, asked=False):
    targets = [trace.spec.loss, trace.spec.train_op]
    shapes = [t.shape for t in trace.inputs]
    return gates.compiling_problem(trace, targets, shapes, asked=asked)


def trying(trace):
    return gates.trial_problem(trace, [trace.spec.loss, trace.spec.train_op])


def in_function(extra):
    return lambda features: tf.function(extra)(features)


def in_branch(extra):
    def either(features):
        return tf.cond(features["x"][0, 0] < 1e9, lambda: extra(features), lambda: 0.0)

    return either


def in_loop(extra):
    def looping(features):
        return tf.while_loop(lambda i, _: i < 2, lambda i, _: (i + 1, extra(features)), (0, 0.0))[1]

    return looping


def checked(features):
    return tf.reduce_sum(tf.debugging.check_numerics(features["x"], "bad"))


def asserted(features):
    with tf.control_dependencies([v1.Assert(tf.reduce_all(features["ids"] < 9), ["too large"])]):
        return tf.constant(0.0)


def divided(features):
    return tf.cast(tf.reduce_sum(7 // features["ids"]), tf.float32)


def segmented(features):
    return tf.reduce_sum(tf.math.unsorted_segment_sum(features["x"], features["ids"], 4))


def gathered(features):
    return tf.reduce_sum(tf.gather(tf.eye(3), features["ids"]))


def labelled(features):
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=features["ids"], logits=tf.stop_gradient(features["x"])
        )
    )


def indexed(features):
    return tf.reduce_sum(features["x"][features["ids"][0]])


def sliced(features):
    return tf.reduce_sum(tf.slice(features["x"], [features["ids"][0], 0], [1, 3]))


CLOSED = [checked, asserted, divided, segmented, gathered, indexed, sliced]


@pytest.mark.parametrize("extra", [*CLOSED, labelled])
@pytest.mark.parametrize("where", [in_function, in_branch, in_loop])
def test_xla_is_closed_to_what_it_would_not_check_wherever_it_stands(extra, where) -> None:
    problem = compiling(traced(where(extra)))
    assert problem is not None and problem.startswith("it uses the op")


def asserted_of_weights(features):
    return asserted({"ids": tf.cast(v1.trainable_variables()[0], tf.int32)})


@pytest.mark.parametrize("extra", [c for c in (*CLOSED, asserted_of_weights) if c is not asserted])
def test_xla_is_closed_to_unchecked_ops_at_the_top(extra) -> None:
    assert "it uses the op" in (compiling(traced(extra)) or "")


def twice_asserted(features):
    with tf.control_dependencies([tf.debugging.assert_non_negative(features["ids"])]):
        return asserted({"ids": tf.identity(features["ids"])})


@pytest.mark.parametrize("extra", [asserted, twice_asserted])
def test_xla_is_open_to_assertions_of_nothing_but_the_batch(extra) -> None:
    assert compiling(traced(extra)) is None


def test_xla_is_closed_to_assertions_that_it_may_judge_otherwise() -> None:
    """A sum of floats comes out differently in its last bits."""

    def sums(features):
        return asserted({"ids": tf.reduce_sum(features["x"], 1)})

    assert "it uses the op" in (compiling(traced(sums)) or "")


@pytest.mark.parametrize("asked", [False, True])
def test_xla_is_closed_to_labels_that_are_computed(asked) -> None:
    def shifted(features):
        return labelled({**features, "ids": features["ids"] + 1})

    assert "SparseSoftmax" in (compiling(traced(shifted), asked) or "")
    assert compiling(traced(labelled), asked) is None


def parts(features):
    x = features["x"]
    return tf.reduce_sum(x[1:3, 0]) + tf.reduce_sum(x[tf.shape(x)[1] :]) + x[-1, 2]


def squares(features):
    return tf.reduce_sum(tf.tanh(features["x"]) ** 2 / 3.0)


@pytest.mark.parametrize("extra", [squares, parts])
@pytest.mark.parametrize("where", [lambda extra: extra, in_function])
def test_arithmetic_may_be_compiled_and_tried(extra, where) -> None:
    trace = traced(where(extra))
    assert compiling(trace) is None
    assert trying(trace) is None


@pytest.mark.parametrize("extra", [gathered, indexed, sliced])
def test_lookups_are_compiled_only_if_asked_for(extra) -> None:
    trace = traced(extra)
    assert compiling(trace) is not None
    assert compiling(trace, asked=True) is None


def python_inside(features):
    return tf.reduce_sum(tf.py_function(lambda x: x, [features["x"]], tf.float32))


def printed(features):
    with tf.control_dependencies([tf.print("step")]):
        return tf.constant(0.0)


def counted_outside(features):
    with tf.control_dependencies([OUTSIDE.assign_add(1.0, read_value=False)]):
        return tf.constant(0.0)


@pytest.mark.parametrize("extra", [python_inside, printed, counted_outside])
@pytest.mark.parametrize("where", [lambda extra: extra, in_function, in_branch, in_loop])
def test_what_others_would_see_is_not_tried(extra, where) -> None:
    assert trying(traced(where(extra))) is not None


def test_a_generators_state_is_not_moved_by_a_trial() -> None:
    generator = tf.random.Generator.from_seed(1)
    trace = traced(lambda features: tf.reduce_sum(generator.normal([2])))
    assert trying(trace) is not None


def test_looking_up_in_a_table_may_be_tried_inserting_not() -> None:
    keys, values = tf.constant([1], tf.int64), tf.constant([2], tf.int64)
    initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
    fixed = tf.lookup.StaticHashTable(initializer, 0)
    mutable = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)

    def looks_up(features):
        return tf.cast(tf.reduce_sum(fixed.lookup(keys)), tf.float32)

    def inserts(features):
        with tf.control_dependencies([mutable.insert(keys, values)]):
            return tf.constant(0.0)

    assert trying(traced(looks_up)) is None
    assert trying(traced(inserts)) is not None


# Devices


def test_one_cpu_may_take_the_single_threaded_executor() -> None:
    trace = traced(squares)
    assert gates.device_problem(trace) is None
    assert block_mode.guess(trace) == SINGLE_THREAD


@pytest.mark.parametrize("kind", ["GPU", "TPU", "XPU"])
def test_any_other_device_in_sight_means_the_ordinary_executor(monkeypatch, kind) -> None:
    trace = traced(squares)
    devices = [SimpleNamespace(device_type="CPU"), SimpleNamespace(device_type=kind)]
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda *_: devices)
    assert f"sees a {kind}" in gates.device_problem(trace)
    assert block_mode.guess(trace) == PLAIN
    assert not block_mode.may_be_tried(trace, [trace.spec.train_op])
    assert compiling(trace) is not None


@pytest.mark.parametrize("where", [lambda extra: extra, in_function, in_branch])
def test_an_op_placed_on_another_device_means_the_ordinary_executor(where) -> None:
    def on_second(features):
        with tf.device("/CPU:1"):
            return tf.reduce_sum(tf.exp(features["x"]))

    trace = traced(where(on_second))
    assert "placed on" in gates.device_problem(trace)
    assert block_mode.guess(trace) == PLAIN


def test_the_first_cpu_by_name_is_no_other_device() -> None:
    def on_first(features):
        with tf.device("/device:CPU:0"):
            return tf.reduce_sum(tf.exp(features["x"]))

    assert gates.device_problem(traced(on_first)) is None


def test_what_a_hook_adds_on_another_device_is_seen_though_the_graph_was_looked_at() -> None:
    trace = traced(squares)
    assert gates.device_problem(trace) is None
    with trace.as_default(), tf.device("/CPU:1"):
        tf.constant(1.0)
    assert "placed on" in gates.device_problem(trace)
