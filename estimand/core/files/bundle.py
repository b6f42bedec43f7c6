"""Reads a checkpoint's files without TensorFlow: which tensors there are, and where they lie.

`PREFIX.index` is a table as LevelDB's: blocks of sorted keys, each block with the end of its keys
cut off where they begin like the one before, and a footer that says where the block of blocks is.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from estimand.core.errors import CheckpointError
from estimand.core.files import messages, varints

# A table ends in a footer of this size, and that in this number.
FOOTER_BYTES = 48
FOOTER_MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
_UNCOMPRESSED = 0  # as TensorFlow writes them since 1.2


@dataclass(frozen=True)
class BundleTensor:
    """One tensor by what the index says; `size` bytes at `offset` of the shard's file."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    shard: int = 0
    offset: int = 0
    size: int = 0

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """On disk. A variable in slices has no size of its own."""
        bits = re.search(r"\d+", self.dtype)
        return self.size or self.elements * int(bits[0] if bits else 0) // 8


@dataclass(frozen=True)
class Bundle:
    """A checkpoint: its tensors by name."""

    prefix: str
    shards: int
    tensors: dict[str, BundleTensor]

    def integer(self, name: str) -> int:
        """The value of an integer tensor that has but one."""
        tensor = self.tensors[name]
        path = f"{self.prefix}.data-{tensor.shard:05d}-of-{self.shards:05d}"
        try:
            with open(path, "rb") as file:
                file.seek(tensor.offset)
                data = file.read(tensor.size)
        except OSError:
            data = b""
        if len(data) != tensor.size or tensor.size not in (4, 8):
            raise CheckpointError(
                f"{name} cannot be read from {self.prefix}.data-*: the file is damaged or missing."
            )
        return int.from_bytes(data, "little", signed=True)


def read(prefix: str) -> Bundle:
    """What the checkpoint with this prefix holds. CheckpointError if its index is damaged."""
    from google.protobuf.message import DecodeError

    header, tensors = messages.new("BundleHeader"), {}
    try:
        with open(prefix + ".index", "rb") as file:
            table = file.read()
        for key, value in _table(table):
            if not key:
                header.ParseFromString(value)
            elif not key.startswith(b"\0"):  # slices of a variable, which is listed as a whole
                entry = messages.new("BundleEntry")
                entry.ParseFromString(value)
                tensors[key.decode()] = _tensor(key.decode(), entry)
    except (DecodeError, ValueError, IndexError, struct.error) as error:
        reason = "it is cut short or overwritten" if isinstance(error, IndexError) else error
        raise CheckpointError(f"{prefix}.index cannot be read: {reason}") from error
    except OSError as error:
        raise CheckpointError(f"{prefix}.index cannot be read: {error.strerror}") from error
    if header.endianness:
        raise CheckpointError(f"{prefix}.index cannot be read: it is of a big-endian machine.")
    return Bundle(prefix, header.num_shards, tensors)


def _tensor(name: str, entry: Any) -> BundleTensor:
    shape = tuple(size or 0 for size in messages.sizes(entry.shape) or ())
    dtype = messages.dtype_name(entry.dtype)
    return BundleTensor(name, shape, dtype, entry.shard_id, entry.offset, entry.size)


def _table(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(table) < FOOTER_BYTES or not table.endswith(FOOTER_MAGIC):
        raise ValueError("it is cut short or overwritten")
    place = len(table) - FOOTER_BYTES
    for _ in range(2):  # the first pair is of a block that tables of checkpoints leave empty
        start, place = varints.decode(table, place)
        size, place = varints.decode(table, place)
    for _, where in _block(table, start, size):
        start, after = varints.decode(where, 0)
        size, _ = varints.decode(where, after)
        yield from _block(table, start, size)


def _block(table: bytes, start: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    if table[start + size] != _UNCOMPRESSED:
        raise ValueError("it is compressed, as no TensorFlow since 1.2 does")
    (restarts,) = struct.unpack_from("<I", table, start + size - 4)
    end = start + size - 4 * (restarts + 1)
    key, place = b"", start
    while place < end:
        shared, place = varints.decode(table, place)
        added, place = varints.decode(table, place)
        length, place = varints.decode(table, place)
        key = key[:shared] + table[place : place + added]
        place += added + length
        yield key, table[place - length : place]
