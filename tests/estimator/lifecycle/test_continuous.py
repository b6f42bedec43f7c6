"""The evaluator's part: following a model_dir, and evaluating what is left over."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import estimand as est
from estimand.estimator.lifecycle.continuous import evaluate_continuously
from estimand.estimator.lifecycle.evaluator import evaluators_of
from estimand.hooks import stop_record
from tests.estimator.lifecycle import line


class Time:
    """A clock that only moves when somebody sleeps, and lets things happen then."""

    def __init__(self, *happenings: Callable[[], Any]) -> None:
        self.now = 0.0
        self._happenings = list(happenings)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        assert self._happenings or self.now < 1e5, "waits forever"
        if self._happenings:
            self._happenings.pop(0)()


def follow(model: est.Estimator, time: Time, max_steps: int | None = 9, **spec: Any) -> Time:
    spec = {"start_delay_secs": 0, "throttle_secs": 1, **spec}
    evaluators = evaluators_of(model, line.eval_spec(**spec))
    evaluate_continuously(model, evaluators, max_steps=max_steps, clock=time, sleep=time.sleep)
    return time


def train(model_dir: Path, steps: int) -> Callable[[], Any]:
    return lambda: line.estimator(model_dir).train(line.train_input_fn, max_steps=steps)


def test_evaluates_new_checkpoints_until_the_last_step(tmp_path: Path) -> None:
    model = line.estimator(tmp_path)
    exporter = line.RecordingExporter()
    time = Time(train(tmp_path, 3), lambda: None, train(tmp_path, 6), train(tmp_path, 9))
    follow(model, time, exporters=exporter)
    assert line.evaluated_steps(model) == [3, 6, 9]
    assert [(c["step"], c["final"]) for c in exporter.calls] == [(3, False), (6, False), (9, True)]


def test_ends_by_the_record_of_a_training_that_was_stopped(tmp_path: Path) -> None:
    def stopped() -> None:
        train(tmp_path, 6)()
        stop_record.write(tmp_path, step=6, reason="test")

    model = line.estimator(tmp_path)
    exporter = line.RecordingExporter()
    follow(model, Time(train(tmp_path, 3), stopped), max_steps=1000, exporters=exporter)
    assert line.evaluated_steps(model) == [3, 6]
    assert exporter.calls[-1]["final"]


def test_does_not_sleep_through_the_end_of_training(tmp_path: Path) -> None:
    """Upstream would wait for the rest of throttle_secs."""
    time = Time(train(tmp_path, 3), train(tmp_path, 9))
    follow(line.estimator(tmp_path), time, throttle_secs=600)
    assert time.now < 60


def test_waits_for_the_start_delay(tmp_path: Path) -> None:
    train(tmp_path, 3)()
    model = line.estimator(tmp_path)
    seen: list[list[int]] = []
    looks = [lambda: seen.append(line.evaluated_steps(model))] * 3
    follow(model, Time(*looks, train(tmp_path, 9)), start_delay_secs=5)
    assert seen[0] == [] and line.evaluated_steps(model)[-1] == 9


def test_restarted_evaluator_does_not_repeat_itself(tmp_path: Path) -> None:
    train(tmp_path, 3)()
    line.estimator(tmp_path).evaluate(line.eval_input_fn)
    model = line.estimator(tmp_path)
    follow(model, Time(train(tmp_path, 9)))
    assert line.evaluated_steps(model) == [3, 9]


def test_checkpoint_removed_before_it_was_read_is_passed_over(
    tmp_path: Path, monkeypatch: Any, caplog: Any
) -> None:
    train(tmp_path, 3)()
    model = line.estimator(tmp_path)
    evaluate = type(model).evaluate

    def slow_evaluate(self: Any, **arguments: Any) -> Any:
        if arguments["checkpoint_path"].endswith("-3"):
            for name in os.listdir(tmp_path):
                if name.startswith("model.ckpt-3"):
                    os.remove(tmp_path / name)
        return evaluate(self, **arguments)

    monkeypatch.setattr(est.Estimator, "evaluate", slow_evaluate)
    follow(model, Time(train(tmp_path, 9)))
    assert "was removed before it could be evaluated" in caplog.text
    assert line.evaluated_steps(model) == [9]


def test_nothing_new_is_said_only_once_in_a_while(tmp_path: Path, caplog: Any) -> None:
    model = line.estimator(tmp_path)
    follow(model, Time(*[lambda: None] * 5, train(tmp_path, 9)))
    assert caplog.text.count("Estimator is not trained yet") == 1


@pytest.mark.parametrize(("throttle", "said"), [(0, 1), (1, 0)])
def test_a_throttle_of_0_is_warned_of_once(
    throttle: int, said: int, tmp_path: Path, caplog: Any
) -> None:
    time = Time(*[lambda: None] * 3, train(tmp_path, 9))
    follow(line.estimator(tmp_path), time, throttle_secs=throttle)
    assert caplog.text.count("EvalSpec.throttle_secs is set as 0") == said


def test_evaluator_task_follows_and_ends(tmp_path: Path, monkeypatch: Any) -> None:
    train(tmp_path, 5)()
    cluster = {"cluster": {"chief": ["h:1"]}, "task": {"type": "evaluator", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    model = line.estimator(tmp_path)
    spec = line.eval_spec(start_delay_secs=0)
    metrics, exports = est.train_and_evaluate(model, line.train_spec(5), spec)
    assert (metrics["global_step"], exports) == (5, [])
    assert line.evaluated_steps(model) == [5]


def test_record_of_an_earlier_training_that_now_goes_on(tmp_path: Path) -> None:
    train(tmp_path, 3)()
    stop_record.write(tmp_path, step=3, reason="training ended")
    model = line.estimator(tmp_path)
    time = Time(lambda: stop_record.remove(tmp_path), train(tmp_path, 6), train(tmp_path, 9))
    follow(model, time)
    assert line.evaluated_steps(model) == [3, 6, 9]


def test_record_that_comes_after_the_last_checkpoint_was_evaluated(tmp_path: Path) -> None:
    train(tmp_path, 3)()
    model = line.estimator(tmp_path)
    exporter = line.RecordingExporter()
    time = Time(lambda: stop_record.write(tmp_path, step=3, reason="training ended"))
    follow(model, time, max_steps=None, exporters=exporter)
    assert line.evaluated_steps(model) == [3]
    assert [(c["step"], c["final"]) for c in exporter.calls] == [(3, False), (3, True)]


def test_record_of_an_earlier_training_counts_when_nobody_takes_it_back(tmp_path: Path) -> None:
    train(tmp_path, 3)()
    stop_record.write(tmp_path, step=3, reason="training ended")
    model = line.estimator(tmp_path)
    time = follow(model, Time(), max_steps=None)
    assert 60 <= time.now < 70


def test_second_evaluator_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    cluster = {"cluster": {"chief": ["h:1"]}, "task": {"type": "evaluator", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    with pytest.raises(ValueError, match=r"there can only be one `evaluator` task"):
        est.train_and_evaluate(line.estimator(tmp_path), line.train_spec(), line.eval_spec())


def test_chief_alone_trains_and_says_when_it_is_done(tmp_path: Path, monkeypatch: Any) -> None:
    cluster = {"cluster": {"chief": ["h:1"]}, "task": {"type": "chief", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    model = line.estimator(tmp_path)
    train_spec = est.TrainSpec(lambda: line.train_input_fn().take(4))
    metrics, exports = est.train_and_evaluate(model, train_spec, line.eval_spec())
    assert (metrics, exports) == ({}, [])
    assert line.evaluated_steps(model) == []
    record = stop_record.read(tmp_path)
    assert record is not None and record.step == 4


def test_evaluate_all_takes_only_what_has_no_results(tmp_path: Path) -> None:
    model = line.estimator(tmp_path)
    model.train(line.train_input_fn, max_steps=9)
    model.evaluate(line.eval_input_fn, checkpoint_path=str(tmp_path / "model.ckpt-6"))
    results = est.evaluate_all(model, line.eval_spec())
    assert list(results) == [0, 3, 9]
    for step, metrics in results.items():
        np.testing.assert_allclose(metrics["loss"], line.loss_after(step), rtol=1e-5)
    assert est.evaluate_all(model, line.eval_spec()) == {}
    assert list(est.evaluate_all(model, line.eval_spec(), again=True)) == [0, 3, 6, 9]


def test_evaluations_are_known_after_the_model_dir_was_moved(tmp_path: Path) -> None:
    model = line.estimator(tmp_path / "old")
    est.train_and_evaluate(model, line.train_spec(3), line.eval_spec())
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    moved = line.estimator(tmp_path / "new")
    assert list(est.evaluate_all(moved, line.eval_spec())) == [0]
