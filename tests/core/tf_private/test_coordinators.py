"""Workers that are lost, come back and come late; TensorFlow's side of it is played here."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from estimand.core.tf_private import coordinators
from estimand.core.tf_private.coordinators import Attendance

SECONDS = 30
DEVICE = "/job:worker/replica:0/task:{}"
SERVERS = {"ps": {0: "p:1"}}


class Original:
    """What is used of a WorkerPreemptionHandler."""

    def __init__(self, workers: dict[int, str]) -> None:
        self.workers = workers
        spec = tf.train.ClusterSpec({**SERVERS, "worker": workers})
        self._server_def = tf.train.ServerDef(cluster=spec.as_cluster_def(), job_name="chief")
        self._cluster_due_for_update_or_finish = threading.Event()
        self._should_preemption_thread_run = True
        self._worker_up_cond: Any = None

    @contextlib.contextmanager
    def wait_on_failure(self, on_failure: Callable, transient: Any, recovered: Callable, name: str):
        try:
            yield
        except tf.errors.UnavailableError as error:
            on_failure(error)
            self._worker_up_cond.wait(3600)
            recovered()

    def _validate_preemption_failure(self, error: Exception) -> None:
        if "worker" not in str(error):
            raise error


class Worker:
    """What is used of TensorFlow's: a thread that fetches work, and what was made on it."""

    def __init__(self, number: int, device: str, cluster: Any) -> None:
        self.worker_index, self.device = number, device
        self.made: list[str] = []
        self.at_work: list[str] = []
        threading.Thread(target=self._process_queue, daemon=True).start()

    def _process_queue(self) -> None:
        self.at_work += self.made

    def create_resource(self, make: Callable[[], str]) -> tf.distribute.coordinator.RemoteValue:
        class Made(tf.distribute.coordinator.RemoteValue):
            fetch = get = lambda self: None

        self.made.append(make())
        return Made()


class Cluster:
    """Who is there, and whom TensorFlow was told of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, there: dict[int, str], members: list[int]):
        self.there = dict(there)
        self.told: list[dict[int, str]] = []
        self.error: Exception | None = None
        monkeypatch.setattr(coordinators, "_SECONDS_BETWEEN_LOOKS", 0.01)
        monkeypatch.setattr(coordinators, "_update", self._update)
        self.original = Original({n: there[n] for n in members})
        named = [Worker(n, DEVICE.format(n), self) for n in range(3)]
        self.tensorflows = SimpleNamespace(workers=named)
        roll: Any = SimpleNamespace(
            numbers=lambda: {0, 1, 2, *self.there},
            there=lambda numbers: {n: self.there[n] for n in numbers if n in self.there},
        )
        self.attendance = Attendance(self.original, self.tensorflows, roll)

    def _update(self, server_def: Any) -> None:
        if self.error is not None:
            raise self.error
        jobs = {job.name: dict(job.tasks) for job in server_def.cluster.job}
        assert jobs["ps"] == SERVERS["ps"]
        self.told.append(jobs.get("worker", {}))

    def loses(self, worker: int) -> threading.Thread:
        """In its thread a worker fails at its work; it ends when the worker is back."""
        self.outcome: list[Any] = []

        def work() -> None:
            note, back = self.outcome.append, lambda: self.outcome.append("back")
            try:
                with self.attendance.wait_on_failure(
                    lambda error: note("lost"), None, back, DEVICE.format(worker)
                ):
                    raise tf.errors.UnavailableError(None, None, "/job:worker")
            except Exception as error:
                note(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    def comes_to(self, *members: int) -> bool:
        """Whether these are all that take part, in the end, and TensorFlow knows."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            told = self.told[-1] if self.told else self.original.workers
            if self.attendance.members == set(members) == told.keys():
                return True
            time.sleep(0.005)
        return False


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def make(there: dict[int, str], members: list[int]) -> Cluster:
        made.append(Cluster(monkeypatch, there, members))
        return made[-1]

    yield make
    for one in made:
        one.attendance.stop()


def test_a_lost_worker_is_taken_out_at_once_and_back_at_whatever_address(cluster) -> None:
    workers = cluster({0: "a:1", 1: "b:1"}, [0, 1])
    del workers.there[1]
    lost = workers.loses(1)
    assert workers.comes_to(0)
    assert workers.told == [{0: "a:1"}] and lost.is_alive()
    workers.there[1] = "c:1"
    lost.join(SECONDS)
    assert workers.outcome == ["lost", "back"]
    assert workers.told[1:] == [{0: "a:1", 1: "c:1"}]


def test_one_that_was_never_there_joins(cluster) -> None:
    workers = cluster({0: "a:1"}, [0])
    assert workers.comes_to(0)
    workers.there[2] = "c:1"
    assert workers.comes_to(0, 2)


def test_one_that_nobody_had_named_joins_with_all_that_each_worker_has(cluster) -> None:
    workers = cluster({0: "a:1"}, [0])
    held = workers.attendance.on_each_worker(lambda number: lambda: f"input {number}")
    assert [worker.made for worker in workers.tensorflows.workers] == [
        ["input 0"], ["input 1"], ["input 2"]]  # fmt: skip
    workers.there[70] = "d:1"
    assert workers.comes_to(0, 70)
    *_, newcomer = workers.tensorflows.workers
    assert newcomer.device == DEVICE.format(70)
    end = time.monotonic() + SECONDS
    while newcomer.at_work != ["input 70"]:  # it had not begun before
        assert time.monotonic() < end
        time.sleep(0.005)
    assert held._values.keys() == {0, 1, 2, 70}
    del workers.there[70]
    workers.loses(70)
    assert workers.comes_to(0)
    workers.there[70] = "e:1"  # as any other now
    assert workers.comes_to(0, 70) and len(workers.tensorflows.workers) == 4


def test_the_last_worker_may_be_lost(cluster) -> None:
    workers = cluster({0: "a:1"}, [0])
    workers.there.clear()
    lost = workers.loses(0)
    assert workers.comes_to()
    workers.there[0] = "a:1"
    lost.join(SECONDS)
    assert workers.comes_to(0) and workers.told == [{}, {0: "a:1"}]


def test_nobody_joins_while_another_one_is_about_to_be_noticed_as_lost(cluster) -> None:
    """TensorFlow would wait for it."""
    workers = cluster({0: "a:1", 1: "b:1"}, [0, 1])
    workers.there = {0: "a:1", 2: "c:1"}
    time.sleep(0.1)
    assert workers.told == []
    workers.loses(1)
    assert workers.comes_to(0, 2)


def test_a_lost_server_is_told_to_whoever_waits_for_a_worker(cluster) -> None:
    workers = cluster({0: "a:1", 1: "b:1"}, [0, 1])
    workers.error = tf.errors.UnavailableError(None, None, "/job:ps")
    workers.loses(1).join(SECONDS)
    assert workers.outcome == ["lost", workers.error]


def test_a_worker_that_is_lost_while_it_joins_is_tried_again(cluster) -> None:
    workers = cluster({0: "a:1", 1: "b:1"}, [0])
    workers.error = tf.errors.UnavailableError(None, None, "/job:worker")
    time.sleep(0.05)
    assert workers.attendance.members == {0}
    workers.error = None
    assert workers.comes_to(0, 1)
