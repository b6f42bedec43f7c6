"""Lanes: who runs together, who gets which rows, and who is turned away."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from google.protobuf import text_format

from estimand.serving.batching import lane as batching
from estimand.serving.batching.batches import BatchSettings, Task
from estimand.serving.batching.lane import Lane, Waiting
from estimand.serving.batching.programs import JoinableShapes, Program
from estimand.serving.batching.replies import Promise
from estimand.serving.protos.text_protos import batching_parameters
from estimand.serving.status import StatusError


class Calls:
    """A model in Python that notes how many rows each call had."""

    def __init__(self, function=lambda x: x * 2, seconds: float = 0.0) -> None:
        self.rows: list[int] = []
        self._function = function
        self._seconds = seconds
        self._lock = threading.Lock()

    def __call__(self, *arrays):
        with self._lock:
            self.rows.append(len(arrays[0]) if arrays[0].ndim else 1)
        time.sleep(self._seconds)
        return [self._function(*arrays)]


def run(calls, requests, settings=None, deadlines=None, limit=1000, repeat=1, **program):
    """The answers to requests that come at the same time; errors are answers too."""
    program = Program(calls, **{"joins": JoinableShapes(), **program})

    async def main():
        with ThreadPoolExecutor(4) as pool:
            lane = Lane(program, settings or BatchSettings(), pool, Waiting(limit))

            async def ask(array, seconds):
                arrays = array if isinstance(array, list) else [array]
                now = asyncio.get_running_loop().time()
                (answer,) = await lane.run(arrays, seconds and now + seconds)
                return answer

            for _ in range(repeat):
                due = deadlines or [None] * len(requests)
                tasks = [ask(*one) for one in zip(requests, due, strict=True)]
                answers = await asyncio.gather(*tasks, return_exceptions=True)
            return answers

    return asyncio.run(main())


def parameters(text: str) -> BatchSettings:
    return BatchSettings.of(text_format.Parse(text, batching_parameters()), cpus=2)


def rows(*values: float) -> np.ndarray:
    return np.float32(values)


def test_requests_that_wait_run_together_and_each_gets_its_rows() -> None:
    calls = Calls()
    answers = run(calls, [rows(1), rows(2, 3), rows(4)], repeat=8)
    assert [answer.tolist() for answer in answers] == [[2], [4, 6], [8]]
    assert calls.rows[-1] == 4


def test_only_requests_of_one_shape_run_together() -> None:
    calls = Calls()
    answers = run(calls, [rows(1), np.float32([[1, 2]]), rows(3)], repeat=8)
    assert [answer.tolist() for answer in answers] == [[2], [[2, 4]], [6]]
    assert sorted(calls.rows[-2:]) == [1, 2]


def test_a_bad_row_fails_its_own_request_only() -> None:
    def refuse_negative(x):
        if (x < 0).any():
            raise ValueError("negative")
        return x + 1

    good, bad, other = run(Calls(refuse_negative), [rows(1), rows(-1), rows(5)], repeat=8)
    assert (good.tolist(), other.tolist()) == ([2], [6])
    assert isinstance(bad, StatusError) and "negative" in bad.text


def test_rows_that_depend_on_each_other_are_noticed_and_never_mixed() -> None:
    calls = Calls(lambda x: x - x.mean())
    for repeat in (1, 6):
        answers = run(calls, [rows(1, 3), rows(10, 20)], repeat=repeat)
        assert [answer.tolist() for answer in answers] == [[-1, 1], [-5, 5]]
    assert max(calls.rows[-2:]) == 2


def test_a_program_that_changes_state_is_run_once_for_each_request() -> None:
    calls = Calls()
    run(calls, [rows(1), rows(2)], repeat=4, changes_state=True)
    assert calls.rows == [1] * 8


def test_what_comes_while_a_slow_batch_runs_is_the_next_batch() -> None:
    calls = Calls(seconds=0.02)
    answers = run(calls, [rows(i) for i in range(20)], BatchSettings(threads=1), repeat=5)
    assert [answer.tolist() for answer in answers] == [[2 * i] for i in range(20)]
    assert calls.rows[-1] == 20


@pytest.mark.parametrize("mixes", [False, True])
def test_the_first_batches_of_a_slow_program_are_checked_by_two_of_their_requests(mixes) -> None:
    calls = Calls(lambda x: x - x.mean() * mixes, seconds=0.02)
    answers = run(calls, [rows(i, i + 2) for i in range(12)], BatchSettings(threads=1))
    expected = [[-1, 1] if mixes else [i, i + 2] for i in range(12)]
    assert [answer.tolist() for answer in answers] == expected
    assert (calls.rows.count(2) <= 3) != mixes  # or else all of them have to be run alone


def test_a_request_beyond_the_limit_is_refused_at_once() -> None:
    answers = run(Calls(seconds=0.01), [rows(1), rows(2), rows(3)], limit=2)
    assert [isinstance(answer, StatusError) for answer in answers] == [False, False, True]
    assert answers[2].name == "RESOURCE_EXHAUSTED"


def test_a_request_whose_time_is_over_is_not_run() -> None:
    calls = Calls(seconds=0.1)
    settings = BatchSettings(threads=1, max_rows=1)
    answers = run(calls, [rows(1), rows(2)], settings, deadlines=[None, 0.02])
    assert answers[0].tolist() == [2]
    assert answers[1].name == "DEADLINE_EXCEEDED"
    assert calls.rows == [1]


# ---------------------------------------------------------------- TensorFlow Serving's parameters


def test_batches_are_filled_up_to_an_allowed_size() -> None:
    calls = Calls()
    settings = parameters("max_batch_size { value: 8 } allowed_batch_sizes: [4, 8]")
    answers = run(calls, [rows(1, 2), rows(3, 4, 5)], settings)
    assert [answer.tolist() for answer in answers] == [[2, 4], [6, 8, 10]]
    assert calls.rows == [8]


def test_a_request_larger_than_a_batch_is_refused_or_split() -> None:
    calls = Calls()
    (refused,) = run(calls, [rows(1, 2, 3)], parameters("max_batch_size { value: 2 }"))
    assert refused.name == "INVALID_ARGUMENT"
    assert refused.text == "Task size 3 is larger than maximum input batch size 2"
    text = (
        "max_batch_size { value: 9 } max_execution_batch_size { value: 2 } "
        "enable_large_batch_splitting { value: true }"
    )
    (answer,) = run(calls, [rows(1, 2, 3)], parameters(text))
    assert answer.tolist() == [2, 4, 6]
    assert sorted(calls.rows) == [1, 2]


def test_a_full_queue_is_unavailable() -> None:
    text = (
        "max_batch_size { value: 2 } max_enqueued_batches { value: 1 } "
        "num_batch_threads { value: 1 } batch_timeout_micros { value: 20000 }"
    )
    answers = run(Calls(), [rows(1), rows(2), rows(3)], parameters(text))
    assert [answer.tolist() for answer in answers[:2]] == [[2], [4]]
    assert answers[2].name == "UNAVAILABLE"


def test_a_batch_waits_for_more_until_its_time_is_over() -> None:
    calls = Calls()
    text = "max_batch_size { value: 3 } batch_timeout_micros { value: 30000 }"
    run(calls, [rows(1), rows(2)], parameters(text))
    assert calls.rows == [2]
    run(calls, [rows(1), rows(2), rows(3)], parameters(text))
    assert calls.rows == [2, 3]


def test_variable_lengths_are_padded_when_asked_for() -> None:
    text = "max_batch_size { value: 8 } pad_variable_length_inputs: true"
    requests = [np.int32([[1, 2]]), np.int32([[5]])]
    answers = run(Calls(), requests, parameters(text))
    assert [answer.tolist() for answer in answers] == [[[2, 4]], [[10, 10]]]


def test_an_output_without_the_rows_fails_the_batch() -> None:
    answers = run(Calls(lambda x: x.sum()), [rows(1), rows(2)], parameters(""))
    assert {answer.name for answer in answers} == {"FAILED_PRECONDITION"}


@pytest.mark.parametrize(
    "text",
    ["max_batch_size { value: 0 }", "allowed_batch_sizes: [4, 2]", "allowed_batch_sizes: [4]"],
)
def test_parameters_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(StatusError):
        parameters(text)


def test_while_a_batch_runs_a_smaller_one_waits_to_grow() -> None:
    calls = Calls(seconds=0.2)
    program = Program(calls, joins=JoinableShapes())

    async def main() -> list:
        with ThreadPoolExecutor(4) as pool:
            lane = Lane(program, BatchSettings(threads=4), pool, Waiting(100))
            asked = []
            for rows in (4, 1, 1):
                asked.append(asyncio.ensure_future(lane.run([np.full(rows, 1.0)])))
                await asyncio.sleep(0.02)
            return await asyncio.gather(*asked)

    answers = asyncio.run(main())
    assert [answer.tolist() for (answer,) in answers] == [[2.0] * 4, [2.0], [2.0]]
    assert calls.rows[:2] == [4, 2]


def test_while_a_batch_runs_a_larger_one_begins() -> None:
    calls = Calls(seconds=0.2)
    program = Program(calls, joins=JoinableShapes())
    began: list[int] = []

    async def main() -> None:
        with ThreadPoolExecutor(4) as pool:
            lane = Lane(program, BatchSettings(threads=4), pool, Waiting(100))
            asked = [asyncio.ensure_future(lane.run([np.ones(2)]))]
            await asyncio.sleep(0.02)
            asked.append(asyncio.ensure_future(lane.run([np.ones(3)])))
            await asyncio.sleep(0.02)
            began.extend(calls.rows)
            await asyncio.gather(*asked)

    asyncio.run(main())
    assert began == [2, 3]


def test_those_who_were_answered_last_are_waited_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batching, "_MOST_PATIENCE", 0.1)  # this machine may be busy
    calls = Calls(seconds=0.08)
    program = Program(calls, joins=JoinableShapes())

    async def main() -> None:
        with ThreadPoolExecutor(4) as pool:
            lane = Lane(program, BatchSettings(), pool, Waiting(100))

            async def ask_again_and_again() -> None:
                for _ in range(2):
                    await lane.run([np.ones(7)])
                    for _ in range(3):
                        await asyncio.sleep(0)  # the way to the client and back

            regular = asyncio.ensure_future(ask_again_and_again())
            await asyncio.sleep(0.02)
            late = lane.run([np.ones(1)])  # while seven rows run
            await asyncio.gather(regular, late)

    asyncio.run(main())
    assert calls.rows[:2] == [7, 8]


class Noted:
    """A reply that notes what it is told."""

    gone = False
    client = None

    def __init__(self, *values: float) -> None:
        self.task = Task([rows(*values)], None, self)
        self.told: list = []

    def succeed(self, outputs) -> None:
        self.told.append(outputs[0].tolist())

    def fail(self, error) -> None:
        self.told.append(error.name)


def test_a_quick_program_is_run_at_once_for_who_asks_so() -> None:
    calls = Calls()
    program = Program(calls, joins=JoinableShapes())

    async def main() -> tuple[list, list]:
        with ThreadPoolExecutor(1) as pool:
            lane = Lane(program, BatchSettings(), pool, Waiting(100))
            for _ in range(20):
                await lane.run([rows(0)])
            alone, queued, behind = Noted(1), Noted(2), Noted(3)
            lane.submit(alone.task, at_once=True)
            lane.submit(queued.task)
            lane.submit(behind.task, at_once=True)
            before = [list(reply.told) for reply in (alone, queued, behind)]
            await asyncio.sleep(0.05)
            return before, [reply.told for reply in (alone, queued, behind)]

    before, after = asyncio.run(main())
    assert before == [[[2]], [], []]
    assert after == [[[2]], [[4]], [[6]]]


def test_a_first_request_that_fails_does_not_hold_up_a_smaller_one() -> None:
    """Nothing is known then of how long a call takes."""

    def function(x):
        if len(x) > 2:
            raise ValueError("too many")
        return x

    async def main() -> None:
        with ThreadPoolExecutor(1) as pool:
            program = Program(Calls(function), joins=JoinableShapes())
            lane = Lane(program, BatchSettings(), pool, Waiting(10))
            with pytest.raises(StatusError, match="too many"):
                await lane.run([rows(1, 2, 3)])
            (answer,) = await asyncio.wait_for(lane.run([rows(1)]), 10)
            assert answer.tolist() == [1]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (np.zeros([1, 3], np.float32), np.zeros([1, 30_000], np.float32)),
        (np.array([b"a"], object), np.array([b"a" * 30_000], object)),
    ],
    ids=["values", "bytes"],
)
@pytest.mark.parametrize("at_once", [False, True])
def test_a_row_that_is_wider_than_all_before_is_not_run_in_the_event_loop(
    narrow: np.ndarray, wide: np.ndarray, at_once: bool
) -> None:
    threads: list[int] = []

    def call(array):
        threads.append(threading.get_ident())
        return [array]

    async def main() -> None:
        with ThreadPoolExecutor(1) as pool:
            program = Program(call, joins=JoinableShapes())
            lane = Lane(program, BatchSettings(), pool, Waiting(100))
            for array in [narrow] * 20 + [wide]:
                promise: Promise = Promise()
                lane.submit(Task([array], None, promise), at_once)
                await promise.future

    asyncio.run(main())
    here = threading.get_ident()
    assert [thread == here for thread in threads[-2:]] == [True, False]


def test_who_cannot_be_answered_is_told_so() -> None:
    class Unwritable(Noted):
        def succeed(self, outputs) -> None:
            raise TypeError("object of type 'NoneType' has no len()")

    reply, other = Unwritable(1), Noted(2)
    for noted in (reply, other):
        noted.task.finish([rows(1)])
    assert (reply.told, other.told) == (["INTERNAL"], [[1]])
