"""Real jobs through `estimand launch`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from estimand.hooks import stop_record
from tests.estimator.lifecycle import line

PROGRAM = """
import sys
sys.path.insert(0, {root!r})
import tensorflow as tf
import estimand as est
from tests.estimator.lifecycle import line

tf.get_logger().setLevel("INFO")
est.train_and_evaluate(
    line.estimator({model_dir!r}, progress=False),
    est.TrainSpec(lambda: line.train_input_fn().take(9)),  # ends before any max_steps
    est.EvalSpec(line.eval_input_fn, start_delay_secs=0, throttle_secs=0),
)
print("the program goes on")
"""


@pytest.mark.slow
def test_chief_worker_and_evaluator_all_end_when_training_has(tmp_path: Path) -> None:
    model_dir = tmp_path / "model"
    program = tmp_path / "program.py"
    root = str(Path(__file__).resolve().parents[2])
    program.write_text(PROGRAM.format(root=root, model_dir=str(model_dir)))
    done = subprocess.run(
        [sys.executable, "-m", "estimand", "launch", "--workers", "1", "--evaluator", str(program)],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert "[chief]     the program goes on" in lines
    assert "[worker 0]  the program goes on" in lines
    assert "[evaluator] the program goes on" in lines
    record = stop_record.read(model_dir)
    # Five batches for the one and four for the other, who train together.
    assert record is not None and record.step == 4
    assert line.evaluated_steps(line.estimator(model_dir))[-1] == 4
