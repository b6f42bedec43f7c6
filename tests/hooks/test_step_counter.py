"""StepCounterHook: steps per second, logged and recorded."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import tensorflow as tf

from estimand.engine.events import read_scalars
from estimand.hooks import StepCounterHook
from tests.hooks.driving import SmallLoop, close_event_file, monitored_session, trace


def recorded_steps(directory: Path) -> list[int]:
    close_event_file(directory)
    return [step for step, _ in read_scalars(directory)["global_step/sec"]]


def test_recorded_at_the_steps_of_tf_estimator(tmp_path: Path) -> None:
    hook = StepCounterHook(every_n_steps=3, output_dir=str(tmp_path))
    loop = SmallLoop(trace(), [hook]).run(9)
    assert loop.looked_at == [1, 4, 7]
    assert recorded_steps(tmp_path) == [4, 7]  # the first look only starts the clock


def test_rate_is_steps_over_seconds(tmp_path: Path, monkeypatch, caplog) -> None:
    caplog.set_level(logging.INFO, "tensorflow")
    hook = StepCounterHook(every_n_steps=3, output_dir=str(tmp_path))
    times = iter([100.0, 106.0, 106.5])
    monkeypatch.setattr("time.time", lambda: next(times))
    hook._timer.reset()
    hook._timer.update_last_triggered_step(1)
    elapsed_secs, elapsed_steps = hook._timer.update_last_triggered_step(4)
    monkeypatch.undo()
    hook._log_and_record(elapsed_steps, elapsed_secs, 4)
    assert caplog.messages == ["global_step/sec: 0.5"]


def test_runs_without_a_place_to_record(caplog) -> None:
    caplog.set_level(logging.INFO, "tensorflow")
    SmallLoop(trace(), [StepCounterHook(every_n_steps=2)]).run(3)
    assert [m.split(":")[0] for m in caplog.messages] == ["global_step/sec"]


def test_given_writer_is_used(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        writer = tf.compat.v1.summary.FileWriter(str(tmp_path))
    SmallLoop(trace(), [StepCounterHook(every_n_steps=2, summary_writer=writer)]).run(3)
    writer.close()
    assert [s for s, _ in read_scalars(tmp_path)["global_step/sec"]] == [3]


def test_v1_session_records_at_the_same_steps_as_tensorflows_own(tmp_path: Path) -> None:
    for name, kind in (
        ("ours", StepCounterHook),
        ("theirs", tf.compat.v1.train.StepCounterHook),
    ):
        directory = str(tmp_path / name)
        monitored_session(lambda _, k=kind, d=directory: [k(3, output_dir=d)], 9)
    assert recorded_steps(tmp_path / "ours") == recorded_steps(tmp_path / "theirs") == [4, 7]


def test_subclass_may_report_in_its_own_way() -> None:
    class Own(StepCounterHook):
        def __init__(self) -> None:
            super().__init__(every_n_steps=4)
            self.reports: list[tuple[int, int]] = []

        def _log_and_record(self, elapsed_steps, elapsed_time, global_step):
            self.reports.append((elapsed_steps, global_step))

    hook = Own()
    SmallLoop(trace(), [hook]).run(9)
    assert hook.reports == [(4, 5), (4, 9)]


@pytest.mark.parametrize("arguments", [{"every_n_steps": None}, {"every_n_secs": 10}])
def test_needs_exactly_one_frequency(arguments) -> None:
    with pytest.raises(ValueError, match="exactly one of every_n_steps and every_n_secs should"):
        StepCounterHook(**arguments)
