"""`input_layer`, `linear_model` and `sequence_input_layer` for model functions of the v1 style.

Signatures, variable names and numbers are those of `tf.compat.v1.feature_column`: checkpoints
written with it can be read here, and the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

import tensorflow as tf

from estimand.core import expectations
from estimand.core.tf_private import feature_columns as fc
from estimand.features import checks
from estimand.features.building import ColumnTensors, linear_total
from estimand.features.quiet import no_deprecation_notices
from estimand.features.state import GraphState, pieces

_v1 = tf.compat.v1
_NO_SCOPE_NAME = re.compile(r"[^A-Za-z0-9_.\-/]")


def input_layer(
    features: Mapping[str, Any],
    feature_columns: Iterable[Any],
    weight_collections: Iterable[str] | None = None,
    trainable: bool = True,
    cols_to_vars: MutableMapping[Any, Any] | None = None,
    cols_to_output_tensors: MutableMapping[Any, Any] | None = None,
) -> tf.Tensor:
    """All columns, sorted by name, as one dense [batch, width] tensor.

    Embedding tables are variables called `input_layer/<column>/embedding_weights`. Unlike
    TensorFlow's, it takes the columns of `shared_embeddings` too.

    Args:
      features: tensors by name, of a batch.
      feature_columns: the columns to compute; dense ones.
      weight_collections: v1 collections that the variables are added to.
      trainable: whether the variables are trained.
      cols_to_vars: a dict that gets the variables of each column.
      cols_to_output_tensors: a dict that gets the tensor of each column.

    >>> import estimand as est
    >>> age = est.feature_column.numeric_column("age")
    >>> input_layer({"age": [1.0, 2.0]}, [age]).numpy().tolist()
    [[1.0], [2.0]]
    """
    columns = sorted(checks.dense_columns(feature_columns), key=lambda column: column.name)
    expectations.expect_columns(columns)
    tensors = []
    with no_deprecation_notices(), _v1.variable_scope(None, default_name="input_layer"):
        state = GraphState(list(weight_collections or []), trainable)
        built = ColumnTensors(features, state)
        for column in columns:
            with _v1.variable_scope(None, default_name=_scope_name(column)):
                tensors.append(built.dense(column))
            if cols_to_vars is not None:
                cols_to_vars[column] = state.variables_of(column)
            if cols_to_output_tensors is not None:
                cols_to_output_tensors[column] = tensors[-1]
        checks.same_batch_size(tensors, columns)
        return tf.concat(tensors, 1)


def linear_model(
    features: Mapping[str, Any],
    feature_columns: Iterable[Any],
    units: int = 1,
    sparse_combiner: str = "sum",
    weight_collections: Iterable[str] | None = None,
    trainable: bool = True,
    cols_to_vars: MutableMapping[Any, Any] | None = None,
) -> tf.Tensor:
    """The weighted sum of all columns plus a bias, [batch, units].

    Its variables are called `linear_model/<column>/weights` and `linear_model/bias_weights`.

    Args:
      features: tensors by name, of a batch.
      feature_columns: the columns to sum up; numeric and categorical ones.
      units: how many sums.
      sparse_combiner: how several values of one feature are summed up: "sum", "mean", "sqrtn".
      weight_collections: v1 collections that the variables are added to.
      trainable: whether the variables are trained.
      cols_to_vars: a dict that gets the variables of each column.

    >>> import estimand as est, tensorflow as tf
    >>> age = est.feature_column.numeric_column("age")
    >>> est.feature_column.linear_model({"age": tf.constant([30.0, 60.0])}, [age]).shape
    TensorShape([2, 1])
    """
    columns = checks.linear_columns(feature_columns)
    expectations.expect_columns(columns)
    names = _column_names(columns)
    parts = []
    with no_deprecation_notices(), _v1.variable_scope(None, default_name="linear_model"):
        state = GraphState(list(weight_collections or []), trainable)
        built = ColumnTensors(features, state)
        for column in sorted(columns, key=lambda column: names[column]):
            with _v1.variable_scope(names[column]):
                weights = state.create_variable(
                    column,
                    "weights",
                    shape=(linear_size(column), units),
                    initializer=_v1.zeros_initializer(),
                )
                parts.append(built.linear_part(column, weights, sparse_combiner))
            if cols_to_vars is not None:
                cols_to_vars[column] = state.variables_of(column)
        bias = state.create_variable(
            "bias", "bias_weights", shape=[units], initializer=_v1.zeros_initializer()
        )
        if cols_to_vars is not None:
            cols_to_vars["bias"] = pieces(bias)
        return tf.nn.bias_add(linear_total(parts), bias, name="weighted_sum")


def sequence_input_layer(
    features: Mapping[str, Any],
    feature_columns: Iterable[Any],
    weight_collections: Iterable[str] | None = None,
    trainable: bool = True,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Sequence columns as one [batch, time, width] tensor, and the length of each example.

    Tables are called `sequence_input_layer/<column>/embedding_weights`.

    Args:
      features: tensors by name, of a batch.
      feature_columns: the columns to compute; sequence ones, made dense.
      weight_collections: v1 collections that the variables are added to.
      trainable: whether the variables are trained.

    >>> import estimand as est, tensorflow as tf
    >>> step = est.feature_column.sequence_numeric_column("step")
    >>> steps = tf.ragged.constant([[1.0, 2.0], [3.0]]).to_sparse()
    >>> layer, lengths = est.feature_column.sequence_input_layer({"step": steps}, [step])
    >>> layer.shape, lengths.numpy().tolist()
    (TensorShape([2, 2, 1]), [2, 1])
    """
    columns = sorted(checks.sequence_columns(feature_columns), key=lambda column: column.name)
    with no_deprecation_notices(), _v1.variable_scope(None, default_name="sequence_input_layer"):
        built = ColumnTensors(features, GraphState(list(weight_collections or []), trainable))
        tensors, lengths = [], []
        for column in columns:
            with _v1.variable_scope(None, default_name=_scope_name(column)):
                tensor, length = built.sequence(column)
            tensors.append(tensor)
            lengths.append(length)
        checks.same_batch_size(lengths, columns)
        return tf.concat(tensors, -1), all_equal(lengths)


