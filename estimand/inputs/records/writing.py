"""Writing TFRecord files: all of them, whole, or none."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import logging
import os
import re
import secrets
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from estimand.core.errors import InputError
from estimand.core.files.atomic_files import (
    is_left_over,
    parse_temporary,
    remove_quietly,
    sync_directory,
    temporary_path,
)
from estimand.inputs.records.columns import KINDS
from estimand.inputs.records.files import check_compression, is_remote
from estimand.inputs.records.tables import Encoded, EncodingOptions, Source, open_source

_log = logging.getLogger("estimand")
_ROWS_AT_ONCE = 8192


@dataclasses.dataclass(frozen=True)
class Written:
    """What `write` wrote.

    >>> import os, tempfile
    >>> from estimand.inputs import records
    >>> path = os.path.join(tempfile.mkdtemp(), "rows.tfrecord")
    >>> records.write(path, [{"x": 1}, {"x": 2}]).records
    2
    """

    files: list[str]
    records: int


def write(
    path: str | os.PathLike[str],
    data: Any,
    *,
    shards: int = 1,
    compression: str | None = None,
    sequence_keys: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    delimiter: str | None = None,
    progress: bool | None = None,
) -> Written:
    """Write tf.train.Example records, or SequenceExample ones.

    Files get their names when all of them are complete and on disk: a writer that is
    interrupted leaves nothing under a final name, and files of that name are as they were.

    Args:
      path: the file; with several shards, the beginning of their names:
        `train.tfrecord-00000-of-00004` and so on.
      data: rows (an iterable of dicts; also of tf.train.Example, or of bytes), a dict of columns
        (lists or arrays, the first dimension being rows), a DataFrame (pandas, polars) or pyarrow
        Table, the name of a CSV file with a header (.csv, .tsv, .gz), or a folder that holds a
        folder of images for each class.
      shards: how many files. Rows are kept in order where their number is known beforehand
        (shard 0 has the first rows), and dealt out in turn otherwise.
      compression: None or "GZIP".
      sequence_keys: features that are sequences of steps; with any, records are
        tf.train.SequenceExample and all other features their context.
      kinds: "bytes", "float" or "int64" for features where the values alone would mislead.
      delimiter: of a CSV file, "," (for .tsv, a tab) unless told.
      progress: whether to draw a progress bar; None: on a terminal.

    Whole numbers and booleans become int64, other numbers float (32 bits), text bytes (UTF-8);
    lists and arrays become lists of these, flattened. A feature is left out of a record where its
    value is None, or pandas' mark for a missing value; NaN among numbers is written as NaN.

    >>> import os, tempfile
    >>> from estimand.inputs import records
    >>> path = os.path.join(tempfile.mkdtemp(), "people.tfrecord")
    >>> written = records.write(path, [{"name": "Ada", "born": 1815}, {"name": "Grace"}])
    >>> list(records.read(path))
    [{'born': 1815, 'name': b'Ada'}, {'name': b'Grace'}]
    """
    target = os.fspath(path)
    kind = check_compression(compression, "records.write") or ""
    _check(target, shards, kinds, kind)
    options = EncodingOptions(tuple(sequence_keys), dict(kinds or {}))
    source = open_source(data, options, delimiter=delimiter)
    names = shard_names(target, shards)
    remove_leftovers(target)
    with contextlib.ExitStack() as stack:
        tick = stack.enter_context(_progress_bar(source.total, target, progress))
        files = [stack.enter_context(_Unfinished(name, kind)) for name in names]
        count = _write_rows(source, files, tick)
        for file in files:
            file.complete()
        for file in files:
            file.publish()
    _warn_of_other_shards(target, shards)
    return Written(names, count)


def shard_names(path: str, shards: int) -> list[str]:
    """
    >>> shard_names("a", 2)
    ['a-00000-of-00002', 'a-00001-of-00002']
    """
    if shards == 1:
        return [path]
    return [f"{path}-{number:05d}-of-{shards:05d}" for number in range(shards)]


def _check(path: str, shards: int, kinds: Mapping[str, str] | None, compression: str) -> None:
    if not isinstance(shards, int) or shards < 1:
        raise InputError(f"records.write: shards must be a number from 1, given: {shards!r}.")
    if is_remote(path):
        raise InputError(
            f"records.write: cannot write to {path!r} directly. Write to a local folder, then "
            "`tf.io.gfile.copy` the files."
        )
    if os.path.isdir(path):
        inside = os.path.join(path, "train.tfrecord")
        raise InputError(f"records.write: {path!r} is a directory. Name a file: {inside!r}.")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise InputError(
            f"records.write: there is no directory {folder!r}. Make it: `os.makedirs({folder!r})`."
        )
    for name, kind in (kinds or {}).items():
        if kind not in KINDS:
            raise InputError(
                f"records.write: kinds[{name!r}] must be {', '.join(KINDS)}; given: {kind!r}."
            )


def _write_rows(source: Source, files: list[_Unfinished], tick: Callable[[int], None]) -> int:
    count = 0
    for block in source.blocks:
        if source.total is None:
            _deal(block, files, count)
            tick(block.rows)
        else:
            _append(block, files, count, source.total, tick)
        count += block.rows
    return count


def _deal(block: Encoded, files: list[_Unfinished], count: int) -> None:
    """Row number i goes to file i modulo their number."""
    for number, file in enumerate(files):
        first = (number - count) % len(files)
        if first < block.rows:
            file.write(block.frame(first, block.rows, len(files)))


def _append(
    block: Encoded,
    files: list[_Unfinished],
    count: int,
    total: int,
    tick: Callable[[int], None],
) -> None:
    """Shard k has rows k * total / shards and following."""
    begin = 0
    while begin < block.rows:
        shard = ((count + begin + 1) * len(files) - 1) // max(total, 1)
        limit = (shard + 1) * total // len(files) - count
        end = min(block.rows, limit, begin + _ROWS_AT_ONCE)
        files[shard].write(block.frame(begin, end))
        tick(end - begin)
        begin = end


class _Unfinished:
    """A file that gets its name when it is complete."""

    def __init__(self, path: str, compression: str) -> None:
        self._path = path
        folder, name = os.path.split(os.path.abspath(path))
        self._temporary = temporary_path(folder, f"{secrets.token_hex(4)}-{name}")
        self._raw: BinaryIO = open(self._temporary, "xb")  # noqa: SIM115 - closed in complete
        self._packer: Any = None
        if compression == "GZIP":
            # No time in the header: the same data gives the same file.
            self._packer = gzip.GzipFile(fileobj=self._raw, mode="wb", filename="", mtime=0)
        elif compression == "ZLIB":
            self._packer = _ZlibWriter(self._raw)

    def write(self, data: Any) -> None:
        (self._packer or self._raw).write(memoryview(data))

    def complete(self) -> None:
        if self._packer is not None:
            self._packer.close()
        self._raw.flush()
        os.fsync(self._raw.fileno())
        self._raw.close()

    def publish(self) -> None:
        os.replace(self._temporary, self._path)
        sync_directory(os.path.dirname(self._temporary))

    def __enter__(self) -> _Unfinished:
        return self

    def __exit__(self, *error: object) -> None:
        self._raw.close()
        remove_quietly(self._temporary)


class _ZlibWriter:
    def __init__(self, file: BinaryIO) -> None:
        self._file, self._engine = file, zlib.compressobj()

    def write(self, data: Any) -> None:
        self._file.write(self._engine.compress(data))

    def close(self) -> None:
        self._file.write(self._engine.flush())


def remove_leftovers(path: str) -> list[str]:
    """Remove what writers of `path` or its shards left that are no longer there."""
    folder, base = os.path.split(os.path.abspath(path))
    ours = re.compile(r"[0-9a-f]{8}-" + re.escape(base) + r"(-\d{5}-of-\d{5})?")
    removed = []
    for entry in list(os.scandir(folder)):
        maker, name = parse_temporary(entry.name) or (None, "")
        if maker is not None and ours.fullmatch(name) and is_left_over(entry.path, maker):
            remove_quietly(entry.path)
            removed.append(entry.path)
    return removed


def _warn_of_other_shards(path: str, shards: int) -> None:
    folder, base = os.path.split(os.path.abspath(path))
    sets = re.compile(re.escape(base) + r"-\d{5}-of-(\d{5})")
    matches = [sets.fullmatch(name) for name in os.listdir(folder)]
    others = sorted({int(m[1]) for m in matches if m and int(m[1]) != shards})
    if others:
        _log.warning(
            "records.write: beside the %d file(s) just written there are files of %s shards of the "
            "same name: a pattern such as %s-* reads both. Remove the old ones.",
            shards,
            " and ".join(map(str, others)),
            path,
        )


@contextlib.contextmanager
def _progress_bar(
    total: int | None, path: str, wanted: bool | None
) -> Iterator[Callable[[int], None]]:
    if wanted is None:
        wanted = sys.stderr is not None and sys.stderr.isatty()
    if not wanted:
        yield lambda rows: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    look = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*look, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(os.path.basename(path), total=total)
        yield lambda rows: bar.advance(task, rows)
