"""grpc.health.v1.Health, with the same interface as grpcio's own servicer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from estimand.serving.lean.streams import Deadline, Streaming, Unary
from estimand.serving.status import StatusError

_States = health_pb2.HealthCheckResponse
_PATH = "/grpc.health.v1.Health/"


class Health:
    def __init__(self) -> None:
        self._states: dict[str, int] = {}
        self._changed = asyncio.Event()
        self._is_ending = False

    def table(self) -> dict[str, Unary | Streaming]:
        return {
            _PATH + "Check": Unary(self._check, is_open=True),
            _PATH + "Watch": Streaming(self._watch, is_open=True),
        }

    async def set(self, service: str, state: int) -> None:
        if not self._is_ending:
            self._set(service, state)

    async def enter_graceful_shutdown(self) -> None:
        """Everything is not serving, from now on."""
        self._is_ending = True
        for service in self._states:
            self._set(service, _States.NOT_SERVING)

    def _set(self, service: str, state: int) -> None:
        self._states[service] = state
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _check(self, body: bytes, deadline: Deadline, metadata: Any) -> bytes:
        state = self._states.get(_service(body))
        if state is None:
            raise StatusError.of("NOT_FOUND", "")
        return _States(status=state).SerializeToString()

    async def _watch(self, body: bytes, deadline: Deadline, metadata: Any) -> AsyncIterator[bytes]:
        service = _service(body)
        told = None
        while True:
            changed = self._changed
            state = self._states.get(service, _States.SERVICE_UNKNOWN)
            if state != told:
                told = state
                yield _States(status=state).SerializeToString()
            await changed.wait()


def _service(body: bytes) -> str:
    try:
        return health_pb2.HealthCheckRequest.FromString(body).service
    except DecodeError as error:
        raise StatusError.of("INTERNAL", "Unable to parse the request.") from error