def all_equal(lengths: list[tf.Tensor]) -> tf.Tensor:
    """The first, once it is certain that the others are the same."""
    asserts = [
        _v1.assert_equal(
            lengths[0],
            length,
            message="The sequence columns of one layer must have the same sequence lengths.",
        )
        for length in lengths[1:]
    ]
    with tf.control_dependencies([check for check in asserts if check is not None]):
        return tf.identity(lengths[0])


def linear_size(column: Any) -> int:
    """How many weights per unit a linear model has for a column."""
    if isinstance(column, fc.AnyCategoricalColumn):
        return column.num_buckets if hasattr(column, "num_buckets") else column._num_buckets
    return checks.column_shape(column).num_elements()


def _scope_name(column: Any) -> str:
    name = getattr(column, "shared_embedding_collection_name", None) or column.name
    return _NO_SCOPE_NAME.sub("_", name)


def _column_names(columns: list[Any]) -> dict[Any, str]:
    """The scope of each column inside a linear model.

    The names are claimed in the scope outside of it, as `tf.compat.v1.feature_column` does: in a
    second linear model of the same columns they end in `_1` too.
    """
    names: dict[Any, str] = {}
    for column in sorted(columns, key=lambda column: column.name):
        with _v1.variable_scope(None, default_name=_scope_name(column)) as scope:
            name = scope.name.rsplit("/", 1)[-1]
        if name in names.values():  # a/x and b/x: TensorFlow loses one of them here
            name = _scope_name(column).replace("/", "_")
        names[column] = name
    return names
