"""Python iterables of batches (generators, lists, Keras PyDatasets, PyTorch loaders)."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import InputError
from estimand.inputs.sources import note_source
from estimand.inputs.structure import clean_parts, describe, leaf_names
from estimand.inputs.watched_batches import WatchedBatches


def is_batches(value: Any, where: str) -> bool:
    """Whether `value` gives batches one after another, rather than being one itself.

    >>> is_batches(iter([]), "input_fn"), is_batches({"x": [1]}, "input_fn")
    (True, False)
    """
    if isinstance(value, list):
        return _is_list_of_batches(value, where)
    if isinstance(value, (tuple, Mapping, str, bytes, np.ndarray, np.generic)):
        return False
    if tf.is_tensor(value) or hasattr(value, "__array__"):
        return False
    return inspect.isgeneratorfunction(value) or _is_indexed(value) or isinstance(value, Iterable)


def _is_list_of_batches(value: list[Any], where: str) -> bool:
    def is_pair(item: Any) -> bool:
        return isinstance(item, tuple) and len(item) == 2

    pairs = bool(value) and all(is_pair(item) for item in value)
    if pairs and len(value) == 2:
        raise InputError(
            f"{where} returned a list of two pairs, which could be one (features, labels) or two "
            "batches. Return `iter([...])` for batches, a tuple for one pair."
        )
    return pairs or (
        len(value) not in (0, 2) and all(isinstance(item, Mapping) and item for item in value)
    )


def _is_indexed(value: Any) -> bool:
    """Like keras.utils.PyDataset: batches by index, their number known (None: endless)."""
    return hasattr(value, "__getitem__") and (
        hasattr(value, "__len__") or hasattr(value, "num_batches")
    )


def _indexed(value: Any) -> Iterator[Any]:
    count = value.num_batches if hasattr(value, "num_batches") else len(value)
    indices = itertools.count() if count is None else range(count)
    return (value[i] for i in indices)


def dataset_from_batches(batches: Any, where: str) -> tuple[tf.data.Dataset, Any]:
    """A Dataset of flat batches, and the structure (features[, labels]) to pack them into."""
    open_again = _opener(batches, where)
    iterator = open_again()
    try:
        first = next(iterator)
    except StopIteration:
        raise InputError(
            f"{where} returned {describe(batches)}, which gave no batch at all, so the types and "
            "shapes of features are unknown. Give at least one batch, or return a Dataset."
        ) from None
    check = _BatchCheck(_split_batch(first, 0, where), where)
    started: list[Iterator[Any]] = [itertools.chain([first], iterator)]
    watched = WatchedBatches(where)
    note_source(watched)

    def flat_batches() -> Iterator[tuple[Any, ...]]:
        # The batch that was looked at above is the first one of the first pass.
        source = started.pop() if started else open_again()
        for index, batch in enumerate(source):
            yield check.flatten(_split_batch(batch, index, where), index)

    dataset = tf.data.Dataset.from_generator(
        lambda: watched.watch(flat_batches()), output_signature=check.specs
    )
    return dataset, check.structure


def _opener(batches: Any, where: str) -> Callable[[], Iterator[Any]]:
    if inspect.isgeneratorfunction(batches):
        return batches
    if _is_indexed(batches):
        return lambda: _indexed(batches)
    if not isinstance(batches, Iterator):
        return lambda: iter(batches)
    once = [batches]

    def open_once() -> Iterator[Any]:
        if not once:
            raise InputError(
                f"{where} returned {describe(batches)}, which can be read only once, and a second "
                "pass was asked for. Return the generator function itself, or a list."
            )
        return once.pop()

    return open_once


def _split_batch(batch: Any, index: int, where: str) -> tuple[Any, ...]:
    """(features,) or (features, labels), cleaned."""
    # A PyTorch loader gives [features] when its dataset has no labels, Keras allows (features,).
    alone = isinstance(batch, (list, tuple)) and len(batch) == 1
    here = f"{where}, batch {index}"
    return clean_parts((batch[0], None) if alone else batch, here, verb="is")


class _BatchCheck:
    """Remembers the first batch and holds every later one to its structure and shapes."""

    def __init__(self, first: tuple[Any, ...], where: str) -> None:
        self._where = where
        self.structure = tf.nest.map_structure(_spec, first)
        self.specs = tuple(tf.nest.flatten(self.structure))
        self._names = _names(first)

    def flatten(self, batch: tuple[Any, ...], index: int) -> tuple[Any, ...]:
        names = _names(batch)
        if names != self._names:
            raise InputError(
                f"{self._where}, batch {index}, has {', '.join(names)}; the first batch had "
                f"{', '.join(self._names)}. All batches must have the same structure."
            )
        leaves = tf.nest.flatten(batch)
        checked = zip(leaves, self.specs, names, strict=True)
        return tuple(self._checked(leaf, spec, name, index) for leaf, spec, name in checked)

    def _checked(self, leaf: Any, spec: tf.TypeSpec, name: str, index: int) -> Any:
        leaf_spec = _spec(leaf)
        if spec.is_compatible_with(leaf_spec):
            return leaf
        if isinstance(leaf, np.ndarray) and isinstance(spec, tf.TensorSpec):
            wider = np.can_cast(leaf.dtype, spec.dtype.as_numpy_dtype, "safe")
            if wider and spec.shape.is_compatible_with(leaf_spec.shape):
                return leaf.astype(spec.dtype.as_numpy_dtype)
        raise InputError(
            f"{self._where}, batch {index}: {name} is {describe(leaf_spec)}, but the first batch "
            f"had {describe(spec)}. Only the first dimension may vary between batches: pad or cast "
            "the arrays, or give a tf.RaggedTensor."
        )


def _names(batch: tuple[Any, ...]) -> list[str]:
    pairs = zip(batch, ("features", "labels"), strict=False)
    return [name for part, title in pairs for name in leaf_names(part, title)]


def _spec(leaf: Any) -> tf.TypeSpec:
    """The type of a leaf with the batch dimension left open."""
    if isinstance(leaf, np.ndarray):
        # Object arrays hold strings: everything else was refused while cleaning.
        is_text = leaf.dtype.kind in "OSU"
        leaf_spec = tf.TensorSpec(leaf.shape, tf.string if is_text else leaf.dtype)
    else:
        leaf_spec = tf.type_spec_from_value(leaf)
    if leaf_spec.shape.rank in (None, 0):
        return leaf_spec
    shape = tf.TensorShape([None, *leaf_spec.shape[1:]])
    if isinstance(leaf_spec, tf.SparseTensorSpec):
        # The width of a sparse batch is that of its longest row, and so differs by nature.
        return tf.SparseTensorSpec([None] * shape.rank, leaf_spec.dtype)
    if isinstance(leaf_spec, tf.RaggedTensorSpec):
        return tf.RaggedTensorSpec(
            shape, leaf_spec.dtype, leaf_spec.ragged_rank, leaf_spec.row_splits_dtype
        )
    return tf.TensorSpec(shape, leaf_spec.dtype)
