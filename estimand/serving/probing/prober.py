"""The server's side: which versions may be loaded, and with which executor."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import json
import logging
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from typing import Any

from estimand.serving.flags import Flags
from estimand.serving.probing import host
from estimand.serving.probing.verdicts import (
    Memory,
    Verdict,
    Verdicts,
    VersionRefused,
    fingerprint,
)
from estimand.serving.status import NUMBERS, StatusError
from estimand.serving.worker_rpc import WorkerConnection

log = logging.getLogger("estimand.serving")
_AT_ONCE = 2
_SECONDS_BETWEEN_CLAIMS = 0.1
_SECONDS_OF_A_TURN = 10.0


class Host:
    """The process that probes are forked from, and the socket to it."""

    def __init__(self, flags: Flags, process_is_fresh: bool) -> None:
        """A process that has only imported TensorFlow so far can be forked; others must not be."""
        self.socket, theirs = socket.socketpair()
        with theirs:
            start = _fork if process_is_fresh else _execute
            self.wait: Callable[[], object] = start(flags, theirs, self.socket)

    @classmethod
    def first(cls, flags: Flags, process_is_fresh: bool) -> Host | None:
        """To be made before there are threads, sockets and sessions. Windows has no such bounds."""
        wanted = flags.probe_versions and sys.platform != "win32"
        return cls(flags, process_is_fresh) if wanted else None

    def close(self) -> None:
        """It ends as soon as it sees this."""
        self.socket.close()
        self.wait()


def _fork(flags: Flags, theirs: socket.socket, ours: socket.socket) -> Callable[[], object]:
    with warnings.catch_warnings():  # that libraries have threads: all of them wait for work
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            gc.freeze()  # what is shared with the server stays shared
            os.close(ours.fileno())
            _close_all_but(theirs.fileno())
            host.serve(theirs, flags)
        finally:
            os._exit(0)
    return lambda: os.waitpid(child, 0)


def _close_all_but(kept: int) -> None:
    """The sockets that a worker was handed, above all."""
    for name in os.listdir("/dev/fd"):
        if int(name) > 2 and int(name) != kept:
            with contextlib.suppress(OSError):  # what listed them
                os.close(int(name))


def _execute(flags: Flags, theirs: socket.socket, _: socket.socket) -> Callable[[], object]:
    given = json.dumps(asdict(flags))
    module = ["-m", "estimand.core.interpreter.postponed", "estimand.serving.probing.host"]
    process = subprocess.Popen(
        [sys.executable, *module, str(theirs.fileno()), given],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    return process.wait


class Prober:
    """Lives in the event loop. `memory` is where verdicts are kept, for all workers if need be."""

    def __init__(self, flags: Flags, first: Host | None, memory: Memory | None = None) -> None:
        self.memory = memory or Verdicts()
        self.hurries = True  # until there are requests to be answered
        self._flags = flags
        self._host = first
        self._connection: WorkerConnection | None = None
        self._is_stopped = False
        self._numbers = itertools.count()
        self._keys: dict[str, str] = {}  # by path, of what is about to be loaded
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._starting = asyncio.Lock()

    async def check(self, platform: str, path: str) -> bool:
        """Whether the single-threaded executor may be taken. VersionRefused if nothing may."""
        key = await asyncio.to_thread(fingerprint, platform, path)
        verdict = await self._verdict(key, platform, path)
        if verdict is None:  # the load will tell what is wrong
            return True
        if verdict.code:
            raise VersionRefused(
                NUMBERS[verdict.code],
                f"{path} is not loaded, for it would do harm: the process that tried it "
                f"{verdict.text}. It is tried again when its files change; "
                "--probe_versions=false loads it all the same.",
            )
        self._keys[path] = key
        return verdict.single_threaded

    @contextlib.asynccontextmanager
    async def loading(self, path: str) -> AsyncIterator[None]:
        """Around the load itself, for a version that has passed and ends this process after all."""
        key = self._keys.pop(path, None)
        if key is None:
            yield
            return
        await self.memory.loading(key, True)
        try:
            yield
        finally:
            await self.memory.loading(key, False)

    async def _verdict(self, key: str, platform: str, path: str) -> Verdict | None:
        """From who has tried it; the first who asks tries it."""
        verdict = None
        try:
            while not (claim := await self.memory.claim(key)).is_yours:
                if claim.verdict is not None:
                    return claim.verdict
                await asyncio.sleep(_SECONDS_BETWEEN_CLAIMS)
            verdict = await self._try(platform, path)
        finally:  # also if this is cancelled while the claim is on its way
            if verdict is None:
                await self.memory.release(key)
        if verdict is not None:
            await self.memory.settle(key, verdict)
        return verdict

    async def stop(self) -> None:
        """Whoever still waits is told that it is over."""
        self._is_stopped = True
        await self._leave_host()

    async def _try(self, platform: str, path: str) -> Verdict | None:
        async with self._turn():
            verdict = await self._ask(platform, path, True)
            if verdict is not None and verdict.code == "ABORTED":
                # What that executor does not survive, TensorFlow's ordinary one may.
                verdict = await self._ask(platform, path, False)
            if verdict is not None and verdict.code:
                log.error("%s: the process that tried it %s", path, verdict.text)
            return verdict

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """A few at a time; but the others do not wait until one that hangs is given up."""
        await self._slots.acquire()
        held = True

        def let_others() -> None:
            nonlocal held
            if held:
                held = False
                self._slots.release()

        patience = asyncio.get_running_loop().call_later(_SECONDS_OF_A_TURN, let_others)
        try:
            yield
        finally:
            patience.cancel()
            let_others()

    async def _ask(self, platform: str, path: str, single_threaded: bool) -> Verdict | None:
        name = f"{next(self._numbers)}"
        value = {
            "platform": platform,
            "path": path,
            "single_threaded": single_threaded,
            "hurry": self.hurries,
        }
        try:
            try:
                answer = await self._call("probe", value | {"name": name})
            except StatusError:  # somebody has killed the process
                answer = await self._call("probe", value | {"name": name})
        except asyncio.CancelledError:
            with contextlib.suppress(StatusError):
                await self._call("take back", name)
            raise
        return None if answer is None else Verdict(**answer)

    async def _call(self, name: str, value: Any) -> Any:
        async with self._starting:
            if (
                self._connection is not None
                and self._connection.closed.is_set()
                and not self._is_stopped
            ):
                log.error("The process that tries versions has ended; another takes its place.")
                await self._leave_host()
            if self._is_stopped:
                raise StatusError.of("UNAVAILABLE", "The server is being stopped.")
            if self._host is None:
                self._host = await asyncio.to_thread(Host, self._flags, False)
            if self._connection is None:
                self._connection = await WorkerConnection(self._host.socket, {}).__aenter__()
            connection = self._connection
        return await connection.call(name, value)

    async def _leave_host(self) -> None:
        connection, self._connection = self._connection, None
        host, self._host = self._host, None
        if connection is not None:
            await connection.__aexit__()
        if host is not None:
            await asyncio.to_thread(host.close)
