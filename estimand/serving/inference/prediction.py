"""What is asked of a model, from the bytes of the request to those of the answer.

All of it goes one way, whatever the protocol and whoever waits: a request is a task of its lane,
which ends in a reply. The fronts start it with a call, and are called when it is over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from estimand.serving.batching.batches import Arrays, Task
from estimand.serving.batching.lane import Lane
from estimand.serving.batching.pending_lane import PendingLane
from estimand.serving.batching.replies import Reply, run_beside
from estimand.serving.inference.examples_plan import ExamplesPlan, are_many_values
from estimand.serving.inference.request_log import RequestLog
from estimand.serving.metrics import Metrics
from estimand.serving.models.loaded_version import LoadedVersion
from estimand.serving.status import StatusError, deadline_exceeded, from_exception

log = logging.getLogger("estimand.serving")

_clock = time.perf_counter


class Models(Protocol):
    """Where predictions find their versions; the Manager is one."""

    @property
    def models(self) -> Any: ...

    @property
    def requests(self) -> RequestLog: ...

    def find(self, name: str, number: int | None, label: str | None = None, /) -> LoadedVersion: ...

    def find_for(self, spec: Any, /) -> LoadedVersion: ...


class HasLane(Protocol):
    """What is to be run: a `Plan` or an `ExamplesPlan`."""

    @property
    def lane(self) -> Lane | PendingLane: ...


PlanT = TypeVar("PlanT", bound=HasLane)


class Prediction(Task, Generic[PlanT]):
    """Holds its version, and is counted when it is over.

    Subclasses read the request and write the answer. One after the other are called:

        start        by the front, when the body is whole (over REST, by `RestPrediction.run`)
          read       of the subclass: the plan, and the arrays for it
          submit     of the plan's lane, which runs it with others
        answered     by the lane
          write      of the subclass: the bytes of the answer
          succeed    counts it, and tells the reply

    and `refuse` or `failed` where that ends early. What is read, there is only from then on: the
    version from `hold`, the plan from `start`.
    """

    __slots__ = ("_holds", "_metrics", "_started", "body", "plan", "version")
    api: ClassVar[str]
    entrypoint: ClassVar[str]
    version: LoadedVersion
    plan: PlanT

    def __init__(
        self, body: bytes, deadline: float | None, reply: Reply[bytes], metrics: Metrics
    ) -> None:
        Task.__init__(self, (), deadline, reply)  # super() would make an object each time
        self._started = _clock()
        self._metrics = metrics
        self.body = body
        self._holds = False

    def read(self) -> tuple[PlanT, Arrays]:
        """The plan, and the arrays that it asks for. Calls `hold` with the version on the way."""
        raise NotImplementedError

    def write(self, outputs: Sequence[np.ndarray]) -> bytes:
        return self.logged(self.encode(self.version, outputs))

    def start(self, at_once: bool = False) -> None:
        """The reply may be told before this returns. `at_once`: see Lane.submit."""
        try:
            self.plan, self.arrays = self.read()
            self.plan.lane.submit(self, at_once)
        except Exception as error:
            self.refuse(error)

    def start_later(self, reading: Awaitable[tuple[PlanT, Arrays]]) -> None:
        """For what is not read in the event loop: `reading` is awaited in the place of `read`."""

        async def read_then_submit() -> None:
            try:
                self.plan, self.arrays = await reading
                self.plan.lane.submit(self)
            except Exception as error:
                self.refuse(error)

        run_beside(read_then_submit())

    def refuse(self, error: Exception) -> None:
        """In the place of `start`, too."""
        self.over = True
        self.fail(error)

    def hold(self, version: LoadedVersion) -> LoadedVersion:
        version.enter()
        self.version = version
        self._holds = True
        return version

    def release(self) -> None:
        if self._holds:
            self.version.leave()
            self._holds = False

    @property
    def model(self) -> str:
        """The name to count it under: that of a model that exists, or none."""
        return self.version.name if self._holds else ""

    def answered(self, outputs: list[np.ndarray]) -> None:
        try:
            answer = self.write(outputs)
        except Exception as error:
            self.fail(error)
            return
        self.succeed(answer)

    def encode(self, version: LoadedVersion, outputs: Sequence[np.ndarray]) -> Any:
        """A part of `write`, which `answer_beside` does on any thread."""
        raise NotImplementedError

    def logged(self, encoded: Any) -> bytes:
        """The rest of `write`, in the event loop."""
        raise NotImplementedError

    def answer_beside(self, outputs: list[np.ndarray]) -> None:
        """In the place of `answered`, for what would hold up others."""
        run_beside(self._answer_beside(outputs))

    async def _answer_beside(self, outputs: list[np.ndarray]) -> None:
        version = self.version
        try:
            async with asyncio.timeout_at(self.deadline), version.writing:
                if self.gone:
                    self.dropped()
                    return
                encoded = await asyncio.to_thread(self.encode, version, outputs)
            answer = self.logged(encoded)
        except Exception as error:
            self.fail(deadline_exceeded() if isinstance(error, TimeoutError) else error)
        else:
            self.succeed(answer)

    def failed(self, error: StatusError) -> None:
        self._end(error.code)
        self.reply.fail(error)

    def dropped(self) -> None:
        self.release()

    def succeed(self, answer: bytes) -> None:
        self._end(0)
        self.reply.succeed(answer)

    def fail(self, error: Exception) -> None:
        status = from_exception(error)
        if status is not error and status.name == "INTERNAL":
            log.error("%s failed", self.api, exc_info=error)
        self.failed(status)

    def _end(self, code: int) -> None:
        model = self.model
        self.release()
        self._metrics.request(model, self.api, self.entrypoint, code, _clock() - self._started)


class ExamplesPrediction(Prediction[ExamplesPlan]):
    """One that is asked about tf.Examples. A large answer is made beside the event loop."""

    __slots__ = ()

    def answered(self, outputs: list[np.ndarray]) -> None:
        if are_many_values(outputs):
            self.answer_beside(outputs)
        else:
            super().answered(outputs)
