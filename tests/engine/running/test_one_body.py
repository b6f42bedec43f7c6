"""What is computed does not depend, in a single bit, on what is looked at beside it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.rewriting import simplifying
from estimand.engine.rewriting.inlining import GraphCopy
from estimand.engine.rewriting.op_kinds import call_tree
from estimand.engine.running.compiled import PLAIN, SINGLE_THREAD, Compiled

v1 = tf.compat.v1
ROWS = np.random.RandomState(0).uniform(0, 255, (8, 12)).astype("float32")


def trace(build, *specs):
    built = {}

    def wrapper(*inputs):
        built["result"] = build(*inputs)
        return []

    wrapped = v1.wrap_function(wrapper, list(specs))
    return wrapped.graph, list(wrapped.graph.inputs[: len(specs)]), built["result"]


def run(graph, inputs, fetches, values, mode):
    def build(*given):
        placed = GraphCopy(graph).place(fetches, inputs, given)
        return [p for p in placed if not isinstance(p, tf.Operation)]

    values = [tf.constant(v) for v in values]
    return [r.numpy() for r in Compiled(build, mode, *values)(*values)]


def scaled(features):
    image = features / 255.0
    return image / 0.3081, image


def three_branches(features):
    weights = [np.random.RandomState(i).randn(12, 12).astype("float32") for i in range(3)]
    first = features @ weights[0] + features @ weights[1]
    return features + (first + features @ weights[2]), first


def divided_twice(features):
    halves = features / 3.0
    return (halves - 0.5) * 2.0 / 7.0, halves


@pytest.mark.parametrize("mode", [PLAIN, SINGLE_THREAD])
@pytest.mark.parametrize("model", [scaled, three_branches, divided_twice])
def test_looking_at_what_lies_between_changes_no_bit(model, mode) -> None:
    graph, inputs, (result, between) = trace(model, tf.TensorSpec([None, 12]))
    [unseen] = run(graph, inputs, [result], [ROWS], mode)
    seen, looked_at = run(graph, inputs, [result, between], [ROWS], mode)
    assert unseen.tobytes() == seen.tobytes()
    [alone] = run(graph, inputs, [between], [ROWS], mode)
    assert alone.tobytes() == looked_at.tobytes()


def nodes_of(build, fetch_names, *specs):
    graph, _, fetches = trace(build, *specs)
    wanted = [fetches[i].name for i in fetch_names]
    part = simplifying.simplified(graph.as_graph_def(), wanted, graph)
    return {node.name: node for node in part.node}


def test_arithmetic_of_static_shapes_becomes_a_constant() -> None:
    def build(x):
        size = tf.raw_ops.Size(input=x) + tf.raw_ops.Rank(input=x)
        return [tf.cast(size, tf.float32) * tf.reduce_sum(x)]

    found = nodes_of(build, [0], tf.TensorSpec([3, 4]))
    assert sorted(n.op for n in found.values() if n.op != "Placeholder") == [
        "Const",
        "Const",
        "Mul",
        "Sum",
    ]


def test_shapes_that_are_not_known_stay_open() -> None:
    found = nodes_of(lambda x: [tf.raw_ops.Size(input=x)], [0], tf.TensorSpec([None, 4]))
    assert "Size" in {n.op for n in found.values()}


def test_large_results_are_not_kept_as_constants() -> None:
    found = nodes_of(lambda: [tf.raw_ops.Fill(dims=[2000], value=1.0) * 2.0], [0])
    assert "Fill" in {n.op for n in found.values()}


@pytest.mark.parametrize(
    ("op", "build"),
    [
        ("If", lambda x: v1.Assert(tf.reduce_all(x < 3.0), [x])),
        ("CheckNumerics", lambda x: tf.debugging.check_numerics(x, "bad")),
        ("FloorDiv", lambda x: tf.constant(3) // tf.cast(x[0], tf.int32)),
        ("GatherV2", lambda x: tf.gather(x, tf.cast(x[0], tf.int32))),
        ("StridedSlice", lambda x: x[tf.cast(x[0], tf.int32)]),
        ("Slice", lambda x: tf.slice(x, [tf.cast(x[0], tf.int32)], [1])),
    ],
)
def test_what_may_fail_is_run_though_nobody_uses_it(op, build) -> None:
    def with_check(x):
        with tf.control_dependencies([build(x)]):
            return [tf.identity(x) * 2.0]

    graph, _, fetches = trace(with_check, tf.TensorSpec([None]))
    ops = {
        n.op for n in simplifying.simplified(graph.as_graph_def(), [fetches[0].name], graph).node
    }
    assert op in ops


def test_a_gradient_that_only_others_wait_for_goes() -> None:
    def build(x, y):
        unused = tf.matmul(x, y)
        with tf.control_dependencies([unused]):
            return [tf.identity(x) + 1.0]

    found = nodes_of(build, [0], tf.TensorSpec([2, 2]), tf.TensorSpec([2, 2]))
    assert "MatMul" not in {n.op for n in found.values()}


def test_waiting_passes_through_what_goes() -> None:
    counter = tf.Variable(1.0)

    def build():
        changed = counter.assign_add(1.0, read_value=False)
        with tf.control_dependencies([changed]):
            group = tf.no_op()
        with tf.control_dependencies([group]):
            handed_on = tf.identity(tf.constant(2.0))
        with tf.control_dependencies([handed_on]):
            return [counter.read_value() + 0.0]

    graph, inputs, fetches = trace(build)
    assert run(graph, inputs, fetches, [], PLAIN) == [2.0]


def test_multiplying_by_one_goes_unless_it_widens() -> None:
    def build(x):
        return [x * 1.0, x * tf.ones([3, 1])]

    found = nodes_of(build, [0, 1], tf.TensorSpec([4]))
    assert sum(n.op == "Mul" for n in found.values()) == 2  # one is fetched itself
    graph, _, fetches = trace(lambda x: [tf.exp(x * 1.0)], tf.TensorSpec([4]))
    part = simplifying.simplified(graph.as_graph_def(), [fetches[0].name], graph)
    assert "Mul" not in {n.op for n in part.node}


def changes_functions(graph):
    """For each call of a function in a graph: whether the graph optimizer is to change it."""
    calls = [node for node in call_tree(graph) if node.op.endswith("PartitionedCall")]
    configs = [v1.ConfigProto.FromString(node.attr["config_proto"].s) for node in calls]
    return [not c.graph_options.rewrite_options.disable_meta_optimizer for c in configs]


def calling(x):
    inner = tf.function(lambda x: x + tf.roll(x, 1, 0) + tf.roll(x, 2, 0))
    return tf.function(lambda x: inner(x) * 2.0)(x)


def test_functions_that_are_called_run_as_they_were_built() -> None:
    """In a trace each call says so; what a function calls in turn, too."""
    with tf_private.calls_as_they_are():
        graph, _, _ = trace(lambda x: [calling(x)], tf.TensorSpec([4]))
    assert changes_functions(graph) == [False, False]
    graph, _, _ = trace(lambda x: [calling(x)], tf.TensorSpec([4]))
    assert changes_functions(graph) == [True, True]


@pytest.mark.parametrize("mode", [PLAIN, SINGLE_THREAD])
def test_steps_that_are_called_in_a_block_run_as_they_were_built(mode) -> None:
    """As those of a team are: alone, with a look, they are no function."""
    compiled = Compiled(lambda x: [calling(x)], mode, tf.ones([4]))
    assert changes_functions(compiled._function.graph) == [False, False]
