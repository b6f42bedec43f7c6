"""Copies of large variables in memory that is kept for them, so that a save holds up nothing.

A read of a variable shares its memory, and the next update makes a copy first: of a large
variable into fresh pages, which the system has to find and clear, in the middle of a training
step. Copying into pages that are there already is several times faster. They are made in the
background, after the first save.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

_LARGE = 4 * 2**20
_THREADS = 2
_PIECE = 16 * 2**20
_ALIGNMENT = 64
# Above this, holding a second copy for good costs more than a slower step now and then.
_MOST_BYTES = 8 * 2**30


class SnapshotMemory:
    """Buffers for the large ones among a fixed list of variables."""

    def __init__(self, variables: Sequence[tf.Variable]) -> None:
        sizes = {i: _bytes(v) for i, v in enumerate(variables)}
        large = {i: size for i, size in sizes.items() if size >= _LARGE}
        fits = sum(large.values()) <= _MOST_BYTES
        self._shapes = {i: variables[i] for i in large} if fits else {}
        self._buffers: dict[int, np.ndarray] = {}

    def prepare(self) -> None:
        """Get the memory; slow, so for the thread that writes checkpoints."""
        if self._shapes and not self._buffers:
            self._buffers = {i: _touched_memory(v) for i, v in self._shapes.items()}

    def take(self, values: list[tf.Tensor]) -> list[tf.Tensor]:
        """`values`, the large ones as copies; what a previous call returned is overwritten."""
        buffers = self._buffers
        if not buffers:
            return values
        taken = list(values)
        pieces = [
            piece
            for index, buffer in buffers.items()
            for piece in _pieces(buffer, np.asarray(memoryview(values[index])))
        ]
        with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda piece: np.copyto(*piece), pieces))
        for index, buffer in buffers.items():
            # Unlike a conversion, this does not copy.
            taken[index] = tf.experimental.dlpack.from_dlpack(buffer.__dlpack__())
        return taken


def _pieces(to: np.ndarray, origin: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Parts of a copy, so that a single large variable, too, occupies all threads."""
    flat_to, flat_origin = to.reshape(-1), origin.reshape(-1)
    size = max(1, _PIECE // to.itemsize)
    for start in range(0, flat_to.size, size):
        yield flat_to[start : start + size], flat_origin[start : start + size]


def _touched_memory(variable: tf.Variable) -> np.ndarray:
    """An array for a value of `variable`, aligned as TensorFlow wants it, its pages in place."""
    size = _bytes(variable)
    memory: np.ndarray = np.zeros(size + _ALIGNMENT, np.uint8)
    memory.fill(0)  # zeros() alone only promises the pages
    start = -memory.ctypes.data % _ALIGNMENT
    values = memory[start : start + size].view(variable.dtype.as_numpy_dtype)
    return values.reshape(variable.shape.as_list())


def _bytes(variable: tf.Variable) -> int:
    plain = variable.dtype.is_floating or variable.dtype.is_integer
    if not plain or variable.dtype == tf.bfloat16 or not variable.shape.is_fully_defined():
        return 0  # NumPy has no such type, or there is no fixed size to prepare for
    return variable.shape.num_elements() * variable.dtype.size
