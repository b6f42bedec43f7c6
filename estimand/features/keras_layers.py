"""Feature columns as Keras 3 layers, which Keras itself no longer has.

They can be used in plain Keras models and in model functions of the Keras style.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras  # noqa: TID253  (this module is loaded only when one of its layers is asked for)
import tensorflow as tf

from estimand.core.tf_private import feature_columns as fc
from estimand.features import checks
from estimand.features.building import ColumnTensors, linear_total
from estimand.features.layers import all_equal, linear_size
from estimand.features.quiet import no_deprecation_notices
from estimand.features.state import LookupTables


class _Weights(keras.layers.Layer):
    """The variables of one column, so that they are called `<layer>/<column>/<weight>`."""

    def make(self, name: str, shape: Any, initializer: Any, trainable: bool, dtype: Any) -> Any:
        if initializer is None:
            initializer = "glorot_uniform"
        elif not isinstance(initializer, (str, keras.initializers.Initializer)):
            initializer = _as_keras_initializer(initializer)
        return self.add_weight(
            name=name, shape=shape, dtype=dtype, initializer=initializer, trainable=trainable
        )


def _as_keras_initializer(initializer: Any) -> Any:
    def initialize(shape: Any, dtype: Any = None) -> Any:
        return initializer(shape, dtype=tf.as_dtype(dtype or "float32"))

    return initialize


class _KerasState(LookupTables):
    """A state manager whose variables are weights of a Keras layer."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self._layer = layer
        self._holders: dict[str, _Weights] = {}
        self._variables: dict[tuple[Any, str], Any] = {}

    def create_variable(
        self,
        feature_column: Any,
        name: str,
        shape: Any,
        dtype: Any = None,
        trainable: bool = True,
        use_resource: bool = True,
        initializer: Any = None,
    ) -> Any:
        del use_resource
        place = (feature_column, name)
        if place not in self._variables:
            holder = self.holder(feature_column.name)
            dtype = tf.as_dtype(dtype or tf.float32).name
            self._variables[place] = holder.make(name, shape, initializer, trainable, dtype)
        return self.get_variable(feature_column, name)

    def get_variable(self, feature_column: Any, name: str) -> Any:
        return self._variables[feature_column, name].value

    def holder(self, name: str) -> _Weights:
        name = name.replace("/", "_")
        if name not in self._holders:
            self._holders[name] = self._layer.new_holder(name)
        return self._holders[name]

    def embedding_table(self, column: Any) -> Any:
        return self._variables[column, "embedding_weights"].value

    def create_embedding(self, column: Any) -> None:
        """The table of an embedding column; columns that share one find the same."""
        table, owner = self._table_of(column)
        made = self._variables.get((owner, "embedding_weights"))
        if made is None:
            holder = self.holder(table.name)
            made = holder.make(
                "embedding_weights", table.shape, table.initializer, table.trainable, "float32"
            )
            if table.ckpt_to_load_from is not None:
                made.assign(tf.train.load_variable(*_origin(table)))
            self._variables[owner, "embedding_weights"] = made
        self._variables[column, "embedding_weights"] = made

    def _table_of(self, column: Any) -> tuple[fc.SharedTable, Any]:
        if isinstance(column, fc.SharedEmbeddingColumn):
            creator = column.shared_embedding_column_creator
            return fc.shared_table(creator), id(creator)
        name, owner = column.name, column
        if isinstance(column, fc.V1SharedEmbeddingColumn):
            name = owner = column.shared_embedding_collection_name
        table = fc.SharedTable(
            name,
            (column.categorical_column.num_buckets, column.dimension),
            column.initializer,
            column.trainable,
            column.ckpt_to_load_from,
            column.tensor_name_in_ckpt,
        )
        return table, owner


def _origin(table: fc.SharedTable) -> tuple[str, str]:
    assert table.ckpt_to_load_from is not None and table.tensor_name_in_ckpt is not None
    return table.ckpt_to_load_from, table.tensor_name_in_ckpt


