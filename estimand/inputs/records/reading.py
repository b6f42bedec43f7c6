"""Records back to bytes, dicts and DataFrames."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from estimand.core.errors import InputError, MissingExtraError
from estimand.inputs.records import framing
from estimand.inputs.records.files import (
    DamagedStream,
    Paths,
    check_compression,
    compression_of,
    find_files,
    open_records,
)
from estimand.inputs.records.verifying import FileReport, blocks, verify

_BUFFER_BYTES = 1 << 21


def read_raw(
    files: Paths, *, compression: str | None = None, limit: int | None = None
) -> Iterator[bytes]:
    """The bytes of each record, checked against their CRCs.

    Args:
      files: a path, a pattern, or a list of these.
      compression: "GZIP", "ZLIB" or ""; None: as the first bytes say.
      limit: how many records at most.

    >>> next(read_raw("train.tfrecord"))  # doctest: +SKIP
    b'...'
    """
    return itertools.islice((data for _, _, data in numbered(files, compression, "read")), limit)


def numbered(files: Paths, compression: str | None, where: str) -> Iterator[tuple[str, int, bytes]]:
    """(file, number of the record in it, its bytes) of every record."""
    kind = check_compression(compression, where)
    for path in find_files(files, where):
        records = _records_of(path, compression_of(path) if kind is None else kind, where)
        for number, data in enumerate(records):
            yield path, number, data


def _records_of(path: str, compression: str, where: str) -> Iterator[bytes]:
    """All records; where there is damage, those before it and then an error."""
    count = 0
    try:
        with open_records(path, compression) as stream:
            for block in blocks(stream, bytearray(_BUFFER_BYTES)):
                data = bytes(memoryview(block.buffer)[: block.end])
                right = framing.all_right(block.buffer, block.starts, block.end)
                report = None if right and not block.rest else _report(path, compression)
                good = len(block.starts)
                if report is not None:
                    good = report.problems[0].record - count
                starts = [*block.starts.tolist(), block.end]
                for start, end in itertools.islice(itertools.pairwise(starts), good):
                    yield data[start + framing.HEADER : end - 4]
                if report is not None:
                    raise _fault(report, where)
                count += good
    except DamagedStream:
        raise _fault(_report(path, compression), where) from None


def _report(path: str, compression: str) -> FileReport:
    return verify(path, compression=compression)[0]


def _fault(report: FileReport, where: str) -> InputError:
    return InputError(
        f"{where}: {report}. `estimand records verify {report.path}` lists all faults."
    )


def read(
    files: Paths,
    *,
    compression: str | None = None,
    limit: int | None = None,
    lists: bool = False,
) -> Iterator[dict[str, Any]]:
    """Each tf.train.Example or SequenceExample as a dict of Python values, names sorted.

    Args:
      files: a name, a pattern, or several.
      compression: None looks at each file.
      limit: read this many records at most.
      lists: give every feature as a list. Otherwise a feature that holds one value is given as
        that value. A feature list of a SequenceExample is always a list of its steps.

    >>> next(read("train.tfrecord"))  # doctest: +SKIP
    {'age': 39, 'name': b'Ada'}
    """
    records = itertools.islice(numbered(files, compression, "read"), limit)
    for path, number, data in records:
        context, sequences = decode(data, path, number)
        values = {name: _value(feature, lists) for name, feature in context.items()}
        for name, steps in sequences.items():
            values[name] = [_value(step, lists) for step in steps.feature]
        yield dict(sorted(values.items()))


def decode(data: bytes, path: str, number: int) -> tuple[Any, Any]:
    """(features or context, feature lists) of one record, as maps of messages."""
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    try:
        # An Example is a SequenceExample with a context only: both are field number 1.
        message = tf.train.SequenceExample.FromString(data)
    except DecodeError:
        raise InputError(
            f"{path}: record {number} ({len(data)} bytes) is neither a tf.train.Example nor a "
            "SequenceExample. `est.records.read_raw` gives its bytes."
        ) from None
    return message.context.feature, message.feature_lists.feature_list


def values_of(feature: Any) -> tuple[str | None, Any]:
    """(kind, values) of a tf.train.Feature; (None, ()) of one that holds no list."""
    field = feature.WhichOneof("kind")
    if field is None:
        return None, ()
    return field.removesuffix("_list"), getattr(feature, field).value


def _value(feature: Any, lists: bool) -> Any:
    values = list(values_of(feature)[1])
    return values[0] if len(values) == 1 and not lists else values


def read_frame(
    files: Paths, *, compression: str | None = None, limit: int | None = None, text: bool = True
) -> Any:
    """All records as a pandas DataFrame: a row for each, a column for each feature.

    Args:
      files: a name, a pattern, or several.
      compression: None looks at each file.
      limit: read this many records at most.
      text: give bytes that are UTF-8 throughout a column as text.

    >>> read_frame("train.tfrecord")  # doctest: +SKIP
    """
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError("reading records to a DataFrame", "pandas") from None
    rows = list(read(files, compression=compression, limit=limit))
    names = sorted(set(itertools.chain.from_iterable(rows)))
    table = {name: [row.get(name) for row in rows] for name in names}
    return pd.DataFrame({name: _as_text(v) if text else v for name, v in table.items()})


def _as_text(values: list[Any]) -> list[Any]:
    if not any(isinstance(value, bytes) for value in values):
        return values
    try:
        return [value.decode() if isinstance(value, bytes) else value for value in values]
    except UnicodeDecodeError:
        return values
