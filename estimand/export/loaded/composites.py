"""Sparse and ragged inputs and outputs of a signature: each is several arrays in the graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from estimand.core.errors import InputError
from estimand.core.interpreter.deferred import deferred
from estimand.export.loaded.arrays import TensorInfo, checked_array, shape_text
from estimand.export.loaded.reading import RAGGED, SPARSE

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = deferred("tensorflow")


def fed_arrays(info: TensorInfo, value: Any) -> list[np.ndarray]:
    """`value` as the arrays that are fed for an input, one for each of `info.tensors`.

    A sparse input takes a `tf.SparseTensor`, a triple (indices, values, dense_shape), or a list of
    rows, each a list of its values, as many as it has. A ragged one takes a `tf.RaggedTensor` or
    nested lists. Both take dense arrays.

    >>> info = TensorInfo("ids", "int64", (None, None), "v:0", SPARSE, ("i:0", "v:0", "s:0"))
    >>> [array.tolist() for array in fed_arrays(info, [[7, 8], [], [9]])]
    [[[0, 0], [0, 1], [2, 0]], [7, 8, 9], [3, 2]]
    """
    if info.kind is None:
        return [checked_array(info, value)]
    if info.kind == SPARSE:
        return _sparse_arrays(info, value)
    if info.kind == RAGGED:
        return _ragged_arrays(info, value)
    raise InputError(
        f"Input {info.name!r} is a {info.kind}, which cannot be given here; sparse, ragged and "
        f"dense ones can. Feed its tensors by name: model.run(fetches, {{name: array}}) with the "
        f"names {list(info.parts)}."
    )


def joined_values(outputs: Iterable[TensorInfo], arrays: Sequence[np.ndarray]) -> list[Any]:
    """What was fetched, one value per output: sparse and ragged ones put together again."""
    left = iter(arrays)
    return [_joined(info, [next(left) for _ in info.tensors]) for info in outputs]


def row_count(info: TensorInfo, arrays: Sequence[np.ndarray]) -> int:
    """How many rows the arrays of one input are."""
    if info.kind == SPARSE:
        return int(arrays[2][0])
    return len(arrays[1]) - 1 if info.kind == RAGGED else len(arrays[0])


def rows_of(value: Any) -> Iterator[Any]:
    """The rows of an output; of a sparse one, the values that each row has.

    >>> list(rows_of(tf.compat.v1.SparseTensorValue([[1, 0], [1, 2]], [5, 6], [2, 3])))
    [[], [5, 6]]
    """
    if isinstance(value, tf.compat.v1.SparseTensorValue):
        of_rows: list[list[Any]] = [[] for _ in range(int(value.dense_shape[0]))]
        for index, element in zip(value.indices, value.values, strict=True):
            of_rows[int(index[0])].append(element)
        yield from of_rows
    elif isinstance(value, tf.compat.v1.ragged.RaggedTensorValue):
        for start, end in itertools.pairwise(value.row_splits):
            inner = value.values
            if isinstance(inner, np.ndarray):
                yield inner[start:end]
            else:
                yield list(rows_of(inner))[start:end]
    else:
        yield from value


# ------------------------------------------------------------------ sparse


def _sparse_arrays(info: TensorInfo, value: Any) -> list[np.ndarray]:
    if isinstance(value, tf.SparseTensor | tf.compat.v1.SparseTensorValue):
        parts = (value.indices, value.values, value.dense_shape)
    elif isinstance(value, tuple) and len(value) == 3:
        parts = value
    else:
        parts = _sparse_of_rows(info, value)
    # Without values the list of indices is empty, and has to say how many each of them has.
    rank = np.size(parts[2])
    indices = np.asarray(parts[0], np.int64).reshape(-1, rank)
    values = checked_array(_flat(info), parts[1])
    shape = np.asarray(parts[2], np.int64)
    _check_shape(info, shape.tolist())
    if len(indices) != len(values):
        raise InputError(
            f"Input {info.name!r} was given {len(indices)} indices for {len(values)} values; "
            "give a triple (indices [n, rank], values [n], dense_shape [rank])."
        )
    return [indices, values, shape]


def _sparse_of_rows(info: TensorInfo, value: Any) -> tuple[Any, Any, Any]:
    """What stands in each row, from its start on; of a dense array, all of it."""
    ragged = _ragged(info, value, rank=len(info.shape) if info.shape else 2)
    if ragged.ragged_rank == 0:
        raise _no_rows(info, value)
    sparse = ragged.to_sparse()
    return sparse.indices, sparse.values, sparse.dense_shape


# ------------------------------------------------------------------ ragged


def _ragged_arrays(info: TensorInfo, value: Any) -> list[np.ndarray]:
    ragged_rank = len(info.parts) - 1
    inner = len(info.shape) - ragged_rank - 1 if info.shape else 0
    given = _ragged(info, value, rank=ragged_rank + 1 + inner, inner=inner)
    if given.ragged_rank != ragged_rank:
        raise InputError(
            f"Input {info.name!r} has {ragged_rank} ragged dimensions, but was given a ragged "
            f"tensor with {given.ragged_rank}."
        )
    values = checked_array(_flat(info, inner), given.flat_values)
    return [values, *(splits.numpy() for splits in given.nested_row_splits)]


def _ragged(info: TensorInfo, value: Any, rank: int, inner: int = 0) -> Any:
    """`value` as a ragged tensor of a rank, all dimensions ragged but the first and `inner`."""
    if isinstance(value, tf.RaggedTensor):
        return value
    dtype = tf.as_dtype(info.dtype)
    try:
        if isinstance(value, tf.compat.v1.ragged.RaggedTensorValue):
            return tf.RaggedTensor.from_nested_row_splits(
                value.flat_values, value.nested_row_splits
            )
        if hasattr(value, "shape"):
            array = checked_array(TensorInfo(info.name, info.dtype, None, info.tensor), value)
            if array.ndim != rank:
                raise _no_rows(info, value)
            return tf.RaggedTensor.from_tensor(array, ragged_rank=rank - 1 - inner)
        return tf.ragged.constant(value, dtype, ragged_rank=rank - 1 - inner)
    except InputError:
        raise
    except (TypeError, ValueError, tf.errors.InvalidArgumentError) as error:
        raise _no_rows(info, value) from error


def _no_rows(info: TensorInfo, value: Any) -> InputError:
    shown = repr(value)
    return InputError(
        f"Input {info.name!r} is {info.kind} and takes {info.dtype} of shape "
        f"{shape_text(info.shape)}: a tf.{'Sparse' if info.kind == SPARSE else 'Ragged'}Tensor, "
        "or a list of rows, each a list of as many values as it has. Given: "
        f"{shown if len(shown) < 200 else shown[:200] + '...'}."
    )


# ------------------------------------------------------------------ both


def _flat(info: TensorInfo, inner: int = 0) -> TensorInfo:
    """What the values of an input have to be, one after the other."""
    shape = info.shape[len(info.shape) - inner :] if info.shape and inner else ()
    return TensorInfo(info.name, info.dtype, (None, *shape), info.tensor)


def _check_shape(info: TensorInfo, given: Sequence[int]) -> None:
    if info.shape is not None and not tf.TensorShape(info.shape).is_compatible_with(given):
        raise InputError(
            f"Input {info.name!r} takes a sparse tensor of shape {shape_text(info.shape)}, but "
            f"was given {shape_text(given)}."
        )


def _joined(info: TensorInfo, arrays: Sequence[np.ndarray]) -> Any:
    if info.kind == SPARSE:
        return tf.compat.v1.SparseTensorValue(*arrays)
    if info.kind != RAGGED:
        return arrays[0] if len(arrays) == 1 else tuple(arrays)
    value: Any = arrays[0]
    for splits in reversed(arrays[1:]):
        value = tf.compat.v1.ragged.RaggedTensorValue(value, splits)
    return value
