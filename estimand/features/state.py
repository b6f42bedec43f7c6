"""Where columns keep what outlives a batch: embedding tables as v1 variables, lookup tables.

TensorFlow calls this a state manager. This one makes variables with `get_variable` in the scope
that is open, so they have the names that `tf.estimator` gave them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import FeatureColumnError
from estimand.core.first_values import note_first_value
from estimand.core.tf_private import feature_columns as fc

_v1 = tf.compat.v1
_Keys = _v1.GraphKeys
_TABLES = "estimand/tables_of_columns"
_SHARED = "estimand/owners_of_shared_embeddings"


class LookupTables:
    """The vocabulary tables of columns: one per column and graph, whoever asks."""

    def __init__(self, tables: dict[Any, Any] | None = None) -> None:
        self._tables = {} if tables is None else tables

    def has_resource(self, column: Any, name: str) -> bool:
        return (column, name) in self._tables

    def add_resource(self, column: Any, name: str, resource: Any) -> None:
        self._tables[column, name] = resource

    def get_resource(self, column: Any, name: str) -> Any:
        return self._tables[column, name]


class GraphState(LookupTables):
    """State of the columns in a model function."""

    def __init__(self, weight_collections: Sequence[str] | None, trainable: bool) -> None:
        super().__init__(_kept_in_graph(_TABLES))
        kept = list(weight_collections or [])
        for collection in (_Keys.GLOBAL_VARIABLES, _Keys.MODEL_VARIABLES):
            if collection not in kept:
                kept.append(collection)
        self._collections = kept
        self._trainable = trainable
        self._by_column: dict[tuple[Any, str], Any] = {}

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
        variable = _v1.get_variable(
            name,
            shape=shape,
            dtype=dtype or tf.float32,
            initializer=initializer,
            trainable=trainable and self._trainable,
            collections=list(self._collections),
        )
        self._by_column[feature_column, name] = variable
        return variable

    def get_variable(self, feature_column: Any, name: str) -> Any:
        return self._by_column[feature_column, name]

    def variables_of(self, column: Any) -> list[Any]:
        """The variables that belong to a column, the parts of a partitioned one singly."""
        variables: list[Any] = []
        for (owner, _), variable in self._by_column.items():
            if owner is column or owner == column:
                variables.extend(pieces(variable))
        return variables

    def embedding_table(self, column: Any) -> Any:
        """The variable that an embedding column of any kind looks into."""
        if (column, "embedding_weights") in self._by_column:
            return self._by_column[column, "embedding_weights"]
        if isinstance(column, fc.SharedEmbeddingColumn):
            variable = self._shared_table(column)
        elif isinstance(column, fc.V1SharedEmbeddingColumn):
            variable = self._collection_table(column)
        else:
            variable = self._own_table(column)
            start_from_checkpoint(variable, column.ckpt_to_load_from, column.tensor_name_in_ckpt)
        self._by_column[column, "embedding_weights"] = variable
        return variable

    def _own_table(self, column: Any) -> Any:
        return self.create_variable(
            column,
            "embedding_weights",
            shape=(column.categorical_column.num_buckets, column.dimension),
            trainable=column.trainable,
            initializer=column.initializer,
        )

    def _collection_table(self, column: Any) -> Any:
        """Columns of v1's `shared_embedding_columns` find their table in a graph collection."""
        name = column.shared_embedding_collection_name
        shape = [column.categorical_column.num_buckets, column.dimension]
        present = _v1.get_collection(name)
        if not present:
            variable = self._own_table(column)
            _v1.add_to_collection(name, variable)
            start_from_checkpoint(variable, column.ckpt_to_load_from, column.tensor_name_in_ckpt)
            return variable
        if len(present) > 1 or present[0].shape.as_list() != shape:
            raise FeatureColumnError(
                f"Collection {name} can only contain one variable, of shape {shape}, for column "
                f"{column.name!r}; it has {[(v.name, v.shape.as_list()) for v in present]}. "
                "Choose a unique name with shared_embedding_collection_name=."
            )
        return present[0]

    def _shared_table(self, column: Any) -> Any:
        """Columns of `shared_embeddings` have a table at top level, whatever scope is open."""
        creator = column.shared_embedding_column_creator
        table = fc.shared_table(creator)
        owners = _kept_in_graph(_SHARED)
        if owners.setdefault(table.name, creator) is not creator:
            raise FeatureColumnError(
                f"Two calls of shared_embeddings make a table with the name {table.name!r}: "
                "give one of them another name with shared_embedding_collection_name=."
            )
        root = _v1.VariableScope(reuse=_v1.AUTO_REUSE, name="", use_resource=True)
        known = {id(v) for v in _v1.global_variables()}
        with _v1.variable_scope(root, auxiliary_name_scope=False), tf.name_scope(""):
            variable = _v1.get_variable(
                table.name,
                shape=table.shape,
                initializer=table.initializer,
                trainable=table.trainable and self._trainable,
                collections=list(self._collections),
            )
        if id(variable) not in known:
            start_from_checkpoint(variable, table.ckpt_to_load_from, table.tensor_name_in_ckpt)
        return variable


def start_from_checkpoint(variable: Any, checkpoint: str | None, tensor_name: str | None) -> None:
    """Let an embedding table begin with the values of a checkpoint instead of its initializer."""
    if checkpoint is None:
        return
    if not tf.executing_eagerly():
        whole = list(variable) if is_partitioned(variable) else variable
        _v1.train.init_from_checkpoint(checkpoint, {tensor_name: whole})
    elif not getattr(variable, "_estimand_started", False):
        # Eagerly the model function runs at every step, but this happens once. It is what the
        # variable begins with, not a write of the step, which would be kept until asked for.
        value = tf.constant(tf.train.load_variable(checkpoint, tensor_name), variable.dtype)
        tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)
        note_first_value(variable, value)
        variable._estimand_started = True


def is_partitioned(variable: Any) -> bool:
    return not isinstance(variable, tf.Variable) and hasattr(variable, "__iter__")


def pieces(variable: Any) -> list[Any]:
    return list(variable) if is_partitioned(variable) else [variable]


def _kept_in_graph(collection: str) -> dict[Any, Any]:
    """A dict that lives as long as the graph being built; a new one when executing eagerly."""
    if tf.executing_eagerly():
        return {}
    members = _v1.get_default_graph().get_collection_ref(collection)
    if not members:
        members.append({})
    return members[0]
