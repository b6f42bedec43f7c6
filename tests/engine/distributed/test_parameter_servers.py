"""Training with parameter servers: real processes on this machine, some of them killed."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.cluster.addresses import free_ports
from estimand.core.errors import InputError
from estimand.engine.distributed.parameter_servers_input import as_graph
from tests.engine.distributed import served_models

pytestmark = pytest.mark.slow

_SECONDS = 240
_BATCHES = 6  # 48 rows in batches of 8


class Processes:
    """Forks of one process that has imported everything."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.distributed.served_program"],
            cwd=Path(__file__).parents[3],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **{k: v for k, v in os.environ.items() if k != "TF_CONFIG"},
                "MALLOC_MMAP_THRESHOLD_": str(1 << 20),  # what is freed is no longer counted
            },
        )
        assert self._parent.stdout.readline() == "ready\n"

    def ask(self, command: dict):
        self._parent.stdin.write(json.dumps(command) + "\n")
        self._parent.stdin.flush()
        return json.loads(self._parent.stdout.readline())

    def close(self) -> None:
        self._parent.stdin.close()
        self._parent.wait(30)
        self._parent.stdout.close()


@pytest.fixture(scope="module")
def processes():
    made = Processes()
    yield made
    made.close()


class Cluster:
    """A chief, workers and parameter servers that run one training."""

    def __init__(
        self, processes: Processes, folder: Path, *, workers=2, ps=1, at_once=True, **settings
    ) -> None:
        self.model_dir = str(folder / "model")
        self._processes, self._folder, self._at_once = processes, folder, at_once
        self._settings = {"model_dir": self.model_dir, **settings}
        places = [f"127.0.0.1:{port}" for port in free_ports(1 + workers + ps)]
        self._cluster = {"chief": places[:1], "worker": places[1 : 1 + workers]}
        self._cluster["ps"] = places[1 + workers :]
        self.ids: dict[tuple[str, int], int] = {}
        for role, addresses in self._cluster.items():
            for index in range(len(addresses)):
                self.start(role, index)

    def start(self, role: str, index: int = 0, **changed) -> None:
        self._settings |= changed
        task = {"type": role, "index": index}
        environment = {
            "TF_CONFIG": json.dumps({"cluster": self._cluster, "task": task}),
            "ESTIMAND_CLUSTER_TIMEOUT_SECS": "60",
        }
        log = str(self._folder / f"{role}{index}.log")
        command = {"environment": environment, "log": log, "settings": self._settings}
        self.ids[role, index] = self._processes.ask({**command, "at_once": self._at_once})

    def kill(self, role: str, index: int = 0) -> None:
        os.kill(self.ids[role, index], signal.SIGKILL)
        assert self.exit_code(role, index) == -signal.SIGKILL

    def exit_code(self, role: str, index: int = 0) -> int | None:
        return self._processes.ask({"wait": self.ids[role, index], "seconds": _SECONDS})

    def log(self, role: str, index: int = 0) -> str:
        return (self._folder / f"{role}{index}.log").read_text()

    def told(self, what: str, role: str, index: int = 0) -> int:
        """The last number that a process has printed as `what`."""
        return int(re.findall(rf"{what}: (\d+)", self.log(role, index))[-1])

    def wait_for_step(self, step: int) -> None:
        end = time.monotonic() + _SECONDS
        while (newest_step(self.model_dir) or 0) < step:
            assert time.monotonic() < end, self.log("chief")
            time.sleep(0.05)

    def wait_for_log(self, role: str, text: str) -> None:
        end = time.monotonic() + _SECONDS
        while text not in self.log(role):
            assert time.monotonic() < end, self.log(role)
            time.sleep(0.05)

    def ends_well(self) -> None:
        codes = {task: self.exit_code(*task) for task in self.ids}
        assert set(codes.values()) == {0}, (codes, self.log("chief"))


def newest_step(model_dir: str) -> int | None:
    names = " ".join(glob.glob(f"{model_dir}/model.ckpt-*.index"))
    return max(map(int, re.findall(r"ckpt-(\d+)\.index", names)), default=None)


