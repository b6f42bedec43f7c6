"""A first look at some files of records."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np

from estimand.core.errors import InputError
from estimand.inputs.records.files import (
    DamagedStream,
    Paths,
    check_compression,
    compression_of,
    find_files,
    is_remote,
    open_records,
)
from estimand.inputs.records.framing import FRAME
from estimand.inputs.records.reading import read
from estimand.inputs.records.schemas import Schema, schema
from estimand.inputs.records.verifying import blocks, verify


@dataclasses.dataclass(frozen=True)
class FileFacts:
    """One file.

    Attributes:
      smallest, largest: sizes of records, without their framing; 0 where there are none.
      data_bytes: all records together, likewise.
      file_bytes: the size on disk.
    """

    path: str
    compression: str
    records: int
    smallest: int
    largest: int
    data_bytes: int
    file_bytes: int


@dataclasses.dataclass(frozen=True)
class Inspection:
    """What `inspect` saw.

    >>> import os, tempfile
    >>> from estimand.inputs import records
    >>> path = os.path.join(tempfile.mkdtemp(), "rows.tfrecord")
    >>> written = records.write(path, [{"x": 1}, {"x": 2}])
    >>> len(records.inspect(path).files)
    1
    """

    files: list[FileFacts]
    schema: Schema
    first: list[dict[str, Any]]

    @property
    def records(self) -> int:
        return sum(file.records for file in self.files)


def inspect(
    files: Paths, *, compression: str | None = None, first: int = 3, limit: int | None = 10_000
) -> Inspection:
    """Count records and their sizes, note their features, and read the first few.

    Args:
      files: a name, a pattern, or several.
      compression: None looks at each file.
      first: how many records to read to dicts.
      limit: how many records to look at for the schema; None: all.

    >>> import os, tempfile
    >>> from estimand.inputs import records
    >>> path = os.path.join(tempfile.mkdtemp(), "a.tfrecord")
    >>> _ = records.write(path, {"x": np.arange(5)})
    >>> inspect(path).records
    5
    """
    paths = find_files(files, "inspect")
    kind = check_compression(compression, "inspect")
    buffer = bytearray(1 << 22)
    facts = [_facts(path, kind, buffer) for path in paths]
    return Inspection(
        facts,
        schema(paths, compression=compression, limit=limit),
        list(read(paths, compression=compression, limit=first)),
    )


def _facts(path: str, compression: str | None, buffer: bytearray) -> FileFacts:
    kind = compression_of(path) if compression is None else compression
    sizes = []
    try:
        with open_records(path, kind) as stream:
            for block in blocks(stream, buffer):
                if block.rest:
                    raise DamagedStream
                sizes.append(np.diff(block.starts, append=block.end) - FRAME)
    except DamagedStream:
        raise InputError(f"inspect: {verify(path, compression=kind)[0]}.") from None
    every = np.concatenate(sizes) if sizes else np.zeros(0, np.int64)
    on_disk = 0 if is_remote(path) else os.path.getsize(path)
    smallest = int(every.min()) if len(every) else 0
    largest, total = int(every.max(initial=0)), int(every.sum())
    return FileFacts(path, kind, len(every), smallest, largest, total, on_disk)
