"""What the layers say when something is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from estimand.compat.v1 import layers
from estimand.core.errors import EstimandError

v1 = tf.compat.v1


def placeholder(*shape: int | None, dtype: Any = tf.float32) -> Any:
    return v1.placeholder(dtype, [None, *shape])


class Nothing(layers.Layer):
    def call(self, inputs: Any) -> Any:
        return None


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "undefined last dimension": (
        lambda: layers.dense(placeholder(None), 2),
        "The last dimension of the inputs to `Dense` should be defined. Found `None`.",
    ),
    "unknown rank": (
        lambda: layers.dense(v1.placeholder(tf.float32), 2),
        "The last dimension of the inputs to `Dense` should be defined. Found `None`.",
    ),
    "rank too low": (
        lambda: layers.dense(placeholder(), 2),
        "Input 0 of layer dense is incompatible with the layer: "
        "expected min_ndim=2, found ndim=1. Full shape received: (None,)",
    ),
    "rank of an image": (
        lambda: layers.conv2d(placeholder(5, 3), 2, 3, name="stem"),
        "Input 0 of layer stem is incompatible with the layer: "
        "expected ndim=4, found ndim=3. Full shape received: (None, 5, 3)",
    ),
    "undefined channels": (
        lambda: layers.conv2d(placeholder(5, 5, None), 2, 3),
        "The channel dimension of the inputs should be defined.",
    ),
    "units": (
        lambda: layers.dense(placeholder(3), -1),
        "Received an invalid value for `units`, expected a positive integer. Received: units=-1",
    ),
    "kernel size of wrong length": (
        lambda: layers.conv2d(placeholder(5, 5, 3), 2, (3, 3, 3)),
        "The `kernel_size` argument must be a tuple of 2 integers. Received: (3, 3, 3)",
    ),
    "kernel size no number": (
        lambda: layers.conv1d(placeholder(5, 3), 2, "wide"),
        "The `kernel_size` argument must be a tuple of 1 integers. Received: 'wide'",
    ),
    "strides of zero": (
        lambda: layers.conv2d(placeholder(5, 5, 3), 2, 3, strides=0),
        "every one of them must be greater than 0",
    ),
    "strides and dilation": (
        lambda: layers.conv2d(placeholder(5, 5, 3), 2, 3, strides=2, dilation_rate=2),
        "`strides > 1` not supported in conjunction with `dilation_rate > 1`.",
    ),
    "padding": (
        lambda: layers.conv2d(placeholder(5, 5, 3), 2, 3, padding="full"),
        'The `padding` argument must be one of "valid", "same". Received: \'full\'',
    ),
    "causal in 2-D": (
        lambda: layers.conv2d(placeholder(5, 5, 3), 2, 3, padding="causal"),
        "Causal padding is only supported for `Conv1D` and `SeparableConv1D`.",
    ),
    "data format": (
        lambda: layers.conv2d(placeholder(5, 5, 3), 2, 3, data_format="NHWC"),
        "Received: 'NHWC'. Write data_format=\"channels_last\".",
    ),
    "pool without strides": (
        lambda: layers.max_pooling2d(placeholder(5, 5, 3), 2, None),
        "Argument `strides` must not be None.",
    ),
    "activation": (
        lambda: layers.dense(placeholder(3), 2, activation="relo"),
        "'relo' names none of the activations.",
    ),
    "dropout rate": (
        lambda: layers.dropout(placeholder(3), 1.5),
        "Invalid value 1.5 received for `rate`, expected a value between 0 and 1.",
    ),
    "renorm": (
        lambda: layers.batch_normalization(placeholder(3), renorm=True),
        "batch_normalization does not support `renorm` (received True)",
    ),
    "virtual batch size": (
        lambda: layers.batch_normalization(placeholder(3), virtual_batch_size=2),
        "batch_normalization does not support `virtual_batch_size` (received 2)",
    ),
    "adjustment": (
        lambda: layers.batch_normalization(placeholder(3), adjustment=lambda shape: (1, 0)),
        "batch_normalization does not support `adjustment`",
    ),
    "axis out of range": (
        lambda: layers.batch_normalization(placeholder(3), axis=4),
        "Expected 0 <= axis < inputs.rank (with inputs.rank=2). Received: axis=(4,)",
    ),
    "axis twice": (
        lambda: layers.batch_normalization(placeholder(3), axis=[1, -1]),
        "Duplicate axis: (1, 1)",
    ),
    "undefined axis": (
        lambda: layers.batch_normalization(placeholder(None)),
        "Input has undefined `axis` dimension.",
    ),
    "no output": (
        lambda: Nothing()(placeholder(3)),
        "should return a Tensor or a list of Tensors, not None (layer: nothing)",
    ),
    "scope name too early": (
        lambda: layers.Dense(2).scope_name,
        'No name available for layer scope because the layer "dense" has not been used yet.',
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_message_says_what_is_wrong(mistake: str) -> None:
    make, message = MISTAKES[mistake]
    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match=re.escape(message)) as raised,
    ):
        make()
    assert isinstance(raised.value, EstimandError)


TYPE_MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "integers into dense": (
        lambda: layers.dense(placeholder(3, dtype=tf.int32), 2),
        "A Dense layer can only be built with a floating-point dtype. Received: dtype=int32.",
    ),
    "integers into batch normalization": (
        lambda: layers.batch_normalization(placeholder(3, dtype=tf.int32)),
        "BatchNormalization needs inputs of a floating-point dtype. Received: dtype=int32.",
    ),
    "axis": (
        lambda: layers.batch_normalization(placeholder(3), axis="last"),
        "Expected an int or a list/tuple of ints for the argument 'axis', but received: 'last'",
    ),
    "unknown argument": (
        lambda: layers.Dense(2, unit=3),
        "Keyword argument not understood by Dense: 'unit'",
    ),
}


@pytest.mark.parametrize("mistake", TYPE_MISTAKES)
def test_the_message_says_which_type_is_wrong(mistake: str) -> None:
    make, message = TYPE_MISTAKES[mistake]
    with (
        tf.Graph().as_default(),
        pytest.raises(TypeError, match=re.escape(message)) as raised,
    ):
        make()
    assert isinstance(raised.value, EstimandError)


def test_a_second_call_with_another_size() -> None:
    with tf.Graph().as_default():
        layer = layers.Dense(2)
        layer(placeholder(3))
        with pytest.raises(ValueError, match="expected axis -1 of input shape to have value 3"):
            layer(placeholder(4))


def test_a_name_used_twice_without_reuse() -> None:
    with tf.Graph().as_default():
        layers.dense(placeholder(3), 2, name="logits")
        with pytest.raises(ValueError, match="Variable logits/kernel already exists"):
            layers.dense(placeholder(3), 2, name="logits")