def alone(model: str, model_dir: str, max_steps: int) -> est.Estimator:
    config = est.RunConfig(model_dir=model_dir, tf_random_seed=7, log_step_count_steps=None)
    estimator = served_models.ESTIMATORS[model](config)
    return estimator.train(served_models.input_fn(8), max_steps=max_steps)


def shapes(model_dir: str) -> dict[str, list[int]]:
    return dict(tf.train.list_variables(tf.train.latest_checkpoint(model_dir)))


def values(model_dir: str) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(model_dir)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def loss(estimator: est.Estimator) -> float:
    return float(estimator.evaluate(served_models.input_fn(8, repeat=False))["loss"])


def test_a_lost_worker_comes_back_and_partitioned_training_ends_as_in_one_process(
    processes, tmp_path
):
    """Begun in one process, gone on with in parts on two servers, and ended in one process."""
    model_dir = str(tmp_path / "model")
    alone("regression", model_dir, 20)
    before = shapes(model_dir)
    settings = {"model": "regression", "max_steps": 600, "shards": 2, "save_every": 100}
    cluster = Cluster(processes, tmp_path, workers=2, ps=2, **settings)
    cluster.wait_for_step(100)
    cluster.kill("worker", 0)
    at_loss = newest_step(model_dir)
    cluster.wait_for_step(at_loss + 100)  # the other one never stops
    cluster.start("worker", 0)
    cluster.ends_well()
    assert newest_step(model_dir) == 600
    assert "parts of the table: 2" in cluster.log("chief")
    assert shapes(model_dir) == before
    served = alone("regression", model_dir, 601)
    expected = alone("regression", str(tmp_path / "alone"), 601)
    assert loss(served) == pytest.approx(loss(expected), rel=0.05)


def test_a_lost_chief_and_a_lost_server_go_on_from_the_checkpoint(processes, tmp_path):
    settings = {"model": "regression", "max_steps": 900, "save_every": 50}
    cluster = Cluster(processes, tmp_path, workers=1, **settings)
    cluster.wait_for_step(50)
    cluster.kill("chief")
    reached = newest_step(cluster.model_dir)
    cluster.start("chief")
    cluster.wait_for_step(reached + 50)
    assert reached + 50 <= newest_step(cluster.model_dir) < 900
    cluster.kill("worker")  # both at once: nobody is left to stumble over the lost server
    cluster.kill("ps")
    assert cluster.exit_code("chief") == 1
    assert re.search(
        r"ClusterError: Training cannot go on: ps 0 at 127.0.0.1:\d+ was lost, and the variables "
        "with it. The last checkpoint is intact",
        cluster.log("chief"),
    )
    for role in ("worker", "ps", "chief"):
        cluster.start(role)
    cluster.ends_well()
    assert newest_step(cluster.model_dir) == 900


def test_a_server_that_is_told_to_end_has_the_chief_save_first(processes, tmp_path):
    """As where a machine is taken away; all that was trained is there when it comes back."""
    settings = {"model": "regression", "max_steps": 100_000, "save_every": 1_000_000}
    cluster = Cluster(processes, tmp_path, workers=1, ps=2, at_once=False, **settings)
    cluster.wait_for_log("chief", "training  ")  # the line that counts steps
    os.kill(cluster.ids["ps", 1], signal.SIGTERM)
    assert cluster.exit_code("chief") == cluster.exit_code("ps", 1) == 128 + signal.SIGTERM
    reached = newest_step(cluster.model_dir)
    assert reached > 0
    assert values(cluster.model_dir)["global_step"] == reached
    for role, index in (("ps", 1), ("chief", 0)):
        cluster.start(role, index, max_steps=reached + 50)
    cluster.ends_well()
    assert newest_step(cluster.model_dir) == reached + 50


@pytest.mark.parametrize("model", ["tables", "columns", "keras_optimizer", "converted"])
def test_one_worker_computes_what_one_process_does(processes, tmp_path, model):
    """Variables of every style, in parts on two servers, after the same steps."""
    expected = str(tmp_path / "alone")
    estimator = alone(model, expected, _BATCHES)
    shutil.copytree(expected, tmp_path / "model")
    estimator.train(served_models.input_fn(8), max_steps=2 * _BATCHES)
    steps = 2 * _BATCHES
    cluster = Cluster(processes, tmp_path, workers=1, ps=2, model=model, max_steps=steps, shards=2)
    cluster.ends_well()
    found, wanted = values(cluster.model_dir), values(expected)
    assert found["global_step"] == steps
    assert found.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("optimizer", served_models.OPTIMIZERS)
