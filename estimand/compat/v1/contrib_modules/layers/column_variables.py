"""What `tf.contrib` called the variables of feature columns."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.tf_private import feature_columns as fc
from estimand.features import input_layer, linear_model

v1 = tf.compat.v1
UNNAMED = "unnamed"  # stands for the column "": no scope can be called so


def dense_input(features: Mapping[str, Any], columns: Sequence[Any], **settings: Any) -> tf.Tensor:
    """All columns side by side; tables are `<scope>/<column>/weights`."""
    with v1.variable_scope(v1.get_variable_scope(), custom_getter=_table_names):
        return input_layer(features, columns, **settings)


def weighted_sum(
    features: Mapping[str, Any],
    columns: Sequence[Any],
    units: int,
    variables: MutableMapping[Any, Any] | None = None,
    **settings: Any,
) -> tf.Tensor:
    """A linear model: `<scope>/<column>/weight`, `weights` of categories, `<scope>/bias_weight`.

    `variables` gets those of each column.
    """
    numeric = {column.name for column in columns if not _has_categories(column)}

    def renamed(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return getter(_weight_name(name, numeric), *args, **kwargs)

    with v1.variable_scope(v1.get_variable_scope(), custom_getter=renamed):
        return linear_model(features, columns, units, cols_to_vars=variables, **settings)


def _table_names(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    name = name.replace("/input_layer/", "/").replace("/embedding_weights", "/weights")
    return getter(name, *args, **kwargs)


def _weight_name(name: str, numeric: set[str]) -> str:
    scope, _, rest = name.partition("/linear_model/")
    if rest == "bias_weights":
        return f"{scope}/bias_weight"
    column = rest.removesuffix("/weights")
    last = "weight" if column in numeric else "weights"
    return f"{scope}/{'' if column == UNNAMED else column}/{last}"


def _has_categories(column: Any) -> bool:
    return isinstance(column, fc.AnyCategoricalColumn)
