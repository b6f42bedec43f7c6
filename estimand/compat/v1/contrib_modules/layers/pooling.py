"""`tf.contrib.layers`: pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.compat.v1.contrib_modules.framework.arg_scope import add_arg_scope
from estimand.compat.v1.contrib_modules.layers import utils

v1 = tf.compat.v1


def _pooling(name: str, pool: Callable[..., Any], rank: int, layout: str, what: str) -> Any:
    def pooled(
        inputs: Any,
        kernel_size: Any,
        stride: Any = 2,
        padding: str = "VALID",
        data_format: str | None = layout,
        outputs_collections: Any = None,
        scope: str | None = None,
    ) -> tf.Tensor:
        window = utils.n_positive_integers(rank, kernel_size)
        strides = utils.n_positive_integers(rank, stride)
        with v1.name_scope(scope, what, [inputs]) as here:
            outputs = pool(inputs, window, strides, padding.upper(), data_format or layout)
            return utils.collect_named_outputs(outputs_collections, here, outputs)

    pooled.__name__ = pooled.__qualname__ = name
    return add_arg_scope(pooled)


max_pool2d = _pooling("max_pool2d", tf.nn.max_pool2d, 2, "NHWC", "MaxPool2D")
avg_pool2d = _pooling("avg_pool2d", tf.nn.avg_pool2d, 2, "NHWC", "AvgPool2D")
max_pool3d = _pooling("max_pool3d", tf.nn.max_pool3d, 3, "NDHWC", "MaxPool3D")
avg_pool3d = _pooling("avg_pool3d", tf.nn.avg_pool3d, 3, "NDHWC", "AvgPool3D")


@add_arg_scope
def pool(
    inputs: Any,
    kernel_size: Any,
    pooling_type: str,
    padding: str = "VALID",
    data_format: str | None = None,
    dilation_rate: Any = 1,
    stride: Any = 1,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> tf.Tensor:
    """Pooling over any number of dimensions, by "AVG" or "MAX"."""
    with v1.name_scope(scope, f"{pooling_type.lower()}_pool", [inputs]) as here:
        rank = inputs.shape.rank - 2
        window, rate, strides = (
            list(utils.n_positive_integers(rank, size))
            for size in (kernel_size, dilation_rate, stride)
        )
        outputs = tf.nn.pool(
            inputs, window, pooling_type.upper(), strides, padding.upper(), data_format, rate
        )
        return utils.collect_named_outputs(outputs_collections, here, outputs)


def spatial_softmax(
    features: Any,
    temperature: Any = 1.0,
    name: str | None = None,
    variables_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
) -> tf.Tensor:
    """For each channel the place, from -1 to 1, where it is strongest: [batch, 2 * channels]."""
    with v1.variable_scope(name, "spatial_softmax"):
        features = tf.convert_to_tensor(features)
        if data_format == "NHWC":
            features = tf.transpose(features, [0, 3, 1, 2])
        _, channels, height, width = features.shape.as_list()
        if temperature is None:
            temperature = v1.get_variable(
                "temperature",
                (),
                tf.float32,
                v1.ones_initializer(),
                trainable=trainable,
                collections=variables_collections,
            )
        x, y = tf.meshgrid(tf.linspace(-1.0, 1.0, width), tf.linspace(-1.0, 1.0, height))
        where = tf.nn.softmax(tf.reshape(features, [-1, height * width]) / temperature)
        places = [tf.reduce_sum(tf.reshape(at, [-1]) * where, 1, keepdims=True) for at in (x, y)]
        return tf.reshape(tf.concat(places, 1), [-1, channels * 2])
