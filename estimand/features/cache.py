"""The features of one batch as tensors, each column's transformation computed once.

It offers what TensorFlow's columns ask of their transformation cache, for columns of both
generations, so that they run on it unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimand.core.errors import FeatureColumnError
from estimand.features import checks


class FeatureTensors:
    """Features by key, and what columns made of them."""

    def __init__(self, features: Mapping[Any, Any]) -> None:
        self.features = dict(features)
        self.ids: dict[Any, Any] = {}  # of dense_ids, where they cannot be kept with the graph
        self._tensors: dict[Any, Any] = {}

    def get(self, key: Any, state_manager: Any = None, training: bool | None = None) -> Any:
        """The raw feature of a key, or the transformed one of a column."""
        del training
        if key not in self._tensors:
            if key in self.features:
                self._tensors[key] = self._raw(key)
            elif isinstance(key, str):
                raise FeatureColumnError(
                    f"Feature {key} is not in features dictionary. "
                    f"The features have: {checks.listed(self.features)}."
                )
            elif hasattr(key, "transform_feature"):
                self._tensors[key] = key.transform_feature(self, state_manager)
            else:
                self._tensors[key] = key._transform_feature(self)
        return self._tensors[key]

    def _raw(self, key: Any) -> Any:
        """The feature with at least two dimensions, as columns expect it."""
        value = self.features[key]
        if isinstance(value, tf.RaggedTensor):
            return value.to_sparse()
        if isinstance(value, tf.SparseTensor):
            if value.shape.rank == 1:
                return tf.sparse.reshape(value, [tf.shape(value, tf.int64)[0], 1])
            return value
        tensor = tf.convert_to_tensor(value)
        if tensor.shape.rank == 0:
            raise FeatureColumnError(
                f"Feature (key: {key}) cannot have rank 0. Given: {tensor}. "
                "Its first dimension has to be the batch."
            )
        if tensor.shape.rank is None:
            return tf.cond(
                tf.equal(tf.rank(tensor), 1), lambda: tf.expand_dims(tensor, -1), lambda: tensor
            )
        return tf.expand_dims(tensor, -1) if tensor.shape.rank == 1 else tensor

    def one_per_example(self, key: Any) -> tf.Tensor | None:
        """The feature as [batch], if it is dense and has one value per example; else None."""
        value = self.features.get(key)
        if value is None or isinstance(value, (tf.SparseTensor, tf.RaggedTensor)):
            return None
        if not isinstance(value, tf.Tensor):
            value = self.features[key] = tf.convert_to_tensor(value)
        if value.shape.rank == 1:
            return value
        if value.shape.rank == 2 and value.shape[1] == 1:
            flat = ("flat", key)
            if flat not in self._tensors:
                self._tensors[flat] = tf.squeeze(value, axis=1)
            return self._tensors[flat]
        return None


class ValuesOnly:
    """A cache with one feature, given to a column as the values of a sparse tensor.

    The columns of TensorFlow transform sparse tensors value by value: the ids of a dense
    feature are the values of what comes back, with no sparse tensor ever computed.
    """

    def __init__(self, key: str, values: tf.Tensor) -> None:
        self._key = key
        count = tf.size(values, tf.int64)
        indices = tf.zeros(tf.stack([count, 2]), tf.int64)
        indices.set_shape([values.shape[0], 2])
        self._sparse = tf.SparseTensor(indices, values, tf.stack([count, 1]))

    def get(self, key: Any, state_manager: Any = None, training: bool | None = None) -> Any:
        del state_manager, training
        if key != self._key:
            raise KeyError(key)
        return self._sparse
