"""What large answers cost while they wait to be written."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np

from estimand.serving.access.request_memory import ConnectionShare, LargeRequest, RequestMemory
from estimand.serving.metrics import Metrics
from estimand.serving.rest.prediction import RestPredict, RestSettings
from estimand.serving.rest.routes import Route
from estimand.serving.status import StatusError


class Told:
    """In the place of an exchange."""

    gone = False
    began = 0.0

    def __init__(self) -> None:
        self.client = ConnectionShare()
        self.errors: list[StatusError] = []

    def succeed(self, answer: bytes) -> None:
        raise AssertionError

    def fail(self, error: StatusError) -> None:
        self.errors.append(error)


def predict(told: Told, memory: RequestMemory, large: Any = None) -> RestPredict:
    models: Any = SimpleNamespace(models={}, requests=SimpleNamespace(wants=lambda _: False))
    settings = RestSettings(models, Metrics(), memory, large, 2**20, 60.0, False)
    return RestPredict(settings, Route("m", None, None, "predict"), told, False, 2**20)  # type: ignore[arg-type]


def test_an_answer_for_which_there_is_no_room_is_refused_and_not_kept() -> None:
    memory, told = RequestMemory(1_000_000), Told()
    memory.grow(LargeRequest(ConnectionShare()), 900_000)  # of another client
    prediction = predict(told, memory)
    asyncio.run(prediction._write_large([np.zeros(100_000, np.float32)]))
    assert [error.name for error in told.errors] == ["RESOURCE_EXHAUSTED"]
    assert memory.taken == 900_000


def test_values_that_have_no_json_are_an_error_and_free_their_version() -> None:
    told, version = Told(), SimpleNamespace(name="m", users=0)
    version.enter = lambda: setattr(version, "users", 1)
    version.leave = lambda: setattr(version, "users", 0)
    prediction = predict(told, RequestMemory(2**20))
    prediction.hold(version)
    prediction.answered([np.array([b"a", None], object)])
    assert [error.name for error in told.errors] == ["INTERNAL"]
    assert not version.users


def test_a_large_answer_waits_in_the_turn_of_its_client() -> None:
    told, replies = Told(), []

    class Large:
        async def run(self, job: Any, body: bytes, deadline: float, reply: Any = None) -> bytes:
            replies.append(reply)
            raise StatusError.of("CANCELLED", "enough")

    prediction = predict(told, RequestMemory(2**30), Large())
    prediction.plan, prediction._as_rows = SimpleNamespace(outputs=[]), True
    version: Any = SimpleNamespace(name="m", enter=lambda: None, leave=lambda: None)
    prediction.hold(version)
    asyncio.run(prediction._write_large([np.zeros(100_000, np.float32)]))
    assert replies == [told]
