"""Programs that need not import what takes long: forked from a process that has, on Linux.

The launcher starts that process (`fork_server`), and asks it for one program after the other. Where
it fails, for whatever reason, a program is started as others are.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO

from estimand.cluster import fork_server
from estimand.cluster.processes import Child, Guard

_PR_SET_CHILD_SUBREAPER = 36  # of <sys/prctl.h>, as the next one
_PR_GET_CHILD_SUBREAPER = 37


class ForkServer:
    """The process that has imported modules, for one program; it is begun when it is made."""

    def __init__(self, modules: Sequence[str], command: Sequence[str], guard: Guard) -> None:
        """`command` is the interpreter, a script and its arguments."""
        self._command, self._guard = command, guard
        # Programs lose the parent that they are forked by, and get this process for one.
        self._took_in_before = _takes_in_orphans()
        _take_in_orphans(True)
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            given = [str(theirs.fileno()), ",".join(modules), *command[1:]]
            self._process = subprocess.Popen(
                [command[0], fork_server.__file__, *given],
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=fork_server.die_with_parent,
            )
        guard.watch(self._process.pid)

    @staticmethod
    def is_possible() -> bool:
        """Whether there is such a thing here."""
        return sys.platform.startswith("linux")

    def start(self, environ: Mapping[str, str]) -> ForkedChild:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        child = ForkedChild(self._command, environ, self._guard, ours)
        with theirs, contextlib.suppress(OSError):  # has ended: the child will see that
            request = {"launcher": os.getpid(), "environ": dict(environ)}
            message = json.dumps(request).encode()
            socket.send_fds(self._line, [message], [child.printed, theirs.fileno()])
        return child

    def end(self) -> None:
        self._line.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._guard.forget(self._process.pid)
        _take_in_orphans(self._took_in_before)


class ForkedChild:
    """A program that was asked for, then runs, then has ended: a `Child` for whoever watches it.

    It begins when it is first looked at after the server was ready for it.
    """

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], guard: Guard, line: socket.socket
    ) -> None:
        self._command, self._environ, self._guard = command, environ, guard
        self._line: socket.socket | None = line
        self._pid: int | None = None
        self._code: int | None = None
        self._instead: Child | None = None
        ours, self.printed = os.pipe()
        self._output = os.fdopen(ours, "rb", buffering=0)

    @property
    def output(self) -> IO[bytes]:
        return self._output

    def exit_code(self) -> int | None:
        """As a shell would say it: 128 + n for signal n; None while it runs, or will run."""
        self._look()
        if self._instead is not None:
            return self._instead.exit_code()
        self._reap(os.WNOHANG)
        return self._code

    def _reap(self, options: int) -> None:
        if self._pid is None or self._code is not None:
            return
        pid, status = os.waitpid(self._pid, options)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            self._code = 128 - code if code < 0 else code

    def signal(self, number: int) -> None:
        """To the whole group; one that has not begun yet never will."""
        self._look()
        if self._instead is not None:
            self._instead.signal(number)
        elif self._pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, number)
        elif self._code is None:
            self._code = 128 + number
            self._hang_up()

    def sweep(self) -> None:
        """After its end: nothing that it started stays behind."""
        self.signal(signal.SIGKILL)
        if self._instead is not None:
            self._instead.sweep()
        elif self._pid is not None:
            self._reap(0)
            self._guard.forget(self._pid)
        self._output.close()

    def _look(self) -> None:
        """Whether it has been forked by now; then it may begin."""
        if self._line is None:
            return
        try:
            answer = self._line.recv(100, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except ConnectionError:
            answer = b""
        if answer:
            self._pid = json.loads(answer)
            self._guard.watch(self._pid)
            self._line.send(fork_server.GO)
        else:
            environ = {**os.environ, **self._environ}
            self._instead = Child(self._command, environ, self._guard, self.printed)
        self._hang_up()

    def _hang_up(self) -> None:
        assert self._line is not None
        self._line.close()
        self._line = None
        os.close(self.printed)


def _takes_in_orphans() -> bool:
    """Whether processes whose parent ends get this one for a parent."""
    answer = ctypes.c_int()
    ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer))
    return bool(answer.value)


def _take_in_orphans(wanted: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted))
