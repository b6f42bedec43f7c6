"""A relative model_dir is that of the moment the estimator was made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import estimand as est
from estimand.engine.events import event_files
from estimand.engine.model_dir import holds_lock
from tests.line import batches, checkpoint_steps, config, endless, model_fn


class ChangeDirectory(est.SessionRunHook):
    def __init__(self, to: Path) -> None:
        self._to = to

    def after_run(self, run_context: Any, run_values: Any) -> None:
        os.chdir(self._to)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.parametrize("eagerly", [False, True])
@pytest.mark.parametrize("given", ["model", "./model", "sub/../model", Path("model")])
def test_everything_stays_in_one_place(here: Path, given: Any, eagerly: bool) -> None:
    there = here.with_name("there")
    (here / "sub").mkdir()
    made = est.Estimator(
        model_fn,
        given,
        config(save_checkpoints_steps=2, keep_checkpoint_max=0, run_eagerly=eagerly),
    )
    hooks = [ChangeDirectory(there), est.StepCounterHook(1, output_dir="counts")]
    made.train(endless, max_steps=5, hooks=hooks)
    assert Path.cwd() == there
    assert not holds_lock(here / "model")
    made.evaluate(batches)
    made.train(endless, max_steps=7)
    os.chdir(here)
    made.train(endless, max_steps=9)
    assert checkpoint_steps(here / "model") == [0, 2, 4, 5, 7, 9]
    assert list(there.iterdir()) == []
    assert len(event_files(here / "model" / "eval")) == 1
    assert len(event_files(here / "counts")) == 1


def test_saver_hook_with_a_relative_directory_stays_there(here: Path) -> None:
    there = here.with_name("there")
    saver = est.CheckpointSaverHook("copies", save_steps=2)
    made = est.Estimator(model_fn, "model", config())
    made.train(endless, max_steps=5, hooks=[ChangeDirectory(there), saver])
    assert checkpoint_steps(here / "copies") == [0, 2, 4, 5]
    assert list(there.iterdir()) == []


def test_train_and_evaluate_stays_there(here: Path) -> None:
    there = here.with_name("there")
    made = est.Estimator(model_fn, "model", config(save_checkpoints_steps=2))
    hooks = [ChangeDirectory(there)]
    est.train_and_evaluate(
        made,
        est.TrainSpec(endless, max_steps=4, hooks=hooks),
        est.EvalSpec(batches, steps=None, throttle_secs=0, every_n_steps=2),
    )
    assert checkpoint_steps(here / "model") == [0, 2, 4]
    assert list(there.iterdir()) == []


def test_one_directory_under_two_names_is_one(here: Path) -> None:
    """Of two writers, each would list, and remove, only what it wrote itself."""
    made = est.Estimator(model_fn, "model", config(keep_checkpoint_max=2))
    (here / "model").mkdir()
    (here / "link").symlink_to(here / "model")
    savers = [est.CheckpointSaverHook(name, save_steps=2) for name in ("link", "model")]
    made.train(endless, max_steps=8, hooks=savers)
    assert checkpoint_steps(here / "model") == [6, 8]
    assert made.evaluate(batches)["global_step"] == 8


def test_given_twice_a_directory_may_be_spelled_in_two_ways(here: Path) -> None:
    first = est.Estimator(model_fn, "model/", config())
    assert first.model_dir == f"{here}/model/"
    assert est.Estimator(model_fn, "model/", first.config).model_dir == first.model_dir
