"""`tf.contrib.layers.utils`, and `slim.utils`: outputs by their names, sizes, conditions."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.compat.v1.contrib_modules.framework.tensors import (
    smart_cond,
    smart_constant_value,
    static_cond,
)
from estimand.core.errors import ConfigError

__all__ = ["smart_cond", "static_cond"]
v1 = tf.compat.v1
constant_value = smart_constant_value


def collect_named_outputs(collections: Any, alias: str, outputs: Any) -> Any:
    """The outputs, which are in these collections from now on, by that name."""
    if collections:
        append_tensor_alias(outputs, alias)
        v1.add_to_collections(collections, outputs)
    return outputs


def append_tensor_alias(tensor: Any, alias: str) -> Any:
    """The tensor, with one more name."""
    tensor.aliases = [*getattr(tensor, "aliases", []), alias.rstrip("/")]
    return tensor


def get_tensor_aliases(tensor: Any) -> list[str]:
    """The names that a tensor was given; else its own."""
    return getattr(tensor, "aliases", None) or [tensor.name.removesuffix(":0")]


def gather_tensors_aliases(tensors: Any) -> list[str]:
    """Of several tensors."""
    return [alias for tensor in tensors for alias in get_tensor_aliases(tensor)]


def convert_collection_to_dict(
    collection: str, clear_collection: bool = False
) -> dict[str, tf.Tensor]:
    """What layers have put into a collection, by name: the end points of a network."""
    members = v1.get_collection(collection)
    if clear_collection:
        v1.get_default_graph().clear_collection(collection)
    return {alias: tensor for tensor in members for alias in get_tensor_aliases(tensor)}


def get_variable_collections(variables_collections: Any, name: str) -> Any:
    """The collections of one variable: those of all, or by name."""
    if isinstance(variables_collections, dict):
        return variables_collections.get(name)
    return variables_collections


def channel_dimension(shape: Any, data_format: str, min_rank: int = 1) -> int:
    """How many channels there are."""
    return _dimension(shape, 1 if data_format.startswith("NC") else -1, min_rank)


def last_dimension(shape: Any, min_rank: int = 1) -> int:
    """The size of the last dimension, which must be known."""
    return _dimension(shape, -1, min_rank)


def first_dimension(shape: Any, min_rank: int = 1) -> int:
    """The size of the first."""
    return _dimension(shape, 0, min_rank)


def _dimension(shape: Any, place: int, min_rank: int) -> int:
    sizes = tf.TensorShape(shape).as_list()
    if len(sizes) < min_rank:
        raise ConfigError(f"rank of shape must be at least {min_rank} not: {len(sizes)}")
    return sizes[place]


def two_element_tuple(int_or_tuple: Any) -> tuple[int, int]:
    """Twice the same number, or two."""
    first, second = n_positive_integers(2, int_or_tuple)
    return first, second


def n_positive_integers(n: int, value: Any) -> tuple[int, ...]:
    """`n` times the same number, or `n` of them.

    >>> n_positive_integers(2, 3), n_positive_integers(2, [3, 4])
    ((3, 3), (3, 4))
    """
    many = isinstance(value, (list, tuple, tf.TensorShape))
    values = [tf.compat.dimension_value(size) for size in value] if many else [value]
    numbers = tuple(int(size) for size in values) * (n if len(values) == 1 else 1)
    if len(numbers) != n or min(numbers, default=1) < 1:
        raise ConfigError(f"value must be {n} positive integers, not {value!r}")
    return numbers
