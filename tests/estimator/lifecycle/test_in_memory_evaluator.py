"""`est.experimental.InMemoryEvaluatorHook`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import estimand as est
from estimand.engine.events import read_scalars
from tests.estimator.lifecycle import line


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_evaluates_at_start_every_n_steps_and_at_the_end(tmp_path: Path, run_eagerly: bool) -> None:
    model = line.estimator(tmp_path, save_checkpoints_steps=100, run_eagerly=run_eagerly)
    hook = est.experimental.InMemoryEvaluatorHook(model, line.eval_input_fn, every_n_iter=4)
    model.train(line.train_input_fn, max_steps=10, hooks=[hook])
    found = read_scalars(model.eval_dir())["loss"]
    assert [step for step, _ in found] == [0, 4, 8, 10]
    np.testing.assert_allclose(
        [loss for _, loss in found], [line.loss_after(s) for s in (0, 4, 8, 10)], rtol=1e-5
    )
    np.testing.assert_allclose(model.get_variable_value("w"), line.weight_after(10), rtol=1e-5)


def test_works_where_no_checkpoint_is_saved(tmp_path: Path) -> None:
    model = line.estimator(tmp_path, save_checkpoints_steps=None, save_checkpoints_secs=None)
    hook = est.experimental.InMemoryEvaluatorHook(
        model, line.eval_input_fn, steps=1, name="live", every_n_iter=5
    )
    model.train(line.train_input_fn, max_steps=5, hooks=[hook])
    [_, (step, loss)] = read_scalars(model.eval_dir("live"))["loss"]
    error = line.weight_after(5) * line.X - line.Y
    assert step == 5
    np.testing.assert_allclose(loss, np.mean(error[:4] ** 2), rtol=1e-5)


@pytest.mark.parametrize("every_n_iter", [0, -1, None])
def test_needs_a_number_of_steps(tmp_path: Path, every_n_iter: Any) -> None:
    with pytest.raises(ValueError, match=rf"invalid every_n_iter={every_n_iter}."):
        est.experimental.InMemoryEvaluatorHook(
            line.estimator(tmp_path), line.eval_input_fn, every_n_iter=every_n_iter
        )


def test_is_for_a_single_machine(tmp_path: Path, monkeypatch: Any) -> None:
    cluster = {"chief": ["h:1"], "worker": ["h:2"]}
    config = {"cluster": cluster, "task": {"type": "chief", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(ValueError, match=r"supports only single machine"):
        est.experimental.InMemoryEvaluatorHook(line.estimator(tmp_path), line.eval_input_fn)
