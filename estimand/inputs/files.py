"""From the paths and patterns a user gave to files that are there and can be read."""

from __future__ import annotations

import dataclasses
import gzip
import io
import os
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import tensorflow as tf

from estimand.core.errors import InputError

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

BOM = b"\xef\xbb\xbf"
_GZIP_START = b"\x1f\x8b"
_MANY = 32  # from so many files on they are looked at in parallel
_OTHER_FORMATS = {
    b"PK\x03\x04": "a ZIP archive",
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ": "compressed by xz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"PAR1": "a Parquet file (read it with est.inputs.parquet_input_fn)",
}


@dataclasses.dataclass(frozen=True)
class InputFile:
    """One file and how it is compressed: "", "GZIP" or "ZLIB"."""

    path: str
    compression: str = ""
    has_bom: bool = False

    def open(self) -> IO[bytes]:
        """For reading from Python, decompressed, without the byte order mark."""
        raw = open_binary(self.path)
        if self.compression == "GZIP":
            raw = gzip.GzipFile(fileobj=raw)  # type: ignore[assignment]
        elif self.compression == "ZLIB":
            raw = io.BytesIO(zlib.decompress(raw.read()))
        if self.has_bom:
            raw.read(len(BOM))
        return raw

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """(line number from 1, line without its end), split as TextLineDataset splits them."""
        try:
            with self.open() as file:
                for number, line in enumerate(file, start=1):
                    yield number, line.removesuffix(b"\n").replace(b"\r", b"")
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(
                f"{self.path}: {error}. The compressed file is cut or damaged; copy or write it "
                "again."
            ) from error


def open_binary(path: str) -> Any:
    # TensorFlow's file object is slow line by line, but knows gs:// and friends.
    return tf.io.gfile.GFile(path, "rb") if "://" in path else open(path, "rb")


def find_files(where: str, paths: Paths) -> list[str]:
    """The files that paths and patterns stand for; those of one pattern sorted by name."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given:
        raise InputError(f"{where}: no files were given. Pass a path, a pattern or a list of them.")
    paths_found: list[str] = []
    for item in given:
        if not isinstance(item, (str, os.PathLike)):
            raise InputError(
                f"{where}: a file must be given as a path or a pattern, given: {item!r}."
            )
        paths_found += [
            path for path in _expand(where, os.fspath(item)) if path not in set(paths_found)
        ]
    return paths_found


def _expand(where: str, pattern: str) -> list[str]:
    if tf.io.gfile.exists(pattern):  # also a name that has a bracket in it
        if tf.io.gfile.isdir(pattern):
            raise InputError(
                f"{where}: {pattern} is a directory. Name the files in it, with a pattern: "
                f"{os.path.join(pattern, '*')!r}."
            )
        return [pattern]
    matches = sorted(path for path in tf.io.gfile.glob(pattern) if not tf.io.gfile.isdir(path))
    if matches:
        return matches
    if any(char in pattern for char in "*?[{"):
        raise InputError(f"{where}: no file matches {pattern!r}{_looked_in(pattern)}.")
    raise InputError(f"{where}: there is no file {pattern!r}{_looked_in(pattern)}.")


def _looked_in(pattern: str) -> str:
    """What is there instead, for the message."""
    if "://" in pattern:
        return ""
    folder = os.path.dirname(pattern) or "."
    while any(char in folder for char in "*?[{"):
        folder = os.path.dirname(folder) or "."
    if not os.path.isdir(folder):
        return f" (there is no directory {folder!r} either; the current one is {os.getcwd()!r})"
    names = sorted(os.listdir(folder))
    shown = ", ".join(names[:5]) + (f", … ({len(names)} in all)" if len(names) > 5 else "")
    return f" ({folder!r} contains: {shown or 'nothing'})"


def text_files(where: str, paths: Paths, compression: str | None) -> list[InputFile]:
    """Files of text, each looked at for what would make all of it unreadable."""
    accepted = (None, "", "GZIP", "ZLIB")
    if compression not in accepted:
        raise InputError(
            f"{where}: compression must be None (by the ending .gz), '', 'GZIP' or 'ZLIB', "
            f"given: {compression!r}."
        )
    files = find_files(where, paths)
    if len(files) < _MANY:
        return [_inspect(where, path, compression) for path in files]
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda path: _inspect(where, path, compression), files))


def _inspect(where: str, path: str, compression: str | None) -> InputFile:
    start = _first_bytes(where, path)
    if not start:
        raise InputError(f"{where}: {path} is empty (0 bytes).")
    for magic, what in _OTHER_FORMATS.items():
        if start.startswith(magic):
            raise InputError(f"{where}: {path} is not text but {what}.")
    is_gzip = start.startswith(_GZIP_START)
    if compression is None:
        compression = "GZIP" if path.endswith(".gz") else ""
        if is_gzip and not compression:
            raise InputError(
                f"{where}: {path} is compressed by gzip, though its name does not end in .gz. "
                "Pass compression='GZIP'."
            )
    if compression == "GZIP" and not is_gzip:
        raise InputError(
            f"{where}: {path} is not compressed by gzip: it begins with {start[:8]!r}. "
            "Rename it, or pass compression=''."
        )
    file = InputFile(path, compression)
    try:
        with file.open() as opened:
            start = opened.read(4)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{where}: {path} cannot be decompressed: {error}.") from error
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(
            f"{where}: {path} is UTF-16 text (by its byte order mark); UTF-8 is needed. Convert "
            f"it: `iconv -f UTF-16 -t UTF-8 {os.path.basename(path)}`."
        )
    return dataclasses.replace(file, has_bom=start.startswith(BOM))


def _first_bytes(where: str, path: str) -> bytes:
    try:
        with open_binary(path) as file:
            return file.read(8)
    except (OSError, tf.errors.OpError) as error:
        raise InputError(f"{where}: {path} cannot be read: {error}") from error


def decoded(where: str, path: str, number: int, line: bytes) -> str:
    """A line as text, or the sentence that says why it is none."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise InputError(not_utf8(where, path, number, line, error)) from None


def not_utf8(where: str, path: str, number: int, line: bytes, error: UnicodeDecodeError) -> str:
    near = line[max(0, error.start - 10) : error.start + 10]
    return (
        f"{where}: {path}, line {number} is not UTF-8: byte {line[error.start]:#04x} at position "
        f"{error.start + 1}, in {near!r}. Convert the file: "
        f"`iconv -f LATIN1 -t UTF-8 {os.path.basename(path)}`."
    )


def is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def short_list(paths: Sequence[str]) -> str:
    """The files in a few words.

    >>> short_list(["a.csv", "b.csv", "c.csv"])
    'a.csv and 2 more files'
    """
    rest = len(paths) - 1
    if not rest:
        return paths[0]
    return f"{paths[0]} and {rest} more file{'s' if rest > 1 else ''}"


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), 16)
    return min(os.cpu_count() or 1, 16)
