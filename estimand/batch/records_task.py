"""What `make_records` makes of a shard: a TFRecord file of tf.train.Examples."""

from __future__ import annotations

import dataclasses
import gzip
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from estimand.batch.chunks import IMAGES, Chunk, RowError, Table, read_chunks
from estimand.batch.plan import Shard, for_each
from estimand.batch.statistics import Statistics, of_column
from estimand.core.errors import InputError
from estimand.inputs.memory.tables import as_numbers
from estimand.inputs.records import cells, columns, encoding

_ROWS_AT_ONCE = 4096
_LOOKED_AT = 1000  # rows at the beginning of each file


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is asked for, and decides what the files of a job hold."""

    kinds: Mapping[str, str]
    compression: str | None = None
    input_format: str | None = None
    shard_rows: int | None = None


@dataclasses.dataclass(frozen=True)
class RecordsTask:
    """Features of the same kinds in all files, which were settled before the first."""

    settings: Settings
    kinds: Mapping[str, str]

    called = "make_records"
    makes = "records"

    @classmethod
    def chosen(
        cls, settings: Settings, shards: Sequence[Shard], known: dict[str, Any] | None
    ) -> RecordsTask:
        """With the kinds of values that files begin with; of a job that goes on, with its own."""
        if known is not None and "kinds" in known:
            return cls(settings, known["kinds"])
        return cls(settings, {**kinds_in(shards), **settings.kinds})

    @classmethod
    def of_plan(cls, known: dict[str, Any]) -> RecordsTask:
        return cls(Settings(**known["settings"]), known["kinds"])

    def ending(self, of_input: str) -> str:
        return ".tfrecord.gz" if self.settings.compression else ".tfrecord"

    def described(self) -> dict[str, Any]:
        return {"settings": dataclasses.asdict(self.settings), "kinds": dict(self.kinds)}

    def for_workers(self) -> dict[str, Any]:
        return {}

    def work(self, format_of_input: str) -> RecordsWork:
        return RecordsWork(self)


class RecordsWork:
    """Rows as records, and what their values are like."""

    rows_at_once = _ROWS_AT_ONCE

    def __init__(self, task: RecordsTask) -> None:
        self._task = task

    def open(self, path: str) -> _File:
        self._statistics = Statistics()
        return _File(path, compressed=self._task.settings.compression is not None)

    def check_names(self, chunk: Chunk, where: str) -> None:
        """Whatever a file calls its columns is right."""

    def encode(self, chunk: Chunk) -> bytes:
        values = values_in(chunk)
        encoded, seen = {}, {}
        for name, given in values.items():
            kind = self._task.kinds.get(name)
            try:
                typed = given if kind is None else _as_kind(given, kind)
                encoded[name] = columns.encode(typed, kind)
            except ValueError as error:
                raise InputError(
                    f"The column {name!r} {error}. If it is of another kind than {kind}: "
                    f"--kind {name}=..."
                ) from None
            seen[name] = of_column(typed, encoded[name])
        framed = encoding.frame_examples(encoded, len(chunk)).tobytes()
        self._statistics.join(seen)
        return framed

    def notes(self) -> dict[str, Any]:
        return {"statistics": self._statistics.noted()}


class _File:
    def __init__(self, path: str, compressed: bool) -> None:
        self._file: BinaryIO = open(path, "wb")  # noqa: SIM115 - see close
        # No time in it: the same rows give the same bytes.
        self._to: Any = gzip.GzipFile("", "wb", 6, self._file, 0) if compressed else self._file

    def write(self, encoded: bytes) -> None:
        self._to.write(encoded)

    def close(self) -> None:
        self._to.close()
        self._file.close()


# ------------------------------------------------------------------ values


def values_in(chunk: Chunk) -> dict[str, Any]:
    """One value per row for each name; None where there is none."""
    if isinstance(chunk, Table):
        table = as_numbers(chunk.table)
        return {name: _array_or_list(table.column(name)) for name in table.column_names}
    rows = chunk.named()
    if len(rows) < len(chunk):
        raise InputError("It is a record already.")
    names = dict.fromkeys(name for row in rows for name in row)
    is_csv = chunk.names is not None
    values_of = {name: [row.get(name) for row in rows] for name in names}
    if is_csv:
        return {
            name: [None if v == "" else v for v in values] for name, values in values_of.items()
        }
    return values_of


def _array_or_list(column: Any) -> Any:
    import pyarrow

    kind = column.type
    is_number = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)
    if is_number and not column.null_count:
        return column.to_numpy()
    return column.to_pylist()


def _as_kind(values: Any, kind: str) -> Any:
    """Text of a CSV file as the numbers that it stands for."""
    if kind == columns.BYTES or isinstance(values, np.ndarray):
        return values
    if not any(isinstance(value, str) for value in values):
        return values
    return [cells.number_in(v, kind) if isinstance(v, str) else v for v in values]


# ------------------------------------------------------------------ kinds


def kinds_in(shards: Sequence[Shard]) -> dict[str, str]:
    """The kind of each feature, by the values that files begin with.

    Whole numbers in one file and others in another are floats; numbers in one CSV file and text in
    another are text.
    """
    begins = [shard for shard in shards if shard.begin == 0 and shard.format != IMAGES]
    kind_and_file: dict[str, tuple[str, str]] = {}
    for shard, kinds in zip(begins, for_each(_first_kinds, begins), strict=True):
        for name, kind in kinds.items():
            known, where = kind_and_file.setdefault(name, (kind, shard.path))
            if known != kind:
                kind_and_file[name] = _wider(name, (known, where), (kind, shard))
    return {name: kind for name, (kind, _) in kind_and_file.items()}


def _first_kinds(shard: Shard) -> dict[str, str]:
    chunks = read_chunks(shard.path, shard.format, _LOOKED_AT, shard.begin, shard.end)
    chunk = next((c for c in chunks if not isinstance(c, RowError)), None)
    if chunk is None:
        return {}
    kinds = {name: _kind_of(values) for name, values in values_in(chunk).items()}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _kind_of(values: Any) -> str | None:
    if isinstance(values, list):
        given = [value for value in values if value is not None]
        if not given:
            return None
        if all(isinstance(value, str) for value in given):
            return cells.kind_of(given)
    try:
        return columns.encode(values).kind
    except columns.ColumnError:
        return None  # it is told where the rows are


def _wider(name: str, known: tuple[str, str], other: tuple[str, Shard]) -> tuple[str, str]:
    (kind, path), (found, shard) = known, other
    if columns.BYTES not in (kind, found):
        return columns.FLOAT, path
    if shard.format == "csv":
        return columns.BYTES, path
    raise InputError(
        f"The column {name!r} is {kind} in {path} and {found} in {shard.path}. Say which it is to "
        f"be, e.g. --kind {name}=bytes, or convert one of them."
    )
