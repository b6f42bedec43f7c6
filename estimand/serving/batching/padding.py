"""Making arrays of several requests fit together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def pad_to_longest(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Joined rows; shorter ones are filled up, each with its own first value.

    >>> pad_to_longest([np.int32([[1, 2, 3]]), np.int32([[4]])])
    array([[1, 2, 3],
           [4, 4, 4]], dtype=int32)
    """
    longest = tuple(max(sizes) for sizes in zip(*(a.shape[1:] for a in arrays), strict=True))
    filled = []
    for array in arrays:
        if array.shape[1:] != longest:
            first = array.flat[0] if array.size else np.zeros((), array.dtype)[()]
            whole = np.full((len(array), *longest), first, array.dtype)
            whole[tuple(slice(size) for size in array.shape)] = array
            array = whole
        filled.append(array)
    return np.concatenate(filled)


def pad_rows(array: np.ndarray, filler: np.ndarray, rows: int) -> np.ndarray:
    """The array with copies of the filler's one row at its end.

    >>> pad_rows(np.int32([1, 2]), np.int32([9]), 4).tolist()
    [1, 2, 9, 9]
    """
    if filler.shape[1:] != array.shape[1:]:
        filler = array[-1:]
    return np.concatenate([array, np.repeat(filler, rows - len(array), axis=0)])
