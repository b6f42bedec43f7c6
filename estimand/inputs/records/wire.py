"""Protocol buffers by the thousand: laying pieces of bytes into one buffer with NumPy.

What stands before a piece (tags, lengths, the feature's name) depends on nothing but the piece's
length. So pieces are grouped by length, and each group is copied with one indexed assignment.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator

import numpy as np

_FEW = 24  # fewer pieces than this are copied one by one


@dataclasses.dataclass(frozen=True)
class Pieces:
    """Parts of one buffer: `flat[starts[i] : starts[i] + lengths[i]]`."""

    flat: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, rows: slice | np.ndarray) -> Pieces:
        return Pieces(self.flat, self.starts[rows], self.lengths[rows])

    @classmethod
    def consecutive(cls, flat: np.ndarray, lengths: np.ndarray) -> Pieces:
        ends = np.cumsum(lengths, dtype=np.int64)
        return cls(flat, ends - lengths, lengths)

    @classmethod
    def of(cls, values: list[bytes]) -> Pieces:
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        return cls.consecutive(np.frombuffer(b"".join(values), np.uint8), lengths)


def varint_lengths(values: np.ndarray) -> np.ndarray:
    """How many bytes each number (uint64) takes."""
    lengths = np.ones(values.shape, np.int64)
    most = int(values.max(initial=0))
    for byte in range(1, 10):
        if most < 1 << (7 * byte):
            break
        lengths += values >= np.uint64(1 << (7 * byte))
    return lengths


def varints(values: np.ndarray) -> Pieces:
    """Many numbers (int64; negative ones take ten bytes)."""
    rest: np.ndarray = values.astype(np.int64, copy=False).view(np.uint64).copy()
    lengths = varint_lengths(rest)
    width = int(lengths.max(initial=1))
    table: np.ndarray = np.empty((len(rest), width), np.uint8)
    for byte in range(width):
        more = np.where(lengths > byte + 1, np.uint8(128), np.uint8(0))
        table[:, byte] = (rest & np.uint64(127)).astype(np.uint8) | more
        rest >>= np.uint64(7)
    if width == 1:
        return Pieces(table.ravel(), np.arange(len(rest)), lengths)
    starts: np.ndarray = np.arange(len(rest)) * width
    return Pieces(table.ravel(), starts, lengths)


Prefix = Callable[[int], bytes]


class Layout:
    """Pieces grouped by length, each with the prefix of its length."""

    def __init__(self, pieces: Pieces, prefix: Prefix, rows: np.ndarray | None = None) -> None:
        """`rows`: the numbers of these pieces, where not every row has one."""
        self._pieces = pieces
        self._rows = rows
        self._groups = list(_groups(pieces.lengths, prefix))
        self.lengths: np.ndarray = np.empty(len(pieces), np.int64)
        for length, members, before in self._groups:
            self.lengths[members] = length + len(before)

    def add_lengths(self, to: np.ndarray) -> None:
        """Add what each piece takes, with its prefix, to the length of its row."""
        to[slice(None) if self._rows is None else self._rows] += self.lengths

    def write(self, out: np.ndarray, positions: np.ndarray) -> None:
        """Write prefixes and pieces at their rows' positions, and move these on."""
        where = positions if self._rows is None else positions[self._rows]
        for length, members, before in self._groups:
            targets, sources = where[members], self._pieces.starts[members]
            if len(targets) < _FEW:
                _copy_few(out, targets, before, self._pieces.flat, sources, length)
                continue
            if before:
                _windows(out, len(before))[targets] = np.frombuffer(before, f"V{len(before)}")[0]
            if length:
                copied = _windows(self._pieces.flat, length)[sources]
                _windows(out, length)[targets + len(before)] = copied
        self.add_lengths(positions)


def _groups(lengths: np.ndarray, prefix: Prefix) -> Iterator[tuple[int, slice | np.ndarray, bytes]]:
    if not len(lengths):
        return
    first = int(lengths[0])
    if (lengths == first).all():
        yield first, slice(None), prefix(first)
        return
    small = int(lengths.max()) < 1 << 16  # sorted by counting, if 16 bits are enough
    order = np.argsort(lengths.astype(np.uint16) if small else lengths, kind="stable")
    ordered = lengths[order]
    bounds = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(order)]
    for begin, end in itertools.pairwise(bounds):
        length = int(ordered[begin])
        yield length, order[begin:end], prefix(length)


def _windows(buffer: np.ndarray, size: int) -> np.ndarray:
    """The `size` bytes that begin at each byte of the buffer, as one item each."""
    return np.ndarray(buffer.size - size + 1, f"V{size}", buffer, strides=(1,))


def _copy_few(
    out: np.ndarray,
    targets: np.ndarray,
    before: bytes,
    flat: np.ndarray,
    sources: np.ndarray,
    length: int,
) -> None:
    to, origin = out.data, flat.data
    for target, source in zip(targets.tolist(), sources.tolist(), strict=True):
        begin = target + len(before)
        to[target:begin] = before
        to[begin : begin + length] = origin[source : source + length]


def joined(pieces: Pieces, prefix: Prefix, counts: np.ndarray) -> Pieces:
    """Pieces with their prefixes, the first `counts[0]` of them joined to one, and so on."""
    layout = Layout(pieces, prefix)
    ends = np.cumsum(layout.lengths)
    flat: np.ndarray = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    layout.write(flat, ends - layout.lengths)
    return Pieces.consecutive(flat, sums(layout.lengths, counts))


def sums(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The sum of the first `counts[0]` values, of the next `counts[1]`, and so on."""
    totals = np.concatenate([[0], np.cumsum(values)])
    ends = np.cumsum(counts)
    return totals[ends] - totals[ends - counts]


def write_varints(out: np.ndarray, positions: np.ndarray, values: np.ndarray) -> None:
    """Write one number at each position, and move the positions on."""
    Layout(varints(values), lambda length: b"").write(out, positions)
