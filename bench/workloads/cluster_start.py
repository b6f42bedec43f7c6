"""From `estimand launch` to the first training step, and to the end of all processes."""

from __future__ import annotations

import functools
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from environments import PROJECT
from turns import Turns
from workload import Contestant, Measure, Workload

_PROGRAM = """
import os, sys, time

sys.path[:0] = [{bench!r}]
import estimand as est
import tensorflow as tf
from workloads import dnn


class FirstStep(est.SessionRunHook):
    def after_run(self, run_context, run_values):
        if estimator.config.is_chief and not os.path.exists("first_step"):
            with open("unfinished", "w") as file:
                file.write(repr(time.time()))
            os.rename("unfinished", "first_step")


estimator = est.Estimator(dnn.v1_model_fn(tf, est), model_dir="model")
est.train_and_evaluate(
    estimator,
    est.TrainSpec(lambda: dnn.dataset(tf), max_steps=2, hooks=[FirstStep()]),
    est.EvalSpec(lambda: dnn.dataset(tf), steps=1),
)
"""


def run(turns: Turns, command: list[str]) -> None:
    folder = Path(tempfile.mkdtemp())
    (folder / "program.py").write_text(
        _PROGRAM.format(bench=str(Path(__file__).resolve().parents[1]))
    )
    began = time.time()
    subprocess.run([sys.executable, *command, "program.py"], cwd=folder, check=True, stdout=2)
    first_step = float((folder / "first_step").read_text())
    ended = time.time()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    turns.report(first_step=first_step - began, end=ended - began, cpu=cpu)
    os._exit(0)


_ALONE = "one process"


def _launched(name: str, *options: str) -> Contestant:
    command = ["-m", "estimand", "launch", *options]
    return Contestant(name, PROJECT, functools.partial(run, command=command))


WORKLOAD = Workload(
    title="From estimand launch to the first step",
    contestants=[
        Contestant(_ALONE, PROJECT, functools.partial(run, command=[])),
        _launched("1 worker and 1 parameter server", "--workers", "1", "--ps", "1"),
        _launched("chief and 1 worker, in step", "--workers", "1"),
        _launched("chief and 2 workers, in step", "--workers", "2"),
    ],
    baseline=[_ALONE],
    measures=[
        Measure("first_step", "start to the first step", "s", "seconds"),
        Measure("end", "start to the end of all processes, after 2 steps", "s", "seconds"),
        Measure("cpu", "their processor time until then", "s", "seconds"),
    ],
    rounds=6,
    quick_rounds=2,
    fresh_process=True,
)
