"""`:predict` for requests that came whole, past ASGI; all others go through `face`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from estimand.serving.flags import Flags
from estimand.serving.inference import predicting
from estimand.serving.inference.predicting import Plan
from estimand.serving.inference.prediction import Prediction, Reply
from estimand.serving.json import input as json_input
from estimand.serving.json import output as json_output
from estimand.serving.json.slots import PlainSlot
from estimand.serving.large_json.queue import LargeJson
from estimand.serving.large_json.work import Writing
from estimand.serving.metrics import Metrics
from estimand.serving.models.loaded_version import LoadedVersion
from estimand.serving.models.manager import Manager
from estimand.serving.models.servable import DEFAULT_SIGNATURE
from estimand.serving.rest import routes as rest_routes
from estimand.serving.rest.body import SMALL_ANSWER, SMALL_BODY
from estimand.serving.rest.routes import Route
from estimand.serving.status import StatusError, invalid

_MAX_ROUTES = 1024


def error_body(text: str) -> bytes:
    return json.dumps({"error": text}).encode()


def read_request(
    version: LoadedVersion, document: Any, body: bytes, check_method: bool
) -> tuple[Plan, list[np.ndarray], bool]:
    """What to run, on which arrays, and whether these came as rows."""
    plan = plan_of(version, json_input.signature_name(document), check_method)
    arrays, as_rows = json_input.predict_inputs(document, plan.signature, body)
    return plan, arrays, as_rows


def plan_of(version: LoadedVersion, name: str, check_method: bool) -> Plan:
    plan = version.plans.get((name, ()))
    if plan is None:
        wanted = name or DEFAULT_SIGNATURE
        if wanted not in version.servable.signatures:
            raise invalid(f'Serving signature name: "{wanted}" not found in signature def')
        plan = predicting.plan_for(version, name, (), check_method)
    assert isinstance(plan, Plan)
    return plan


@dataclass(slots=True)
class Answer:
    """What a request of `size` bytes is answered with, and how it is written."""

    manager: Manager
    version: LoadedVersion
    plan: Plan
    arrays: Any
    outputs: list[np.ndarray]
    as_rows: bool
    size: int

    def write(self) -> bytes:
        """The body; the request is logged if it is one of the sample."""
        self._log()
        write = json_output.predictions if self.as_rows else json_output.outputs
        return write(self.plan.outputs, self.outputs)

    async def write_large(self, large: LargeJson, deadline: float) -> bytes:
        """The same, off the event loop."""
        self._log()
        slots = tuple(map(PlainSlot.of, self.plan.outputs))
        contiguous = [np.ascontiguousarray(one) if one.ndim else one for one in self.outputs]
        body: bytes = await large.run(Writing(slots, contiguous, self.as_rows), b"", deadline)
        return body

    def _log(self) -> None:
        requests, version = self.manager.requests, self.version
        if requests.wants(version.name):
            requests.add_predict(version, self.plan, self.arrays, self.outputs, self.size)


def is_large(outputs: list[np.ndarray]) -> bool:
    """Whether to write them would hold up others."""
    values = 0
    for one in outputs:
        values += one.size
        if one.dtype.hasobject and values <= SMALL_ANSWER:
            values += sum(map(len, one.ravel().tolist()))
    return values > SMALL_ANSWER


class RestPredict:
    """Finds routes and starts predictions; one for a server."""

    def __init__(
        self, manager: Manager, metrics: Metrics, flags: Flags, large: LargeJson | None = None
    ) -> None:
        self.manager = manager
        self.most_bytes = min(flags.rest_api_max_body_bytes, SMALL_BODY)
        self.large = large or LargeJson.of(flags)
        self.writing: set[asyncio.Task[None]] = set()
        self.check_method = flags.enable_signature_method_name_check
        self._metrics = metrics
        self._timeout = flags.rest_api_timeout_in_ms / 1000
        self._routes: dict[bytes, Route | None] = {}

    def route(self, url: bytes) -> Route | None:
        """None for all that is not a plain path of `:predict`."""
        try:
            return self._routes[url]
        except KeyError:
            if len(self._routes) >= _MAX_ROUTES:
                self._routes.clear()
            found = self._routes[url] = _plain_route(url)
            return found

    def start(self, route: Route, body: bytes, now: float, reply: Reply) -> None:
        _RestPrediction(self, route, body, now + self._timeout, reply, self._metrics).start()


def _plain_route(url: bytes) -> Route | None:
    try:
        route = rest_routes.find("POST", url.decode("ascii"))
    except (StatusError, UnicodeDecodeError):
        return None
    return route if route.action == "predict" else None


class _RestPrediction(Prediction):
    __slots__ = ("_as_rows", "_owner", "_route")
    entrypoint = "REST"

    def __init__(
        self,
        owner: RestPredict,
        route: Route,
        body: bytes,
        deadline: float,
        reply: Reply,
        metrics: Metrics,
    ) -> None:
        super().__init__(body, deadline, reply, metrics)
        self._owner = owner
        self._route = route
        self._as_rows = True

    def read(self) -> tuple[Plan, list[np.ndarray]]:
        owner, route = self._owner, self._route
        document = json_input.parse(self.body)
        version = self.hold(owner.manager.find(route.model, route.version, route.label))
        plan, arrays, self._as_rows = read_request(version, document, self.body, owner.check_method)
        return plan, arrays

    @property
    def model(self) -> str:
        return self._route.model if self._route.model in self._owner.manager.models else ""

    def answered(self, outputs: list[np.ndarray]) -> None:
        if not is_large(outputs):
            super().answered(outputs)
            return
        task = asyncio.get_running_loop().create_task(self._answer_later(outputs))
        self._owner.writing.add(task)
        task.add_done_callback(self._owner.writing.discard)

    async def _answer_later(self, outputs: list[np.ndarray]) -> None:
        assert self.deadline is not None
        try:
            answer = await self._answer(outputs).write_large(self._owner.large, self.deadline)
        except Exception as error:
            self._fail(error)
            return
        self._end(0)
        self.reply.succeed(answer)

    def write(self, outputs: list[np.ndarray]) -> bytes:
        return self._answer(outputs).write()

    def _answer(self, outputs: list[np.ndarray]) -> Answer:
        version, size = self.version, len(self.body)
        assert version is not None
        manager = self._owner.manager
        return Answer(manager, version, self.plan, self.arrays, outputs, self._as_rows, size)
