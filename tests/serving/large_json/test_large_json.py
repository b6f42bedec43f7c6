"""The process that reads large JSON: its budgets, its time, and whose turn it is."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from estimand.serving.json.slots import PlainSignature, PlainSlot
from estimand.serving.large_json.process import Process
from estimand.serving.large_json.queue import LargeJson
from estimand.serving.large_json.work import Budget, OverBudget, Reading, Writing
from estimand.serving.status import StatusError

BUDGET = Budget(inflated_bytes=4_000_000, values=200_000)
SLOT = PlainSlot("x", np.dtype(np.float32), "float")
SIGNATURES = {"serving_default": PlainSignature("serving_default", {"x": SLOT})}


def reading(zipped: bool = False) -> Reading:
    return Reading("predict", zipped, BUDGET, SIGNATURES, "serving_default")


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    made = Process(BUDGET)
    try:
        made.run(reading(), b'{"instances": [1]}', soon())
        yield made
    finally:
        made.stop()


@pytest.fixture
def doomed() -> Iterator[Process]:
    """Which ends, and is replaced, within a test."""
    made = Process(BUDGET)
    yield made
    made.stop()


def soon() -> float:
    return time.monotonic() + 60.0


@pytest.mark.parametrize("zipped", [False, True])
def test_a_body_becomes_the_arrays_that_the_event_loop_would_make(
    process: Process, zipped: bool
) -> None:
    body = b'{"instances": [[1, 2.5], [3, 4]]}'
    sent = gzip.compress(body) if zipped else body
    name, arrays, as_rows = process.run(reading(zipped), sent, soon())
    assert (name, as_rows) == ("", True)
    np.testing.assert_array_equal(arrays[0], np.float32([[1, 2.5], [3, 4]]))
    arrays[0] += 1  # it can be written to


def test_an_answer_is_written_as_in_the_event_loop(process: Process) -> None:
    job = Writing((SLOT,), [np.float32([0.1, np.nan])], True)
    assert process.run(job, b"", soon()) == b'{\n    "predictions": [0.1, NaN]\n}'


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"instances": [1, ]}', "JSON Parse error"),
        (b'{"instances": 1, "signature_name": "none"}', '"none" not found'),
    ],
)
def test_what_is_wrong_with_a_body_is_told(process: Process, body: bytes, told: str) -> None:
    with pytest.raises(StatusError, match=told) as caught:
        process.run(reading(), body, soon())
    assert caught.value.http == 400


@pytest.mark.parametrize(
    "body",
    [b"[]," * 500_000, b"1.5," * 500_000, b'{"":0},' * 300_000, b" " * 4_000_001],
    ids=["lists", "numbers", "objects", "bytes"],
)
def test_what_becomes_too_much_is_refused_before_it_does(process: Process, body: bytes) -> None:
    with pytest.raises(OverBudget) as caught:
        process.run(reading(zipped=True), gzip.compress(body, 1), soon())
    assert caught.value.http == 413


def test_a_job_that_ends_the_process_is_refused_and_the_next_is_done(doomed: Process) -> None:
    with pytest.raises(OverBudget):
        doomed.run(_Ends(), b"", soon())
    assert doomed.run(reading(), b'{"instances": [1]}', soon())[2]


def test_a_process_that_died_of_nothing_is_replaced_before_it_is_used(doomed: Process) -> None:
    assert doomed.run(reading(), b'{"instances": [1]}', soon())[2]
    running = doomed._running
    assert running is not None
    running.kill()
    running.wait()
    assert doomed.run(reading(), b'{"instances": [1]}', soon())[2]


def test_a_job_that_takes_too_long_is_ended(doomed: Process) -> None:
    with pytest.raises(StatusError, match="DEADLINE_EXCEEDED"):
        doomed.run(_Hangs(), b"", time.monotonic() + 0.2)
    assert doomed.run(reading(), b'{"instances": [1]}', soon())[2]


class _Ends:
    def run(self, body: Any) -> None:
        import os

        os._exit(1)


class _Hangs:
    def run(self, body: Any) -> None:
        while True:
            pass


# ---------------------------------------------------------------- whose turn it is


class Order:
    def __init__(self) -> None:
        self.done: list[str] = []

    def run(self, job: str, body: bytes, deadline: float) -> None:
        self.done.append(job)

    def stop(self) -> None:
        pass


def queue(order: Order, most_waiting: int = 100) -> LargeJson:
    made = LargeJson(BUDGET, most_waiting)
    made._process = order  # type: ignore[assignment]
    return made


def test_connections_take_turns() -> None:
    order = Order()

    async def ask() -> None:
        large = queue(order)
        ends = asyncio.get_running_loop().time() + 60
        jobs = [("a", n) for n in range(4)] + [("b", 0), ("c", 0)]
        await asyncio.gather(*(large.run(f"{who}{n}", b"", ends, who) for who, n in jobs))
        large.stop()

    asyncio.run(ask())
    assert order.done == ["a0", "a1", "b0", "c0", "a2", "a3"]


def test_more_than_may_wait_are_refused_at_once() -> None:
    async def ask() -> list[Any]:
        large = queue(Order(), most_waiting=2)
        ends = asyncio.get_running_loop().time() + 60
        jobs = (large.run(str(n), b"", ends) for n in range(5))
        found = await asyncio.gather(*jobs, return_exceptions=True)
        assert await large.run("later", b"", ends) is None
        large.stop()
        return found

    found = asyncio.run(ask())
    assert [isinstance(one, StatusError) for one in found] == [False, False, False, True, True]


def test_who_waits_too_long_is_told_and_holds_up_nobody() -> None:
    async def ask() -> list[Any]:
        large = queue(order := Order())
        loop = asyncio.get_running_loop()
        jobs = [large.run("a", b"", loop.time() + 60), large.run("b", b"", loop.time())]
        found = await asyncio.gather(
            *jobs, large.run("c", b"", loop.time() + 60), return_exceptions=True
        )
        large.stop()
        assert order.done == ["a", "c"]
        return found

    found = asyncio.run(ask())
    assert found[1].name == "DEADLINE_EXCEEDED"


def test_nothing_is_done_for_who_has_gone_meanwhile() -> None:
    order = Order()

    async def ask() -> list[Any]:
        large = queue(order)
        ends = asyncio.get_running_loop().time() + 60
        jobs = [large.run(who, b"", ends, who, lambda who=who: who == "b") for who in "abc"]
        found = await asyncio.gather(*jobs, return_exceptions=True)
        large.stop()
        return found

    found = asyncio.run(ask())
    assert order.done == ["a", "c"]
    assert found[1].name == "CANCELLED"
