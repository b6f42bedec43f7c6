"""A worker's side: what it was handed, and what it says to the process that watches it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from estimand.serving.access.certificates import take_over
from estimand.serving.access.tls import TlsSettings
from estimand.serving.flags import Flags
from estimand.serving.lifecycle import config as model_config
from estimand.serving.lifecycle.manager import Manager
from estimand.serving.metrics import Metrics
from estimand.serving.probing.verdicts import Claim, Verdict
from estimand.serving.process.workers import VARIABLE
from estimand.serving.status import StatusError
from estimand.serving.worker_rpc import WorkerConnection

_SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True)
class WorkerSetup:
    """What a worker gets at birth; None of all this for a server that is alone."""

    supervisor: socket.socket
    grpc: socket.socket | None = None
    grpc_unix: socket.socket | None = None
    rest: socket.socket | None = None
    index: int = 0
    replaces: bool = False
    certificates: Mapping[str, TlsSettings] = field(default_factory=dict)  # by file, the last good

    @classmethod
    def take(cls) -> WorkerSetup | None:
        """From the environment, once: no process that we start shall believe it is a worker."""
        text = os.environ.pop(VARIABLE, "")
        if not text:
            return None
        told: dict[str, Any] = json.loads(text)
        for name in ("supervisor", "grpc", "grpc_unix", "rest"):
            if name in told:
                told[name] = socket.socket(fileno=told[name])
        if "certificates" in told:
            told["certificates"] = take_over(told["certificates"])
        return cls(**told)


class Membership:
    """A worker's connection to the watcher, for life. `end` is called when the watcher is gone."""

    def __init__(
        self, setup: WorkerSetup, manager: Manager, metrics: Metrics, end: Callable[[], None]
    ) -> None:
        self._manager = manager
        self._metrics = metrics
        self._end = end
        self._asking = asyncio.Lock()
        self._next_answer: asyncio.Future[None] | None = None
        self._supervisor = WorkerConnection(
            setup.supervisor, {"state": self._state, "apply": self._apply}
        )

    async def join(self) -> dict[str, Any] | None:
        """The models of the last reload by call, if there was one."""
        await self._supervisor.__aenter__()
        self._manager.share_reload = self._share_reload
        self._manager.others_are_ready = False  # until they say so
        config = await self._supervisor.call("config")

        if self._manager.prober is not None:
            self._manager.prober.memory = SharedVerdicts(self._supervisor)
        return None if config is None else _settings(config, self._manager.flags)

    async def leave(self) -> None:
        await self._supervisor.__aexit__()

    async def is_listening(self, does: bool = True) -> None:
        await self._supervisor.call("listening", does)

    async def follow(self) -> None:
        """Keeps in mind whether the others are ready, until the watcher is gone."""
        while not self._supervisor.closed.is_set():
            with contextlib.suppress(StatusError):
                self._manager.others_are_ready = await self._supervisor.call("others_are_ready")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SECONDS_BETWEEN_LOOKS):
                    await self._supervisor.closed.wait()
        self._end()

    async def _state(self, _: Any) -> Any:
        return {**self._metrics.state(), "ready": self._manager.is_ready_itself}

    async def _apply(self, config: str) -> dict[str, Any]:
        code, text = 0, ""
        settings = None
        try:
            settings = _settings(config, self._manager.flags)
            if settings is not None:
                await self._manager.reload(settings)
        except StatusError as error:
            code, text = error.code, error.text
        applied = settings is not None and self._manager.settings == settings
        return {"code": code, "text": text, "applied": applied}

    async def _share_reload(self, config: bytes) -> None:
        await self._supervisor.call("reload", base64.b64encode(config).decode())

    async def refresh_metrics(self) -> None:
        """Asks the other workers, before it is told what was counted. Once at a time: all who come
        meanwhile share the next answer."""
        if self._next_answer is None:
            self._next_answer = asyncio.ensure_future(self._ask_others())
        await asyncio.shield(self._next_answer)

    async def _ask_others(self) -> None:
        async with self._asking:
            self._next_answer = None
            self._metrics.others = await self._supervisor.call("others")


class SharedVerdicts:
    """The watcher's memory of which versions do harm: what one worker finds, all know."""

    def __init__(self, supervisor: WorkerConnection) -> None:
        self._supervisor = supervisor

    async def claim(self, key: str) -> Claim:
        answer = await self._supervisor.call("claim", key)
        verdict = answer["verdict"]
        return Claim(None if verdict is None else Verdict(**verdict), answer["is_yours"])

    async def settle(self, key: str, verdict: Verdict) -> None:
        await self._supervisor.call("settle", {"key": key, "verdict": asdict(verdict)})

    async def release(self, key: str) -> None:
        await self._supervisor.call("release", key)

    async def loading(self, key: str, has_begun: bool) -> None:
        with contextlib.suppress(StatusError):  # the watcher is gone, and this one will be
            await self._supervisor.call("loading", {"key": key, "has_begun": has_begun})


def _settings(config: str, flags: Flags) -> dict[str, Any] | None:
    from tensorflow_serving.config import model_server_config_pb2

    message = model_server_config_pb2.ModelServerConfig.FromString(base64.b64decode(config))
    return model_config.from_message(message, flags)
