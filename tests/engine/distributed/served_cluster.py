"""Clusters with parameter servers for tests: forks of one process that has imported everything."""

from __future__ import annotations

import glob
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

import estimand as est
from estimand.cluster.addresses import LOOPBACK, free_ports
from tests.engine.distributed import served_models
from tests.engine.distributed.network import Network

SECONDS = 240


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


class Cluster:
    """A chief, workers and parameter servers that run one training.

    On this machine, or each on the host of a network that has its name: chief0, worker1.
    """

    def __init__(
        self,
        processes: Processes,
        folder: Path,
        *,
        workers=2,
        ps=1,
        at_once=True,
        network: Network | None = None,
        min_workers: int | None = None,
        **settings,
    ) -> None:
        self.model_dir = str(folder / "model")
        self._processes, self._folder, self._at_once = processes, folder, at_once
        self._network, self._min_workers = network, min_workers
        self._settings = {"model_dir": self.model_dir, **settings}
        ports = iter(free_ports(1 + workers + ps))
        self._cluster = {
            role: [f"{self._host(role, index)}:{next(ports)}" for index in range(count)]
            for role, count in (("chief", 1), ("worker", workers), ("ps", ps))
        }
        self.ids: dict[tuple[str, int], int] = {}
        for role, addresses in self._cluster.items():
            begin = min_workers if role == "worker" and min_workers else len(addresses)
            for index in range(begin):
                self.start(role, index)

    def _host(self, role: str, index: int) -> str:
        return LOOPBACK if self._network is None else self._network.addresses[f"{role}{index}"]

    def move(self, role: str, index: int) -> None:
        """To another address, of which only those learn that are started from now on."""
        self._cluster[role][index] = f"{self._host(role, index)}:{free_ports(1)[0]}"

    def start_unnamed_worker(self, index: int) -> None:
        """One of which nobody else was told, and which knows of no other."""
        known = self._cluster["worker"]
        self._cluster["worker"] = {index: f"{LOOPBACK}:{free_ports(1)[0]}"}
        self.start("worker", index)
        self.unnamed = self._cluster["worker"][index]
        self._cluster["worker"] = known

    def start(self, role: str, index: int = 0, **changed) -> None:
        self._settings |= changed
        task = {"type": role, "index": index}
        told = {"cluster": self._cluster, "task": task, "min_workers": self._min_workers}
        environment = {
            "TF_CONFIG": json.dumps(told),
            "ESTIMAND_CLUSTER_TIMEOUT_SECS": "60",
        }
        log = str(self._folder / f"{role}{index}.log")
        command = {"environment": environment, "log": log, "settings": self._settings}
        command["log_level"] = "WARNING" if self._min_workers is None else "INFO"
        if self._network is not None:
            command["namespace"] = self._network.namespaces[f"{role}{index}"]
        self.ids[role, index] = self._processes.ask({**command, "at_once": self._at_once})

    def kill(self, role: str, index: int = 0) -> None:
        os.kill(self.ids[role, index], signal.SIGKILL)
        assert self.exit_code(role, index) == -signal.SIGKILL

    def exit_code(self, role: str, index: int = 0) -> int | None:
        return self._processes.ask({"wait": self.ids[role, index], "seconds": SECONDS})

    def log(self, role: str, index: int = 0) -> str:
        return (self._folder / f"{role}{index}.log").read_text()

    def told(self, what: str, role: str, index: int = 0) -> int:
        """The last number that a process has printed as `what`."""
        return int(re.findall(rf"{what}: (\d+)", self.log(role, index))[-1])

    def wait_for_step(self, step: int) -> None:
        end = time.monotonic() + SECONDS
        while (newest_step(self.model_dir) or 0) < step:
            assert time.monotonic() < end, self.log("chief")
            time.sleep(0.05)

    def wait_for_log(self, role: str, text: str) -> None:
        end = time.monotonic() + SECONDS
        while text not in self.log(role):
            assert time.monotonic() < end, self.log(role)
            time.sleep(0.05)

    def wait_until_takes_part(self, index: int) -> None:
        """A worker that came later, or back."""
        named = self._cluster["worker"]
        address = named[index] if index < len(named) else self.unnamed
        self.wait_for_log("chief", f"worker {index} at {address} takes part")

    def ends_well(self) -> None:
        codes = {task: self.exit_code(*task) for task in self.ids}
        assert set(codes.values()) == {0}, (codes, self.log("chief"))


def newest_step(model_dir: str) -> int | None:
    names = " ".join(glob.glob(f"{model_dir}/model.ckpt-*.index"))
    return max(map(int, re.findall(r"ckpt-(\d+)\.index", names)), default=None)


def alone(model: str, model_dir: str, max_steps: int, input_fn=None) -> est.Estimator:
    config = est.RunConfig(model_dir=model_dir, tf_random_seed=7, log_step_count_steps=None)
    estimator = served_models.ESTIMATORS[model](config)
    return estimator.train(input_fn or served_models.input_fn(8), max_steps=max_steps)


def values(model_dir: str) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(model_dir)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def loss(estimator: est.Estimator) -> float:
    return float(estimator.evaluate(served_models.input_fn(8, repeat=False))["loss"])
