"""Whatever the user has, as blocks of encoded columns: rows, tables, CSV files, image folders."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import itertools
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import numpy as np

from estimand.core.errors import InputError
from estimand.inputs.records import cells as cells_of_csv
from estimand.inputs.records import columns, encoding, image_folders
from estimand.inputs.records.columns import Column, ColumnError
from estimand.inputs.records.files import MissingFileError

_ROWS_PER_BLOCK = 4096
_IMAGES_PER_BLOCK = 64


@dataclasses.dataclass(frozen=True)
class Encoded:
    """Some rows, ready to be laid out."""

    rows: int
    columns: Mapping[str, Column] = dataclasses.field(default_factory=dict)
    sequences: Mapping[str, Column] | None = None
    serialized: list[bytes] | None = None

    def frame(self, begin: int, end: int, step: int = 1) -> np.ndarray:
        """The bytes of the records of the rows `range(begin, end, step)`."""
        count = len(range(begin, end, step))
        if self.serialized is not None:
            return encoding.frame_serialized(self.serialized[begin:end:step])
        context = {name: column.part(begin, end, step) for name, column in self.columns.items()}
        if self.sequences is None:
            return encoding.frame_examples(context, count)
        lists = {name: column.part(begin, end, step) for name, column in self.sequences.items()}
        return encoding.frame_sequence_examples(context, lists, count)


@dataclasses.dataclass(frozen=True)
class Source:
    """Blocks of rows; `total` where it is known before they are read."""

    blocks: Iterable[Encoded]
    total: int | None


@dataclasses.dataclass
class EncodingOptions:
    """What a writer was told, and learns, about features."""

    sequence_keys: Sequence[str] = ()
    kinds: dict[str, str] = dataclasses.field(default_factory=dict)

    def encode(self, name: str, values: Any, where: str, steps: bool = False) -> Column:
        try:
            make = columns.encode_steps if steps else columns.encode
            column = make(values, self.kinds.get(name))
        except ColumnError as error:
            raise InputError(f"records.write: {where}, feature {name!r} {error}.") from None
        if len(column.payload):
            self.kinds.setdefault(name, column.kind)
        return column


def open_source(data: Any, options: EncodingOptions, *, delimiter: str | None = None) -> Source:
    """`data` in whatever form, as blocks of encoded rows."""
    if isinstance(data, (str, os.PathLike)):
        return _from_path(os.fspath(data), options, delimiter)
    if isinstance(data, Mapping):
        return _from_table(dict(data), options, "dict of columns")
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        if not data.columns.is_unique:
            raise InputError(
                f"records.write: DataFrame has a column name twice: {list(data.columns)}."
            )
        return _from_table({c: _pandas(data[c]) for c in data.columns}, options, "DataFrame")
    if hasattr(data, "iter_columns") and hasattr(data, "get_columns"):
        return _from_table({s.name: _polars(s) for s in data.get_columns()}, options, "DataFrame")
    if hasattr(data, "column_names") and hasattr(data, "combine_chunks"):
        table = {name: data.column(name).to_pylist() for name in data.column_names}
        return _from_table(table, options, "Table")
    if isinstance(data, Iterable) and not isinstance(data, (bytes, np.ndarray)):
        total = len(data) if isinstance(data, Sequence) else None
        return Source(_from_rows(data, options), total)
    raise InputError(
        f"records.write: cannot make records of {type(data).__name__} ({str(data)[:60]!r}). Give "
        "rows (dicts), a dict of columns, a DataFrame, a CSV file or a folder of image folders; "
        "one array needs a name: `{'x': array}`."
    )


# ---------------------------------------------------------------- tables


def _pandas(series: Any) -> Any:
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return series.to_numpy()
    if hasattr(dtype, "categories"):  # may be missing anywhere, so no shorter way
        return series.astype(object).tolist()
    if hasattr(dtype, "numpy_dtype") and not series.isna().any():
        return series.to_numpy(dtype.numpy_dtype)
    return series.tolist()


def _polars(series: Any) -> Any:
    if series.null_count() == 0 and series.dtype.is_numeric():
        return series.to_numpy()
    return series.to_list()


def _from_table(table: dict[Any, Any], options: EncodingOptions, what: str) -> Source:
    if not table:
        raise InputError(f"records.write: the {what} has no columns; a record needs a feature.")
    for name in table:
        if not isinstance(name, str):
            raise InputError(
                f"records.write: {what}, the column name {name!r} is not text. Rename it, e.g. "
                "`frame.rename(columns=str)`."
            )
    values = {
        name: v if isinstance(v, (np.ndarray, list)) else _as_array(v) for name, v in table.items()
    }
    lengths = {name: len(v) for name, v in values.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"records.write: {what}, the columns differ in length: {lengths}.")
    rows = next(iter(lengths.values()))
    encoded = Encoded(rows, *_encode(values, options, what))
    return Source([encoded], rows)


def _as_array(values: Any) -> Any:
    if isinstance(values, (tuple, range)):
        return list(values)
    array = np.asarray(values)
    if array.ndim == 0:
        raise InputError(
            f"records.write: a dict must hold a column (list or array) for each name; "
            f"got {values!r}. For rows, give a list of dicts."
        )
    return array


def _encode(
    table: Mapping[str, Any], options: EncodingOptions, where: str
) -> tuple[dict[str, Column], dict[str, Column] | None]:
    lists = set(options.sequence_keys)
    context = {n: options.encode(n, v, where) for n, v in table.items() if n not in lists}
    if not lists:
        return context, None
    sequences = {
        n: options.encode(n, list(v), where, steps=True) for n, v in table.items() if n in lists
    }
    return context, sequences


# ---------------------------------------------------------------- rows


def _from_rows(rows: Iterable[Any], options: EncodingOptions) -> Iterator[Encoded]:
    number = 0
    for block in _in_blocks(rows, _ROWS_PER_BLOCK):
        where = f"rows {number} to {number + len(block) - 1}"
        if all(isinstance(row, Mapping) for row in block):
            yield Encoded(len(block), *_encode(_turned(block), options, where))
        else:
            yield Encoded(len(block), serialized=[_serialized(r, number, block) for r in block])
        number += len(block)


def _in_blocks(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(rows)
    while block := list(itertools.islice(iterator, size)):
        yield block


def _turned(rows: list[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows as columns; None where a row lacks a name."""
    names = dict.fromkeys(itertools.chain.from_iterable(rows))
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"records.write: the name of a feature must be text, given: {name!r}.")
    return {name: [row.get(name) for row in rows] for name in names}


