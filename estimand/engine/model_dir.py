"""What a `model_dir` holds besides checkpoints: the lock of the run that writes it, its record."""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import logging
import os
import re
import socket
import tempfile
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from estimand.core.errors import CheckpointWriteError, ModelDirBusyError
from estimand.core.files.atomic_files import (
    replace_text,
)

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK_FILE = ".estimand.lock"
RECORD_FILE = "estimand_run.json"

# What the kernel says where a file system has no locks (some network and FUSE mounts).
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.EIO}
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)

_log = logging.getLogger("tensorflow")


def ensure_writable(directory: str | os.PathLike[str]) -> str:
    """Create the directory if need be, and try it, before any work is done.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "new")
    >>> ensure_writable(path) == path and os.path.isdir(path)
    True
    """
    directory = os.fspath(directory)
    if _REMOTE.match(directory):
        raise CheckpointWriteError(
            f"model_dir {directory!r} is not a path of a local or mounted file system: mount it, "
            "and give the path where it is mounted."
        )
    if glob.has_magic(directory):
        raise CheckpointWriteError(
            f"model_dir {directory!r} has one of * ? [ in its name, which TensorFlow takes for a "
            "pattern: it would not find the checkpoints again. Give another model_dir."
        )
    try:
        os.makedirs(directory, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(b"x")
    except FileExistsError as error:
        raise CheckpointWriteError(
            f"model_dir {directory!r} cannot be used: a file of that name is in its place; remove "
            "it, or give another model_dir."
        ) from error
    except OSError as error:
        raise CheckpointWriteError(
            f"model_dir {directory!r} cannot be written to ({error.strerror or error}); make it "
            "writable, or give another model_dir."
        ) from error
    return directory


def anchored(directory: str | os.PathLike[str]) -> str:
    """A relative path as it is seen from here and now: a later `os.chdir` does not move it.

    >>> anchored("runs/mine/") == os.path.join(os.getcwd(), "runs/mine/")
    True
    """
    path = os.fspath(directory)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not path or os.path.isabs(path) or _REMOTE.match(path):
        return path
    return os.path.join(os.getcwd(), path.removeprefix("./"))


# ------------------------------------------------------------------ the lock


@dataclass
class _Held:
    owner: ModelDirLock
    descriptor: int | None  # None where the file system has no locks
    since: str


_registry: dict[str, _Held] = {}
_registry_lock = threading.RLock()
_warned_of_no_locks = False
_forks_are_watched = False


class ModelDirLock:
    """Held while a run writes into a `model_dir`; a second run is refused, not mixed in.

    The lock is the kernel's: however the process ends, it is free again. The file stays, and
    says who holds it. The same lock object may be entered again by whoever holds it; another
    one is refused, in this process as in any other. Where the file system has no locks only
    the runs of this process are told apart, and a warning says so.

    >>> import tempfile
    >>> directory = tempfile.mkdtemp()
    >>> with ModelDirLock(directory):
    ...     holds_lock(directory)
    True
    >>> holds_lock(directory)
    False
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = os.fspath(directory)
        self._key = ""
        self._depth = 0

    def __enter__(self) -> ModelDirLock:
        with _registry_lock:
            if self._depth == 0:
                self._acquire()
            self._depth += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with _registry_lock:
            self._depth -= 1
            if self._depth == 0:
                self._release()

    def _acquire(self) -> None:
        ensure_writable(self._directory)
        self._key = os.path.realpath(self._directory)  # wherever a run goes from here
        held = _registry.get(self._key)
        if held is not None:
            raise ModelDirBusyError(
                f"model_dir {self._directory!r} is in use: this process (pid {os.getpid()}) has "
                f"been training there since {held.since}. Two trainings would destroy each "
                "other's checkpoints: let the first train() return, or give this one its own "
                "model_dir."
            )
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        _watch_forks()
        _registry[self._key] = _Held(self, _lock_file(self._directory, since), since)

    def _release(self) -> None:
        held = _registry.pop(self._key, None)
        if held is None or held.descriptor is None:
            return
        with contextlib.suppress(OSError):
            os.ftruncate(held.descriptor, 0)  # nobody holds it now, and the file says so
        os.close(held.descriptor)


def holds_lock(directory: str | os.PathLike[str]) -> bool:
    """Whether this process has the directory to itself (never where there are no locks)."""
    held = _registry.get(os.path.realpath(directory))
    return held is not None and held.descriptor is not None


def _lock_file(directory: str, since: str) -> int | None:
    """The descriptor of the locked file, or None where there are no locks."""
    path = os.path.join(directory, LOCK_FILE)
    if fcntl is None:
        _warn_of_no_locks(directory, "this system has none")
        return None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise CheckpointWriteError(
            f"model_dir {directory!r} cannot be locked: {path} cannot be opened "
            f"({error.strerror}); remove that file if it belongs to another user."
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = _read_holder(descriptor)
        os.close(descriptor)
        if error.errno in _NO_LOCKS:
            _warn_of_no_locks(directory, str(error.strerror))
            return None
        raise _busy(directory, holder) from error
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since})
    with contextlib.suppress(OSError):  # a full disk: the lock holds all the same
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
    return descriptor


def _read_holder(descriptor: int) -> dict[str, Any]:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        return holder if isinstance(holder, dict) else {}
    except (OSError, ValueError):
        return {}


def _busy(directory: str, holder: dict[str, Any]) -> ModelDirBusyError:
    who, stop = "another process", "stop it"
    if "pid" in holder:
        who = f"process {holder['pid']} on host {holder.get('host', '?')}"
        stop = f"stop it (kill {holder['pid']})"
    return ModelDirBusyError(
        f"model_dir {directory!r} is in use: {who} has been training there since "
        f"{holder.get('since', 'an unknown time')}. Two processes would destroy each other's "
        f"checkpoints: wait until it ends, {stop}, or give this run its own model_dir."
    )


def _warn_of_no_locks(directory: str, why: str) -> None:
    global _warned_of_no_locks
    if not _warned_of_no_locks:
        _warned_of_no_locks = True
        _log.warning(
            "The file system of model_dir %r has no file locks (%s): a second process training "
            "there at the same time would not be noticed. Make sure there is none.",
            directory,
            why,
        )


def _watch_forks() -> None:
    """Let forked children (data loaders, for instance) drop the lock.

    They share it otherwise, and one that outlives its killed parent would keep it.
    """
    global _forks_are_watched
    if not _forks_are_watched and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget_locks)
    _forks_are_watched = True


def _forget_locks() -> None:
    global _registry_lock
    _registry_lock = threading.RLock()  # whoever held it in the parent is not here
    for held in _registry.values():
        held.owner._depth = 0
        if held.descriptor is not None:
            os.close(held.descriptor)  # closing a copy does not unlock
    _registry.clear()


# ------------------------------------------------------------------ the record


_KINDS: dict[str, tuple[type, str]] = {
    "random_seed": (int, "an integer"),
    "block_mode": (str, "a string"),
    "block_mode_from_step": (int, "an integer"),
    "input_seed": (int, "an integer"),
    "input_order": (int, "an integer"),
    "onednn_in_all_graphs": (bool, "true, false"),
    "params": (dict, "an object"),
}


@dataclass
class RunRecord:
    """What all runs in one `model_dir` share: kept so that a resumed run repeats the first.

    Args:
      random_seed: of the model, drawn at the first start.
      block_mode: how steps are run, settled by the first call that is not resumed.
      block_mode_from_step: the first step that was run so.
      input_seed: of the order of the input, for the call under way or interrupted.
      input_order: by which rule the order of rows in memory follows from it.
      onednn_in_all_graphs: whether TensorFlow used oneDNN by itself.
      params: of the last call, for who compares runs.
      extra: entries that this version does not know, written back as they came.

    >>> import tempfile
    >>> directory = tempfile.mkdtemp()
    >>> RunRecord(random_seed=7).save(directory)
    >>> RunRecord.load(directory)
    RunRecord(random_seed=7)
    """

    random_seed: int | None = None
    block_mode: str | None = None
    block_mode_from_step: int | None = None
    input_seed: int | None = None
    input_order: int | None = None
    onednn_in_all_graphs: bool | None = None
    params: dict[str, Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        told = {name: value for name, value in vars(self).items() if value not in (None, {})}
        return f"RunRecord({', '.join(f'{name}={value!r}' for name, value in told.items())})"

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> RunRecord:
        """The record of a directory; an empty one where there is none, or a damaged one."""
        path = os.path.join(directory, RECORD_FILE)
        try:
            with open(path, encoding="utf-8") as file:
                return cls._parse(json.load(file))
        except (FileNotFoundError, NotADirectoryError):
            return cls()
        except (OSError, ValueError) as error:
            _log.warning(
                "Ignoring %s, which cannot be read (%s): the random seed and the way of running "
                "steps are chosen anew, so this run does not repeat the earlier ones exactly.",
                path,
                error,
            )
            return cls()

    @classmethod
    def _parse(cls, entries: Any) -> RunRecord:
        if not isinstance(entries, dict):
            raise ValueError(f"expected an object, found {entries!r:.40}")
        known = {name: entries.pop(name) for name in _KINDS if name in entries}
        for name, value in known.items():
            kind, words = _KINDS[name]
            if value is not None and type(value) is not kind:
                raise ValueError(f"{name} must be {words} or null, found {value!r}")
        return cls(**known, extra=entries)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the record, as a whole or not at all."""
        settled = {name: getattr(self, name) for name in _KINDS}
        known = {name: value for name, value in settled.items() if value is not None}
        path = os.path.join(directory, RECORD_FILE)
        try:
            replace_text(path, json.dumps({**self.extra, **known}, indent=1) + "\n")
        except OSError as error:
            raise CheckpointWriteError(
                f"Could not write {path}: {error.strerror or error}."
            ) from error
