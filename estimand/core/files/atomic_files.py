"""Files that are there as a whole or not at all.

Whatever is being written has a name that starts with `.tmp-`, and gets its own name by being
renamed. The temporary name says which process made it, so that what a killed one left behind
can be told from what a living one is about to finish.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_TEMPORARY = re.compile(
    r"\.tmp-(?P<pid>\d+)-(?P<token>[0-9a-f]+)-(?P<host>[^-]+)-(?P<name>.+)$", re.DOTALL
)

DAY = 86400.0


@dataclass(frozen=True)
class Maker:
    """Who made a temporary file. The token tells us from an earlier process with our pid."""

    pid: int
    token: str
    host: str


@functools.cache
def _maker(pid: int) -> Maker:
    host = re.sub(r"[^A-Za-z0-9._]", "_", socket.gethostname()) or "localhost"
    return Maker(pid, secrets.token_hex(4), host)


def this_process() -> Maker:
    return _maker(os.getpid())  # by pid: a forked child is another process


def temporary_path(directory: str, name: str) -> str:
    """Where `name` is written before it is renamed; no tool takes it for a checkpoint."""
    me = this_process()
    return os.path.join(directory, f".tmp-{me.pid}-{me.token}-{me.host}-{name}")


def parse_temporary(name: str) -> tuple[Maker, str] | None:
    """The maker of a temporary file, and the name it was going to have."""
    match = _TEMPORARY.match(name)
    if match is None:
        return None
    return Maker(int(match["pid"]), match["token"], match["host"]), match["name"]


def is_left_over(path: str, maker: Maker, exclusive: bool = False) -> bool:
    """Whether nobody is going to finish a temporary file.

    With the directory locked (`exclusive`) that is everything that is not this process' own. Else
    what processes of this host made that are no more, and those of other hosts a day ago.
    """
    me = this_process()
    if maker == me:
        return False
    if exclusive:
        return True
    if maker.host != me.host:
        return age(path) > DAY
    return maker.pid == me.pid or not _is_alive(maker.pid)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # not ours to signal: somebody else's, and alive
    return True


def age(path: str) -> float:
    """Seconds since it was written."""
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return 0.0


_of_this_thread = threading.local()


@contextlib.contextmanager
def syncing_while(wanted: Callable[[], bool]) -> Iterator[None]:
    """Inside, this thread waits for the disk only as long as `wanted()` is true.

    What is skipped makes a difference only after a power failure: a killed process leaves its
    files to the system, which writes them out.
    """
    before = getattr(_of_this_thread, "wanted", None)
    _of_this_thread.wanted = wanted
    try:
        yield
    finally:
        _of_this_thread.wanted = before


def _wait_for_disk(descriptor: int) -> None:
    wanted = getattr(_of_this_thread, "wanted", None)
    if wanted is None or wanted():
        os.fsync(descriptor)


def sync_file(path: str) -> None:
    """Wait until the contents are on the disk: a rename may otherwise get there before them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _wait_for_disk(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: str) -> None:
    with contextlib.suppress(OSError):  # some file systems cannot, and need not
        sync_file(directory)


def write_text(path: str, text: str) -> None:
    """A plain write that is on the disk when it returns; for temporary names."""
    _write(path, text.encode())


def _write(path: str, contents: bytes) -> None:
    with open(path, "wb") as file:
        file.write(contents)
        file.flush()
        _wait_for_disk(file.fileno())


def replace_text(path: str, text: str) -> None:
    """Replace a small file as a whole: a reader sees the old text or the new one."""
    replace_bytes(path, text.encode())


def replace_bytes(path: str, contents: bytes) -> None:
    """The same of a file that is not text."""
    with replacing(path) as temporary:
        _write(temporary, contents)
    sync_directory(os.path.dirname(path))


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """A name to write a file under, which then takes the place of `path`, unless writing fails.

    Its ending is that of `path`: there are programs that choose the format by it.
    """
    directory, name = os.path.split(path)
    temporary = temporary_path(directory, f"{secrets.token_hex(4)}-{name}")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        remove_quietly(temporary)
        raise


def remove_quietly(path: str) -> None:
    with contextlib.suppress(OSError):
        os.remove(path)
