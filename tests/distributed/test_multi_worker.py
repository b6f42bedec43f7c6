"""Two real processes train one model together, on the loopback interface."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.distributed import models

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 200  # seconds, on a machine that is busy with other things


@dataclass
class Job:
    """Two workers, of which the first is the chief."""

    directory: Path
    settings: dict
    processes: list[subprocess.Popen] = field(default_factory=list)

    def start(self) -> Job:
        workers = [f"localhost:{port}" for port in _free_ports(2)]
        for index in range(2):
            task = {"type": "worker", "index": index}
            tf_config = json.dumps({"cluster": {"worker": workers}, "task": task})
            arguments = [self.directory / "model", self._output(index), json.dumps(self.settings)]
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.distributed.worker_program", *arguments],
                    env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_CONFIG": tf_config},
                    cwd=REPOSITORY,
                    stdout=subprocess.DEVNULL,
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
def test_processes_share_the_input_and_stop_together(tmp_path):
    settings = {"model": "v1", "stop_who": "worker1", "stop_at": 4, "input": "uneven_input_fn"}
    for number in range(4):
        lines = "".join(f"{row}\n" for row in range(3 * number, 3 * number + 3))
        (tmp_path / f"rows{number}.txt").write_text(lines)
    settings["files"] = str(tmp_path / "rows*.txt")
    job = Job(tmp_path, settings).start()
    assert job.ends() == [0, 0], job.log(0) + job.log(1)
    first, second = job.result(0), job.result(1)
    # The vote is cast after step 4 and seen with step 5.
    assert len(first["losses"]) == len(second["losses"]) == 5
    assert first["losses"] == second["losses"]
    assert first["values"] == second["values"]
    assert first["chief"] and not second["chief"]
    assert_checkpoint_is(tmp_path / "model", trained_alone(tmp_path / "alone", 5))
    events = [p for p in (tmp_path / "model").iterdir() if p.name.startswith("events")]
    assert len(events) == 1  # the chief's
    for chosen_by in ("rows of files", "rows chosen"):
        assert len(first[chosen_by]) == len(second[chosen_by]) == 6
        assert sorted(first[chosen_by] + second[chosen_by]) == list(range(12))


@pytest.mark.slow
def test_a_killed_process_ends_the_other_and_a_restart_continues(tmp_path):
    slow = {"model": "v1", "max_steps": 500, "seconds": 0.1, "save_every": 4}
    job = Job(tmp_path, slow).start()
    job.wait_for_step(1, 6)
    job.processes[1].send_signal(signal.SIGKILL)
    codes = job.ends()
    assert codes[0] == 1 and codes[1] == -signal.SIGKILL
    assert "another one that trains with it was lost" in job.log(0)
    saved = int(_latest(tmp_path).rsplit("-", 1)[1])
    assert saved >= 4

    again = Job(tmp_path, {"model": "v1", "max_steps": saved + 3, "save_every": 100}).start()
    assert again.ends() == [0, 0], again.log(0) + again.log(1)
    assert len(again.result(1)["losses"]) == 3
    assert_checkpoint_is(tmp_path / "model", trained_alone(tmp_path / "alone", saved + 3))


def _latest(directory: Path) -> str:
    path = tf.train.latest_checkpoint(directory / "model")
    assert path is not None
    return path
