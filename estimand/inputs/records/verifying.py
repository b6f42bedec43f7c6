"""Is every record of a TFRecord file what its writer wrote?"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from estimand.inputs.records import framing
from estimand.inputs.records.files import (
    DamagedStream,
    Paths,
    check_compression,
    compression_of,
    find_files,
    is_remote,
    open_records,
    read_fully,
)

_BUFFER_BYTES = 1 << 22  # reading and checking stay within the processor's cache
_MOST_PROBLEMS = 100


@dataclasses.dataclass(frozen=True)
class Problem:
    """One fault.

    Attributes:
      record: number of the record, from 0.
      offset: where the record begins, in (decompressed) bytes.
      text: what is wrong.
    """

    record: int
    offset: int
    text: str

    def __str__(self) -> str:
        return f"record {self.record} (at byte {self.offset}): {self.text}"


@dataclasses.dataclass(frozen=True)
class FileReport:
    """What `verify` found in one file.

    Attributes:
      path: the file.
      compression: "", "GZIP" or "ZLIB".
      records: how many records are in order.
      data_bytes: their sizes together, without the framing.
      file_bytes: the size on disk.
      problems: what is wrong, in the order of the file; empty when all is well. Reading goes on
        after a record with wrong data, and ends where the length of a record is wrong. A file of
        no bytes is well: it is what a writer of fewer rows than shards leaves.
    """

    path: str
    compression: str
    records: int
    data_bytes: int
    file_bytes: int
    problems: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        if self.ok:
            noun = "record" if self.records == 1 else "records"
            return f"{self.path}: {self.records} {noun}{' in order' if self.records else ''}"
        return f"{self.path}: {self.problems[0]}"


def verify(
    files: Paths,
    *,
    compression: str | None = None,
    on_progress: Callable[[str, int], None] | None = None,
) -> list[FileReport]:
    """Check the CRC of every record of some files.

    Records are summed some megabytes at a time; only where a sum is wrong are they looked at one
    by one. A change of up to 32 bits in a row of a record's data is always found. Several changes
    within these megabytes could undo each other's traces with a chance of one in four billion,
    which is also that of a single CRC to overlook a change.

    Args:
      files: a name, a pattern such as "data/train-*", or several of them.
      compression: None looks at each file; "", "GZIP" or "ZLIB" where you know better.
      on_progress: called with a file's name and how many more of its bytes were read.

    Returns:
      One report for each file. Nothing is raised for a damaged file; look at `report.ok`.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "a.tfrecord")
    >>> from estimand.inputs import records
    >>> _ = records.write(path, {"x": np.arange(3)})
    >>> [(report.records, report.ok) for report in verify(path)]
    [(3, True)]
    """
    kind = check_compression(compression, "verify")
    paths = find_files(files, "verify")
    buffer = bytearray(_BUFFER_BYTES)
    return [_check_file(path, kind, buffer, on_progress) for path in paths]


def _check_file(
    path: str,
    compression: str | None,
    buffer: bytearray,
    on_progress: Callable[[str, int], None] | None,
) -> FileReport:
    size = 0 if is_remote(path) else os.path.getsize(path)
    kind = compression_of(path) if compression is None else compression
    tally = _Tally(path, kind)
    try:
        with open_records(path, kind) as stream:
            for block in blocks(stream, buffer):
                tally.add(block)
                if on_progress is not None:
                    on_progress(path, block.end)
                if tally.ended:
                    break
    except DamagedStream as error:
        tally.problem(tally.number, tally.offset, f"cannot be read: {error}")
    return FileReport(path, kind, tally.good, tally.data_bytes, size, tuple(tally.problems))


@dataclasses.dataclass
class Block:
    """Whole records in a buffer; where there are none, `rest` bytes that do not make a record."""

    buffer: bytearray
    starts: np.ndarray
    end: int
    offset: int  # of the buffer's beginning in the file
    rest: int = 0


def blocks(stream: Any, buffer: bytearray) -> Iterator[Block]:
    """The records of a stream, as many at a time as the buffer holds, and what remains.

    A record that does not fit makes a larger buffer, if its header can be believed.
    """
    filled = offset = 0
    damage: DamagedStream | None = None
    while True:
        count = 0
        if damage is None:
            count, damage = _read_some(stream, memoryview(buffer)[filled:])
        filled += count
        starts, end = framing.starts_of_records(buffer, filled)
        if len(starts):
            yield Block(buffer, starts, end, offset)
        elif damage is not None:  # after all that came before it
            raise damage
        elif not filled:
            return
        elif count == 0 or not _can_grow(buffer, filled):
            yield Block(buffer, starts, 0, offset, filled)
            return
        else:
            buffer = buffer + bytes(len(buffer))
            continue
        buffer[: filled - end] = buffer[end:filled]
        offset += end
        filled -= end


def _read_some(stream: Any, target: memoryview) -> tuple[int, DamagedStream | None]:
    filled = 0
    while filled < len(target):
        try:
            count = stream.readinto(target[filled:])
        except DamagedStream as damage:
            return filled, damage
        if not count:
            break
        filled += count
    return filled, None


def _can_grow(buffer: bytearray, filled: int) -> bool:
    return filled >= framing.HEADER and framing.header_is_right(bytes(buffer[: framing.HEADER]))


class _Tally:
    """Counts the good and the bad of one file."""

    def __init__(self, path: str, compression: str) -> None:
        self._path, self._compression = path, compression
        self.number = self.good = self.data_bytes = self.offset = 0
        self.problems: list[Problem] = []
        self.ended = False

    def problem(self, record: int, offset: int, text: str) -> None:
        self.problems.append(Problem(record, offset, text))
        self.ended = self.ended or len(self.problems) >= _MOST_PROBLEMS

    def add(self, block: Block) -> None:
        self.offset = block.offset
        if block.rest:
            text = _why_not_a_record(block.buffer[: block.rest], not self.number)
            self.problem(self.number, block.offset, text)
            self.ended = True
            return
        if framing.all_right(block.buffer, block.starts, block.end):
            self._count_good(len(block.starts), block.end)
        else:
            self._look_closely(block)
        self.offset = block.offset + block.end

    def _count_good(self, count: int, size: int) -> None:
        self.number += count
        self.good += count
        self.data_bytes += size - count * framing.FRAME

    def _look_closely(self, block: Block) -> None:
        """Which records of a block are not in order (the block has been overwritten)."""
        data = self._read_again(block.offset, block.end)
        for start, size, fault in framing.judge(data, block.starts):
            if fault is None:
                self._count_good(1, size)
                continue
            self.problem(self.number, block.offset + start, fault)
            self.number += 1
            if self.ended or fault == framing.WRONG_LENGTH:
                self.ended = True
                return

    def _read_again(self, offset: int, size: int) -> bytearray:
        with open_records(self._path, self._compression) as stream:
            if self._compression or is_remote(self._path):
                skipped = bytearray(min(offset, _BUFFER_BYTES))
                while offset:
                    offset -= read_fully(stream, memoryview(skipped)[:offset])
            else:
                stream.seek(offset)
            data = bytearray(size)
            read_fully(stream, memoryview(data))
        return data


def _why_not_a_record(rest: bytearray, first: bool) -> str:
    size = len(rest)
    if size >= framing.HEADER:
        header = bytes(rest[: framing.HEADER])
        if framing.header_is_right(header):
            length = int.from_bytes(header[:8], "little")
            return (
                f"the file is cut: {length + framing.FRAME} bytes were to follow, {size} are there"
            )
        if not first:
            return framing.WRONG_LENGTH
    elif not first:
        return f"the file is cut: {size} bytes are too few for a record"
    return "not a TFRecord file, or compressed in another way"
