"""`estimand launch --ray`, on a Ray cluster of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.estimator.lifecycle import line
from tests.forked import REPOSITORY

pytestmark = [pytest.mark.extras, pytest.mark.timeout(400)]
pytest.importorskip("ray")

SMALL = """
import glob, json, os, sys, time
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
print("begins with", sorted(config["cluster"]), flush=True)
open(f"{task['type']}-{task['index']}-{os.getpid()}", "w").close()
if task["type"] == sys.argv[1]:
    while len(glob.glob("*-0-*")) < sum(map(len, config["cluster"].values())):
        time.sleep(0.1)
    time.sleep(2)  # what the others print is on its way
    sys.exit(int(sys.argv[2]))
time.sleep(float(sys.argv[3]))
"""
TRAINING = """
import estimand as est
from tests.estimator.lifecycle import line

est.train_and_evaluate(
    line.estimator({model_dir!r}, progress=False),
    est.TrainSpec(line.train_input_fn, max_steps=6),
    est.EvalSpec(line.eval_input_fn, start_delay_secs=0, throttle_secs=0),
)
print("the program goes on")
"""


def launch(folder: Path, program: str, *arguments: str) -> subprocess.Popen[str]:
    (folder / "program.py").write_text(program)
    options, of_program = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    return subprocess.Popen(
        [sys.executable, "-m", "estimand", "launch", *options, "--ray=local", "program.py",
         *of_program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip


def test_each_role_runs_and_the_job_ends_with_the_first_failure(tmp_path: Path) -> None:
    done = launch(tmp_path, SMALL, "--workers", "1", "--ps", "1", "--", "worker", "7", "100")
    out, _ = done.communicate(timeout=200)
    assert done.returncode == 7, out
    for who in ("[chief]    ", "[worker 0] ", "[ps 0]     "):
        assert f"{who}begins with ['chief', 'ps', 'worker']" in out, out
    assert "[launch] worker 0 ended with exit code 7." in out
    assert_gone(tmp_path)


def test_nothing_outlives_a_launcher_that_is_killed(tmp_path: Path) -> None:
    job = launch(tmp_path, SMALL, "--workers", "1", "--", "nobody", "0", "1000")
    deadline = time.monotonic() + 200
    while len(list(tmp_path.glob("*-0-*"))) < 2:
        assert job.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    job.send_signal(signal.SIGKILL)
    job.wait()
    assert_gone(tmp_path)


def assert_gone(folder: Path) -> None:
    pids = [int(path.name.rpartition("-")[2]) for path in folder.glob("*-0-*")]
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, "a process outlives its job"
        time.sleep(0.1)


@pytest.mark.parametrize("servers", [(), ("--ps", "1")], ids=["together", "parameter servers"])
def test_a_model_is_trained(tmp_path: Path, servers: tuple[str, ...]) -> None:
    model_dir = tmp_path / "model"
    program = TRAINING.format(model_dir=str(model_dir))
    job = launch(tmp_path, program, "--workers", "1", *servers, "--evaluator", "--")
    out, _ = job.communicate(timeout=380)
    assert job.returncode == 0, out
    assert "[chief]     the program goes on" in out
    assert "[evaluator] the program goes on" in out
    assert line.evaluated_steps(line.estimator(model_dir))[-1] == 6
