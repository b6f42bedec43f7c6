"""Searches: what they find, what they end early, and that they go on after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.tuning import studies, trials
from estimand.tuning.space import Space
from estimand.tuning.studies import StudyOnDisk

optuna = pytest.importorskip("optuna")
pytestmark = pytest.mark.extras

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = """
import os, signal
import tensorflow as tf
import estimand as est

LOADED = open("loaded.txt", "a").write("once\\n")

def input_fn():
    return tf.data.Dataset.from_tensors(({"x": [[1.0]]}, [[1.0]])).repeat()

def model_fn(features, labels, mode, params):
    seen = tf.compat.v1.get_variable("seen", initializer=0.0)
    loss = tf.square(params["x"] - 2.0) + 0.0 * tf.reduce_sum(features["x"]) * seen
    step = tf.compat.v1.train.get_global_step()
    train_op = tf.group(step.assign_add(1), seen.assign_add(1.0))
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

def make_experiment(model_dir="unused", steps=6, params={"x": 0.0}):
    config = est.RunConfig(save_checkpoints_steps=2, progress=False)
    estimator = est.Estimator(model_fn, model_dir, config, params)
    return (
        estimator,
        est.TrainSpec(input_fn, max_steps=steps, hooks=[KilledOnce()]),
        est.EvalSpec(input_fn, steps=1, throttle_secs=0),
    )

class KilledOnce(est.SessionRunHook):
    def before_run(self, context):
        return est.SessionRunArgs(tf.compat.v1.train.get_global_step())
    def after_run(self, context, values):
        if values.results == 4 and os.path.exists("kill"):
            os.remove("kill")
            os.kill(os.getpid(), signal.SIGKILL)
