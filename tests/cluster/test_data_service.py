"""tf.data's service: processes of `estimand data-service`, and an input function that uses them."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

import estimand as est
from estimand.cli.main import main
from estimand.cluster.addresses import LOOPBACK, free_ports
from estimand.core.errors import InputError
from tests.integration.processes import Child, wait_until


def run_command(*arguments: str) -> None:
    main(["data-service", *arguments], standalone_mode=False)


@contextlib.contextmanager
def started(log: Path, *arguments: str) -> Iterator[str]:
    """The command in a process of its own; the address it prints. It must end well."""
    process = Child(run_command, *arguments, log=log)
    try:
        wait_until(lambda: "Ctrl-C ends it." in process.printed, process)
        [address] = re.findall(r" at (\S+:\d+)\.", process.printed)
        yield address
        process.send(signal.SIGTERM)
        assert process.wait() == 0, process.printed
    finally:
        process.kill()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a dispatcher that has one worker, each in a process."""
    logs = tmp_path_factory.mktemp("logs")
    arguments = ("dispatcher", "--port", "0", "--work-dir", str(logs / "work"))
    with started(logs / "dispatcher", *arguments) as where:
        port = where.rpartition(":")[2]
        worker = ("worker", "--port", "0", "--host", "localhost", "--dispatcher")
        with started(logs / "worker", *worker, f"localhost:{port}"):
            yield f"localhost:{port}"


def numbers(params: dict[str, int]) -> tf.data.Dataset:
    return tf.data.Dataset.range(params["n"]).batch(2)


def elements(input_fn: object) -> list[int]:
    given = est.inputs.call_input_fn(input_fn, mode="train", params={"n": 8}, config=None)
    return sorted(int(x) for batch in given.dataset for x in batch)


@pytest.mark.parametrize("mode", ["parallel_epochs", "distributed_epoch"])
def test_one_worker_gives_every_element_once(address: str, mode: str) -> None:
    assert elements(est.inputs.service(numbers, address, mode)) == list(range(8))


def test_two_workers_in_one_process(tmp_path: Path) -> None:
    with started(tmp_path / "log", "local", "--port", "0", "--workers", "2") as where:
        distributed = elements(est.inputs.service(numbers, where, "distributed_epoch"))
        parallel = elements(est.inputs.service(numbers, where, "parallel_epochs"))
    assert distributed == list(range(8))
    assert parallel == sorted([*range(8), *range(8)])


def test_training_takes_its_batches_from_the_service(address: str, tmp_path: Path) -> None:
    def model_fn(features: tf.Tensor, mode: str, params: object) -> est.EstimatorSpec:
        total = tf.compat.v1.get_variable(
            "total", [], tf.int64, initializer=tf.compat.v1.zeros_initializer(), trainable=False
        )
        with tf.control_dependencies([total.assign_add(tf.reduce_sum(features))]):
            train_op = tf.compat.v1.train.get_global_step().assign_add(1)
        return est.EstimatorSpec(mode, loss=tf.constant(0.0), train_op=train_op)

    estimator = est.Estimator(model_fn, tmp_path, params={"n": 10})
    # A name is shared: this one belongs to the training alone.
    estimator.train(est.inputs.service(numbers, address, job_name="training"))
    assert estimator.get_variable_value("total") == sum(range(10))
    assert estimator.get_variable_value("global_step") == 5


def test_service_that_is_not_there() -> None:
    [port] = free_ports(1)
    served = est.inputs.service(numbers, f"{LOOPBACK}:{port}", wait_secs=0.1)
    wanted = rf"no data service answered at 127.0.0.1:{port} within 0.1 s.*data-service local"
    with pytest.raises(InputError, match=wanted):
        served({"n": 1})


@pytest.mark.parametrize("address", ["localhost", "localhost:", "localhost:x", ":1"])
def test_address_that_is_none(address: str) -> None:
    with pytest.raises(InputError, match='the address must be "host:port"'):
        est.inputs.service(numbers, address)


def test_unknown_mode() -> None:
    wanted = r"mode must be one of \['distributed_epoch', 'parallel_epochs'\], given: 'fast'"
    with pytest.raises(InputError, match=wanted):
        est.inputs.service(numbers, "localhost:1", "fast")


def test_input_function_without_a_dataset() -> None:
    with pytest.raises(InputError, match=r"has to return a tf\.data\.Dataset.*it returned dict"):
        est.inputs.service(lambda: {"x": [1.0]}, "localhost:1")()
