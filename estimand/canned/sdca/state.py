"""What SDCA keeps of every example: a table from the hash of its id to four numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError

_v1 = tf.compat.v1
_IN_CHECKPOINTS = "ShardedMutableHashTable-1-of-1"  # as tf.estimator calls it
_NOTHING = [0.0, 0.0, 0.0, 0.0]
# SdcaFprint gives neither of these.
_EMPTY, _DELETED = [0, 0], [1, 1]
_FIRST_SIZE = 1024  # it grows by itself, and is saved with its empty places


class ExampleStates:
    """The table. It is part of checkpoints: weights without it would be of no use."""

    def __init__(self) -> None:
        if tf.executing_eagerly():
            raise ConfigError(
                "LinearSDCA does not train eagerly. Leave eager mode, or use another optimizer, "
                "such as 'Ftrl'."
            )
        if tf.distribute.get_strategy().num_replicas_in_sync > 1:
            raise ConfigError(
                "LinearSDCA does not train on several replicas. Use another optimizer, such as "
                "'Ftrl'."
            )
        # Made outside of the graph, it lives as long as the model does and belongs to it alone.
        with tf.init_scope():
            self._table = tf.lookup.experimental.DenseHashTable(
                key_dtype=tf.int64,
                value_dtype=tf.float32,
                default_value=_NOTHING,
                empty_key=_EMPTY,
                deleted_key=_DELETED,
                initial_num_buckets=_FIRST_SIZE,
            )
        _v1.add_to_collection(_v1.GraphKeys.SAVEABLE_OBJECTS, _Saved(self._table))

    def of(self, keys: tf.Tensor) -> tf.Tensor:
        """The four numbers of each example; zeros if it is new."""
        return tf.reshape(self._table.lookup(keys), [-1, len(_NOTHING)])

    def keep(self, keys: tf.Tensor, values: tf.Tensor) -> tf.Operation:
        return self._table.insert(keys, values)

    def count(self) -> tf.Tensor:
        return self._table.size()


@dataclass(frozen=True)
class _Part:
    name: str
    tensor: tf.Tensor
    slice_spec: str = ""

    @property
    def dtype(self) -> tf.DType:
        return self.tensor.dtype


class _Saved:
    """What the engine saves and restores: all places of the table, the empty ones included."""

    def __init__(self, table: Any) -> None:
        self._table = table
        keys, values = table.export()
        self.name = _IN_CHECKPOINTS
        self.specs = [
            _Part(f"{_IN_CHECKPOINTS}-keys", keys),
            _Part(f"{_IN_CHECKPOINTS}-values", values),
        ]

    def restore(self, tensors: Sequence[tf.Tensor], shapes: Any) -> tf.Operation:
        del shapes
        # TensorFlow does not know here that a key has two numbers, and would refuse it.
        keys, values = (_v1.placeholder_with_default(tensor, None) for tensor in tensors)
        return tf.raw_ops.LookupTableImportV2(
            table_handle=self._table.resource_handle, keys=keys, values=values
        )
