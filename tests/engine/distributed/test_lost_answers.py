"""A worker that is gone between the end of its work and the fetching of its answer."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.engine.distributed import parameter_servers
from estimand.engine.distributed.parameter_servers import AnswerLost, answer_of
from estimand.engine.distributed.parameter_servers_program import ServedProgram
from estimand.engine.feeding.source import BatchSource

GONE = tf.errors.UnavailableError(None, None, "Connection reset by peer /job:worker/task:0")


class Scheduled:
    """Stands for what `ClusterCoordinator.schedule` returns: done, failed, or done and lost."""

    def __init__(self, values: Any, error: Exception | None = None) -> None:
        self._values, self._raised = values, error
        self._status_available_event = threading.Event()
        self._status_available_event.set()

    def fetch(self) -> Any:
        if self._raised is not None:
            raise self._raised
        return self._values


@pytest.fixture(autouse=True)
def servers_that_answer(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    gone: list[str] = []
    monkeypatch.setattr(parameter_servers, "_gone", lambda strategy: gone)
    return gone


class Cluster:
    """Two workers that do their blocks at once; the answers of some are lost."""

    workers, strategy = 2, None

    def __init__(self, lost: set[int]) -> None:
        self.coordinator = self
        self.global_step = 0
        self._lost, self._scheduled = lost, 0

    def present(self) -> frozenset[int]:
        return frozenset(range(self.workers))

    awaited = present

    def schedule(self, function: Any, args: Any) -> Scheduled:
        _, count, limit = args
        done = max(0, min(int(count), int(limit) - self.global_step))
        self.global_step += done
        self._scheduled += 1
        error = GONE if self._scheduled in self._lost else None
        return Scheduled(np.array([done, 0.0, 0.0, self.global_step, 0.5]), error)


class Served(ServedProgram):
    """Without a graph: the cluster above runs no functions."""

    def _function(self, *_: Any) -> None:
        return None


def served(cluster: Cluster, *, counts: bool) -> ServedProgram:
    step = SimpleNamespace(numpy=lambda: cluster.global_step)
    program = Served(SimpleNamespace(global_step=step), [], None, cluster)  # type: ignore[arg-type]
    program._counts_by_one = counts
    return program


class Input(BatchSource):
    """Without end, on workers that are not there."""

    iterators, endless = None, True

    def __init__(self) -> None:
        super().__init__(None)


@pytest.mark.parametrize("lost", [{1}, {3}, {4}, {1, 2, 5}])
def test_blocks_whose_answers_are_lost_are_made_up_for(lost: set[int]) -> None:
    cluster = Cluster(lost)
    feeder = Input()
    result, step = served(cluster, counts=True).loop(feeder, 40)  # type: ignore[arg-type]
    assert (result, step, cluster.global_step) == (0.5, 40, 40)


def test_without_a_limit_the_steps_that_were_answered_are_as_many_as_asked_for() -> None:
    cluster = Cluster({2})
    feeder = Input()
    served(cluster, counts=False).loop(feeder, 40)  # type: ignore[arg-type]
    assert feeder.batches == 40
    assert cluster.global_step == 50  # a model that counts in its own way: ten were done twice


def test_what_failed_on_a_worker_is_raised_as_it_was() -> None:
    failure = tf.errors.InvalidArgumentError(None, None, "Nan in summary histogram")
    with pytest.raises(tf.errors.InvalidArgumentError, match="Nan in summary"):
        answer_of(Scheduled(None, failure), None)  # type: ignore[arg-type]


def test_an_answer_is_lost_only_while_all_servers_answer(servers_that_answer: list[str]) -> None:
    with pytest.raises(AnswerLost):
        answer_of(Scheduled(np.zeros(5), GONE), None)  # type: ignore[arg-type]
    servers_that_answer.append("ps 0")
    with pytest.raises(tf.errors.UnavailableError, match="Connection reset"):
        answer_of(Scheduled(np.zeros(5), GONE), None)  # type: ignore[arg-type]
