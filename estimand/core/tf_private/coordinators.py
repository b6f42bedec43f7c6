"""The coordinator of a cluster with parameter servers, whose workers come and go."""

from __future__ import annotations

import contextlib
import copy
import logging
import re
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Protocol

import tensorflow as tf

from estimand.core.interpreter.swapping import swapped

_WORKERS = "worker"
_SECONDS_BETWEEN_LOOKS = 2.0

_log = logging.getLogger("tensorflow")


class Roll(Protocol):
    """Who may take part."""

    def numbers(self) -> Collection[int]:
        """Of all workers that are known of by now, also of those that have never been there."""

    def there(self, numbers: Collection[int]) -> Mapping[int, str]:
        """Those of them that are there, and at which address."""


def strategy_with(
    workers: Mapping[int, str], resolver: Any, variable_partitioner: Any
) -> tf.distribute.ParameterServerStrategy:
    """A strategy for all workers that `resolver` names, which begins with those that are there.

    It connects to the whole cluster when it is made, and waits for ever for a worker that is not.
    """
    from tensorflow.python.distribute import parameter_server_strategy_v2 as module

    def connect_to_fewer(connect: Callable[..., None]) -> Callable[..., None]:
        def connect_to(cluster: tf.train.ClusterSpec, **kwargs: Any) -> None:
            connect(tf.train.ClusterSpec({**cluster.as_dict(), _WORKERS: dict(workers)}), **kwargs)

        return connect_to

    with swapped([(module.remote, "connect_to_cluster", connect_to_fewer)]):
        return tf.distribute.ParameterServerStrategy(resolver, variable_partitioner)


def coordinator_of(strategy: tf.distribute.ParameterServerStrategy, roll: Roll) -> Any:
    """The one that hands work to the workers that are there."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    cluster = coordinator._cluster
    if not isinstance(cluster.failure_handler, Attendance):
        attendance = Attendance(cluster.failure_handler, cluster, roll)
        for owner in (cluster, *cluster.workers):
            owner.failure_handler = attendance
    return coordinator


def workers_there(coordinator: Any) -> frozenset[int]:
    """The numbers of those that take part now."""
    return coordinator._cluster.failure_handler.members


class Attendance:
    """Which workers take part. It stands where TensorFlow's WorkerPreemptionHandler does.

    That one takes lost workers back all at once, at their old addresses, and waits for them with a
    lock in its hands that ending the process needs as well. This one takes a lost worker out of the
    cluster, and takes in whoever is there, also one that has not been there before, nor was named
    when the cluster was made.
    """

    def __init__(self, original: Any, cluster: Any, roll: Roll) -> None:
        self._original, self._cluster, self._roll = original, cluster, roll
        # The thread of the original waits for this, which from now on happens at the end only.
        self._end_of_original = original._cluster_due_for_update_or_finish
        original._cluster_due_for_update_or_finish = threading.Event()
        original._worker_up_cond = _NothingToWaitFor()
        self._server_def = original._server_def
        self._lost: set[int] = set()
        self._held: weakref.WeakSet[_OnEachWorker] = weakref.WeakSet()
        self._growing = threading.Lock()
        self._error: Exception | None = None
        self._over = False
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="estimand-attendance", daemon=True).start()

    @property
    def members(self) -> frozenset[int]:
        return frozenset(self._addresses()) - self._lost

    def stop(self) -> None:
        self._original._should_preemption_thread_run = False
        self._end_of_original.set()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    @contextlib.contextmanager
    def wait_on_failure(
        self,
        on_failure_fn: Callable[[Exception], None] | None = None,
        on_transient_failure_fn: Callable[[], None] | None = None,
        on_recovery_fn: Callable[[], None] | None = None,
        worker_device_name: str = "",
    ) -> Iterator[None]:
        """What was given to the worker inside is given to another one, until this one is back."""

        def on_failure(error: Exception) -> None:
            if on_failure_fn is not None:
                on_failure_fn(error)
            self._wait_for(int(re.findall(r"task:(\d+)", worker_device_name)[0]))

        with self._original.wait_on_failure(
            on_failure, on_transient_failure_fn, on_recovery_fn, worker_device_name
        ):
            yield

    def _wait_for(self, worker: int) -> None:
        with self._changed:
            self._error = None
            self._lost.add(worker)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._error is not None or worker in self.members)
            if self._error is not None:
                raise self._error

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over or self._lost, _SECONDS_BETWEEN_LOOKS)
                if self._over:
                    return
            try:
                self._look()
            except Exception as error:
                self._note(error)

    def _look(self) -> None:
        with self._changed:
            lost = frozenset(self._lost)
        staying = {n: where for n, where in self._addresses().items() if n not in lost}
        self._connect(staying)
        with self._changed:
            self._lost -= lost
        coming = self._roll.there(frozenset(self._roll.numbers()) - staying.keys())
        # TensorFlow waits for all of them: one that is about to be noticed as lost must be first.
        if coming and self._roll.there(staying).keys() == staying.keys():
            self._connect({**staying, **coming})

    def _connect(self, workers: dict[int, str]) -> None:
        if workers == self._addresses():
            return
        changed = copy.deepcopy(self._server_def)
        changed.ClearField("cluster_device_filters")  # those of the beginning stay
        others = [job for job in changed.cluster.job if job.name != _WORKERS]
        del changed.cluster.job[:]
        changed.cluster.job.extend(others)
        if workers:
            changed.cluster.job.add(name=_WORKERS, tasks=workers)
        _update(changed)
        for number in sorted(workers.keys() - self._addresses().keys()):
            self._employ(number)
            _log.info("worker %d at %s takes part.", number, workers[number])
        with self._changed:
            self._server_def = changed
            self._changed.notify_all()

    def on_each_worker(self, make: Callable[[int], Callable[[], Any]]) -> _OnEachWorker:
        """What each worker's function returns there: those of today, and whoever comes."""
        with self._growing:
            made = _OnEachWorker(make, self._cluster.workers)
            self._held.add(made)
        return made

    def _employ(self, number: int) -> None:
        """Have a worker that was not named fetch work as the others do."""
        with self._growing:
            if number in {worker.worker_index for worker in self._cluster.workers}:
                return
            worker = _newcomer(number, self._cluster)
            for held in self._held:
                held.add(worker)
            self._cluster.workers.append(worker)
        worker.begin.set()

    def _note(self, error: Exception) -> None:
        """Of a worker: it is tried again. Of a server: whoever waits for a worker is told."""
        try:
            self._original._validate_preemption_failure(error)
        except Exception as fatal:
            with self._changed:
                self._error = fatal
                self._changed.notify_all()
        time.sleep(_SECONDS_BETWEEN_LOOKS)

    def _addresses(self) -> dict[int, str]:
        jobs = {job.name: job.tasks for job in self._server_def.cluster.job}
        return dict(jobs.get(_WORKERS, {}))


