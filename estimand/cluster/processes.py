"""Child processes that never outlive their launcher, however it ends.

Each is the head of a process group of its own, which is swept when it ends. Should the launcher be
killed without a chance to do so, the kernel kills the heads (on Linux), and a guard, a small
process that waits for the launcher's end, kills the groups.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO

_PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>

# Reads the numbers of groups; at the end of its input, the launcher is gone. Signals that end the
# launcher's job are none of its business: it is the last to leave.
_GUARD = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class Guard:
    """Kills the groups it knows when this process is no more."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-ESc", _GUARD],
            stdin=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )

    def watch(self, group: int) -> None:
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # somebody killed it: the kernel's promise remains
            self._process.stdin.write(line)

    def end(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()


class Child:
    """A program in a process group of its own; what it prints comes out of one pipe."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        guard: Guard,
        output: int = subprocess.PIPE,
    ) -> None:
        """`output` is a pipe that somebody else reads, if there is one."""
        self._guard = guard
        self._process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent(),
        )
        guard.watch(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def exit_code(self) -> int | None:
        """As a shell would say it: 128 + n for signal n; None while it runs."""
        code = self._process.poll()
        return 128 - code if code is not None and code < 0 else code

    def wait(self) -> int:
        """The same, when it has ended."""
        self._process.wait()
        code = self.exit_code()
        assert code is not None
        return code

    def signal(self, number: int) -> None:
        """To the whole group, as a terminal does."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def sweep(self) -> None:
        """After its end: nothing that it started stays behind."""
        self.signal(signal.SIGKILL)
        self._process.wait()
        self._guard.forget(self._process.pid)
        if self._process.stdout is not None:
            self._process.stdout.close()


def _die_with_parent() -> Callable[[], None] | None:
    """What a child does before its program begins; the launcher has one thread, so it may."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    launcher = os.getpid()

    def ask_the_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != launcher:  # it has died in between
            os._exit(1)

    return ask_the_kernel
