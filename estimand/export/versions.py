"""The directory of a model's versions: `base/1719407230`, each there as a whole or not at all.

A version is written under a name that begins with `temp-`, which servers pass over, and renamed
when it is on the disk. Its writer holds a lock on it as long as it lives, so that what a killed
one left behind can be told from what a living one is about to finish. Whoever serves a version
may hold it (`holding.Hold`): what is held is not collected as garbage.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable

from estimand.core.errors import ExportWriteError
from estimand.core.files.atomic_files import sync_directory, sync_file
from estimand.export.loaded.holding import LOCKS, close, model_file, try_lock

_DRAFT = "temp-"
_OURS = re.compile(r"temp-\d+-[0-9a-f]{8}$")
_TIMESTAMP = re.compile(r"\d{10}$")
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_ATTEMPTS = 10
# After so long without a change a draft is given up: of others, and where there are no locks.
_STALE_SECONDS = 3600.0

_log = logging.getLogger("tensorflow")


def write_version(base: str | os.PathLike[str], write: Callable[[str], None]) -> str:
    """Let `write` fill a new directory, and give it the next version number of `base`.

    >>> import pathlib, tempfile
    >>> base = tempfile.mkdtemp()
    >>> path = write_version(base, lambda path: pathlib.Path(path, "saved_model.pb").touch())
    >>> os.listdir(base) == [os.path.basename(path)] and len(os.path.basename(path)) == 10
    True
    """
    base = _usable(base)
    clean_leftovers(base)
    draft, lock = _new_draft(base)
    try:
        write(draft)
        _sync_tree(draft)
        return _publish(draft, base)
    except OSError as error:
        raise _not_written(base, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # not there any more if all went well
        close(lock)


def is_draft(name: str) -> bool:
    """Whether an entry of a base path is no version yet, or will be none any more."""
    return name.startswith(_DRAFT)


def versions(base: str | os.PathLike[str]) -> list[str]:
    """The versions in `base` that an export gave their number, oldest first."""
    try:
        names = os.listdir(base)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [os.path.join(base, n) for n in sorted(names) if _TIMESTAMP.match(n)]


def collect_garbage(base: str | os.PathLike[str], keep: int | None) -> list[str]:
    """Delete all but the newest `keep` versions, and those that are held; None keeps all."""
    if keep is None:
        return []
    deleted = []
    there = [version for version in versions(base) if os.path.isdir(version)]
    for version in there[: -max(keep, 1)]:
        lock = try_lock(model_file(version) or version)
        if lock is None:
            _log.info("Keeping %s: it is in use.", version)
            continue
        try:
            _delete(version)
            deleted.append(version)
        except OSError as error:
            # Another collector was faster, or it is not ours to delete: no harm is done.
            if error.errno != errno.ENOENT:
                _log.warning("Could not delete the old export %s: %s", version, error)
        finally:
            close(lock)
    return deleted


def clean_leftovers(base: str) -> None:
    """Remove drafts whose writers are gone."""
    for name in os.listdir(base):
        path = os.path.join(base, name)
        if is_draft(name) and _is_left_over(name, path):
            _log.info("Removing %s, which an interrupted export left behind.", path)
            shutil.rmtree(path, ignore_errors=True)


# ------------------------------------------------------------------ writing


def _usable(base: str | os.PathLike[str]) -> str:
    base = os.fsdecode(base)
    if _REMOTE.match(base):
        raise ExportWriteError(
            f"export_dir_base {base!r} is not a path of a local or mounted file system: mount "
            "it, and give the path where it is mounted."
        )
    try:
        os.makedirs(base, exist_ok=True)
    except OSError as error:
        raise _not_written(base, error) from error
    return base


def _not_written(base: str, error: OSError) -> ExportWriteError:
    why = error.strerror or str(error)
    if isinstance(error, FileExistsError | NotADirectoryError):
        why = "a file is in its place"
    return ExportWriteError(
        f"The model could not be exported below {base!r}: {why}. Make it a writable directory "
        "with room on the disk, or give another export_dir_base."
    )


def _new_draft(base: str) -> tuple[str, int | None]:
    while True:
        path = os.path.join(base, f"{_DRAFT}{int(time.time())}-{secrets.token_hex(4)}")
        try:
            os.mkdir(path)
        except OSError as error:
            raise _not_written(base, error) from error
        lock = try_lock(path)
        if not LOCKS or (lock is not None and os.path.isdir(path)):
            return path, lock
        # Another export took it for a leftover before it was locked: try again.
        close(lock)


def _sync_tree(directory: str) -> None:
    for folder, _, files in os.walk(directory, topdown=False):
        for name in files:
            sync_file(os.path.join(folder, name))
        sync_directory(folder)


def _publish(draft: str, base: str) -> str:
    """Rename the draft to the time, or to what follows the newest version if that is later."""
    for _ in range(_ATTEMPTS):
        newest = max((int(os.path.basename(v)) for v in versions(base)), default=0)
        number = max(int(time.time()), newest + 1 if newest < 9_999_999_999 else 0)
        final = os.path.join(base, str(number))
        try:
            os.rename(draft, final)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            continue  # another export was faster
        sync_directory(base)
        return final
    raise RuntimeError(
        f"Failed to obtain a unique export directory name after {_ATTEMPTS} attempts. Other "
        f"programs are exporting to {base!r} at the same time; give each a directory of its own."
    )


# ------------------------------------------------------------------ deleting


def _delete(version: str) -> None:
    """Take the name away first: nobody finds half a version."""
    base, number = os.path.split(version)
    doomed = os.path.join(base, f"{_DRAFT}{number}-{secrets.token_hex(4)}")
    os.rename(version, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def _is_left_over(name: str, path: str) -> bool:
    if _OURS.match(name) and LOCKS:
        lock = try_lock(path)
        if lock is None:
            return False
        close(lock)
        return True
    try:
        return time.time() - os.stat(path).st_mtime > _STALE_SECONDS
    except OSError:
        return False
