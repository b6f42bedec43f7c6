"""A smaller graph that computes the same, with every change of a variable in its place."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimand.engine.rewriting import inlining
from estimand.engine.rewriting.inlining import GraphCopy

v1 = tf.compat.v1


def place(wrapped, fetches, feeds, values, *, simplify=True):
    """Run what `fetches` need of a traced graph; their values, and how many ops that took."""
    sizes = []

    @tf.function(autograph=False)
    def run(*given):
        copy = GraphCopy(wrapped.graph)
        graph = v1.get_default_graph()
        before = len(graph.get_operations())
        with pytest.MonkeyPatch.context() as patch:
            if not simplify:
                patch.setattr(inlining, "simplified", lambda part, *_: part)
            placed = copy.place(fetches, feeds, given)
        sizes.append(len(graph.get_operations()) - before)
        return [p for p in placed if not isinstance(p, tf.Operation)]

    return [v.numpy() for v in run(*values)], sizes[0]


def trace(build, *specs):
    built = {}

    def wrapper(*inputs):
        built["result"] = build(*inputs)
        return []

    wrapped = v1.wrap_function(wrapper, list(specs))
    return wrapped, list(wrapped.graph.inputs[: len(specs)]), built["result"]


def test_fewer_ops_give_the_same_gradients() -> None:
    weights = tf.Variable(np.linspace(-1, 1, 12).reshape(4, 3), dtype=tf.float32)
    x = np.linspace(0, 1, 20).reshape(5, 4).astype("float32")
    labels = np.array([0, 1, 2, 1, 0])

    def build(features):
        loss = v1.losses.sparse_softmax_cross_entropy(labels, features @ weights)
        return [loss, *tf.gradients(loss, [weights])]

    wrapped, inputs, fetches = trace(build, tf.TensorSpec([5, 4]))
    plain, before = place(wrapped, fetches, inputs, [x], simplify=False)
    fewer, after = place(wrapped, fetches, inputs, [x])
    assert after < before / 2
    logits = x @ weights.numpy()
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    expected = -np.log(probabilities[np.arange(5), labels]).mean()
    gradient = x.T @ (probabilities - np.eye(3)[labels]) / 5
    for found in (plain, fewer):
        np.testing.assert_allclose(found[0], expected, rtol=1e-5)
        np.testing.assert_allclose(found[1], gradient, rtol=1e-4, atol=1e-6)


def test_reads_see_the_changes_they_wait_for_and_no_others() -> None:
    counter = tf.Variable(10.0)

    def build():
        before = counter.read_value()
        with tf.control_dependencies([before]):
            first = counter.assign_add(1.0, read_value=False)
        with tf.control_dependencies([first]):
            between = counter.read_value()
        with tf.control_dependencies([between]):
            second = counter.assign(counter * 3.0, read_value=False)
        with tf.control_dependencies([second]):
            after = counter.read_value()
        return [before + 0.0, between + 0.0, after + 0.0]

    wrapped, inputs, fetches = trace(build)
    values, _ = place(wrapped, fetches, inputs, [])
    assert values[0] == 10.0 and values[1] == 11.0 and values[2] in (30.0, 33.0)
    assert counter.numpy() == values[2]


def test_an_op_that_only_changes_something_is_run() -> None:
    counter = tf.Variable(0)
    wrapped, inputs, fetches = trace(lambda: [counter.assign_add(5, read_value=False)])
    place(wrapped, fetches, inputs, [])
    assert counter.numpy() == 5


def test_a_fed_tensor_replaces_what_would_have_computed_it() -> None:
    def build(x):
        middle = tf.identity(x * 2.0, name="middle")
        return [middle + 1.0]

    wrapped, inputs, fetches = trace(build, tf.TensorSpec([]))
    middle = wrapped.graph.get_tensor_by_name("middle:0")
    values, _ = place(wrapped, fetches, [*inputs, middle], [tf.constant(1.0), tf.constant(50.0)])
    assert values == [51.0]


def test_nothing_but_what_is_given_needs_no_graph() -> None:
    wrapped, inputs, fetches = trace(lambda x: [x], tf.TensorSpec([]))
    values, ops = place(wrapped, fetches, inputs, [tf.constant(3.0)])
    assert (values, ops) == ([3.0], 0)


def test_a_shape_that_waits_for_a_check_is_computed_after_it() -> None:
    def build(labels):
        with tf.control_dependencies([tf.debugging.assert_non_negative(labels)]):
            count = tf.size(labels)
        return [tf.cast(count, tf.float32) * 2.0]

    wrapped, inputs, fetches = trace(build, tf.TensorSpec([None], tf.int32))
    assert place(wrapped, fetches, inputs, [np.array([1, 2, 3], np.int32)])[0] == [6.0]
    with pytest.raises(tf.errors.InvalidArgumentError):
        place(wrapped, fetches, inputs, [np.array([1, -2, 3], np.int32)])
