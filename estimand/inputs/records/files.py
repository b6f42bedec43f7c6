"""Finding TFRecord files, and opening them whatever their compression."""

from __future__ import annotations

import glob
import io
import os
import zlib
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from estimand.core.errors import InputError
from estimand.core.files.atomic_files import parse_temporary
from estimand.inputs.records.framing import FRAME, HEADER, header_is_right

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

COMPRESSIONS = ("GZIP", "ZLIB")
_WINDOW_BITS = {"GZIP": 31, "ZLIB": 15}
_READ_BYTES = 1 << 18


class MissingFileError(InputError, FileNotFoundError):
    """A file, or a pattern of file names, that leads to nothing."""

    # OSError prints its arguments in a form of its own.
    __str__ = Exception.__str__


def find_files(files: Paths, where: str) -> list[str]:
    """Names, patterns, or several of them, as a list of existing files; patterns sorted.

    >>> find_files("nowhere/*.tfrecord", "read")
    Traceback (most recent call last):
      ...
    estimand.inputs.records.files.MissingFileError: read: no file matches 'nowhere/*.tfrecord'...
    """
    given = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    if not given:
        raise InputError(f"{where}: the list of files is empty. Name at least one file.")
    paths = [path for name in given for path in _expand(os.fspath(name), where)]
    for path in paths:
        if is_remote(path):
            continue
        if os.path.isdir(path):
            pattern = os.path.join(path, "*.tfrecord")
            raise InputError(
                f"{where}: {path!r} is a directory, not a file. Name the files in it: {pattern!r}."
            )
    return paths


def _expand(name: str, where: str) -> list[str]:
    if is_remote(name):
        return _expand_remote(name, where)
    if os.path.exists(name):  # also where its name holds brackets
        return [name]
    if not glob.has_magic(name):
        raise MissingFileError(
            f"{where}: there is no file {name!r} (looked in {os.path.abspath(name)!r})."
        )
    matches = sorted(m for m in glob.glob(name, recursive=True) if not os.path.isdir(m))
    matches = [m for m in matches if not parse_temporary(os.path.basename(m))]
    if not matches:
        raise MissingFileError(
            f"{where}: no file matches {name!r} (seen from {os.getcwd()!r}). "
            "Check the pattern; `**` crosses folders, `*` does not."
        )
    return matches


def _expand_remote(name: str, where: str) -> list[str]:
    import tensorflow as tf

    matches = sorted(tf.io.gfile.glob(name)) if glob.has_magic(name) else [name]
    if not matches:
        raise MissingFileError(f"{where}: no file matches {name!r}.")
    return matches


def is_remote(path: str) -> bool:
    """Whether only TensorFlow's own file system layer can read it (gs://, s3://, hdfs://)."""
    return "://" in path


def open_file(path: str) -> BinaryIO:
    """The file's bytes as they are on disk."""
    if is_remote(path):
        import tensorflow as tf

        return tf.io.gfile.GFile(path, "rb")
    return open(path, "rb", buffering=0)


def check_compression(compression: Any, where: str) -> str | None:
    """The given compression in TensorFlow's spelling; None: find out for each file."""
    if compression is None:
        return None
    name = str(compression).upper()
    if name in ("", "NONE"):
        return ""
    if name not in COMPRESSIONS:
        raise InputError(
            f"{where}: compression must be None (look at each file), '', "
            f"{', '.join(map(repr, COMPRESSIONS))}; given: {compression!r}."
        )
    return name


def compression_of(path: str) -> str:
    """'GZIP', 'ZLIB' or '' (none), by looking at the file's first bytes.

    A name is only believed where the bytes say nothing.
    """
    with open_file(path) as file:
        return _compression_of(file.read(HEADER))


def ends_with_a_record(path: str) -> bool:
    """Whether the last bytes of an uncompressed file make up a record, or there are none.

    A record that is larger than what is looked at is not found.
    """
    with open_file(path) as file:
        size = _size_of(path)
        for looked_at in (1 << 14, 1 << 22):
            begin = max(0, size - looked_at)
            file.seek(begin)
            if _last_record_in(file.read(size - begin), size - begin) or not size:
                return True
            if not begin:
                break
    return False


def _size_of(path: str) -> int:
    if not is_remote(path):
        return os.path.getsize(path)
    import tensorflow as tf

    return int(tf.io.gfile.stat(path).length)


def _last_record_in(tail: bytes, size: int) -> bool:
    places = size - FRAME + 1
    if places < 1 or len(tail) < size:
        return False
    lengths = np.ndarray(places, "<u8", tail, strides=(1,))
    fitting = np.flatnonzero(lengths == np.arange(places - 1, -1, -1, dtype=np.uint64))
    return any(header_is_right(tail[start : start + HEADER]) for start in fitting.tolist())


def _compression_of(start: bytes) -> str:
    if len(start) == HEADER and header_is_right(start):
        return ""
    if start[:3] == b"\x1f\x8b\x08":
        return "GZIP"
    if len(start) > 2 and start[0] & 0x0F == 8 and int.from_bytes(start[:2], "big") % 31 == 0:
        return "ZLIB"
    return ""


class DamagedStream(Exception):
    """A compressed file that does not decompress; the message ends a sentence about the file."""


class Inflated(io.RawIOBase):
    """The decompressed bytes of a GZIP or ZLIB file."""

    def __init__(self, file: BinaryIO, compression: str) -> None:
        self._file = file
        self._bits = _WINDOW_BITS[compression]
        self._kind = compression
        self._engine = zlib.decompressobj(self._bits)
        self._waiting = b""

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        while len(view):
            data = self._more(len(view))
            if data is None:
                return 0
            if data:
                view[: len(data)] = data
                return len(data)
        return 0

    def _more(self, limit: int) -> bytes | None:
        """Some decompressed bytes, perhaps none yet; None at the end."""
        compressed = self._waiting or self._file.read(_READ_BYTES)
        if not compressed:
            if self._engine.eof:
                return None
            raise DamagedStream(f"its {self._kind} stream is cut off")
        try:
            data = self._engine.decompress(compressed, limit)
        except zlib.error as error:
            raise DamagedStream(f"its {self._kind} stream is damaged ({error})") from None
        self._waiting = self._engine.unconsumed_tail
        if self._engine.eof:
            self._next_member()
        return data

    def _next_member(self) -> None:
        """Several GZIP files written one after the other are one file."""
        self._waiting = self._engine.unused_data or self._file.read(_READ_BYTES)
        if self._waiting:
            self._engine = zlib.decompressobj(self._bits)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def open_records(path: str, compression: str) -> Any:
    """A stream of the file's decompressed bytes, with `readinto` and `close`."""
    file = open_file(path)
    if compression:
        return Inflated(file, compression)
    return _Remote(file) if is_remote(path) else file


class _Remote(io.RawIOBase):
    """`readinto` for TensorFlow's files, which only have `read`."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        data = self._file.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def read_fully(stream: Any, target: memoryview) -> int:
    """Fill `target` as far as the stream goes; how many bytes were read."""
    filled = 0
    while filled < len(target):
        count = stream.readinto(target[filled:])
        if not count:
            break
        filled += count
    return filled
