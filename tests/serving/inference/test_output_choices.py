"""Choices of outputs, which clients make: how many programs that becomes, and who waits for one."""

from __future__ import annotations

import asyncio
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from estimand.serving.batching.batches import BatchSettings
from estimand.serving.batching.lane import Waiting
from estimand.serving.batching.programs import Program
from estimand.serving.inference.predict_plan import encode_response, predict_plan_for
from estimand.serving.models.loaded_version import LoadedVersion, Running
from estimand.serving.models.servable import Signature, Slot
from estimand.serving.status import StatusError

FLOAT = 1
NAMES = [f"o{number}" for number in range(6)]


def slot(name: str) -> Slot:
    return Slot(name, f"{name}:0", FLOAT, np.dtype("f"), (-1,))


class Slow:
    """Six outputs, each its number times the input. Programs are made when `may_make` is set."""

    def __init__(self) -> None:
        outputs = {name: slot(name) for name in NAMES}
        method = "tensorflow/serving/predict"
        definition = SimpleNamespace(method_name=method)
        signature = Signature("s", method, {"x": slot("x")}, outputs, definition, {})
        self.signatures = {"s": signature}
        self.may_make = threading.Event()
        self.made: dict[Any, Program] = {}
        self.program([slot("x")], list(outputs.values()), at_once=True)

    def made_program(self, inputs: Any, outputs: Any) -> Program | None:
        return self.made.get(tuple(outputs))

    def program(self, inputs: Any, outputs: Any, at_once: bool = False) -> Program:
        assert at_once or self.may_make.wait(20)
        if "o5" in [one.alias for one in outputs] and len(outputs) == 1:
            raise StatusError.of("INTERNAL", "cannot be made")
        factors = [int(one.alias[1:]) for one in outputs]
        made = Program(lambda x: [x * factor for factor in factors])
        self.made[tuple(outputs)] = made
        return made


def on_a_version(act: Any) -> None:
    async def main() -> None:
        with ThreadPoolExecutor(1) as pool:
            slow = Slow()
            running = Running(pool, pool, Waiting(4), BatchSettings())
            try:
                await act(LoadedVersion("m", 1, slow, running, running.batches), slow)
            finally:
                slow.may_make.set()

    asyncio.run(asyncio.wait_for(main(), 60))


async def answer(version: LoadedVersion, *wanted: str) -> list[float]:
    from tensorflow_serving.apis import predict_pb2

    plan = predict_plan_for(version, "s", wanted)
    outputs = await plan.lane.run([np.float32([2.0])])
    told = predict_pb2.PredictResponse.FromString(encode_response(plan, outputs, False)).outputs
    assert set(told) == set(wanted or NAMES)
    return [told[name].float_val[0] for name in wanted]


def test_who_asks_for_other_outputs_waits_for_them_and_nobody_else_does() -> None:
    async def act(version: LoadedVersion, slow: Slow) -> None:
        chosen = asyncio.ensure_future(answer(version, "o3", "o1"))
        await asyncio.sleep(0)
        assert await answer(version) == []
        assert not chosen.done()
        slow.may_make.set()
        assert await chosen == [6.0, 2.0]
        assert await answer(version, "o3", "o1") == [6.0, 2.0]

    on_a_version(act)


def test_however_many_choices_are_made_few_have_a_program_of_their_own() -> None:
    async def act(version: LoadedVersion, slow: Slow) -> None:
        slow.may_make.set()
        for choice in itertools.permutations(NAMES, 2):
            expected = [2.0 * int(name[1:]) for name in choice]
            assert await answer(version, *choice) == expected
        assert len(slow.made) == 9

    on_a_version(act)


def test_those_who_wait_have_their_deadlines_and_are_not_too_many() -> None:
    async def act(version: LoadedVersion, slow: Slow) -> None:
        lane = predict_plan_for(version, "s", ("o2",)).lane
        now = asyncio.get_running_loop().time()
        late = lane.run([np.float32([1.0])], now + 0.01)
        waiting = [lane.run([np.float32([1.0])], now + 60) for _ in range(3)]
        with pytest.raises(StatusError, match="requests wait for these outputs"):
            lane.run([np.float32([1.0])])
        with pytest.raises(StatusError) as caught:
            await late
        assert caught.value.name == "DEADLINE_EXCEEDED"
        slow.may_make.set()
        assert [float(output[0][0]) for output in await asyncio.gather(*waiting)] == [2.0] * 3

    on_a_version(act)


def test_what_cannot_be_made_is_told_and_tried_again() -> None:
    async def act(version: LoadedVersion, slow: Slow) -> None:
        slow.may_make.set()
        for _ in range(2):
            with pytest.raises(StatusError, match="cannot be made"):
                await answer(version, "o5")
        assert await answer(version, "o4") == [8.0]

    on_a_version(act)
