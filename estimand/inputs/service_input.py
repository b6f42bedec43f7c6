"""Input prepared by other machines: tf.data's service, around an ordinary input function."""

from __future__ import annotations

import functools
import socket
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core.errors import InputError
from estimand.inputs.call import name_of
from estimand.inputs.remote_pipelines import pipelines_run_elsewhere

# Words for what tf.data calls sharding policies.
_MODES = {
    "parallel_epochs": tf.data.experimental.service.ShardingPolicy.OFF,
    "distributed_epoch": tf.data.experimental.service.ShardingPolicy.DYNAMIC,
}


def service(
    input_fn: Callable[..., Any],
    address: str,
    mode: str = "parallel_epochs",
    *,
    job_name: str | None = None,
    wait_secs: float = 60.0,
) -> Callable[..., tf.data.Dataset]:
    """`input_fn`, with its Dataset computed by the workers of a tf.data service.

    Start one with `estimand data-service`. The elements come in no fixed order, so an interrupted
    training goes on by counting batches, and not with exactly those that it had not seen.

    Args:
      input_fn: returns a `tf.data.Dataset`; called here as ever, run there. What it reads must be
        found at the same paths on the workers.
      address: of the dispatcher, "host:port".
      mode: "parallel_epochs": every worker goes through all of the data, in an order of its own;
        or "distributed_epoch": each element is prepared once, by one of them.
      job_name: processes that give the same name share one pass over the data: each element goes
        to one of them. Without, each gets all.
      wait_secs: how long to wait for the dispatcher.

    >>> dispatcher = tf.data.experimental.service.DispatchServer()
    >>> address = dispatcher.target.removeprefix("grpc://")
    >>> worker = tf.data.experimental.service.WorkerServer(
    ...     tf.data.experimental.service.WorkerConfig(dispatcher_address=address))
    >>> input_fn = service(lambda: tf.data.Dataset.range(4).batch(2), address)
    >>> [batch.numpy().tolist() for batch in input_fn()]
    [[0, 1], [2, 3]]
    """
    where = f"est.inputs.service({name_of(input_fn)}, {address!r})"
    if mode not in _MODES:
        raise InputError(f"{where}: mode must be one of {sorted(_MODES)}, given: {mode!r}.")
    host_and_port = _split(address, where)

    @functools.wraps(input_fn)
    def served(*args: Any, **kwargs: Any) -> tf.data.Dataset:
        with pipelines_run_elsewhere():
            dataset = input_fn(*args, **kwargs)
        if not isinstance(dataset, tf.data.Dataset):
            raise InputError(
                f"{where}: the input function has to return a tf.data.Dataset, which the service "
                f"computes elsewhere; it returned {type(dataset).__name__}."
            )
        _wait_for(host_and_port, wait_secs, where)
        return dataset.apply(
            tf.data.experimental.service.distribute(
                processing_mode=_MODES[mode],
                service=f"grpc://{address.removeprefix('grpc://')}",
                job_name=job_name,
            )
        )

    return served


def _split(address: str, where: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("grpc://").rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(f'{where}: the address must be "host:port", given: {address!r}.')
    return host.strip("[]"), int(port)


def _wait_for(host_and_port: tuple[str, int], seconds: float, where: str) -> None:
    """TensorFlow would wait for ever, and say nothing."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(host_and_port, timeout=2.0).close()
            return
        except OSError as error:
            if time.monotonic() >= deadline:
                host, port = host_and_port
                raise InputError(
                    f"{where}: no data service answered at {host}:{port} within {seconds:g} s "
                    f"({error}). Start one: estimand data-service local --port {port}."
                ) from error
        time.sleep(0.2)
