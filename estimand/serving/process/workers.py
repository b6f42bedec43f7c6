"""Several processes that serve the same models at the same address, and one that watches them.

The watcher opens the sockets and hands them to the workers, so that no connection is lost when
one of them ends: what it had not yet taken, another takes. Only grpcio's server cannot be handed
a socket; its workers each open their own at the same port (SO_REUSEPORT).

A worker that dies is replaced, and its counts stay in the metrics. A configuration that one worker
is given by call reaches all. When the watcher itself is gone, the workers drain and end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any, BinaryIO

from estimand.core.errors import ConfigError, EstimandError
from estimand.serving.access.certificates import Certificates, hand_over
from estimand.serving.flags import Flags, thread_count
from estimand.serving.metrics import sum_of_states
from estimand.serving.probing.verdicts import Verdict, Verdicts
from estimand.serving.process.addresses import processes_line
from estimand.serving.process.nobody_listens import NobodyListens
from estimand.serving.process.sockets import Sockets, open_sockets
from estimand.serving.status import StatusError
from estimand.serving.worker_rpc import WorkerConnection

log = logging.getLogger("estimand.serving")

VARIABLE = "ESTIMAND_SERVING_WORKER"
_SECONDS_FOR_A_STATE = 1.0
_SECONDS_BEYOND_THE_DRAIN = 20.0
_SOON = 10.0  # seconds of life; whoever ends before is replaced after a pause
_LONGEST_PAUSE = 30.0
# What a program does to itself; others end a process by SIGKILL and SIGTERM.
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGBUS})


def is_worker() -> bool:
    return VARIABLE in os.environ


def supervise(flags: Flags, say: Callable[[str], object], addresses: list[str]) -> bool:
    """Start the workers and watch them until SIGTERM or Ctrl-C; whether it was that.

    `addresses` are said when open.
    """
    if sys.platform == "win32":
        raise ConfigError("--num_workers needs sockets that processes share; Windows has none.")
    sockets = open_sockets(flags)
    try:
        supervisor = _Supervisor(flags, sockets, say, addresses)
        asyncio.run(supervisor.run())
        return supervisor.is_interrupted
    finally:
        sockets.close()
        if flags.grpc_socket_path:
            with contextlib.suppress(OSError):
                os.unlink(flags.grpc_socket_path)


def arguments(flags: Flags) -> list[str]:
    """The flags of one worker, as its command line.

    >>> arguments(Flags(num_workers=2, model_base_path="/m", inference_threads=3))
    ['--model_base_path=/m', '--num_workers=2', '--inference_threads=3']
    """
    given: dict[str, Any] = {}
    for flag in fields(flags):
        value = getattr(flags, flag.name)
        if value != flag.default:
            given[flag.name] = value
    given.setdefault("inference_threads", max(1, thread_count(0) // flags.num_workers))
    words = []
    for name, value in given.items():
        for part in value if isinstance(value, tuple) else [value]:
            text = str(part).lower() if isinstance(part, bool) else str(part)
            words.append(f"--{name}={text}")
    return words


class _Worker:
    """A process, what it last counted, and the connection to it."""

    def __init__(self, index: int, process: Any, replaces: bool) -> None:
        self.index = index
        self.process = process
        self.replaces = replaces
        self.has_joined = False  # until then it answers nothing
        self.listens = False
        self.state: Any = None
        self.connection: WorkerConnection | None = None

    @property
    def is_ready(self) -> bool:
        """Whether a request that comes to it is answered. None comes while it does not listen."""
        return bool(self.state and self.state["ready"]) if self.listens else self.replaces


class _Supervisor:
    def __init__(
        self, flags: Flags, sockets: Sockets, say: Callable[[str], object], addresses: list[str]
    ) -> None:
        self._flags = flags
        self._sockets = sockets
        self._say = say
        self._addresses = addresses
        self._workers: dict[int, _Worker] = {}
        self._has_listened: set[int] = set()
        self._nobody_listens = NobodyListens((sockets.grpc, sockets.grpc_unix, sockets.rest))
        self._past: list[Any] = []  # what workers that are gone had counted
        self._config: str | None = None  # of the last reload by call
        self._reloading = asyncio.Lock()
        self._verdicts = Verdicts()
        files = {flags.ssl_config_file, flags.rest_api_ssl_config_file} - {""}
        self._certificates = {path: Certificates(path) for path in files}
        self._ending = asyncio.Event()
        self.is_interrupted = False
        self._failure: EstimandError | None = None

    def _on_signal(self, number: int) -> None:
        self.is_interrupted = number == signal.SIGINT
        self._ending.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        keepers = [asyncio.create_task(self._keep(i)) for i in range(self._flags.num_workers)]
        states = asyncio.create_task(self._remember_states())
        try:
            await self._ending.wait()
        finally:
            states.cancel()
            await self._end(keepers)
        if self._failure is not None:
            raise self._failure

    # ------------------------------------------------------------ processes

    async def _keep(self, index: int) -> None:
        pause = 0.0
        replaces = False
        while not self._ending.is_set():
            started = time.monotonic()
            try:
                code = await self._run_one(index, replaces)
            except OSError as error:  # no memory, no more processes
                log.error("Worker %d cannot be started: %s", index, error)
                code = 1
            if self._ending.is_set():
                return
            if index not in self._has_listened:
                self._fail(index, code)
                return
            replaces = True
            lived = time.monotonic() - started
            pause = min(max(1.0, 2 * pause), _LONGEST_PAUSE) if lived < _SOON else 0.0
            log.error("Worker %d ended with %s; another takes its place.", index, _how(code))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), pause)

    async def _run_one(self, index: int, replaces: bool) -> int:
        ours, theirs = socket.socketpair()
        handed = {
            name: end
            for name, end in (
                ("grpc", self._sockets.grpc),
                ("grpc_unix", self._sockets.grpc_unix),
                ("rest", self._sockets.rest),
                ("supervisor", theirs),
            )
            if end is not None
        }
        certificates = hand_over(self._certificates)
        passed: dict[str, socket.socket | BinaryIO] = {**handed, "certificates": certificates}
        told = {name: handle.fileno() for name, handle in passed.items()}
        told |= {"index": index, "replaces": replaces}
        verbose = ["--verbose"] if log.isEnabledFor(logging.INFO) else []
        command = [sys.executable, "-m", "estimand", *verbose, "serve", *arguments(self._flags)]
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(ours.close)
            with theirs, certificates:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    env={**os.environ, VARIABLE: json.dumps(told)},
                    pass_fds=[handle.fileno() for handle in passed.values()],
                )
            on_failure.pop_all()
        worker = self._workers[index] = _Worker(index, process, replaces)
        try:
            async with WorkerConnection(ours, self._handlers(worker)) as worker.connection:
                return await process.wait()
        finally:
            del self._workers[index]
            self._look_who_listens()
            code = process.returncode or 0
            how = f"was worker {index}, which {_how(code)} ended" if -code in _CRASHES else ""
            await self._verdicts.has_died(worker, how, was_answering=worker.listens)
            if worker.state is not None:
                self._past = [sum_of_states([*self._past, worker.state])]

    def _fail(self, index: int, code: int) -> None:
        """Before it ever served: the next one would do no better."""
        if self._failure is None:
            self._failure = ConfigError(
                f"Worker {index} could not start: it ended with {_how(code)}. Its own message is "
                "above; --num_workers=1 shows it alone."
            )
        self._ending.set()

    async def _end(self, keepers: list[asyncio.Task[None]]) -> None:
        self._ending.set()
        for worker in list(self._workers.values()):
            with contextlib.suppress(ProcessLookupError):
                worker.process.terminate()
        flags = self._flags
        patience = flags.shutdown_delay_seconds + flags.drain_seconds + _SECONDS_BEYOND_THE_DRAIN
        _, left = await asyncio.wait(keepers, timeout=patience)
        for worker in list(self._workers.values()):
            with contextlib.suppress(ProcessLookupError):
                worker.process.kill()
        if left:
            await asyncio.wait(left)

    # ------------------------------------------------------------ what workers ask

    def _handlers(self, worker: _Worker) -> dict[str, Any]:
        async def listening(does: bool) -> None:
            worker.listens = does
            self._has_listened.add(worker.index)
            self._look_who_listens()
            if does and worker.replaces:
                log.info("Worker %d answers again.", worker.index)
            if len(self._has_listened) == self._flags.num_workers and self._addresses:
                for line in self._addresses:
                    self._say(line)
                self._say(processes_line(self._flags))
                self._addresses = []

        async def config(_: Any) -> str | None:
            worker.has_joined = True
            return self._config

        async def others(_: Any) -> Any:
            rest = self._beside(worker)
            await asyncio.gather(*map(_refresh, rest))
            return sum_of_states([*self._past, *(worker.state for worker in rest if worker.state)])

        async def others_are_ready(_: Any) -> bool:
            rest = self._beside(worker)
            await asyncio.gather(*(_refresh(beside) for beside in rest if beside.listens))
            began = len(self._has_listened) == self._flags.num_workers
            return began and all(beside.is_ready for beside in rest)

        async def claim(key: str) -> Any:
            return asdict(await self._verdicts.claim(key, worker))

        async def settle(value: Any) -> None:
            await self._verdicts.settle(value["key"], Verdict(**value["verdict"]))

        async def release(key: str) -> None:
            await self._verdicts.release(key, worker)

        async def loading(value: Any) -> None:
            await self._verdicts.loading(value["key"], value["has_begun"], worker)

        return {
            "claim": claim,
            "settle": settle,
            "release": release,
            "loading": loading,
            "listening": listening,
            "others_are_ready": others_are_ready,
            "config": config,
            "others": others,
            "reload": self._reload,
        }

    def _beside(self, worker: _Worker) -> list[_Worker]:
        return [beside for beside in self._workers.values() if beside is not worker]

    def _look_who_listens(self) -> None:
        listen = any(worker.listens for worker in self._workers.values())
        self._nobody_listens.is_so(bool(self._has_listened) and not listen)

    async def _reload(self, config: str) -> None:
        """All workers, or those that are there: whoever comes now, comes with the new one."""
        async with self._reloading:
            before, self._config = self._config, config
            joined = [worker for worker in self._workers.values() if worker.has_joined]
            calls = [
                worker.connection.call("apply", config)
                for worker in joined
                if worker.connection is not None
            ]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            outcomes = [answer for answer in answers if isinstance(answer, dict)]
            if not any(answer["applied"] for answer in outcomes):
                self._config = before
            for answer in outcomes:
                if answer["code"]:
                    raise StatusError(answer["code"], answer["text"])

    async def _remember_states(self) -> None:
        """So that little is lost when one is killed."""
        while True:
            await asyncio.sleep(_SECONDS_FOR_A_STATE)
            for kept in self._certificates.values():
                kept.current()  # looks whether they have changed
            workers = list(self._workers.values())
            await asyncio.gather(*map(_refresh, workers))
            for worker in workers:
                self._kill_if_silent(worker)

    def _kill_if_silent(self, worker: _Worker) -> None:
        most = self._flags.worker_timeout_seconds
        if not worker.has_joined or worker.connection is None or not most:
            return
        if time.monotonic() - worker.connection.heard > most:
            log.error("Worker %d has said nothing for %g seconds.", worker.index, most)
            with contextlib.suppress(ProcessLookupError):
                worker.process.kill()


async def _refresh(worker: _Worker) -> None:
    if worker.connection is not None and worker.has_joined:
        with contextlib.suppress(StatusError, TimeoutError):
            async with asyncio.timeout(_SECONDS_FOR_A_STATE):
                worker.state = await worker.connection.call("state")  # its counts, and "ready"


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
