"""The early stopping hooks: when they stop, and what they leave behind."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import estimand as est
from estimand.engine.events import EventWriter
from estimand.hooks import stop_record
from tests.estimator.lifecycle import line


def write_results(directory: str, results: Mapping[int, Mapping[str, float]]) -> None:
    writer = EventWriter.get(directory)
    for step, metrics in results.items():
        writer.scalars(metrics, step)
    writer.close()


def decides(hook: Any) -> bool:
    return hook.wants_to_stop()


LOSSES = {10: 1.0, 20: 0.5, 30: 0.625, 40: 0.5625, 50: 0.4375}


@pytest.mark.parametrize(
    ("maker", "arguments", "stops"),
    [
        # What tf.estimator 2.15 decides for the same event files.
        ("stop_if_no_decrease_hook", {"max_steps_without_decrease": 20}, True),
        ("stop_if_no_decrease_hook", {"max_steps_without_decrease": 30}, False),
        ("stop_if_no_decrease_hook", {"max_steps_without_decrease": 20, "min_steps": 30}, False),
        ("stop_if_no_increase_hook", {"max_steps_without_increase": 40}, True),
        ("stop_if_no_increase_hook", {"max_steps_without_increase": 41}, False),
        ("stop_if_higher_hook", {"threshold": 0.99}, True),
        ("stop_if_higher_hook", {"threshold": 1.0}, False),
        ("stop_if_higher_hook", {"threshold": 0.99, "min_steps": 20}, False),
        ("stop_if_lower_hook", {"threshold": 0.4376}, True),
        ("stop_if_lower_hook", {"threshold": 0.4375}, False),
    ],
)
def test_decision(tmp_path: Path, maker: str, arguments: dict[str, Any], stops: bool) -> None:
    model = line.estimator(tmp_path)
    write_results(model.eval_dir(), {s: {"loss": v} for s, v in LOSSES.items()})
    hook = getattr(est.experimental, maker)(model, "loss", **arguments)
    assert decides(hook) is stops


def test_decrease_by_less_than_min_delta_does_not_count(tmp_path: Path) -> None:
    model = line.estimator(tmp_path)
    write_results(model.eval_dir(), {10: {"loss": 1.0}, 20: {"loss": 0.99}, 30: {"loss": 0.98}})
    make = est.early_stopping.stop_if_no_decrease_hook
    assert not decides(make(model, "loss", 20))
    assert decides(make(model, "loss", 20, min_delta=0.05))


def test_nan_is_never_the_best_value(tmp_path: Path) -> None:
    model = line.estimator(tmp_path)
    write_results(model.eval_dir(), {10: {"loss": np.nan}, 20: {"loss": 2.0}, 30: {"loss": 1.0}})
    hook = est.experimental.stop_if_no_decrease_hook(model, "loss", 20)
    assert not decides(hook)


def test_reads_what_comes_later(tmp_path: Path) -> None:
    model = line.estimator(tmp_path)
    hook = est.experimental.stop_if_lower_hook(model, "loss", 0.5)
    assert not decides(hook)
    write_results(model.eval_dir(), {10: {"loss": 0.4}})
    assert decides(hook)


def test_metric_that_is_not_there_lists_those_that_are(tmp_path: Path) -> None:
    model = line.estimator(tmp_path)
    write_results(model.eval_dir(), {10: {"loss": 1.0, "auc": 0.5}})
    hook = est.experimental.stop_if_lower_hook(model, "accuracy", 0.5)
    with pytest.raises(ValueError, match=r"the metric 'accuracy', but .* have: auc, loss"):
        decides(hook)


def test_trains_until_the_metric_stops_it_and_says_so_on_disk(tmp_path: Path) -> None:
    model = line.estimator(tmp_path)
    hook = est.experimental.stop_if_lower_hook(model, "loss", line.loss_after(9) * 1.001)
    exporter = line.RecordingExporter()
    metrics, _ = est.train_and_evaluate(
        model, line.train_spec(100, hooks=[hook]), line.eval_spec(exporters=exporter)
    )
    assert metrics["global_step"] == 9
    assert line.evaluated_steps(model) == [3, 6, 9]
    assert [(c["step"], c["final"]) for c in exporter.calls][-1] == (9, True)
    record = json.loads((tmp_path / "stopped.json").read_text())
    assert record["step"] == 9 and 'metric "loss"' in record["reason"]


def test_stopped_training_stays_stopped_when_started_again(tmp_path: Path) -> None:
    for _ in range(2):
        model = line.estimator(tmp_path)
        hook = est.experimental.stop_if_no_decrease_hook(model, "loss", 3, min_delta=100.0)
        metrics, _ = est.train_and_evaluate(
            model, line.train_spec(100, hooks=[hook]), line.eval_spec()
        )
        assert metrics["global_step"] == 6


def test_training_goes_on_when_the_criterion_is_changed(tmp_path: Path) -> None:
    model = line.estimator(tmp_path)
    hook = est.experimental.stop_if_no_decrease_hook(model, "loss", 3, min_delta=100.0)
    est.train_and_evaluate(model, line.train_spec(100, hooks=[hook]), line.eval_spec())
    looser = est.experimental.stop_if_no_decrease_hook(model, "loss", 9, min_delta=100.0)
    metrics, _ = est.train_and_evaluate(
        model, line.train_spec(100, hooks=[looser]), line.eval_spec()
    )
    assert metrics["global_step"] == 12


def test_training_goes_on_without_the_hook_and_the_record_goes_away(tmp_path: Path) -> None:
    stop_record.write(tmp_path, step=0, reason="test")
    model = line.estimator(tmp_path)
    metrics, _ = est.train_and_evaluate(model, line.train_spec(4), line.eval_spec())
    assert metrics["global_step"] == 4
    assert stop_record.read(tmp_path) is None


def test_function_is_asked_at_multiples_of_its_steps(tmp_path: Path) -> None:
    model = line.estimator(tmp_path, save_checkpoints_steps=100)
    asked: list[int] = []

    def should_stop() -> bool:
        asked.append(1)
        return len(asked) == 3  # the first time it is asked at the first step

    hook = est.experimental.make_early_stopping_hook(
        model, should_stop, run_every_secs=None, run_every_steps=4
    )
    model.train(line.train_input_fn, max_steps=100, hooks=[hook])
    assert model.get_variable_value("global_step") == 8
    record = stop_record.read(tmp_path)
    assert record is not None and record.step == 8


def test_wrong_eval_dir_is_pointed_out(tmp_path: Path, caplog: Any) -> None:
    model = line.estimator(tmp_path)
    hook = est.experimental.stop_if_lower_hook(model, "loss", 0.0)
    spec = line.eval_spec(name="validation")
    est.train_and_evaluate(model, line.train_spec(4, hooks=[hook]), spec)
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    told = [text for text in warnings if "no results of evaluations" in text]
    assert len(told) == 1 and "eval_validation" in told[0]


def test_both_periods_are_too_many(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Only one of `run_every_secs` and `run_every_steps`"):
        est.experimental.make_early_stopping_hook(
            line.estimator(tmp_path), lambda: False, run_every_secs=60, run_every_steps=100
        )


def test_something_else_than_an_estimator() -> None:
    with pytest.raises(TypeError, match=r"`estimator` must have type `tf.estimator.Estimator`"):
        est.experimental.make_early_stopping_hook("estimator", lambda: False)  # type: ignore


def test_function_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"`should_stop_fn` must be callable"):
        est.experimental.make_early_stopping_hook(line.estimator(tmp_path), None)  # type: ignore


def test_worker_follows_the_record_of_the_chief(tmp_path: Path) -> None:
    model = line.estimator(tmp_path, save_checkpoints_steps=100)
    from estimand.hooks.early_stopping import _FollowTheChiefHook

    follower = _FollowTheChiefHook(str(tmp_path))
    follower.cadence = est.every(steps=1)

    class Chief(est.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            stop_record.write(tmp_path, step=1, reason="test")

    model.train(line.train_input_fn, max_steps=50, hooks=[Chief(), follower])
    assert model.get_variable_value("global_step") == 1


def test_chief_stops_at_the_checkpoint_step(tmp_path: Path) -> None:
    model = line.estimator(tmp_path)
    hook = est.experimental.make_stop_at_checkpoint_step_hook(model, last_step=5)
    model.train(line.train_input_fn, max_steps=50, hooks=[hook])
    assert model.get_variable_value("global_step") == 5


def test_worker_stops_once_the_checkpoint_is_there(tmp_path: Path) -> None:
    from estimand.hooks.early_stopping import _StopAtCheckpointHook

    model = line.estimator(tmp_path, save_checkpoints_steps=4)
    hook = _StopAtCheckpointHook(str(tmp_path), 5, wait_secs=0.01)

    class Reader(est.CheckpointSaverListener):
        """Makes checkpoints be on disk when training goes on."""

    model.train(line.train_input_fn, max_steps=50, hooks=[hook], saving_listeners=[Reader()])
    assert model.get_variable_value("global_step") == 8