def test_of_a_large_table_only_rows_travel(processes, tmp_path, optimizer):
    """Whatever the optimizer keeps for it, and does to the rows that a batch did not look up."""
    model, steps = f"large_{optimizer}", 2 * _BATCHES
    expected = str(tmp_path / "alone")
    estimator = alone(model, expected, _BATCHES)
    shutil.copytree(expected, tmp_path / "model")
    estimator.train(served_models.input_fn(8), max_steps=steps)
    cluster = Cluster(processes, tmp_path, workers=1, ps=2, model=model, max_steps=steps, shards=2)
    cluster.ends_well()
    found, wanted = values(cluster.model_dir), values(expected)
    assert found.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-7, err_msg=name)
    sent = cluster.told("bytes on the wire", "worker")
    assert 0 < sent < 4 * np.prod(served_models.LARGE) / 4  # in all steps together


def test_no_process_holds_the_whole_of_a_table_in_parts(processes, tmp_path):
    """Made, saved and restored on four servers, in other parts, and exported."""
    size, files = 4 * np.prod(served_models.HUGE), []
    for shards, steps in ((16, 3), (12, 6)):
        settings = {"model": "huge", "max_steps": steps, "shards": shards}
        settings["export"] = str(tmp_path / "export")
        cluster = Cluster(processes, tmp_path, workers=1, ps=4, **settings)
        cluster.ends_well()
        held = {task: cluster.told("bytes more than at the start", *task) for task in cluster.ids}
        without_tables = held["worker", 0]
        assert max(held.values()) - without_tables < size / 2, held
        files = os.listdir(cluster.model_dir)
    reader = tf.train.load_checkpoint(cluster.model_dir)
    table = reader.get_tensor("huge")
    assert reader.get_tensor("global_step") == 6
    assert table.shape == served_models.HUGE
    assert -0.1 <= table[100:].min() < -0.09 < 0.09 < table[100:].max() <= 0.1
    assert sum(name.startswith("model.ckpt-6.data") for name in files) >= 4
    exported = tf.saved_model.load(max(glob.glob(str(tmp_path / "export/*"))))
    rows = np.array([0, 4, 1_999_999, 3_999_999])
    answer = exported.signatures["serving_default"](kind=tf.constant(rows))["logits"]
    np.testing.assert_allclose(answer[:, 0], table[rows].sum(axis=1), rtol=1e-5, atol=1e-6)


def test_training_ends_with_the_input_and_hooks_see_every_step(processes, tmp_path):
    seen = str(tmp_path / "seen.json")
    settings = {"model": "regression", "repeat": False, "watch": seen}
    cluster = Cluster(processes, tmp_path, at_once=False, **settings)
    cluster.ends_well()
    assert newest_step(cluster.model_dir) == _BATCHES  # three for each worker
    assert json.loads(Path(seen).read_text()) == [0, 1, 2, 3, 4, 5]


def test_an_input_that_runs_python_cannot_be_sent_to_workers():
    dataset = tf.data.Dataset.from_generator(
        lambda: iter([1.0]), output_signature=tf.TensorSpec([])
    )
    with pytest.raises(InputError, match="runs Python code in its pipeline"):
        as_graph(dataset, lambda: dataset)


def test_a_pipeline_sent_as_a_graph_gives_the_same_elements():
    dataset = tf.data.Dataset.range(20).shuffle(20, seed=3).map(lambda x: x * x).batch(4)
    graph = as_graph(dataset, lambda: dataset)
    again = tf.data.experimental.from_variant(
        tf.raw_ops.DatasetFromGraph(graph_def=graph), dataset.element_spec
    )
    rows = [int(x) for batch in again for x in batch]
    assert sorted(rows) == [x * x for x in range(20)]
    assert rows != sorted(rows)
