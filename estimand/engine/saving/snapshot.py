"""Copies of large variables in memory that is kept for them, so that a save holds up nothing.

A read of a variable shares its memory, and the next update makes a copy first: of a large
variable into fresh pages, which the system has to find and clear, in the middle of a training
step. Copying into pages that are there already is several times faster. They are made in the
background, after the first save.

A copy owns its memory: it is lent out with the tensor, and used again only once that tensor, and
whatever shares its memory, is no more. Who is reading it, and for how long, need not be known here.
"""

from __future__ import annotations

import concurrent.futures
import threading
import weakref
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
    """Memory for one copy of each of the large ones among a fixed list of variables."""

    def __init__(self, variables: Sequence[tf.Variable]) -> None:
        sizes = {i: _bytes(v) for i, v in enumerate(variables)}
        large = {i: size for i, size in sizes.items() if size >= _LARGE}
        fits = sum(large.values()) <= _MOST_BYTES
        self._shapes = {i: variables[i] for i in large} if fits else {}
        self._places: dict[int, _Place] = {}
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Get the memory; slow, so for the thread that writes checkpoints."""
        with self._lock:
            if self._shapes and not self._places:
                self._places = {i: _Place(_touched_memory(v)) for i, v in self._shapes.items()}

    def take(self, values: list[tf.Tensor]) -> list[tf.Tensor]:
        """`values`, the large ones as copies where their memory is free.

        One whose memory is still being read stays the variable's own value, which nobody writes
        to either: the next update makes a copy for itself.
        """
        if not self._lock.acquire(blocking=False):
            return values  # it is just being made, or given to somebody else
        try:
            free = {i: place for i, place in self._places.items() if place.free}
            pieces = [
                piece
                for index, place in free.items()
                for piece in _pieces(place.buffer, np.asarray(memoryview(values[index])))
            ]
            if pieces:
                with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
                    list(pool.map(lambda piece: np.copyto(*piece), pieces))
            return [free[i].lend() if i in free else value for i, value in enumerate(values)]
        finally:
            self._lock.release()


class _Place:
    """Memory for one value, and whether a tensor that was made of it is still there."""

    def __init__(self, buffer: np.ndarray) -> None:
        self.buffer = buffer
        self._lent: weakref.ref[np.ndarray] | None = None

    @property
    def free(self) -> bool:
        return self._lent is None or self._lent() is None

    def lend(self) -> tf.Tensor:
        """A tensor of this memory. Unlike a conversion, this does not copy.

        TensorFlow holds on to the view, not to the memory itself, for as long as any tensor has
        to do with it.
        """
        view = self.buffer.view()
        self._lent = weakref.ref(view)
        return tf.experimental.dlpack.from_dlpack(view.__dlpack__())


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
