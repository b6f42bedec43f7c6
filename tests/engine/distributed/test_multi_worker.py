"""Two real processes train one model together, on the loopback interface."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests import forked
from tests.engine.distributed import models

REPOSITORY = Path(__file__).parents[3]
PATIENCE = 200  # seconds, on a machine that is busy with other things


@dataclass
class Job:
    """Two workers, of which the first is the chief."""

    directory: Path
    settings: dict
    processes: list[forked.Program] = field(default_factory=list)

    def start(self) -> Job:
        workers = [f"localhost:{port}" for port in _free_ports(2)]
        for index in range(2):
            task = {"type": "worker", "index": index}
            tf_config = json.dumps({"cluster": {"worker": workers}, "task": task})
            arguments = [self.directory / "model", self._output(index), json.dumps(self.settings)]
            self.processes.append(
                forked.Program(
                    ["-m", "tests.engine.distributed.worker_program", *arguments],
                    env={**os.environ, "TF_CONFIG": tf_config},
                    cwd=REPOSITORY,
                    stderr=(self.directory / f"log{index}").open("w"),
                )
            )
        return self

    def ends(self) -> list[int]:
        """The exit codes."""
        try:
            return [process.wait(PATIENCE) for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()

    def log(self, index: int) -> str:
        return (self.directory / f"log{index}").read_text()

    def result(self, index: int) -> dict:
        return json.loads(self._output(index).read_text())

    def wait_for_step(self, index: int, step: int) -> None:
        progress = Path(f"{self._output(index)}.progress")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if progress.exists() and int(progress.read_text() or 0) >= step:
                return
            time.sleep(0.05)
        raise TimeoutError(f"worker {index} did not reach step {step}:\n{self.log(index)}")

    def _output(self, index: int) -> Path:
        return self.directory / f"result{index}"


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for one in sockets:
        one.close()
    return ports


def trained_alone(directory: Path, steps: int) -> dict[str, np.ndarray]:
    """What one process makes of the same rows, in batches as large as those of both."""
    config = est.RunConfig(model_dir=str(directory), tf_random_seed=7)
    estimator = models.ESTIMATORS["v1"](config).train(models.input_fn(16), max_steps=steps)
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def assert_checkpoint_is(model_dir: Path, expected: dict[str, np.ndarray]) -> None:
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(model_dir))
    assert sorted(reader.get_variable_to_shape_map()) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(reader.get_tensor(name), value, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_a_killed_process_ends_the_other_and_both_continue_and_stop_together(tmp_path):
    """One job after the other in one test: starting processes is what takes time."""
    slow = {"model": "v1", "seconds": 0.2, "save_every": 2, "input": "uneven_input_fn"}
    job = Job(tmp_path, slow).start()
    job.wait_for_step(1, 3)
    job.processes[1].send_signal(signal.SIGKILL)
    codes = job.ends()
    assert codes[0] == 1 and codes[1] == -signal.SIGKILL
    assert "another one that trains with it was lost" in job.log(0)
    saved = int(_latest(tmp_path).rsplit("-", 1)[1])
    assert saved >= 2

    stop = {"stop_who": "worker1", "stop_at": saved + 2, "files": _files(tmp_path)}
    again = Job(tmp_path, {"model": "v1", "input": "uneven_input_fn", **stop}).start()
    assert again.ends() == [0, 0], again.log(0) + again.log(1)
    first, second = again.result(0), again.result(1)
    # The vote is cast after the second step and seen with the third.
    assert len(second["losses"]) == 3
    assert len(first["losses"]) == 2 and first["losses"].items() <= second["losses"].items()
    assert first["values"] == second["values"]
    assert first["chief"] and not second["chief"]
    assert_checkpoint_is(tmp_path / "model", trained_alone(tmp_path / "alone", saved + 3))
    for chosen_by in ("rows of files", "rows chosen"):
        assert len(first[chosen_by]) == len(second[chosen_by]) == 6
        assert sorted(first[chosen_by] + second[chosen_by]) == list(range(12))


def _files(directory: Path) -> str:
    """Four files with twelve rows."""
    for number in range(4):
        lines = "".join(f"{row}\n" for row in range(3 * number, 3 * number + 3))
        (directory / f"rows{number}.txt").write_text(lines)
    return str(directory / "rows*.txt")


def _latest(directory: Path) -> str:
    path = tf.train.latest_checkpoint(directory / "model")
    assert path is not None
    return path
