"""What a network hands to its head."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.core.errors import HeadError
from estimand.heads.checks import after, require

_SHAPE = "logits shape must be [D0, D1, ... DN, logits_dimension]"


def checked_logits(logits: Any, dimension: Any) -> tf.Tensor:
    """Logits as float32, of at least two dimensions, the last of which is `dimension`."""
    if isinstance(logits, dict):
        raise HeadError(
            f"logits must be a Tensor, given: a dict with keys {sorted(map(str, logits))}. "
            "Only MultiHead takes a dict of logits, one entry per head."
        )
    with tf.name_scope("logits"):
        logits = tf.convert_to_tensor(logits)
        if logits.dtype != tf.float32:
            logits = tf.cast(logits, tf.float32)
        rank = logits.shape.rank
        if rank is None:
            # Not even the rank is known: the last dimension of anything is compared at run time.
            told = (f"{_SHAPE}, of which the last is {dimension}. Got shape", tf.shape(logits))
            return after(require(tf.equal(tf.shape(logits)[-1], dimension), *told), logits)
        if rank < 2:
            raise HeadError(
                f"{_SHAPE}. logits must have rank at least 2.  "
                f"Received rank {rank}, shape {tuple(logits.shape)}. For one number per example "
                "use tf.expand_dims(logits, -1)."
            )
        last = tf.compat.dimension_value(logits.shape[-1])
        if last is None:
            told = (f"{_SHAPE}, of which the last is {dimension}. Got shape", tf.shape(logits))
            return after(require(tf.equal(tf.shape(logits)[-1], dimension), *told), logits)
        if isinstance(dimension, int) and last != dimension:
            raise HeadError(
                f"{_SHAPE}, got {tuple(logits.shape)}. This head needs {dimension} as the last "
                "dimension: make the last layer of the network head.logits_dimension wide."
            )
        return logits


def split_logits(logits: Any, heads: Any) -> dict[str, tf.Tensor]:
    """The part of each head, by its name, of logits that lie side by side in one tensor."""
    with tf.name_scope("split_logits"):
        logits = tf.convert_to_tensor(logits)
        dimensions = [head.logits_dimension for head in heads]
        last = tf.compat.dimension_value(logits.shape[-1])
        if last is not None and last != sum(dimensions):
            raise HeadError(
                f"Could not split logits of shape {logits.shape.as_list()} among the heads with "
                f"individual logits dimensions: {dimensions}. The last dimension of the logits "
                f"tensor should equal {sum(dimensions)} but is {last}."
            )
        parts = tf.split(logits, dimensions, axis=-1)
        return {head.name: part for head, part in zip(heads, parts, strict=True)}
