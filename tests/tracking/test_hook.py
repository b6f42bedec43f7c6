"""What a tracker is told of a training, whichever tracker it is."""

from __future__ import annotations

import logging
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests import line


class Noted:
    """A tracker that keeps what it is told."""

    def __init__(self, fails_at: str = "") -> None:
        self.told: list[tuple[Any, ...]] = []
        self.fails_at = fails_at

    def _note(self, *what: Any) -> None:
        if what[0] == self.fails_at:
            raise ConnectionError("server gone")
        self.told.append(what)

    def start(self, run_id: str | None, name: str) -> str:
        self._note("start", run_id, name)
        return run_id or "run-1"

    def params(self, values: Any) -> None:
        self._note("params", dict(values))

    def metrics(self, values: Any, step: int) -> None:
        self._note("metrics", step, {name: round(value, 3) for name, value in values.items()})

    def artifact(self, path: str, name: str) -> None:
        self._note("artifact", Path(path).parent.name, name)

    def end(self, status: str) -> None:
        self._note("end", status)

    def of(self, kind: str) -> list[Any]:
        return [what[1:] for what in self.told if what[0] == kind]


def estimator(model_dir: Path) -> est.Estimator:
    config = est.RunConfig(save_checkpoints_steps=4, progress=False)

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> est.EstimatorSpec:
        return line.model_fn(features, labels, mode)

    return est.Estimator(model_fn, model_dir, config, {"units": [8], "adam": {"rate": 0.1}})


def run(tracker: Any, model_dir: Path, max_steps: int, input_fn: Any = line.endless) -> None:
    trained = estimator(model_dir)
    hook = est.tracking.TrackingHook(tracker, trained, every_n_steps=2, params={"data": "v1"})
    receiver_fn = est.export.build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([None])})
    est.train_and_evaluate(
        trained,
        est.TrainSpec(input_fn, max_steps=max_steps, hooks=[hook]),
        est.EvalSpec(
            line.batches, throttle_secs=0, exporters=est.FinalExporter("final", receiver_fn)
        ),
    )


def test_run_is_told_and_a_resumed_one_goes_on_with_it(tmp_path: Path) -> None:
    first, second = Noted(), Noted()
    run(first, tmp_path / "line", 4)
    run(second, tmp_path / "line", 8)
    assert first.told[0] == ("start", None, "line")
    [(params,)] = first.of("params")
    wanted = {"units": "[8]", "adam.rate": 0.1, "data": "v1", "model_dir": str(tmp_path / "line")}
    assert params == wanted
    losses = {step: values["loss"] for step, values in first.of("metrics") if "loss" in values}
    assert list(losses) == [2, 4]
    w = line.weight_after(3)
    x, y = line.BATCHES[3 % 2]
    assert losses[4] == pytest.approx(float(((w * x - y) ** 2).mean()), abs=1e-3)
    [(step, evaluated)] = [told for told in first.of("metrics") if "eval/mae" in told[1]]
    assert step == 4 and sorted(evaluated) == ["eval/loss", "eval/mae"]
    assert first.told[-2:] == [("artifact", "final", "final"), ("end", "finished")]
    assert second.told[0] == ("start", "run-1", "line")
    assert {step for step, _ in second.of("metrics")} == {6, 8}
    assert second.told[-1] == ("end", "finished")


def test_only_numbers_of_an_evaluation_are_told(tmp_path: Path) -> None:
    tracker = Noted()
    hook = est.tracking.TrackingHook(tracker, estimator(tmp_path))
    metrics = {
        "mae": np.float32(0.5), "ok": np.True_, "count": 3, "array": np.array(2.0),
        "curve": np.ones(3), "summary": b"\x0a", "none": None, "nan": float("nan"),
    }  # fmt: skip
    hook.opened()
    hook.evaluated(None, {**metrics, "global_step": 4})
    told = {"eval/mae": 0.5, "eval/ok": 1.0, "eval/count": 3.0, "eval/array": 2.0}
    assert tracker.of("metrics") == [(4, told)]


def test_plain_training_ends_its_run(tmp_path: Path) -> None:
    tracker, trained = Noted(), estimator(tmp_path)
    hook = est.tracking.TrackingHook(tracker, trained, every_n_steps=2)
    trained.train(line.endless, hooks=[hook], max_steps=2)
    assert [what[0] for what in tracker.told] == ["start", "params", "metrics", "end"]


def test_failed_training_is_told_as_failed(tmp_path: Path) -> None:
    def broken() -> tf.data.Dataset:
        raise OSError("no data")

    tracker = Noted()
    with pytest.raises(OSError, match="no data"):
        run(tracker, tmp_path, 4, broken)
    assert tracker.told[-1] == ("end", "failed")


@pytest.mark.parametrize("error", [OSError("no disk"), tf.errors.DataLossError(None, None, "")])
def test_failed_train_is_told_as_failed_and_may_go_on(error: Exception, tmp_path: Path) -> None:
    class Failing(est.SessionRunHook):
        def after_run(self, context: Any, values: Any) -> None:
            raise error

    tracker, trained = Noted(), estimator(tmp_path)
    hook = est.tracking.TrackingHook(tracker, trained)
    with pytest.raises(type(error)):
        trained.train(line.endless, hooks=[hook, Failing()], max_steps=8)
    assert tracker.of("end") == [("failed",)]
    trained.train(line.endless, hooks=[hook], max_steps=8)
    assert [run_id for run_id, _ in tracker.of("start")] == [None, "run-1"]
    assert tracker.of("end") == [("failed",), ("finished",)]


def test_train_that_fails_before_its_hooks_begin_opens_no_run(tmp_path: Path) -> None:
    def broken() -> tf.data.Dataset:
        raise OSError("no data")

    tracker, trained = Noted(), estimator(tmp_path)
    with pytest.raises(OSError, match="no data"):
        trained.train(broken, hooks=[est.tracking.TrackingHook(tracker, trained)])
    assert tracker.told == []


def test_the_error_of_the_training_is_the_one_told(tmp_path: Path) -> None:
    class Failing(est.SessionRunHook):
        def after_run(self, context: Any, values: Any) -> None:
            raise OSError("no disk")

    trained = estimator(tmp_path)
    hook = est.tracking.TrackingHook(Noted(fails_at="end"), trained)
    with pytest.raises(OSError, match="no disk"):
        trained.train(line.endless, hooks=[hook, Failing()], max_steps=8)


def test_interrupted_training_is_told_as_such(tmp_path: Path) -> None:
    class Interrupted(est.SessionRunHook):
        def after_run(self, context: Any, values: Any) -> None:
            signal.raise_signal(signal.SIGTERM)

    tracker, trained = Noted(), estimator(tmp_path)
    hook = est.tracking.TrackingHook(tracker, trained)
    with pytest.raises(SystemExit):
        trained.train(line.endless, hooks=[hook, Interrupted()], max_steps=8)
    assert tracker.told[-1] == ("end", "interrupted")


def test_run_is_ended_though_its_artifact_failed(tmp_path: Path) -> None:
    tracker = Noted(fails_at="artifact")
    run(tracker, tmp_path, 4)
    assert tracker.told[-1] == ("end", "finished")


@pytest.mark.parametrize("where", ["start", "metrics", "end"])
def test_tracker_that_fails_costs_one_warning(
    where: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "tensorflow"):
        run(Noted(fails_at=where), tmp_path, 4)
    said = [record.getMessage() for record in caplog.records if "Noted" in record.getMessage()]
    assert said == [
        "Noted cannot be told any more, and the training goes on without it: "
        "ConnectionError: server gone"
    ]
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("ckpt-4")
