"""Ops of a step handed to oneDNN: the same numbers, and only where its kernels fit."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.rewriting.convolutions import with_onednn

X = tf.constant(np.random.default_rng(0).normal(size=(3, 9, 11, 2)), tf.float32)
DEPTHWISE = tf.constant(np.random.default_rng(1).normal(size=(3, 3, 2, 2)), tf.float32)
KERNEL = tf.constant(np.random.default_rng(2).normal(size=(5, 5, 4, 6)), tf.float32)
DENSE = tf.constant(np.random.default_rng(3).normal(size=(6, 3)), tf.float32)

needs_kernels = pytest.mark.skipif(
    not tf_private.onednn_kernels_to_ask_for(),
    reason="TensorFlow uses oneDNN by itself here, or has none",
)


def network(x: tf.Tensor, *weights: tf.Tensor, padding: Any = "SAME") -> list[tf.Tensor]:
    """The value and the gradients of something with every op that has a twin."""
    depthwise, kernel, dense = weights
    net = tf.nn.depthwise_conv2d(x, depthwise, [1, 1, 1, 1], "SAME")
    net = tf.nn.max_pool2d(net, 3, 2, "SAME")
    net = tf.nn.relu(tf.nn.conv2d(net, kernel, [1, 2, 2, 1], padding))
    net = tf.nn.avg_pool2d(net, 2, 1, "VALID")
    net = tf.nn.max_pool2d(net, 2, 1, "VALID")
    value = tf.reduce_sum(tf.tanh(tf.matmul(tf.reduce_mean(net, [1, 2]), dense)) ** 2)
    return [value, *tf.gradients(value, [x, *weights])]


def run(build: Any, inputs: list[tf.Tensor], *, rewritten: bool) -> tuple[list, Any]:
    """What `build` gives for the inputs, and how many ops there were of each type."""
    with tf.Graph().as_default() as graph:
        places = [tf.compat.v1.placeholder(t.dtype, t.shape) for t in inputs]
        names = [t.name for t in build(*places)]
    message = graph.as_graph_def()
    if rewritten:
        message = with_onednn(message)
    ops = collections.Counter(node.op for node in message.node)
    fed = [p.name for p in places]

    @tf.function(autograph=False)
    def imported(*values: tf.Tensor) -> list[tf.Tensor]:
        given = dict(zip(fed, values, strict=True))
        return tf.graph_util.import_graph_def(message, given, names)

    return [t.numpy() for t in imported(*inputs)], ops


@needs_kernels
def test_values_and_gradients_are_those_of_the_ordinary_kernels() -> None:
    inputs = [X, DEPTHWISE, KERNEL, DENSE]
    expected, before = run(network, inputs, rewritten=False)
    found, after = run(network, inputs, rewritten=True)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    with_twin = {op: count for op, count in before.items() if tf_private.has_onednn_twin(op)}
    assert len(with_twin) == 11  # both directions of four kinds, the kernels', and products
    assert {op: after[op] for op in with_twin} == dict.fromkeys(with_twin, 0)


def test_what_does_not_fit_stays_as_it_is() -> None:
    wide = [tf.cast(t, tf.float64) for t in (X, DEPTHWISE, KERNEL, DENSE)]
    _, ops = run(network, wide, rewritten=True)
    assert not [op for op in ops if op.startswith("_Mkl")]

    def padded(*inputs: tf.Tensor) -> list[tf.Tensor]:
        return network(*inputs, padding=[[0, 0], [2, 2], [2, 2], [0, 0]])

    with tf.Graph().as_default() as graph:
        padded(*(tf.compat.v1.placeholder(t.dtype, t.shape) for t in (X, DEPTHWISE, KERNEL, DENSE)))
    ops = collections.Counter(node.op for node in with_onednn(graph.as_graph_def()).node)
    assert (ops["Conv2D"], ops["Conv2DBackpropInput"], ops["Conv2DBackpropFilter"]) == (1, 1, 1)


def test_a_pool_gradient_without_its_pool_stays_as_it_is() -> None:
    with tf.Graph().as_default() as graph:
        x, y = (tf.compat.v1.placeholder(tf.float32, [1, 4, 4, 1]) for _ in range(2))
        tf.raw_ops.MaxPoolGrad(
            orig_input=x, orig_output=y, grad=y, ksize=[1, 1, 1, 1], strides=[1, 1, 1, 1],
            padding="SAME",
        )  # fmt: skip
    assert "MaxPoolGrad" in [node.op for node in with_onednn(graph.as_graph_def()).node]
