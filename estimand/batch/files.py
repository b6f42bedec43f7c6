"""Files of a job, on this machine or wherever TensorFlow's file systems reach."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator

import tensorflow as tf

from estimand.core.files import atomic_files
from estimand.export.loaded.row_files import is_remote


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """A local name to write a file under, which is at `path` as a whole when the block has ended.

    What is to be remote is written here first: so there is one way to write, and few of those
    file systems can do more than take a whole file.
    """
    if not is_remote(path):
        with atomic_files.replacing(path) as temporary:
            yield temporary
            atomic_files.sync_file(temporary)
        atomic_files.sync_directory(os.path.dirname(path))
        return
    folder, name = os.path.split(path)
    with tempfile.TemporaryDirectory(prefix="estimand-") as local:
        yield os.path.join(local, name)
        there = os.path.join(folder, f".tmp-{secrets.token_hex(8)}-{name}")
        tf.io.gfile.copy(os.path.join(local, name), there)
        tf.io.gfile.rename(there, path, overwrite=True)


def write_text(path: str, text: str) -> None:
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(text)


def write_new_text(path: str, text: str) -> None:
    """The same, but a file that is there already stays as it is, where the system can do that."""
    if is_remote(path):
        write_text(path, text)
        return
    temporary = atomic_files.temporary_path(*os.path.split(path))
    write_text(temporary, text)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        write_text(path, text)
    finally:
        atomic_files.remove_quietly(temporary)


def read_text(path: str) -> str | None:
    """None if it is not there."""
    try:
        with tf.io.gfile.GFile(path, "r") as file:
            return file.read()
    except tf.errors.NotFoundError:
        return None


def remove(path: str) -> None:
    with contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.remove(path)


def names_in(folder: str) -> list[str]:
    """Without the slash that some file systems put behind names of folders."""
    if not tf.io.gfile.isdir(folder):
        return []
    return sorted(name.rstrip("/") for name in tf.io.gfile.listdir(folder))


def remove_leftovers(folder: str) -> None:
    """Remove what processes that were killed left half written."""
    if is_remote(folder):
        return
    for name in names_in(folder):
        temporary = atomic_files.parse_temporary(name)
        path = os.path.join(folder, name)
        if temporary is not None and atomic_files.is_left_over(path, temporary[0]):
            atomic_files.remove_quietly(path)
