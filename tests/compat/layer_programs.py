"""Small programs over v1 layers, and what they do when run: the same for every implementation.

`data/make_oracle.py` runs them on `tf.compat.v1.layers` of TensorFlow 2.15 and keeps the records;
the tests run them on ours and compare. All weights are set to fixed numbers, nothing is random.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


@dataclass(frozen=True)
class Program:
    """`build(layers, inputs, **layout)` makes the graph; `layout` may carry a data_format."""

    build: Callable[..., Any]
    input_shape: tuple[int, ...]


def penalty(weights: Any) -> Any:
    return 0.1 * tf.reduce_sum(tf.square(weights))


def two_dense(layers: Any, x: Any) -> Any:
    return layers.dense(layers.dense(x, 3, activation=tf.nn.relu), 2)


def dense_in_scopes(layers: Any, x: Any) -> Any:
    with v1.variable_scope("tower"):
        first = layers.dense(x, 2) + layers.dense(x, 2) + layers.dense(x, 2, name="last")
    with v1.variable_scope("tower", reuse=True):
        again = layers.dense(x, 2) + layers.dense(x, 2) + layers.dense(x, 2, name="last")
    return first - 2 * again


def dense_reused_by_name(layers: Any, x: Any) -> Any:
    one = layers.dense(x, 2, name="shared", kernel_regularizer=penalty)
    two = layers.dense(2 * x, 2, name="shared", kernel_regularizer=penalty, reuse=True)
    three = layers.dense(3 * x, 2, name="shared", reuse=v1.AUTO_REUSE)
    return one + two + three + layers.dense(x, 2)


def dense_auto_reuse(layers: Any, x: Any) -> Any:
    outputs = []
    for _ in range(2):
        with v1.variable_scope("net", reuse=v1.AUTO_REUSE):
            outputs.append(layers.dense(x, 2, name="out") + layers.dense(x, 2))
    return tf.add_n(outputs)


def dense_object_called_twice(layers: Any, x: Any) -> Any:
    layer = layers.Dense(2, kernel_regularizer=penalty, activation="tanh")
    other = layers.Dense(2, name="other")
    with v1.variable_scope("inner"):
        return layer(x) + layer(-x) + other(x) + layers.Dense(2, name="other")(x)


def dense_scope_defaults(layers: Any, x: Any) -> Any:
    with v1.variable_scope("s", initializer=v1.constant_initializer(0.5), regularizer=penalty):
        return layers.dense(x, 2, kernel_regularizer=penalty)


def partitioned(layers: Any, x: Any) -> Any:
    with v1.variable_scope("parts", partitioner=v1.fixed_size_partitioner(2)):
        x = layers.dense(x, 2, kernel_regularizer=penalty)
        return layers.batch_normalization(x, training=True)


def numbered(layers: Any, x: Any) -> Any:
    for _ in range(2):
        x = layers.conv2d(x, 2, 2, padding="same")
        x = layers.batch_normalization(x, training=True)
        x = layers.dropout(layers.max_pooling2d(x, 2, 1), 0.5)
    return layers.dense(layers.flatten(x), 2)


def frozen(layers: Any, x: Any) -> Any:
    x = layers.batch_normalization(x, training=True, trainable=False)
    return layers.dense(x, 2, trainable=False) + layers.dense(x, 2)


def dropout(layers: Any, x: Any, **arguments: Any) -> Any:
    v1.set_random_seed(1)
    return layers.dropout(x, 0.4, seed=3, **arguments)


def batch_norm(**arguments: Any) -> Callable[..., Any]:
    return lambda layers, x: layers.batch_normalization(x, **arguments)


def batch_norm_asked(training: bool) -> Callable[..., Any]:
    def build(layers: Any, x: Any) -> Any:
        asked = v1.placeholder_with_default(training, [], name="training")
        return layers.batch_normalization(x, momentum=0.9, training=asked)

    return build


def convolution(function: str, *arguments: Any, **keywords: Any) -> Callable[..., Any]:
    return lambda layers, x, **layout: getattr(layers, function)(
        x, *arguments, **keywords, **layout
    )


PROGRAMS: dict[str, Program] = {
    "dense": Program(lambda layers, x: layers.dense(x, 2), (4, 3)),
    "dense_relu": Program(lambda layers, x: layers.dense(x, 5, tf.nn.relu), (4, 3)),
    "dense_softmax_by_name": Program(lambda layers, x: layers.dense(x, 5, "softmax"), (4, 3)),
    "dense_without_bias": Program(lambda layers, x: layers.dense(x, 2, use_bias=False), (4, 3)),
    "dense_of_rank_3": Program(lambda layers, x: layers.dense(x, 2), (2, 4, 3)),
    "dense_penalized": Program(
        lambda layers, x: layers.dense(
            x,
            2,
            kernel_regularizer=penalty,
            bias_regularizer=penalty,
            activity_regularizer=penalty,
        ),
        (4, 3),
    ),
    "two_dense": Program(two_dense, (4, 3)),
    "dense_in_scopes": Program(dense_in_scopes, (4, 3)),
    "dense_reused_by_name": Program(dense_reused_by_name, (4, 3)),
    "dense_auto_reuse": Program(dense_auto_reuse, (4, 3)),
    "dense_object_called_twice": Program(dense_object_called_twice, (4, 3)),
    "dense_scope_defaults": Program(dense_scope_defaults, (4, 3)),
    "partitioned": Program(partitioned, (4, 3)),
    "numbered": Program(numbered, (2, 4, 4, 1)),
    "frozen": Program(frozen, (4, 3)),
    "flatten": Program(lambda layers, x: layers.flatten(x), (2, 3, 2, 2)),
    "flatten_rank_1": Program(lambda layers, x: layers.flatten(x), (4,)),
    "flatten_channels_first": Program(
        lambda layers, x: layers.flatten(x, data_format="channels_first"), (2, 3, 2, 2)
    ),
    "dropout_idle": Program(dropout, (4, 5)),
    "dropout_training": Program(lambda layers, x: dropout(layers, x, training=True), (4, 5)),
    "dropout_noise_shape": Program(
        lambda layers, x: dropout(layers, x, training=True, noise_shape=(None, 1, 3)), (4, 2, 3)
    ),
    "batch_norm_idle": Program(batch_norm(), (4, 3)),
    "batch_norm_training": Program(batch_norm(training=True, momentum=0.9), (4, 3)),
    "batch_norm_of_rank_3": Program(batch_norm(training=True), (4, 2, 3)),
    "batch_norm_axis_1": Program(batch_norm(training=True, axis=1), (4, 2, 3)),
    "batch_norm_two_axes": Program(batch_norm(training=True, axis=[1, 2]), (4, 2, 3)),
    "batch_norm_penalized": Program(
        batch_norm(gamma_regularizer=penalty, beta_regularizer=penalty), (4, 3)
    ),
    "batch_norm_asked_to_train": Program(batch_norm_asked(True), (4, 3)),
    "batch_norm_asked_not_to": Program(batch_norm_asked(False), (4, 3)),
    "fused_batch_norm_idle": Program(batch_norm(), (3, 2, 2, 3)),
    "fused_batch_norm_training": Program(batch_norm(training=True, momentum=0.9), (3, 2, 2, 3)),
    "fused_batch_norm_bare": Program(
        batch_norm(training=True, center=False, scale=False), (3, 2, 2, 3)
    ),
    "fused_batch_norm_axis_1": Program(batch_norm(training=True, axis=1), (3, 2, 2, 3)),
    "fused_batch_norm_of_rank_5": Program(batch_norm(training=True), (2, 2, 2, 1, 3)),
    "fused_batch_norm_asked_to_train": Program(batch_norm_asked(True), (3, 2, 2, 3)),
    "fused_batch_norm_asked_not_to": Program(batch_norm_asked(False), (3, 2, 2, 3)),
    "batch_norm_not_fused": Program(batch_norm(training=True, fused=False), (3, 2, 2, 3)),
}

# Programs that also exist with the channels first.
SPATIAL_PROGRAMS: dict[str, Program] = {
    "conv1d": Program(convolution("conv1d", 2, 3, strides=2), (2, 7, 3)),
    "conv1d_causal": Program(
        convolution("conv1d", 2, 3, padding="causal", dilation_rate=2), (2, 7, 3)
    ),
    "conv2d": Program(convolution("conv2d", 2, 3, activation=tf.nn.relu), (2, 5, 4, 3)),
    "conv2d_strided": Program(
        convolution("conv2d", 2, [3, 2], strides=(1, 2), padding="SAME"), (2, 5, 4, 3)
    ),
    "conv2d_dilated": Program(
        convolution("conv2d", 2, 2, dilation_rate=2, padding="same"), (2, 5, 4, 3)
    ),
    "conv2d_without_bias": Program(convolution("conv2d", 2, (1, 1), use_bias=False), (2, 3, 3, 2)),
    "conv3d": Program(convolution("conv3d", 2, 2, padding="same"), (1, 3, 3, 2, 2)),
    "conv2d_transpose": Program(
        convolution("conv2d_transpose", 2, 3, strides=2, padding="same"), (2, 3, 2, 3)
    ),
    "conv2d_transpose_valid": Program(
        convolution("conv2d_transpose", 2, (3, 2), strides=(2, 3), activation=tf.nn.relu),
        (2, 3, 2, 3),
    ),
    "conv3d_transpose": Program(convolution("conv3d_transpose", 2, 2, strides=2), (1, 2, 2, 2, 2)),
    "separable_conv1d": Program(
        convolution("separable_conv1d", 2, 3, strides=2, depth_multiplier=2), (2, 7, 3)
    ),
    "separable_conv2d": Program(
        convolution("separable_conv2d", 2, 3, padding="same", activation=tf.nn.relu), (2, 5, 4, 3)
    ),
    "separable_conv2d_dilated": Program(
        convolution("separable_conv2d", 2, 2, dilation_rate=2, depth_multiplier=2, use_bias=False),
        (2, 5, 4, 3),
    ),
    "max_pooling1d": Program(convolution("max_pooling1d", 2, 2), (2, 5, 3)),
    "max_pooling2d": Program(convolution("max_pooling2d", (2, 3), 2, "SAME"), (2, 5, 4, 3)),
    "max_pooling3d": Program(convolution("max_pooling3d", 2, 1), (1, 3, 3, 2, 2)),
    "average_pooling1d": Program(convolution("average_pooling1d", 2, 2, "same"), (2, 5, 3)),
    "average_pooling2d": Program(convolution("average_pooling2d", 2, (2, 1)), (2, 5, 4, 3)),
    "average_pooling3d": Program(convolution("average_pooling3d", 2, 2, "same"), (1, 3, 3, 2, 2)),
}


def ramp(shape: Any, start: float = 1.0) -> np.ndarray:
    """Fixed numbers between -1 and 1 in no obvious order."""
    count = math.prod(shape)
    return np.sin(start + 0.7 * np.arange(count)).astype(np.float32).reshape(shape)


def weight_value(name: str, shape: Any) -> np.ndarray:
    value = ramp(shape, start=sum(map(ord, name)) % 7)
    return value**2 + 0.5 if "moving_variance" in name else value


def batches(shape: tuple[int, ...]) -> list[np.ndarray]:
    """Three batches, each of another mean and spread."""
    return [ramp(shape), 2 * ramp(shape, 5.0) + 1, 0.5 * ramp(shape, 9.0) - 1]


def run(
    layers: Any, program: Program, inputs: list[np.ndarray] | None = None, **layout: Any
) -> Any:
    """Build and run a program; everything worth comparing, as plain lists."""
    inputs = batches(program.input_shape) if inputs is None else inputs
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, *inputs[0].shape[1:]], name="x")
        outputs = program.build(layers, x, **layout)
        record: dict[str, Any] = {
            "output": outputs.name,
            "output_shape": outputs.shape.as_list(),
            "operations": sorted(filter(None, map(_described, graph.get_operations()))),
            "variables": _variables(),
        }
        penalties = v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES)
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        moving = [v for v in v1.global_variables() if "moving_" in v.name] if updates else []
        sources = [x, *v1.trainable_variables()]
        weighted = tf.reduce_sum(outputs * _weights_like(outputs))
        gradients = v1.gradients(weighted, sources)
        assignments = [v.assign(weight_value(v.op.name, v.shape)) for v in v1.global_variables()]
        with v1.Session() as session:
            session.run(assignments)
            feed = {x: inputs[0]}
            record["values"] = session.run(outputs, feed)
            record["gradients"] = session.run(gradients, feed)
            record["penalties"] = session.run(penalties, feed)
            record["updates"] = len(updates)
            record["moving"] = []
            for batch in inputs if moving else []:
                session.run(updates, {x: batch})
                record["moving"].append(session.run(moving))
    return plain(record)


def _weights_like(outputs: Any) -> Any:
    """Other weights for every output, so that a gradient in the wrong place is seen."""
    flat = tf.sin(tf.cast(tf.range(tf.size(outputs)), tf.float32))
    return tf.reshape(flat, tf.shape(outputs))


# What differs between versions of TensorFlow without anybody noticing.
_PLUMBING = {
    "AssignVariableOp",
    "Cast",
    "Const",
    "Identity",
    "NoOp",
    "Placeholder",
    "ReadVariableOp",
    "Reshape",
    "VarHandleOp",
    "VarIsInitializedOp",
}


def _described(operation: Any) -> str | None:
    name = operation.name
    if operation.type in _PLUMBING and not name.endswith("flatten/Reshape"):
        return None
    computes_shapes = operation.outputs and operation.outputs[0].dtype == tf.int32
    if "/Initializer/" in name or computes_shapes:
        return None
    if "/AssignMovingAvg" in name and not operation.type.startswith("Assign"):
        return None
    return f"{name}: {operation.type}"


def _variables() -> list[list[Any]]:
    trainable = {v.name for v in v1.trainable_variables()}
    return [[v.name, v.shape.as_list(), v.name in trainable] for v in v1.global_variables()]


def plain(value: Any) -> Any:
    """Arrays as lists of short numbers, so that the record is JSON."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return np.round(np.asarray(value, np.float64), 7).tolist()
    return value


def signature(function: Any) -> list[list[Any]]:
    """Names and defaults, an initializer by its class."""
    if isinstance(function, type):
        function = function.__init__
    return [
        [name, _default(parameter)]
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self" and parameter.kind is not parameter.VAR_KEYWORD
    ]


def _default(parameter: inspect.Parameter) -> Any:
    default = parameter.default
    if default is parameter.empty:
        return "required"
    known = default is None or isinstance(default, str | int | float | tuple)
    return default if known else type(default).__name__