def _update(server_def: Any) -> None:
    """Tell everybody who takes part from now on."""
    from tensorflow.python.eager import context

    context.context().update_server_def(server_def)


class _NothingToWaitFor:
    """In the place of a condition: that a worker is back has been waited for already."""

    def wait(self, timeout: float) -> None: ...


class _OnEachWorker(tf.distribute.coordinator.PerWorkerValue):
    """A value for each worker, by its number, and a function that makes one for another."""

    def __init__(self, make: Callable[[int], Callable[[], Any]], workers: Collection[Any]) -> None:
        self._make = make
        self._values: dict[int, Any] = {}
        for worker in workers:
            self.add(worker)
        by_number = self._values
        super().__init__(by_number.values())  # which makes a tuple of them
        self._values = by_number

    def add(self, worker: Any) -> None:
        number = worker.worker_index
        self._values[number] = worker.create_resource(self._make(number))


def _newcomer(number: int, cluster: Any) -> Any:
    """A worker as those that TensorFlow has made, which does nothing before it is told to begin."""

    class Newcomer(type(cluster.workers[0])):  # type: ignore[misc]
        begin = threading.Event()

        def _process_queue(self) -> None:
            self.begin.wait()  # until it has what each worker has
            super()._process_queue()

    return Newcomer(number, f"/job:{_WORKERS}/replica:0/task:{number}", cluster)


def on_each_worker(coordinator: Any, make: Callable[[int], Callable[[], Any]]) -> Any:
    """What a function of each worker returns there, as an argument for scheduled functions.

    `make` gives the function for the number of a worker. It is called again when a worker has come
    back. `create_per_worker_dataset` does the same with one function for all, which cannot know on
    which worker it is, nor read a share of the input.
    """
    return coordinator._cluster.failure_handler.on_each_worker(make)


def has_answer(scheduled: Any) -> bool:
    """Whether a function that was scheduled on a worker has ended there, and without an error.

    `fetch` fails in the same way where the function failed and where only its answer is lost.
    """
    return scheduled._status_available_event.is_set() and scheduled._values is not None
