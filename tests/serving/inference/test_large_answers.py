"""Answers of many scores or values become messages on a thread, and not in the event loop."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from estimand.serving.access.request_memory import RequestMemory
from estimand.serving.batching.replies import Promise
from estimand.serving.grpc import prediction as prediction_module
from estimand.serving.grpc.prediction import GrpcPrediction, PredictSettings
from estimand.serving.inference.examples_plan import REGRESS, Question
from estimand.serving.metrics import Metrics
from estimand.serving.rest.prediction import RestRegress, RestSettings
from estimand.serving.rest.routes import Route


class Plan:
    """Notes which threads ask it for results."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.questions = (Question(REGRESS, "s", None, []),)  # type: ignore[arg-type]

    def results(self, outputs: Any, rows: int) -> Any:
        self.threads.append(threading.get_ident())
        return [(question, question.result(outputs, rows)) for question in self.questions]


def asked(kind: str, reply: Any) -> Any:
    log = SimpleNamespace(wants=lambda _: False)
    models: Any = SimpleNamespace(models={}, requests=log)
    if kind != "Rest":
        made: type[GrpcPrediction[Any]] = getattr(prediction_module, kind)
        return made(PredictSettings(models, Metrics(), False, False), b"", None, reply)
    large: Any = None
    settings = RestSettings(models, Metrics(), RequestMemory(2**30), large, 2**20, 60.0, False)
    reply.began = asyncio.get_running_loop().time()
    return RestRegress(settings, Route("m", None, None, "regress"), reply, False, 2**20)


@pytest.mark.parametrize("rows", [10, 20_000])
@pytest.mark.parametrize("kind", ["Regress", "MultiInference", "Rest"])
def test_only_a_small_answer_is_made_in_the_event_loop(kind: str, rows: int) -> None:
    plan, version = Plan(), SimpleNamespace(name="m", number=1, users=0)
    version.writing = asyncio.Semaphore(1)
    version.enter = lambda: setattr(version, "users", 1)
    version.leave = lambda: setattr(version, "users", 0)

    async def main() -> bytes:
        reply: Promise[bytes] = Promise()
        prediction = asked(kind, reply)
        prediction.plan = plan
        prediction.hold(version)
        prediction.arrays = [np.zeros(rows)]
        prediction.finish([np.ones(rows, np.float32)])
        return await reply.future

    assert len(asyncio.run(main())) > 3 * rows
    assert [thread == threading.get_ident() for thread in plan.threads] == [rows == 10]
    assert not version.users
