"""Killed or interrupted, and started again: it goes on, with no evaluation lost or repeated."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

from estimand.engine.checkpoints.api import checkpoint_step
from estimand.hooks.eval_metrics import read_eval_metrics
from tests.estimator.lifecycle import line
from tests.estimator.lifecycle.programs import train_and_evaluate
from tests.integration.processes import child, run, wait_until


def assert_complete(model_dir: Path, steps: list[int]) -> None:
    model = line.estimator(model_dir)
    assert line.evaluated_steps(model) == steps
    results = read_eval_metrics(model.eval_dir())
    np.testing.assert_allclose(
        [results[s]["loss"] for s in steps], [line.loss_after(s) for s in steps], rtol=1e-5
    )
    np.testing.assert_allclose(
        model.get_variable_value("w"), line.weight_after(steps[-1]), rtol=1e-5
    )


@pytest.mark.slow
def test_killed_between_two_evaluations_it_repeats_none(tmp_path: Path) -> None:
    model = line.estimator(tmp_path / "model")
    with child(
        train_and_evaluate, str(tmp_path / "model"), 15, holds_at=8, log=tmp_path / "log"
    ) as life:
        # Both: an evaluation whose checkpoint never got to the disk is not of a checkpoint.
        wait_until(lambda: 6 in line.evaluated_steps(model), life)
        wait_until(lambda: checkpoint_step(model.latest_checkpoint() or "x-0") >= 6, life)
    assert line.evaluated_steps(model) == [3, 6]
    run(train_and_evaluate, str(tmp_path / "model"), 15, log=tmp_path / "log")
    assert_complete(tmp_path / "model", [3, 6, 9, 12, 15])


@pytest.mark.slow
def test_killed_in_an_evaluation_it_makes_up_for_it(tmp_path: Path) -> None:
    model_dir = str(tmp_path / "model")
    with child(train_and_evaluate, model_dir, 12, dies_evaluating=6, log=tmp_path / "log") as life:
        assert life.wait() == -signal.SIGKILL
    assert line.evaluated_steps(line.estimator(model_dir)) == [3]
    run(train_and_evaluate, model_dir, 12, log=tmp_path / "log")
    assert_complete(tmp_path / "model", [3, 6, 9, 12])


@pytest.mark.slow
def test_told_to_end_it_saves_and_does_not_begin_another_evaluation(tmp_path: Path) -> None:
    model = line.estimator(tmp_path / "model")
    with child(
        train_and_evaluate, str(tmp_path / "model"), 60, holds_at=4, log=tmp_path / "log"
    ) as life:
        wait_until(lambda: "holds" in life.printed, life)
        life.send(signal.SIGTERM)
        assert life.wait() == 128 + signal.SIGTERM
    assert int(model.get_variable_value("global_step")) == 4
    assert line.evaluated_steps(model) == [3]
