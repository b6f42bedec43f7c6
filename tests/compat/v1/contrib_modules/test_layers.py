"""Layers of contrib against formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.compat.v1 import contrib

v1 = tf.compat.v1
layers = contrib.layers


def computed(build: Callable[[], Any]) -> tuple[Any, dict[str, np.ndarray]]:
    """What a graph gives, with random variables, and those by name."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(3)
        made = build()
        session.run(v1.global_variables_initializer())
        random = np.random.RandomState(1)
        for variable in v1.trainable_variables():
            variable.load(random.normal(size=variable.shape.as_list()), session)
        return session.run([made, {v.op.name: v for v in v1.global_variables()}])


def images(*shape: int) -> np.ndarray:
    return np.random.RandomState(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("groups", "layout"), [(2, "NHWC"), (3, "NCHW"), (6, "NHWC")])
def test_group_norm(groups: int, layout: str) -> None:
    x = images(2, 5, 4, 6)
    given = x if layout == "NHWC" else x.transpose(0, 3, 1, 2)
    axes = ((-3, -2), -1) if layout == "NHWC" else ((-2, -1), -3)
    made, variables = computed(
        lambda: layers.group_norm(given, groups, axes[1], axes[0], epsilon=1e-6)
    )
    made = made if layout == "NHWC" else made.transpose(0, 2, 3, 1)
    parts = x.reshape(2, 20, groups, 6 // groups)
    mean, spread = parts.mean((1, 3), keepdims=True), parts.std((1, 3), keepdims=True)
    normal = ((parts - mean) / spread).reshape(x.shape)
    expected = normal * variables["GroupNorm/gamma"] + variables["GroupNorm/beta"]
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-4)


def test_instance_norm() -> None:
    x = images(2, 5, 4, 3)
    made, variables = computed(lambda: layers.instance_norm(x, activation_fn=tf.nn.relu))
    normal = (x - x.mean((1, 2), keepdims=True)) / x.std((1, 2), keepdims=True)
    expected = normal * variables["InstanceNorm/gamma"] + variables["InstanceNorm/beta"]
    np.testing.assert_allclose(made, np.maximum(expected, 0), rtol=1e-4, atol=1e-4)


def test_separable_convolution() -> None:
    x = images(2, 6, 6, 3)
    made, v = computed(
        lambda: layers.separable_conv2d(x, 5, 3, depth_multiplier=2, stride=2, activation_fn=None)
    )
    assert sorted(v) == [f"SeparableConv2d/{n}" for n in
                         ("biases", "depthwise_weights", "pointwise_weights")]  # fmt: skip
    expected = tf.nn.separable_conv2d(
        x,
        v["SeparableConv2d/depthwise_weights"],
        v["SeparableConv2d/pointwise_weights"],
        [1, 2, 2, 1],
        "SAME",
    )
    np.testing.assert_allclose(made, expected + v["SeparableConv2d/biases"], rtol=1e-4, atol=1e-4)
    depthwise, v = computed(lambda: layers.separable_conv2d(x, None, 3, activation_fn=None))
    assert depthwise.shape == (2, 6, 6, 3)
    assert "SeparableConv2d/pointwise_weights" not in v


def test_one_filter_for_all_channels() -> None:
    x = images(2, 6, 6, 3)
    made, v = computed(lambda: layers.conv2d_in_plane(x, [1, 3], activation_fn=None))
    weights = v["ConvInPlane/weights"]
    assert weights.shape == (1, 3, 1, 1)
    for channel in range(3):
        one = tf.nn.conv2d(x[..., channel : channel + 1], weights, 1, "SAME")[..., 0]
        expected = one + v["ConvInPlane/biases"][channel]
        np.testing.assert_allclose(made[..., channel], expected, rtol=1e-4, atol=1e-5)


def test_transposed_convolution_over_three_dimensions() -> None:
    x = images(2, 3, 4, 5, 2)
    made, v = computed(lambda: layers.conv3d_transpose(x, 3, 3, stride=2, activation_fn=None))
    expected = tf.nn.conv3d_transpose(
        x, v["Conv3d_transpose/weights"], [2, 6, 8, 10, 3], [1, 2, 2, 2, 1]
    )
    np.testing.assert_allclose(made, expected + v["Conv3d_transpose/biases"], rtol=1e-4, atol=1e-4)


def test_maxout_bias_unit_norm_and_gradients() -> None:
    x = images(4, 6)
    made, v = computed(
        lambda: (
            layers.maxout(x, 2),
            layers.bias_add(x, activation_fn=tf.nn.relu),
            layers.unit_norm(x, 1),
            layers.relu6(x, 2, scope="six"),
        )
    )
    np.testing.assert_allclose(made[0], x.reshape(4, 2, 3).max(2))
    np.testing.assert_allclose(made[1], np.maximum(x + v["BiasAdd/biases"], 0), rtol=1e-5)
    length = np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(made[2], x / length, rtol=1e-4)
    six = np.clip(x @ v["six/weights"] + v["six/biases"], 0, 6)
    np.testing.assert_allclose(made[3], six, rtol=1e-4, atol=1e-5)
    with tf.GradientTape() as tape:
        variable = tf.Variable(3.0)
        y = layers.scale_gradient(variable**2, 0.5)
    assert float(tape.gradient(y, variable)) == 3.0


def test_lookups() -> None:
    ids = np.array([[1, 2, 1], [0, 1, 1]])
    made, v = computed(
        lambda: (
            layers.bow_encoder(ids, 4, 2),
            layers.embedding_lookup_unique(v1.get_variable("table", [4, 2]), ids),
        )
    )
    np.testing.assert_allclose(made[0], v["bow_encoder/embeddings"][ids].mean(1), rtol=1e-5)
    np.testing.assert_array_equal(made[1], v["table"][ids])
    sparse = layers.dense_to_sparse(ids, eos_token=1)
    assert sparse.values.numpy().tolist() == [2, 0]
    assert sparse.indices.numpy().tolist() == [[0, 1], [1, 0]]


def test_spatial_softmax_finds_a_bright_spot() -> None:
    x = np.zeros((1, 5, 5, 1), np.float32)
    x[0, 1, 4, 0] = 100.0
    np.testing.assert_allclose(layers.spatial_softmax(x), [[1.0, -0.5]], atol=1e-5)


def test_summaries() -> None:
    with tf.Graph().as_default():
        v1.add_to_collection(v1.GraphKeys.ACTIVATIONS, tf.nn.relu(tf.ones([2]), name="hidden"))
        layers.summarize_activations()
        layers.summarize_tensor(tf.constant(1.0, name="one"))
        tags = [one.op.name for one in v1.get_collection(v1.GraphKeys.SUMMARIES)]
        assert tags == ["hidden/zeros", "hidden/activation", "one_1"]
