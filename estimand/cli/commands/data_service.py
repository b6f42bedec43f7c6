"""`estimand data-service`: processes that prepare input for others, by tf.data's service."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import click

from estimand.cli.group import end_interrupted
from estimand.cli.quiet import quiet_start

_port = click.option(
    "--port", type=click.IntRange(0, 65535), default=5050, show_default=True, help="0: any."
)


@click.group("data-service")
def data_service() -> None:
    """Prepare input on other machines; est.inputs.service(input_fn, ADDRESS) uses it."""


@data_service.command()
@_port
@click.option("--work-dir", help="Keep what is known here, to go on after a restart.")
@click.pass_context
def dispatcher(context: click.Context, port: int, work_dir: str | None) -> None:
    """Run the one process that hands out the work."""
    with _running(context) as tf, _explained(port):
        server = _dispatcher(tf, port, work_dir)
        _wait(f"Dispatcher at {_address(server)}")


@data_service.command()
@_port
@click.option("--dispatcher", "address", required=True, metavar="HOST:PORT", help="Its address.")
@click.option("--host", help="The name under which trainers reach this machine.")
@click.pass_context
def worker(context: click.Context, port: int, address: str, host: str | None) -> None:
    """Run one of the processes that do the work."""
    with _running(context) as tf, _explained(port):
        server = _worker(tf, port, address, host or socket.gethostname())
        _wait(f"Worker, for the dispatcher at {address}", server)


@data_service.command()
@_port
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True)
@click.pass_context
def local(context: click.Context, port: int, workers: int) -> None:
    """Run a dispatcher and workers in this one process."""
    with _running(context) as tf, _explained(port):
        server = _dispatcher(tf, port, None)
        address = _address(server)
        helpers = [_worker(tf, 0, address, "localhost") for _ in range(workers)]
        _wait(f"Dispatcher and {workers} workers at {address}", *helpers)


def _dispatcher(tf: Any, port: int, work_dir: str | None) -> Any:
    if work_dir is not None:
        os.makedirs(work_dir, exist_ok=True)
    return tf.data.experimental.service.DispatchServer(
        tf.data.experimental.service.DispatcherConfig(
            port=port, work_dir=work_dir, fault_tolerant_mode=work_dir is not None
        )
    )


def _worker(tf: Any, port: int, dispatcher: str, host: str) -> Any:
    # Under "%port%" TensorFlow puts in the port that it was given.
    return tf.data.experimental.service.WorkerServer(
        tf.data.experimental.service.WorkerConfig(
            dispatcher_address=dispatcher.removeprefix("grpc://"),
            worker_address=f"{host}:%port%",
            port=port,
        )
    )


def _address(server: Any) -> str:
    return server.target.removeprefix("grpc://")


@contextlib.contextmanager
def _running(context: click.Context) -> Iterator[Any]:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    with quiet_start(context.obj["verbose"]):
        import tensorflow as tf
    yield tf


@contextlib.contextmanager
def _explained(port: int) -> Iterator[None]:
    """Errors of the start in one sentence."""
    import tensorflow as tf

    try:
        yield
    except (tf.errors.OpError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        raise click.ClickException(
            f"The data service cannot be started at port {port}: {first_line}"
        ) from error


def _wait(what: str, *kept: Any) -> None:
    """Until somebody ends it. The servers live as long as they are referred to."""
    ended, received = threading.Event(), set()

    def end(number: int, _: Any) -> None:
        received.add(number)
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    click.echo(f"{what}. Ctrl-C ends it.")
    ended.wait()
    del kept
    if signal.SIGINT in received:
        end_interrupted()
