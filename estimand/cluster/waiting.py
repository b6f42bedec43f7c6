"""Waiting until every process of the cluster is there, and saying who is not.

A process cannot be reached before it has started its server, and where all do the same work each
starts it only when the others are there. So while it waits, it listens at its own address.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from estimand.cluster.addresses import (
    Cluster,
    addresses_of,
    answers,
    say_waiting,
    split_address,
    takes_part,
)
from estimand.cluster.description import Task
from estimand.core.errors import ClusterError, ConfigError
from estimand.core.tf_config import TaskType

TIMEOUT_VARIABLE = "ESTIMAND_CLUSTER_TIMEOUT_SECS"

_SECONDS_BETWEEN_TRIES = 0.5
_SECONDS_BETWEEN_REPORTS = 30.0

_log = logging.getLogger("tensorflow")


def timeout_of(config: Any) -> float:
    """How long to wait for the cluster: of the environment, or of the RunConfig."""
    text = os.environ.get(TIMEOUT_VARIABLE, "").strip()
    if not text:
        return float(config.session_creation_timeout_secs or 7200)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds > 0:
        raise ConfigError(f"{TIMEOUT_VARIABLE} must be a number of seconds > 0, given: {text!r}.")
    return seconds


def wait_for_peers(
    cluster: Cluster,
    timeout: float,
    *,
    me: Task | None = None,
    listen: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    reachable: Callable[[str], bool] = takes_part,
    somebody_is_at: Callable[[str], bool] = answers,
    min_workers: int | None = None,
) -> dict[Task, str]:
    """Return when every other process has been reached once; `ClusterError` names the missing.

    Where `min_workers` are enough, those workers are returned that may come later.

    Args:
      cluster: addresses by role and index.
      timeout: seconds to wait for all together.
      me: this process, which is not waited for.
      listen: be reachable at the own address meanwhile; else the server runs already, or nobody
        waits for this process.
      clock: seconds, increasing.
      sleep: waits for so many seconds.
      reachable: whether a process of the cluster is at an address.
      somebody_is_at: whether anybody is.
      min_workers: how many workers are enough; None: all.
    """
    missing = addresses_of(cluster)
    own = missing.pop(me, None) if me is not None else None
    began = reported = clock()
    with _listening(own, me) if listen and own else contextlib.nullcontext():
        while True:
            missing = {task: where for task, where in missing.items() if not reachable(where)}
            if not missing or _enough(cluster, missing, min_workers):
                return missing
            now = clock()
            if now - began >= timeout:
                raise _never_came(missing, timeout, list(filter(somebody_is_at, missing.values())))
            if now - reported >= _SECONDS_BETWEEN_REPORTS:
                reported = now
                _log.info("Still waiting for %s (%.0f s).", _list(missing), now - began)
            sleep(_SECONDS_BETWEEN_TRIES)


def _enough(cluster: Cluster, missing: dict[Task, str], min_workers: int | None) -> bool:
    if min_workers is None or any(task.role != TaskType.WORKER for task in missing):
        return False
    return len(cluster[TaskType.WORKER]) - len(missing) >= min_workers


@contextlib.contextmanager
def _listening(address: str, task: Task | None) -> Iterator[None]:
    """Tell those who call that this process is there, and waits as they do."""
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        # As the server does which takes over: closed connections do not keep the port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))  # on every interface: the name may not be known here
        except OSError as error:
            raise ClusterError(
                f"Port {port} of {task} at {address} cannot be used on this machine "
                f"({error.strerror}). End the process that has it, or change TF_CONFIG."
            ) from error
        listener.listen(128)
        answering = threading.Thread(target=say_waiting, args=(listener,), daemon=True)
        answering.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            answering.join()


def _never_came(missing: dict[Task, str], timeout: float, strangers: list[str]) -> ClusterError:
    stranger = (
        f"Something listens at {', '.join(strangers)} that is not TensorFlow: is the port that "
        "of another program? "
        if strangers
        else ""
    )
    return ClusterError(
        f"{_list(missing)} did not answer within {timeout:g} s. {stranger}Has the program been "
        "started there, with the same TF_CONFIG, and can this machine reach it? To wait longer, "
        f"set RunConfig(session_creation_timeout_secs=...) or {TIMEOUT_VARIABLE}."
    )


def _list(missing: dict[Task, str]) -> str:
    return ", ".join(f"{task} at {where}" for task, where in missing.items())