class _ColumnLayer(keras.layers.Layer):
    """What the layers of columns have in common: a dict of features in, variables by column."""

    def __init__(
        self,
        columns: list[Any],
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        # Features are of many dtypes; none of them must be cast to the layer's own.
        super().__init__(trainable=trainable, name=name, autocast=False, **kwargs)
        self.feature_columns = columns
        self._sorted = tuple(sorted(columns, key=lambda column: column.name))
        self._column_state: Any = None
        self._column_weights: list[Any] = []

    def __call__(self, features: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(features, dict):  # Keras takes tensors and arrays, but no lists
            features = {
                k: tf.convert_to_tensor(v) if isinstance(v, list | tuple) else v
                for k, v in features.items()
            }
        return super().__call__(features, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Name, dtype and the like, and the columns as plain dicts."""
        base = {"name": self.name, "trainable": self.trainable, "dtype": self.dtype}
        return {**base, "feature_columns": fc.columns_to_config(self.feature_columns)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        columns = fc.columns_from_config(config["feature_columns"])
        return cls(**{**config, "feature_columns": columns})

    def new_holder(self, name: str) -> _Weights:
        holder = _Weights(name=name)
        self._column_weights.append(holder)
        return holder

    def build(self, input_shape: Any = None) -> None:
        del input_shape
        self._column_state = _Untracked(_KerasState(self))
        for column in self._sorted:
            self._build_column(column, self._column_state.value)
        self.built = True

    def _build_column(self, column: Any, state: _KerasState) -> None:
        if hasattr(column, "combiner"):
            state.create_embedding(column)
        elif hasattr(column, "create_state"):
            column.create_state(state)

    def _tensors(self, features: Any) -> ColumnTensors:
        return ColumnTensors(features, self._column_state.value)


class _Untracked:
    """Keeps Keras from walking into the state: its variables are tracked where they are made."""

    def __init__(self, value: Any) -> None:
        self.value = value


class DenseFeatures(_ColumnLayer):
    """Columns, sorted by name, as one dense [batch, width] tensor.

    Args:
      feature_columns: the columns to compute.
      trainable: whether its variables are trained.
      name: of the layer.

    >>> import numpy as np
    >>> import estimand as est
    >>> fc = est.feature_column
    >>> layer = fc.DenseFeatures([fc.numeric_column("age"), fc.numeric_column("pay")])
    >>> features = {"age": np.array([1.0, 2.0]), "pay": np.array([3.0, 4.0])}
    >>> layer(features).numpy().tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """

    def __init__(
        self,
        feature_columns: Iterable[Any],
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(checks.dense_columns(feature_columns), trainable, name, **kwargs)
        self._asked_for = _Untracked(None)

    def __call__(self, features: Any, cols_to_output_tensors: Any = None, **kwargs: Any) -> Any:
        # Keras would give `call` a copy of this dict, which the caller wants to see filled.
        self._asked_for = _Untracked(cols_to_output_tensors)
        try:
            return super().__call__(features, **kwargs)
        finally:
            self._asked_for = _Untracked(None)

    def call(self, features: Any) -> Any:
        with no_deprecation_notices():
            built = self._tensors(features)
            tensors = [built.dense(column) for column in self._sorted]
        checks.same_batch_size(tensors, list(self._sorted))
        if self._asked_for.value is not None:
            self._asked_for.value.update(zip(self._sorted, tensors, strict=True))
        return tf.concat(tensors, 1)


class LinearModel(_ColumnLayer):
    """The weighted sum of all columns plus a bias, [batch, units].

    Args:
      feature_columns: the columns to compute.
      units: how many sums.
      sparse_combiner: how several values of one feature are summed up: "sum", "mean", "sqrtn".
      trainable: whether its variables are trained.
      name: of the layer.

    >>> import numpy as np
    >>> import estimand as est
    >>> layer = est.feature_column.LinearModel([est.feature_column.numeric_column("age")])
    >>> layer({"age": np.array([1.0, 2.0])}).shape
    TensorShape([2, 1])
    >>> [weight.path.split("/", 1)[1] for weight in layer.weights]
    ['bias_weights', 'age/weights']
    """

    def __init__(
        self,
        feature_columns: Iterable[Any],
        units: int = 1,
        sparse_combiner: str = "sum",
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(checks.linear_columns(feature_columns), trainable, name, **kwargs)
        self.units = units
        self.sparse_combiner = sparse_combiner

    def get_config(self) -> dict[str, Any]:
        own = {"units": self.units, "sparse_combiner": self.sparse_combiner}
        return {**super().get_config(), **own}

    def build(self, input_shape: Any = None) -> None:
        super().build(input_shape)
        self.bias = self.add_weight(
            name="bias_weights", shape=(self.units,), initializer="zeros", dtype="float32"
        )

    def _build_column(self, column: Any, state: _KerasState) -> None:
        super()._build_column(column, state)
        state.create_variable(
            column, "weights", shape=(linear_size(column), self.units), initializer="zeros"
        )

    def call(self, features: Any) -> Any:
        state = self._column_state.value
        with no_deprecation_notices():
            built = self._tensors(features)
            parts = [
                built.linear_part(
                    column, state.get_variable(column, "weights"), self.sparse_combiner
                )
                for column in self._sorted
            ]
            total = linear_total(parts)
        return total + self.bias.value


class SequenceFeatures(_ColumnLayer):
    """Sequence columns as ([batch, time, width], lengths).

    Args:
      feature_columns: the columns to compute.
      trainable: whether its variables are trained.
      name: of the layer.

    >>> import estimand as est, tensorflow as tf
    >>> step = est.feature_column.sequence_numeric_column("step")
    >>> steps = tf.ragged.constant([[1.0, 2.0], [3.0]]).to_sparse()
    >>> layer, lengths = est.feature_column.SequenceFeatures([step])({"step": steps})
    >>> layer.shape
    TensorShape([2, 2, 1])
    """

    def __init__(
        self,
        feature_columns: Iterable[Any],
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(checks.sequence_columns(feature_columns), trainable, name, **kwargs)

    def call(self, features: Any) -> tuple[Any, Any]:
        with no_deprecation_notices():
            built = self._tensors(features)
            pairs = [built.sequence(column) for column in self._sorted]
        lengths = [length for _, length in pairs]
        checks.same_batch_size(lengths, list(self._sorted))
        return tf.concat([tensor for tensor, _ in pairs], -1), all_equal(lengths)
