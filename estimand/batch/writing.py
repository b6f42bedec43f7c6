"""Answers as files: JSON lines, CSV, Parquet, TFRecord."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from estimand.batch.answering import Answers
from estimand.core.errors import InputError, MissingExtraError
from estimand.export.loaded.arrays import TensorInfo

ENDINGS = {"json": ".jsonl", "csv": ".csv", "parquet": ".parquet", "tfrecord": ".tfrecord"}
_ROWS_PER_GROUP = 65_536
_BYTES_PER_GROUP = 2**26


class AnswerWriter(Protocol):
    """A file being written. What can fail for a single row happens in `encode`."""

    def encode(self, answers: Answers) -> Any: ...

    def write(self, encoded: Any) -> None: ...

    def close(self) -> None: ...


def open_writer(
    path: str, file_format: str, outputs: Mapping[str, TensorInfo], keep: Sequence[str]
) -> AnswerWriter:
    """A new file for answers with these outputs, and with columns kept of the input."""
    if file_format == "parquet":
        return _Parquet(path, outputs, keep)
    if file_format == "tfrecord":
        return _Records(path)
    return _Text(path, file_format, [*keep, *outputs])


# ------------------------------------------------------------------ text


class _Text:
    def __init__(self, path: str, file_format: str, names: Sequence[str]) -> None:
        self._as_csv = file_format == "csv"
        self._file = open(path, "wb")  # noqa: SIM115 - see close
        self._names = names
        if self._as_csv:
            self._file.write(_csv_line(names).encode())

    def encode(self, answers: Answers) -> bytes:
        if self._as_csv:
            lines = (_csv_line(_cell(v) for v in row.values()) for row in answers.rows())
        else:
            lines = (json_line(row) for row in answers.rows())
        return "".join(lines).encode()

    def write(self, encoded: bytes) -> None:
        self._file.write(encoded)

    def close(self) -> None:
        self._file.close()


def json_line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


def _csv_line(cells: Iterable[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


# ------------------------------------------------------------------ TFRecord


class _Records:
    """A tf.train.Example per row."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "wb")  # noqa: SIM115 - see close

    def encode(self, answers: Answers) -> bytes:
        from estimand.inputs.records import columns, encoding

        kept = {name: _values(values) for name, values in answers.kept.items()}
        encoded = {}
        for name, values in {**kept, **answers.outputs}.items():
            try:
                encoded[name] = columns.encode(values)
            except columns.ColumnError as error:
                raise InputError(f"The column {name!r} {error}.") from None
        return encoding.frame_examples(encoded, answers.count).tobytes()

    def write(self, encoded: bytes) -> None:
        self._file.write(encoded)

    def close(self) -> None:
        self._file.close()


def _values(values: Any) -> Any:
    if not hasattr(values, "to_pylist"):
        return values
    import pyarrow

    from estimand.inputs.memory.tables import as_numbers

    return as_numbers(pyarrow.table({"values": values})).column(0).to_pylist()


# ------------------------------------------------------------------ Parquet


class _Parquet:
    """Row groups of many chunks: small ones would make a file slow to read."""

    def __init__(self, path: str, outputs: Mapping[str, TensorInfo], keep: Sequence[str]) -> None:
        try:
            import pyarrow.parquet
        except ImportError:
            raise MissingExtraError("writing Parquet files", "parquet", "pyarrow") from None
        self._path = path
        self._outputs = {name: _arrow_type(info) for name, info in outputs.items()}
        self._keep: dict[str, Any] = dict.fromkeys(keep)  # as the first of them are
        self._writer: pyarrow.parquet.ParquetWriter | None = None
        self._waiting: list[Any] = []
        self._file = pyarrow.parquet

    def encode(self, answers: Answers) -> Any:
        import pyarrow

        for name, values in answers.kept.items():
            self._keep[name] = self._keep[name] or _type_of(values)
        arrays = {name: _kept_array(answers.kept[name], kind) for name, kind in self._keep.items()}
        for name, kind in self._outputs.items():
            arrays[name] = _output_array(answers.outputs[name], kind)
            self._outputs[name] = arrays[name].type
        return pyarrow.table(arrays)

    def write(self, encoded: Any) -> None:
        self._waiting.append(encoded)
        rows = sum(table.num_rows for table in self._waiting)
        if rows >= _ROWS_PER_GROUP or sum(t.nbytes for t in self._waiting) >= _BYTES_PER_GROUP:
            self._flush()

    def close(self) -> None:
        if self._waiting or self._writer is None:
            self._flush()
        if self._writer is not None:
            self._writer.close()

    def _flush(self) -> None:
        import pyarrow

        kinds = {n: k or pyarrow.string() for n, k in {**self._keep, **self._outputs}.items()}
        schema = pyarrow.schema(list(kinds.items()))
        self._writer = self._writer or self._file.ParquetWriter(self._path, schema)
        tables = self._waiting or [schema.empty_table()]
        self._writer.write_table(pyarrow.concat_tables(tables), _ROWS_PER_GROUP)
        self._waiting = []


def _type_of(kept: Any) -> Any:
    import pyarrow

    kind = kept.type if hasattr(kept, "type") else pyarrow.array(kept).type
    return pyarrow.string() if pyarrow.types.is_null(kind) else kind


def _kept_array(kept: Any, kind: Any) -> Any:
    import pyarrow

    return kept.cast(kind) if hasattr(kept, "type") else pyarrow.array(kept, kind)


def _arrow_type(info: TensorInfo) -> Any:
    """What a value of an output is in Parquet; None if its shape is not known beforehand."""
    import pyarrow

    if info.shape is None:
        return None
    kind = _value_type(info.dtype)
    for size in reversed(info.shape[1:]):
        fixed = size is not None and info.kind is None
        kind = pyarrow.list_(kind, size if fixed else -1)
    return kind


def _value_type(dtype: str) -> Any:
    import pyarrow

    if dtype == "string":
        return pyarrow.string()
    try:
        small = dtype in ("float16", "bfloat16")
        return pyarrow.from_numpy_dtype(np.dtype("float32" if small else dtype))
    except (TypeError, pyarrow.ArrowNotImplementedError):
        raise InputError(f"Parquet has no place for {dtype}. Choose --format json.") from None


def _output_array(values: Sequence[Any], kind: Any) -> Any:
    """Text has to be UTF-8 here, so that it is text for whoever reads it."""
    import pyarrow

    if not isinstance(values, np.ndarray) or 0 in values.shape or kind is None:
        plain = [np.asarray(value).tolist() for value in values]
        return pyarrow.array(plain, kind)
    flat = values.reshape(-1)
    if flat.dtype == object:
        array = pyarrow.array(flat, pyarrow.binary()).cast(pyarrow.string())
    else:
        small = flat.dtype.name in ("float16", "bfloat16")
        array = pyarrow.array(flat.astype(np.float32) if small else flat)
    for size in reversed(values.shape[1:]):
        array = pyarrow.FixedSizeListArray.from_arrays(array, size)
    return array.cast(kind)
