"""Workers and parameter servers that serve a chief, until it says that training has ended.

TensorFlow's servers run until they are killed. Here the chief, when it has finished, writes a small
file at each of them: by an operation that it places there, so no disk has to be shared and no
other port has to be open. A server that finds its file returns, and its process ends well.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from estimand.cluster.addresses import Cluster, addresses_of, answers, split_address
from estimand.cluster.description import Task
from estimand.cluster.preemption import PreemptionNotice
from estimand.cluster.silent_connections import silent_ones_ended
from estimand.cluster.strategy import cluster_for_tensorflow
from estimand.cluster.worker_addresses import announce, retract
from estimand.core.errors import ClusterError
from estimand.core.tf_config import TaskType

_FOLDER = "/tmp/estimand-{role}-{index}-{port}"  # not TMPDIR: it may differ where the chief is
_FILE = "training_ended"
_LEAVING = "leaving"
_SECONDS_TO_TELL = 20.0
_SECONDS_BETWEEN_LOOKS = 0.2
_SECONDS_BETWEEN_CALLS = 5.0
_SECONDS_THE_CHIEF_MAY_BE_QUIET = 10.0
_INTRA = "TF_NUM_INTRAOP_THREADS"  # TensorFlow reads it where nothing else is said
_WORKERS_THAT_NOBODY_NAMED = 32

_log = logging.getLogger("tensorflow")

# A server cannot be stopped: a second call in the same process serves with the first one's.
_running: dict[str, Any] = {}


def serve(
    config: Any, *, timeout: float, record_is_new: Callable[[], bool] = lambda: False
) -> None:
    """Serve the chief; returns when it has said that training has ended.

    Args:
      config: the RunConfig of this process.
      timeout: how long to wait for a chief that has not come, or has gone.
      record_is_new: whether the disk, too, says that training has ended; believed once the chief
        is gone, since before it may still be saving what is here.
    """
    me = Task(config.task_type, config.task_id)
    addresses = addresses_of(config._cluster)
    address = addresses[me]
    if address not in _running:
        forget_farewell(me, address)
        _running[address] = _start(config, me, address)
    [chief] = [task for task in addresses if task.role in (TaskType.CHIEF, TaskType.MASTER)]
    _log.info("%s serves at %s.", me, address)
    watch = ChiefWatch(chief, addresses[chief], timeout, record_is_new)
    notice = PreemptionNotice(leaving_note(me, address))
    findable = _Findable(config, me, address)
    with (
        notice.noticed() if me.role == TaskType.PS else contextlib.nullcontext(),
        silent_ones_ended(config._cluster, me),
    ):
        while not (was_told(me, address) or watch.has_ended()):
            if notice.told and not answers(addresses[chief]):
                _log.warning("%s was told to end, and %s has saved and left.", me, chief)
                forget_farewell(me, address)
                sys.exit(128 + signal.SIGTERM)
            findable.look()
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    forget_farewell(me, address)
    findable.end()
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(_file_of(me, address)))
    _log.info("%s has ended the training; %s is done.", chief, me)


@dataclass
class _Findable:
    """Where workers may come and go, one of them leaves its address, and looks after it."""

    config: Any
    me: Task
    address: str
    _last_look: float | None = None

    def look(self) -> None:
        model_dir, last = self.config.model_dir, self._last_look
        if self.me.role != TaskType.WORKER or self.config._min_workers is None or not model_dir:
            return
        if last is not None and time.monotonic() - last < _SECONDS_BETWEEN_CALLS:
            return
        self._last_look = time.monotonic()
        if last is None:
            retract(model_dir, self.me.index)  # what one left that had this number before
        try:
            announce(model_dir, self.me.index, self.address)
        except OSError as error:
            if last is None:
                _log.warning("%s cannot leave its address in %s: %s", self.me, model_dir, error)

    def end(self) -> None:
        if self._last_look is not None:
            retract(self.config.model_dir, self.me.index)


@dataclass
class ChiefWatch:
    """Whether the chief is there, asked now and then."""

    chief: Task
    address: str
    timeout: float
    record_is_new: Callable[[], bool]
    clock: Callable[[], float] = time.monotonic
    reachable: Callable[[str], bool] = answers
    _was_there: bool = False
    _quiet_since: float | None = None
    _last_call: float | None = None

    def has_ended(self) -> bool:
        """True if it has finished and gone; `ClusterError` if it has been away for too long."""
        now = self.clock()
        if self._quiet_since is None:
            self._quiet_since = now
        if self._last_call is not None and now - self._last_call < _SECONDS_BETWEEN_CALLS:
            return False
        self._last_call = now
        if self.reachable(self.address):
            self._was_there, self._quiet_since = True, now
            return False
        quiet = now - self._quiet_since
        gone = self._was_there and quiet >= _SECONDS_THE_CHIEF_MAY_BE_QUIET
        if gone and self.record_is_new():
            return True
        if quiet >= self.timeout:
            what = "went away and did not come back" if self._was_there else "did not answer"
            raise ClusterError(
                f"{self.chief} at {self.address} {what} within {self.timeout:g} s. Start it "
                "again, with the same TF_CONFIG: it goes on from its last checkpoint."
            )
        return False


def tell_servers(cluster: Cluster, workers: Mapping[int, str]) -> None:
    """Called by the chief: tell workers and parameter servers that training has ended.

    `workers` has the addresses of those that take part at the end.
    """
    servers = {t: where for t, where in addresses_of(cluster).items() if t.role == TaskType.PS}
    servers |= {Task(TaskType.WORKER, number): where for number, where in workers.items()}
    threads = [threading.Thread(target=_tell, args=told, daemon=True) for told in servers.items()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _SECONDS_TO_TELL
    for thread in threads:  # one that is lost must not keep the chief
        thread.join(max(0.0, deadline - time.monotonic()))


def _tell(task: Task, address: str) -> None:
    import tensorflow as tf

    try:
        with tf.device(f"/job:{task.role}/task:{task.index}/device:CPU:0"):
            tf.io.write_file(_file_of(task, address), "")
    except Exception as error:
        _log.warning("Could not tell %s at %s that training has ended: %s", task, address, error)


def was_told(task: Task, address: str) -> bool:
    return os.path.exists(_file_of(task, address))


def forget_farewell(task: Task, address: str) -> None:
    """Make the place for the file, which is ours alone, and empty it."""
    folder = os.path.dirname(_file_of(task, address))
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to somebody else")
        for path in (_file_of(task, address), leaving_note(task, address)):
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
    except OSError as error:
        _log.warning("%s cannot be told when training has ended: %s", task, error)


def _file_of(task: Task, address: str) -> str:
    _, port = split_address(address)
    return os.path.join(_FOLDER.format(role=task.role, index=task.index, port=port), _FILE)


def leaving_note(task: Task, address: str) -> str:
    """What a server leaves that was told to end."""
    return os.path.join(os.path.dirname(_file_of(task, address)), _LEAVING)


def _start(config: Any, me: Task, address: str) -> Any:
    import tensorflow as tf

    try:
        return tf.distribute.Server(
            tf.train.ClusterSpec(cluster_for_tensorflow(config._cluster)),
            job_name=me.role,
            task_index=me.index,
            protocol="grpc",
            config=_server_config(config, me),
        )
    except tf.errors.OpError as error:
        raise ClusterError(
            f"The server of {me} at {address} cannot be started: {error.message.splitlines()[0]}. "
            "End the process that has the port, or change TF_CONFIG."
        ) from error


def _server_config(config: Any, me: Task) -> Any:
    """The user's; with threads enough for every worker to wait at the same time.

    Each process of one machine has its share of the cores. All with all of them, they cost a fifth
    more: threads are woken for parts of an op that are done before another core is free.
    """
    import tensorflow as tf

    proto = tf.compat.v1.ConfigProto()
    if config._session_config is not None:
        proto.CopyFrom(config._session_config)
    cores = _cores()
    needed = config.num_worker_replicas + 1
    if config._min_workers is not None and me.role == TaskType.PS:
        needed += _WORKERS_THAT_NOBODY_NAMED
    if not proto.inter_op_parallelism_threads and cores < needed:
        proto.inter_op_parallelism_threads = needed
    beside = _at_work_beside(config._cluster, me)
    if not proto.intra_op_parallelism_threads and _INTRA not in os.environ and beside > 1:
        proto.intra_op_parallelism_threads = max(1, cores // beside)
    return proto


def _at_work_beside(cluster: Cluster, me: Task) -> int:
    """How many processes compute on this machine, itself included."""
    hosts = {task: split_address(where)[0] for task, where in addresses_of(cluster).items()}
    return sum(
        host == hosts[me] and task.role in (TaskType.WORKER, TaskType.PS)
        for task, host in hosts.items()
    )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
