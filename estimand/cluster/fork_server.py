"""A process that has imported modules, and done nothing else; programs are forked from it.

`python fork_server.py SOCKET MODULES SCRIPT ARGUMENTS...`: as a file, so that nothing is found by
the folder that the command was given in. Each message on the socket brings two descriptors, where a
program prints and a line to whoever asked, and makes it run once more. It ends when nobody can ask
any more.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType
from typing import Any

GO = b"go"
LARGEST_REQUEST = 2**20
_PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>


def main() -> None:
    """Import, fork for each that asks, and be the program in those that were forked."""
    descriptor, modules, script, *arguments = sys.argv[1:]
    # As `python script arguments...` begins, so that the same modules are found.
    sys.argv = [script, *arguments]
    sys.orig_argv = [sys.executable, *sys.argv]
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    with _written_down() as said:
        for name in modules.split(","):
            importlib.import_module(name)
    gc.freeze()  # what is there stays, and stays shared
    asked = _serve(socket.socket(fileno=int(descriptor)))
    if asked is not None:
        os.environ.update(asked)
        os.write(2, said())
        _forget_what_is_drawn_once()
        _run(script)


def _serve(connection: socket.socket) -> dict[str, str] | None:
    """In those that were forked, what is to be in the environment; else None, at the end."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(connection, LARGEST_REQUEST, 2)
        if not request:
            return None
        output, line = descriptors
        with warnings.catch_warnings():  # that libraries have threads: all of them wait for work
            warnings.simplefilter("ignore", DeprecationWarning)
            between = os.fork()
        if between == 0:
            # Its child is left to the launcher, which is asked to take in those without a parent:
            # so it is the one that hears how a program ended, whatever becomes of this process.
            parent = os.getpid()
            if os.fork():
                os._exit(0)
            while os.getppid() == parent:  # whose end is not to be its end
                time.sleep(0.001)
            connection.close()
            asked = json.loads(request)
            _begin(output, socket.socket(fileno=line), asked["launcher"])
            return asked["environ"]
        os.close(output)
        os.close(line)
        os.waitpid(between, 0)


def _begin(output: int, line: socket.socket, launcher: int) -> None:
    """Stand alone, as the head of a group, and wait for leave; end where nobody gives it."""
    os.setsid()
    die_with_parent()
    if os.getppid() != launcher:
        os._exit(1)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    with line:
        try:
            line.send(json.dumps(os.getpid()).encode())
            may_run = line.recv(len(GO)) == GO
        except OSError:
            may_run = False
    if not may_run:
        os._exit(1)


def die_with_parent() -> None:
    """As the kernel of Linux offers it."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def _written_down() -> Iterator[Callable[[], bytes]]:
    """What is printed inside, for each program to print it as its own."""
    with tempfile.TemporaryFile() as file:
        kept = [os.dup(1), os.dup(2)]
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        printed = b""
        try:
            yield lambda: printed
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, before in zip((1, 2), kept, strict=True):
                os.dup2(before, number)
                os.close(before)
            file.seek(0)
            printed = file.read()


def _forget_what_is_drawn_once() -> None:
    """Python's own generator begins anew after a fork; NumPy's would be the same in all."""
    import numpy as np

    np.random.seed()
    tempfile.tempdir = None


def _run(script: str) -> None:
    """As the interpreter runs a script: its module is the main one, and stays."""
    path = os.path.abspath(script)
    module = ModuleType("__main__")
    loader = SourceFileLoader("__main__", path)
    names: dict[str, Any] = {"__file__": path, "__loader__": loader, "__builtins__": __builtins__}
    module.__dict__.update(names, __spec__=None, __package__=None, __cached__=None)
    sys.modules["__main__"] = module
    sys.excepthook = _without_this_file
    code = compile(loader.get_data(path), path, "exec", dont_inherit=True)
    exec(code, module.__dict__)


def _without_this_file(
    kind: type[BaseException], error: BaseException, frames: TracebackType | None
) -> None:
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    sys.__excepthook__(kind, error.with_traceback(frames), frames)


if __name__ == "__main__":
    main()
