"""The records of a stream, some megabytes at a time; the next piece is read meanwhile.

Reading and summing are long calls that need no Python, so a second thread does them: while the
records of one piece are looked for, the piece before is summed and its place filled again.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import mmap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import numpy as np

from estimand.inputs.records import framing
from estimand.inputs.records.files import DamagedStream

PIECE_BYTES = 1 << 22  # few calls for many records, and two of them fit the processor's cache
# Before each piece, for the beginning of a record that the piece before it ended with.
_ROOM = 1 << 19


# What `bytearray` and `mmap` have in common: bytes to be written in place.
Buffer = Any


def _page_aligned(size: int) -> Buffer:
    """Memory that begins with a page, as that of a bytearray does not.

    Some processors copy bytes from the page cache to a place a little behind the beginning of a
    page at a quarter of the speed (AMD's Zen 3, for one).
    """
    memory = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


@dataclasses.dataclass
class Piece:
    """Some bytes of a stream: `buffer[_ROOM:end]`."""

    buffer: Buffer
    end: int = _ROOM
    damage: DamagedStream | None = None
    before_reuse: Callable[[], None] | None = None

    @property
    def is_last(self) -> bool:
        return self.end < len(self.buffer) or self.damage is not None

    def finish(self) -> None:
        """Do what was left to do with these bytes."""
        if self.before_reuse is not None:
            self.before_reuse()
            self.before_reuse = None

    def refill(self, stream: Any) -> Piece:
        """The next bytes of the stream in place of these."""
        self.finish()
        target, filled = memoryview(self.buffer)[_ROOM:], 0
        try:
            while filled < len(target) and (count := stream.readinto(target[filled:])):
                filled += count
        except DamagedStream as damage:
            self.damage = damage
        self.end = _ROOM + filled
        return self


@dataclasses.dataclass
class Block:
    """Whole records in a buffer; where there are none, bytes that do not make a record.

    `starts` and `end` are places in the buffer, `offset` is that of `begin` in the stream.
    """

    buffer: Buffer
    begin: int
    starts: np.ndarray
    end: int
    offset: int
    piece: Piece | None = None

    @property
    def size(self) -> int:
        return self.end - self.begin

    @property
    def rest(self) -> bytes:
        """The bytes that are no record, where there are no records."""
        return b"" if len(self.starts) else bytes(self.buffer[self.begin : self.end])

    def later(self, job: Callable[[], None]) -> None:
        """Do this before the buffer is used again, at the latest before the last block."""
        if self.piece is None:
            job()
        else:
            self.piece.before_reuse = job


class ReadAhead:
    """Buffers and a thread for reading one stream after another. A context.

    >>> import io
    >>> with ReadAhead(8) as ahead:
    ...     pieces = ahead.pieces(io.BytesIO(b"some bytes"))
    ...     [bytes(piece.buffer[_ROOM : piece.end]) for piece in pieces]
    [b'some byt', b'es']
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._buffers: list[Buffer] = []
        self._thread = ThreadPoolExecutor(1, "estimand-records")

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.shutdown()

    def pieces(self, stream: Any) -> Iterator[Piece]:
        """The bytes of the stream. What was left to do with a piece is done when this ends."""
        piece = Piece(self._buffer(0)).refill(stream)
        if piece.is_last:  # a small file: no thread is needed
            yield from _only(piece)
            return
        submit = self._thread.submit
        coming = collections.deque([submit(Piece(self._buffer(1)).refill, stream)])
        try:
            while not piece.is_last:
                yield piece
                coming.append(submit(piece.refill, stream))
                piece = coming.popleft().result()
            yield from _only(piece)
        finally:
            for future in coming:
                future.result()

    def _buffer(self, number: int) -> Buffer:
        while len(self._buffers) <= number:
            self._buffers.append(_page_aligned(_ROOM + self._size))
        return self._buffers[number]


def _only(piece: Piece) -> Iterator[Piece]:
    yield piece
    piece.finish()


def pieces_in_turn(stream: Any, size: int) -> Iterator[Piece]:
    """The bytes of a stream without reading ahead, for who may stop after the first records."""
    piece = Piece(_page_aligned(_ROOM + size))
    while not piece.refill(stream).is_last:
        yield piece
    yield from _only(piece)


def blocks(pieces: Iterator[Piece]) -> Iterator[Block]:
    """The records of a stream, as many at a time as a piece holds, and what remains.

    Whatever was left to do `later` is done before the remainder is given, and before damage of
    the stream is raised, which is after all records that precede it.
    """
    offset, tail = 0, bytearray()
    damage = None
    with contextlib.closing(pieces):  # type: ignore[type-var]
        for piece in pieces:
            damage = piece.damage
            buffer, begin, filled = _joined(tail, piece)
            starts, end = framing.starts_of_records(buffer, begin, filled)
            if len(starts):
                tail = bytearray(buffer[end:filled])
                yield Block(buffer, begin, starts, end, offset, piece)
                offset += end - begin
            else:  # the record is longer than what has been read of it, if its header is right
                tail = buffer if buffer is not piece.buffer else bytearray(buffer[begin:filled])
                if not framing.header_is_right(bytes(tail[: framing.HEADER])):
                    break
    if damage is not None:
        raise damage
    if tail:
        yield Block(tail, 0, np.zeros(0, np.int64), len(tail), offset)


def _joined(tail: bytearray, piece: Piece) -> tuple[Buffer, int, int]:
    """(buffer, begin, end) of what was left over together with what was read."""
    if len(tail) <= _ROOM:
        begin = _ROOM - len(tail)
        piece.buffer[begin:_ROOM] = tail
        return piece.buffer, begin, piece.end
    tail += memoryview(piece.buffer)[_ROOM : piece.end]
    return tail, 0, len(tail)
