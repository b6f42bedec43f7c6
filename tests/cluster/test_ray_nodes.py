"""A Ray cluster of several nodes, each with processes of its own, one of which is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.estimator.lifecycle import line
from tests.forked import REPOSITORY

pytestmark = [pytest.mark.extras, pytest.mark.timeout(600)]
ray = pytest.importorskip("ray")

STEPS = 150
# Each step is seen by a hook that takes its time: a node is killed in the middle.
TRAINING = f"""
import json, os, sys, time
import estimand as est
from tests.estimator.lifecycle import line

class Slowly(est.SessionRunHook):
    def after_run(self, run_context, run_values):
        time.sleep(0.1)

task = json.loads(os.environ["TF_CONFIG"])["task"]
with open("-".join(["ran", task["type"], str(task["index"]), str(os.getpid())]), "w") as file:
    file.write(str(os.getppid()))
est.train_and_evaluate(
    line.estimator("model", progress=False, save_checkpoints_steps=5),
    est.TrainSpec(line.train_input_fn, max_steps={STEPS}, hooks=[Slowly()]),
    est.EvalSpec(line.eval_input_fn, start_delay_secs=0, throttle_secs=0),
)
"""
ENVIRONMENT = {"PYTHONPATH": str(REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "3"}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Of four nodes, one more than are needed for a process each, and one that only coordinates.

    It is the node of whoever launches: lost, it takes all actors with it, as its machine would.
    """
    from ray.cluster_utils import Cluster

    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONBREAKPOINT", "0")  # Ray sets it, and leaves it so
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(4):
        made.add_node(num_cpus=1)
    yield made
    made.shutdown()


def launch(cluster: Any, folder: Path, *options: str) -> subprocess.Popen[str]:
    (folder / "program.py").write_text(TRAINING)
    command = [sys.executable, "-m", "estimand", "launch", f"--ray={cluster.address}"]
    return subprocess.Popen(
        [*command, "--restart", "2", *options, "program.py"],
        cwd=folder,
        env={**os.environ, **ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def newest_step(folder: Path) -> int:
    names = [path.stem for path in folder.glob("model/model.ckpt-*.index")]
    return max((int(name.rpartition("-")[2]) for name in names), default=0)


def wait_for_step(job: subprocess.Popen[str], folder: Path, step: int) -> None:
    deadline = time.monotonic() + 300
    while newest_step(folder) < step:
        assert job.poll() is None, job.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def kill_node_of(cluster: Any, pid: int) -> None:
    """The raylet that has started the actor `pid`, and all that it has started."""
    raylet = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    [node] = [node for node in cluster.list_all_nodes() if raylet in raylets(node)]
    started = Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split()
    for process in (*raylets(node), *map(int, started)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def raylets(node: Any) -> list[int]:
    return [info.process.pid for info in node.all_processes.get("raylet", [])]


@pytest.mark.parametrize("servers", [(), ("--ps", "1")], ids=["together", "parameter servers"])
def test_a_role_is_started_again_on_another_node(
    cluster: Any, tmp_path: Path, servers: tuple[str, ...]
) -> None:
    job = launch(cluster, tmp_path, "--workers", "1", *servers)
    wait_for_step(job, tmp_path, 10)
    [ran] = tmp_path.glob("ran-worker-0-*")
    kill_node_of(cluster, int(ran.read_text()))
    out, _ = job.communicate(timeout=400)
    assert job.returncode == 0, out
    assert "The machine of worker 0 is lost: another is looked for." in out
    assert len(list(tmp_path.glob("ran-worker-0-*"))) == 2, out
    reader = tf.train.load_checkpoint(str(tmp_path / "model"))
    assert reader.get_tensor("global_step") == STEPS
    # Servers begin their input anew; a team goes on with the batch that comes next.
    exactly = {"abs": 0.1} if servers else {"rel": 1e-5}
    expected = line.weight_after(STEPS, line.ROWS_PER_BATCH * (1 if servers else 2))
    assert reader.get_tensor("w")[0, 0] == pytest.approx(expected, **exactly)


def test_a_loop_of_ray_train_is_a_cluster_as_any_other(cluster: Any, tmp_path: Path) -> None:
    """Its TF_CONFIG has workers and no chief; each sees its part of the input."""
    pytest.importorskip("pydantic", reason="ray.train needs ray[train]")
    from ray.train import RunConfig, ScalingConfig
    from ray.train.tensorflow import TensorflowTrainer

    ray.init(cluster.address, runtime_env={"env_vars": ENVIRONMENT}, log_to_driver=False)
    try:
        trainer = TensorflowTrainer(
            loop,
            train_loop_config={"model_dir": str(tmp_path / "model")},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(storage_path=str(tmp_path / "ray")),
        )
        trainer.fit()
    finally:
        ray.shutdown()
    reader = tf.train.load_checkpoint(str(tmp_path / "model"))
    assert reader.get_tensor("global_step") == 6
    assert reader.get_tensor("w")[0, 0] == pytest.approx(line.weight_after(6, 2 * 2), rel=1e-5)


def loop(config: dict[str, str]) -> None:
    """As a user's program has it."""
    import estimand as est
    from tests.estimator.lifecycle import line

    est.train_and_evaluate(
        line.estimator(config["model_dir"], progress=False),
        est.TrainSpec(line.train_input_fn, max_steps=6),
        est.EvalSpec(line.eval_input_fn, throttle_secs=0),
    )