def _serialized(row: Any, first: int, block: list[Any]) -> bytes:
    if isinstance(row, bytes):
        return row
    if hasattr(row, "SerializeToString"):
        return row.SerializeToString()
    raise InputError(
        f"records.write: row {first + block.index(row)} is {type(row).__name__}: {str(row)[:60]!r}."
        " A row is a dict of features, a tf.train.Example, or bytes."
    )


# ---------------------------------------------------------------- files and folders


def _from_path(path: str, options: EncodingOptions, delimiter: str | None) -> Source:
    if os.path.isdir(path):
        return _from_image_folders(path, options)
    if not os.path.exists(path):
        raise MissingFileError(f"records.write: there is no file or folder {path!r} to read from.")
    plain = path.lower().removesuffix(".gz")
    if not plain.endswith((".csv", ".tsv", ".txt")):
        raise InputError(
            f"records.write: cannot tell what {path!r} holds. Files may be .csv or .tsv (also "
            ".gz); a folder may hold one folder of images per class."
        )
    if delimiter is None:
        delimiter = "\t" if plain.endswith(".tsv") else ","
    return _from_table(_read_csv(path, delimiter, options.kinds), options, f"file {path!r}")


def _read_csv(path: str, delimiter: str, kinds: Mapping[str, str]) -> dict[str, list[Any]]:
    opener: Any = gzip.open if path.lower().endswith(".gz") else open
    try:
        with opener(path, "rt", newline="", encoding="utf-8-sig") as file:
            return _parse_csv(file, path, delimiter, kinds)
    except UnicodeDecodeError as error:
        raise InputError(
            f"records.write: {path!r} is not UTF-8 ({error}). Convert it: "
            f"`iconv -f LATIN1 -t UTF-8 {os.path.basename(path)}`."
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"records.write: {path!r}: {error}. The compressed file is cut or damaged; copy or "
            "write it again."
        ) from error


def _parse_csv(
    file: TextIO, path: str, delimiter: str, kinds: Mapping[str, str]
) -> dict[str, list[Any]]:
    reader = csv.reader(file, delimiter=delimiter)
    names = next(reader, None)
    if not names:
        raise InputError(f"records.write: the file {path!r} is empty; a header line is needed.")
    if len(set(names)) < len(names):
        raise InputError(f"records.write: {path!r} has a column name twice: {names}.")
    rows = []
    for row in reader:
        if len(row) == len(names):
            rows.append(row)
        elif row:
            raise InputError(
                f"records.write: {path!r}, line {reader.line_num} has {len(row)} fields; the "
                f"header has {len(names)}: {names}."
            )
    turned = zip(*rows, strict=True) if rows else ((),) * len(names)
    return {name: _typed(cells, kinds.get(name)) for name, cells in zip(names, turned, strict=True)}


def _typed(cells: Sequence[str], kind: str | None) -> list[Any]:
    """Whole numbers, numbers or text; an empty field is missing."""
    if kind != columns.BYTES:  # which keeps zeros, as of 00501
        kind = cells_of_csv.kind_of([cell for cell in cells if cell])
    convert: Any = {columns.INT64: int, columns.FLOAT: float, columns.BYTES: str}[kind]
    return [convert(cell) if cell else None for cell in cells]


def _from_image_folders(folder: str, options: EncodingOptions) -> Source:
    images = image_folders.in_folders(folder)

    def blocks() -> Iterator[Encoded]:
        for block in _in_blocks(images, _IMAGES_PER_BLOCK):
            table = _turned([image_folders.row_of(*image) for image in block])
            yield Encoded(len(block), *_encode(table, options, f"folder {folder!r}"))

    return Source(blocks(), len(images))