"""


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(({"x": [[1.0]]}, [[1.0]])).repeat()


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> est.EstimatorSpec:
    """A model that is as bad as its parameter says, and learns nothing."""
    loss = tf.square(params["x"] - 2.0) + 0.0 * tf.reduce_sum(features["x"])
    train_op = tf.compat.v1.train.get_global_step().assign_add(1)
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def make(values: dict[str, Any], model_dir: str) -> Any:
    config = est.RunConfig(save_checkpoints_steps=2, progress=False)
    return (
        est.Estimator(model_fn, model_dir, config, values),
        est.TrainSpec(input_fn, max_steps=4),
        est.EvalSpec(input_fn, steps=1, throttle_secs=0),
    )


def test_grid_tries_all_and_writes_table_page_and_hparams(tmp_path: Path) -> None:
    study = est.tuning.search(
        make, {"x": [0.0, 1.5, 4.0]}, tmp_path / "study.db", method="grid", pruner="none"
    )
    assert study.best_params == {"x": 1.5} and study.best_value == pytest.approx(0.25)
    found = est.tuning.rows(study)
    assert [row["x"] for row in found] in ([1.5, 0.0, 4.0], [1.5, 4.0, 0.0])
    assert {row["step"] for row in found} == {4}
    assert "complete   0.25     4" in est.tuning.as_text(study)
    again = est.tuning.search(make, {"x": [0.0, 1.5, 4.0]}, tmp_path / "study.db", method="grid")
    assert len(again.trials) == 3

    page = Path(est.tuning.write_page(study, tmp_path / "page.html")).read_text()
    assert "All trials" in page and "Plotly.newPlot" in page

    from tensorboard.plugins.hparams import plugin_data_pb2

    seen = {}
    for folder in [tmp_path / "study", *(tmp_path / "study").glob("trial-*")]:
        for file in folder.glob("events.*"):
            for event in tf.compat.v1.train.summary_iterator(str(file)):
                for value in event.summary.value:
                    if value.metadata.plugin_data.plugin_name == "hparams":
                        data = plugin_data_pb2.HParamsPluginData.FromString(
                            value.metadata.plugin_data.content
                        )
                        seen.setdefault(folder.name, []).append((value.tag, data))
    [(tag, data)] = seen.pop("study")
    assert tag == "_hparams_/experiment"
    assert data.experiment.metric_infos[0].name.group == "eval"
    shown = {data.session_start_info.hparams["x"].number_value for [(_, data)] in seen.values()}
    assert shown == {0.0, 1.5, 4.0}


def test_trials_that_fall_behind_are_ended(tmp_path: Path) -> None:
    study = optuna.create_study(
        study_name="study", storage=f"sqlite:///{tmp_path / 'study.db'}", direction="minimize"
    )
    for x in (2.0, 2.0, 2.0, 2.0, 9.0):
        study.enqueue_trial({"x": x})
    found = est.tuning.search(make, {"x": "0.0..10.0"}, tmp_path / "study.db", trials=5)
    assert [trial.state.name for trial in found.trials] == ["COMPLETE"] * 4 + ["PRUNED"]
    assert list(found.trials[4].intermediate_values) == [2]  # of four steps


def test_failures_are_told_and_only_a_wrong_program_ends_the_search(tmp_path: Path) -> None:
    def fails(values: dict[str, Any], model_dir: str) -> Any:
        if values["x"] != 1:
            raise RuntimeError("no such layer")
        return make(values, model_dir)

    with pytest.raises(RuntimeError, match="no such layer") as kept:  # as notebooks keep it
        est.tuning.search(fails, {"x": [0]}, tmp_path / "wrong.db", method="grid")
    mended = est.tuning.search(make, {"x": [0]}, tmp_path / "wrong.db", method="grid")
    assert [trial.state.name for trial in mended.trials] == ["COMPLETE"]  # the same point
    del kept
    with pytest.raises(RuntimeError, match="no such layer"):
        est.tuning.search(fails, {"x": [0], "y": [0]}, tmp_path / "name.db", method="grid")
    mended = est.tuning.search(make, {"x": [0]}, tmp_path / "name.db", method="grid")
    assert [trial.state.name for trial in mended.trials] == ["FAIL", "COMPLETE"]
    est.tuning.search(fails, {"x": "1..1"}, tmp_path / "s.db", trials=1)
    study = est.tuning.search(fails, {"x": "2..3"}, tmp_path / "s.db", trials=2)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "FAIL"]
    assert study.trials[1].user_attrs["error"] == "RuntimeError: no such layer"
    with pytest.raises(est.errors.ConfigError, match="no metric 'acuracy'"):
        est.tuning.search(make, {"x": [1]}, tmp_path / "m.db", metric="acuracy", trials=1)


def test_metric_of_a_named_evaluation(tmp_path: Path) -> None:
    def named(*names: str) -> Any:
        def make_named(values: dict[str, Any], model_dir: str) -> Any:
            estimator, train, evaluate = make(values, model_dir)
            specs = [evaluate._replace(name=name) for name in names]
            return estimator, train, specs if len(specs) > 1 else specs[0]

        return make_named

    one = est.tuning.search(named("test"), {"x": [1.5]}, tmp_path / "one.db", trials=1)
    assert one.best_value == pytest.approx(0.25)
    several = named("train", "test")
    two = est.tuning.search(
        several, {"x": [1.5]}, tmp_path / "two.db", metric="test/loss", trials=1
    )
    assert two.best_value == pytest.approx(0.25)
    with pytest.raises(
        est.errors.ConfigError, match=r"evaluation 'test' has no metric 'a/b'.*loss"
    ):
        est.tuning.search(several, {"x": [1]}, tmp_path / "3.db", metric="test/a/b", trials=1)
    with pytest.raises(est.errors.ConfigError, match=r"none of the evaluations train, test.*: say"):
        est.tuning.search(several, {"x": [1]}, tmp_path / "four.db", trials=1)


def test_training_without_an_evaluation_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a cluster with an evaluator of its own.
    monkeypatch.setattr(trials, "train_and_evaluate", lambda *given: None)
    with pytest.raises(est.errors.ConfigError, match=r"without an evaluation.*'loss'"):
        est.tuning.search(make, {"x": [1]}, tmp_path / "study.db", trials=1)


def test_study_is_a_file_with_an_ending(tmp_path: Path) -> None:
    kept = StudyOnDisk(str(tmp_path / "runs" / "mine"), minimize=True, pruner="none")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["mine", "mine.db"]
    assert kept.study.study_name == "mine"
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(est.errors.ConfigError, match=r"folder\.db is a folder.*runs/study\.db"):
        StudyOnDisk(str(tmp_path / "folder.db"), minimize=True, pruner="none")
    assert not (tmp_path / "folder").exists()


def test_seeded_grid_tries_each_point_once(tmp_path: Path) -> None:
    kept = StudyOnDisk(str(tmp_path / "study.db"), minimize=True, pruner="none")
    space = Space.of({"a": [0, 1, 2], "b": [0, 1]})
    tried = []
    for claim in kept.claims(space, 6, "grid", seed=1):
        tried.append((claim.trial.params["a"], claim.trial.params["b"]))
        kept.study.tell(claim.trial, 0.0)
    assert sorted(tried) == [(a, b) for a in (0, 1, 2) for b in (0, 1)]


def test_grid_is_tried_as_a_whole_and_said_to_be_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    done = (optuna.trial.TrialState.COMPLETE, 0.0)
    monkeypatch.setattr(trials, "run", lambda *given: done)
    space = {"x": list(range(21))}
    whole = est.tuning.search(make, space, tmp_path / "whole.db", method="grid")
    assert {trial.params["x"] for trial in whole.trials} == set(range(21))
    page = Path(est.tuning.write_page(whole, tmp_path / "page.html")).read_text()
    assert "Which parameters matter" not in page  # all came to the same
    with caplog.at_level("INFO", "estimand"):
        cut = est.tuning.search(make, space, tmp_path / "cut.db", method="grid", trials=2)
    assert len(cut.trials) == 2
    assert "2 of the 21 points of the grid are tried" in caplog.messages


def sweep(directory: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "estimand", "sweep", "program.py", "--method=grid",
         "--param=params.x=0.0,1.5,3.0", "--study=study.db", "--pruner=none", *more],
        cwd=directory, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True,
    )  # fmt: skip


def test_killed_search_goes_on_with_the_trial_from_its_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "kill").touch()
    killed = sweep(tmp_path)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = sweep(tmp_path)
    assert done.returncode == 0, done.stderr
    study = optuna.load_study(study_name="study", storage=f"sqlite:///{tmp_path / 'study.db'}")
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 3
    assert study.best_params == {"params.x": 1.5}
    for trial in study.trials:
        assert sorted(trial.intermediate_values) == [2, 4, 6]
        newest = tf.train.latest_checkpoint(str(tmp_path / "study" / f"trial-000{trial.number}"))
        assert tf.train.load_variable(newest, "seen") == 6
    assert (tmp_path / "loaded.txt").read_text() == "once\n" * 2  # once by each process
    assert (tmp_path / "study" / "index.html").exists()


def test_a_trial_that_ends_while_another_process_looks_is_not_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, path = Space.of({"x": [0.0, 1.0]}), str(tmp_path / "study.db")
    mine = StudyOnDisk(path, minimize=True, pruner="none")
    theirs = StudyOnDisk(path, minimize=True, pruner="none")
    claims = mine.claims(space, 2, "grid", None)
    claim = next(claims)
    lock_it = studies._try_lock

    def ended_in_between(folder: str) -> int | None:
        if folder == claim.model_dir and claim.lock is not None:
            claim.trial.study.tell(claim.trial, 0.0)
            claim.release()
        return lock_it(folder)

    monkeypatch.setattr(studies, "_try_lock", ended_in_between)
    next_one = next(theirs.claims(space, 2, "grid", None))
    assert not next_one.resumed
    assert next_one.trial.number == 1


def test_processes_share_a_study(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = sweep(tmp_path, "--workers=2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("complete") == 3
    assert (tmp_path / "loaded.txt").read_text() == "once\n" * 2
