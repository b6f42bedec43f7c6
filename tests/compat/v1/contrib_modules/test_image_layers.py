"""contrib's convolutions and batch normalization, against NumPy and TensorFlow's own ops."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimand.compat.v1 import contrib

v1 = tf.compat.v1
IMAGES = np.random.RandomState(0).normal(size=(2, 6, 6, 3)).astype("float32")


def run(made: object) -> object:
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        return session.run(made)


def test_a_small_network_has_the_variables_of_old_checkpoints() -> None:
    with tf.Graph().as_default():
        net = contrib.layers.conv2d(IMAGES, 4, [3, 3], scope="conv1")
        net = contrib.layers.max_pool2d(net, [2, 2], scope="pool1")
        net = contrib.layers.conv2d_transpose(net, 2, 3, stride=2)
        names = {v.op.name: v.shape.as_list() for v in v1.global_variables()}
        assert run(net).shape == (2, 6, 6, 2)
    assert names == {
        "conv1/weights": [3, 3, 3, 4],
        "conv1/biases": [4],
        "Conv2d_transpose/weights": [3, 3, 2, 4],
        "Conv2d_transpose/biases": [2],
    }


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_transposed_convolutions_grow_as_tensorflow_says(padding: str) -> None:
    with tf.Graph().as_default():
        ones = v1.ones_initializer()
        grown = contrib.layers.conv2d_transpose(
            IMAGES, 1, 3, 2, padding, activation_fn=None, weights_initializer=ones
        )
        size = 12 if padding == "SAME" else 13
        expected = tf.nn.conv2d_transpose(
            IMAGES, tf.ones([3, 3, 1, 3]), [2, size, size, 1], 2, padding
        )
        assert grown.shape == expected.shape
        np.testing.assert_allclose(*run([grown, expected]), rtol=1e-5)


def test_batch_norm_moves_its_averages_in_place_when_told_so() -> None:
    rows = np.array([[1.0], [3.0]], "float32")
    with tf.Graph().as_default(), v1.Session() as session:
        normal = contrib.layers.batch_norm(rows, decay=0.5, updates_collections=None, scope="bn")
        assert not v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        assert [v.op.name for v in v1.trainable_variables()] == ["bn/beta"]
        session.run(v1.global_variables_initializer())
        np.testing.assert_allclose(session.run(normal), [[-1.0], [1.0]], atol=1e-3)
        with v1.variable_scope("bn", reuse=True):
            mean = v1.get_variable("moving_mean")
        assert session.run(mean) == pytest.approx([1.0])
        later = contrib.layers.batch_norm(rows, is_training=False, reuse=True, scope="bn")
        # Mean 1, variance half of 1 and half of the batch's.
        np.testing.assert_allclose(session.run(later), [[0.0], [2.0]], atol=2e-3)


def test_batch_norm_leaves_its_updates_to_the_caller_by_default() -> None:
    with tf.Graph().as_default():
        contrib.layers.batch_norm(IMAGES)
        assert len(v1.get_collection(v1.GraphKeys.UPDATE_OPS)) == 2


def test_arg_scope_gives_layers_what_the_caller_does_not() -> None:
    slim = contrib.slim
    with tf.Graph().as_default():
        with slim.arg_scope(
            [slim.conv2d, slim.fully_connected],
            activation_fn=None,
            normalizer_fn=slim.batch_norm,
            normalizer_params={"is_training": False},
        ) as scope:
            net = slim.repeat(IMAGES, 2, slim.conv2d, 4, 3, scope="conv1")
        with slim.arg_scope(scope):
            slim.fully_connected(slim.flatten(net), 5, normalizer_fn=None, scope="fc")
        names = [v.op.name for v in v1.trainable_variables()]
    assert names == [
        "conv1/conv1_1/weights",
        "conv1/conv1_1/BatchNorm/beta",
        "conv1/conv1_2/weights",
        "conv1/conv1_2/BatchNorm/beta",
        "fc/weights",
        "fc/biases",
    ]


def test_arg_scope_says_what_it_cannot_reach() -> None:
    with (
        pytest.raises(ValueError, match="not decorated with @add_arg_scope"),
        contrib.slim.arg_scope([tf.nn.relu], name="x"),
    ):
        pass
