"""Python programs in processes of their own that start at once.

Each is forked from a process that has imported TensorFlow and done nothing else, which saves it
the three seconds that this takes. For tests of what a program does, not of how Python starts.

Run as a program (`python -m tests.forked FD`), this file is that process. What else it should
import is in the variable ESTIMAND_TESTS_IMPORTS.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

REPOSITORY = Path(__file__).resolve().parents[1]
_LARGEST_REQUEST = 2**20

_running: set[Program] = set()


class Program:
    """A running program, with the methods of a `subprocess.Popen`.

    `command` is what would follow the name of the interpreter: a file, -m and a module, or -c and
    a text; then arguments.
    """

    def __init__(
        self,
        command: Sequence[object],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stdout: IO[Any] | int = subprocess.DEVNULL,
        stderr: IO[Any] | int = subprocess.DEVNULL,
    ) -> None:
        self.returncode: int | None = None
        self.args = [str(part) for part in command]
        ours, theirs = os.pipe()
        with open(os.devnull, "r+b") as nothing, open(theirs, "wb"):
            out = nothing if stdout == subprocess.DEVNULL else stdout
            error = nothing if stderr == subprocess.DEVNULL else stderr
            error = out if stderr == subprocess.STDOUT else error
            descriptors = [one if isinstance(one, int) else one.fileno() for one in (out, error)]
            request = {
                "command": self.args,
                "environment": dict(os.environ if env is None else env),
                "directory": os.fspath(cwd or os.getcwd()),
            }
            server = _server()
            socket.send_fds(server, [json.dumps(request).encode()], [*descriptors, theirs])
            self.pid: int = json.loads(server.recv(_LARGEST_REQUEST))
        self._end = ours
        _running.add(self)

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._end], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = json.loads(os.read(self._end, 100))
            os.close(self._end)
            _running.discard(self)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # ends just now
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    command: Sequence[object],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    timeout: float = 280,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as `subprocess.run` with its output captured does."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:
        program = Program(command, env=env, cwd=cwd, stdout=out, stderr=error)
        try:
            code = program.wait(timeout)
        finally:
            program.kill()
            program.wait()
        out.seek(0)
        error.seek(0)
        return subprocess.CompletedProcess(program.args, code, out.read(), error.read())


def running() -> dict[int, str]:
    """Programs that have not ended, by number."""
    return {one.pid: " ".join(one.args) for one in list(_running) if one.poll() is None}


@functools.cache
def _server() -> socket.socket:
    """The connection to the process that forks; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
            cwd=REPOSITORY,
            env={k: v for k, v in os.environ.items() if k != "TF_CONFIG"},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# ---------------------------------------------------------------- the process that forks


def _serve(connection: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; in the children, the request. None when nobody asks any more."""
    ended, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    to_tell: dict[int, int] = {}  # by child: where its exit code is awaited
    while True:
        ready = select.select([connection, ended], [], [])[0]
        if ended in ready:
            os.read(ended, 4096)
            _tell_codes(to_tell)
        if connection in ready:
            data, descriptors, _, _ = socket.recv_fds(connection, _LARGEST_REQUEST, 3)
            if not data:
                return None
            out, error, code = descriptors
            child = os.fork()
            if child == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.dup2(out, 1)
                os.dup2(error, 2)
                for one in (*descriptors, *to_tell.values(), ended, wakeup):
                    os.close(one)
                connection.close()
                return json.loads(data)
            os.close(out)
            os.close(error)
            to_tell[child] = code
            connection.send(json.dumps(child).encode())


def _tell_codes(to_tell: dict[int, int]) -> None:
    while to_tell:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            return
        descriptor = to_tell.pop(child)
        with contextlib.suppress(BrokenPipeError):
            os.write(descriptor, json.dumps(os.waitstatus_to_exitcode(status)).encode())
        os.close(descriptor)


def _become(request: Mapping[str, Any]) -> None:
    """The program that was asked for, as if the interpreter had begun with it."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    tempfile.tempdir = None  # to be found anew
    kind, *rest = request["command"]
    found = os.environ.get("PYTHONPATH", "")
    sys.path[1:1] = [path for path in found.split(os.pathsep) if path]
    if kind == "-m":
        sys.path[0] = request["directory"]
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(kind))
        sys.argv = [kind, *rest]
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    import tensorflow  # noqa: F401

    import estimand.estimator.estimator  # noqa: F401

    for name in os.environ.get("ESTIMAND_TESTS_IMPORTS", "").split():
        importlib.import_module(name)
    gc.freeze()  # what is there stays: no program has to look through it again, not even at its end
    asked = _serve(socket.socket(fileno=int(sys.argv[1])))
    if asked is not None:
        _become(asked)
