"""The features of one batch as tensors, each column's transformation computed once.

It offers what TensorFlow's columns ask of their transformation cache, for columns of both
generations, so that they run on it unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimand.core.errors import FeatureColumnError
from estimand.core.tf_private import feature_columns as fc
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
            elif isinstance(key, fc.NumericColumn) and key.normalizer_fn is not None:
                self._tensors[key] = self._normalized(key, state_manager)
            elif hasattr(key, "transform_feature"):
                self._tensors[key] = key.transform_feature(self, state_manager)
            else:
                self._tensors[key] = key._transform_feature(self)
        return self._tensors[key]

    def _normalized(self, column: Any, state_manager: Any) -> Any:
        """A numeric column by its normalizer_fn, which gets numbers of the column's own type.

        A file may have integers where the column, and with it a served model, has floats; only
        if the function cannot do with these, it gets what the feature is.
        """
        given = self.get(column.key, state_manager)
        tries = [given]
        if isinstance(given, tf.Tensor) and given.dtype.is_integer and column.dtype.is_floating:
            tries.insert(0, tf.cast(given, column.dtype))
        failures: list[Exception] = []
        for value in tries:
            try:
                return column.transform_feature(OneFeature(column.key, value), state_manager)
            except (TypeError, ValueError, tf.errors.OpError) as error:
                failures.append(error)
        raise FeatureColumnError(
            f"Column {column.name!r}: its normalizer_fn failed on {checks.describe(tries[0])}: "
            f"{failures[0]}"
        ) from failures[0]

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
        if value.shape.rank == 2 and tf.compat.dimension_value(value.shape[1]) == 1:
            flat = ("flat", key)
            if flat not in self._tensors:
                self._tensors[flat] = tf.squeeze(value, axis=1)
            return self._tensors[flat]
        return None


class OneFeature:
    """A cache with one feature."""

    def __init__(self, key: str, value: Any) -> None:
        self._key = key
        self._value = value

    def get(self, key: Any, state_manager: Any = None, training: bool | None = None) -> Any:
        del state_manager, training
        if key != self._key:
            raise KeyError(key)
        return self._value


class ValuesOnly(OneFeature):
    """A cache with one feature, given to a column as the values of a sparse tensor.

    The columns of TensorFlow transform sparse tensors value by value: the ids of a dense
    feature are the values of what comes back, with no sparse tensor ever computed.
    """

    def __init__(self, key: str, values: tf.Tensor) -> None:
        count = tf.size(values, tf.int64)
        indices = tf.zeros(tf.stack([count, 2]), tf.int64)
        indices.set_shape([values.shape[0], 2])
        super().__init__(key, tf.SparseTensor(indices, values, tf.stack([count, 1])))
