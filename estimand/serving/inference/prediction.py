"""Predict without a task of asyncio: a request is a task of its lane, which ends in a reply.

Tasks and futures of asyncio cost as much as all else that is done for a small request. So the
faces start a prediction with a call, and are called when it is over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, ClassVar, Protocol

import numpy as np

from estimand.serving.batching.batches import Task
from estimand.serving.batching.turns import CLIENT
from estimand.serving.inference.predicting import Plan
from estimand.serving.metrics import Metrics
from estimand.serving.models.loaded_version import LoadedVersion
from estimand.serving.status import StatusError, from_exception

log = logging.getLogger("estimand.serving")

_API = "Predict"
_clock = time.perf_counter


class Reply(Protocol):
    """Who waits for an answer. `gone`: not any more."""

    @property
    def gone(self) -> bool: ...

    @property
    def client(self) -> Any: ...

    def succeed(self, body: bytes) -> None: ...

    def fail(self, error: StatusError) -> None: ...


class Promise:
    """A reply that can be awaited, by its `future`."""

    def __init__(self) -> None:
        self.future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.client = CLIENT.get()

    @property
    def gone(self) -> bool:
        return self.future.done()

    def succeed(self, body: bytes) -> None:
        if not self.future.done():
            self.future.set_result(body)

    def fail(self, error: StatusError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Prediction(Task):
    """A call of Predict: it holds its version, and is counted when it is over.

    Subclasses read the request and write the answer.
    """

    __slots__ = ("_metrics", "_started", "body", "plan", "reply", "version")
    entrypoint: ClassVar[str]

    def __init__(self, body: bytes, deadline: float | None, reply: Reply, metrics: Metrics) -> None:
        super().__init__((), deadline)
        self._started = _clock()
        self._metrics = metrics
        self.body = body
        self.reply = reply
        self.client = reply.client
        self.version: LoadedVersion | None = None
        self.plan: Any = None

    def read(self) -> tuple[Plan, list[np.ndarray]]:
        """The plan, and the arrays that it asks for. Calls `hold` with the version on the way."""
        raise NotImplementedError

    def write(self, outputs: list[np.ndarray]) -> bytes:
        raise NotImplementedError

    def start(self, at_once: bool = False) -> None:
        """The reply may be told before this returns. `at_once`: see Lane.submit."""
        try:
            self.plan, self.arrays = self.read()
            self.plan.lane.submit(self, at_once)
        except Exception as error:
            self.refuse(error)

    def refuse(self, error: Exception) -> None:
        """In the place of `start`."""
        self.over = True
        self._fail(error)

    def hold(self, version: LoadedVersion) -> LoadedVersion:
        version.enter()
        self.version = version
        return version

    def release(self) -> None:
        if self.version is not None:
            self.version.leave()
            self.version = None

    @property
    def gone(self) -> bool:
        return self.reply.gone

    @property
    def model(self) -> str:
        """The name to count it under: that of a model that exists, or none."""
        return "" if self.version is None else self.version.name

    def answered(self, outputs: list[np.ndarray]) -> None:
        try:
            answer = self.write(outputs)
        except Exception as error:
            self._fail(error)
            return
        self._end(0)
        self.reply.succeed(answer)

    def failed(self, error: StatusError) -> None:
        self._end(error.code)
        self.reply.fail(error)

    def dropped(self) -> None:
        self.release()

    def _fail(self, error: Exception) -> None:
        status = from_exception(error)
        if status is not error and status.name == "INTERNAL":
            log.error("%s failed", _API, exc_info=error)
        self.failed(status)

    def _end(self, code: int) -> None:
        model = self.model
        self.release()
        self._metrics.request(model, _API, self.entrypoint, code, _clock() - self._started)
