"""`tf.contrib.layers`: summaries of tensors, of activations and of whole collections."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
Keys = v1.GraphKeys


def summarize_tensor(tensor: Any, tag: str | None = None) -> Any:
    """A scalar or a histogram, by the rank of the tensor."""
    write = v1.summary.scalar if tensor.shape.rank == 0 else v1.summary.histogram
    return write(tag or tensor.op.name, tensor)


def summarize_activation(op: Any) -> Any:
    """A histogram, and of what a ReLU or a sigmoid gives the share of zeros or of ends."""
    kind = op.op.type
    if kind in ("Relu", "Softplus", "Relu6"):
        zero = tf.reduce_mean(tf.cast(op < 0.01 if kind == "Softplus" else op <= 0.0, tf.float32))
        v1.summary.scalar(f"{op.op.name}/zeros", zero)
    if kind == "Relu6":
        v1.summary.scalar(f"{op.op.name}/sixes", tf.reduce_mean(tf.cast(op >= 6.0, tf.float32)))
    return v1.summary.histogram(f"{op.op.name}/activation", op)


def summarize_tensors(tensors: Iterable[Any], summarizer: Any = summarize_tensor) -> list[Any]:
    """Of each tensor."""
    return [summarizer(tensor) for tensor in tensors]


def summarize_collection(
    collection: str, name_filter: str | None = None, summarizer: Any = summarize_tensor
) -> list[Any]:
    """Of each tensor of a collection whose name begins so."""
    return summarize_tensors(v1.get_collection(collection, name_filter), summarizer)


def summarize_activations(
    name_filter: str | None = None, summarizer: Any = summarize_activation
) -> list[Any]:
    """Of what layers gave."""
    return summarize_collection(Keys.ACTIVATIONS, name_filter, summarizer)


def summarize_variables(
    name_filter: str | None = None, summarizer: Any = summarize_tensor
) -> list[Any]:
    """Of all variables."""
    return summarize_collection(Keys.GLOBAL_VARIABLES, name_filter, summarizer)


def summarize_weights(
    name_filter: str | None = None, summarizer: Any = summarize_tensor
) -> list[Any]:
    """Of the collection WEIGHTS."""
    return summarize_collection(Keys.WEIGHTS, name_filter, summarizer)


def summarize_biases(
    name_filter: str | None = None, summarizer: Any = summarize_tensor
) -> list[Any]:
    """Of the collection BIASES."""
    return summarize_collection(Keys.BIASES, name_filter, summarizer)
