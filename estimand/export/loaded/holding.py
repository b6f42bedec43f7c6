"""Holding an exported version while it is in use. Knows nothing of training or exporting."""

from __future__ import annotations

import contextlib
import errno
import os

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")
LOCKS = fcntl is not None


class Hold:
    """Keeps a version from being collected; ends with `release`, or with the process.

    >>> import pathlib, tempfile
    >>> version = tempfile.mkdtemp()
    >>> pathlib.Path(version, "saved_model.pb").touch()
    >>> hold = Hold(version)
    >>> try_lock(model_file(version)) is None
    True
    >>> hold.release()
    """

    def __init__(self, version: str | os.PathLike[str]) -> None:
        path = model_file(version)
        if path is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(version))
        self._descriptor: int | None = os.open(path, os.O_RDONLY)
        if fcntl is not None:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:  # being deleted at this moment
                self.release()
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
            except OSError:
                pass  # a file system without locks

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        close(descriptor)


def model_file(version: str | os.PathLike[str]) -> str | None:
    paths = [os.path.join(version, name) for name in MODEL_FILES]
    return next((path for path in paths if os.path.exists(path)), None)


def try_lock(path: str) -> int | None:
    """The descriptor of the locked file or directory; None if another holds it or it is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    if fcntl is None:
        return descriptor
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        pass  # a file system without locks
    return descriptor


def close(descriptor: int | None) -> None:
    if descriptor is not None:
        with contextlib.suppress(OSError):
            os.close(descriptor)
