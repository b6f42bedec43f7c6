"""FeedFnHook, GlobalStepWaiterHook, ProfilerHook, and what the package re-exports."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from estimand import hooks
from estimand.hooks import FeedFnHook, FinalOpsHook, GlobalStepWaiterHook, ProfilerHook
from estimand.hooks import global_step_waiter as waiting
from tests.hooks.driving import SmallLoop, monitored_session, trace, v1


@pytest.mark.parametrize(
    "name",
    [
        "CheckpointSaverListener",
        "NanLossDuringTrainingError",
        "SecondOrStepTimer",
        "SessionRunArgs",
        "SessionRunContext",
        "SessionRunHook",
        "SessionRunValues",
    ],
)
def test_v1_classes_are_tensorflows_own(name: str) -> None:
    assert getattr(hooks, name) is getattr(tf.compat.v1.train, name)


# Feeding


def test_what_feed_fn_returns_is_fed_at_every_step() -> None:
    def extend(loss: tf.Tensor) -> dict[str, Any]:
        fed = v1.placeholder_with_default(0.0, [], name="fed")
        total = v1.get_variable("total", [], initializer=v1.zeros_initializer())
        add = total.assign_add(fed)
        with v1.control_dependencies([add]):
            step = v1.assign_add(v1.train.get_global_step(), 1)
        return {"predictions": step}

    model = trace(extend=extend)
    model.spec = model.spec._replace(train_op=model.spec.predictions)
    values = iter([1.0, 10.0, 100.0])
    final = FinalOpsHook("total")
    loop = SmallLoop(model, [FeedFnHook(lambda: {"fed:0": next(values)}), final]).run(3)
    assert final.final_ops_values == 111.0
    assert loop.looked_at == [1, 2, 3]


# Waiting


def test_local_training_starts_after_one_warning(caplog) -> None:
    loop = SmallLoop(trace(), [GlobalStepWaiterHook(1000)]).run(3)
    assert loop.global_step() == 3
    assert len([m for m in caplog.messages if "no other process advances" in m]) == 1
    assert loop.looked_at == []


def test_nothing_is_said_when_the_step_has_been_reached(caplog) -> None:
    model = trace()
    model.global_step.assign(5)
    SmallLoop(model, [GlobalStepWaiterHook(5)]).run(6)
    assert caplog.messages == []


def test_step_moved_by_others_is_waited_for(monkeypatch, caplog) -> None:
    caplog.set_level(logging.INFO, "tensorflow")
    steps = iter([0, 3, 3, 7, 10])

    class Session:
        def run(self, fetches: Any) -> int:
            return next(steps)

    naps: list[float] = []
    monkeypatch.setattr(waiting.time, "sleep", naps.append)
    context = v1.train.SessionRunContext(None, Session())
    hook = GlobalStepWaiterHook(10)
    hook.before_run(context)
    hook.before_run(context)  # does not ask again
    assert next(steps, None) is None
    assert len(naps) == 4
    assert caplog.messages[-1] == "Done waiting."


def test_waiting_for_step_zero_is_no_waiting() -> None:
    monitored_session(lambda loss: [GlobalStepWaiterHook(0)], 1)


# Profiling


def profiles(directory: Path) -> list[Path]:
    return sorted((directory / "plugins" / "profile").glob("*/*.xplane.pb"))


def test_profile_is_written_for_tensorboard(tmp_path: Path) -> None:
    loop = SmallLoop(trace(), [ProfilerHook(save_steps=3, output_dir=str(tmp_path))]).run(4)
    assert loop.looked_at == [3]
    assert len(profiles(tmp_path)) == 1
    # Without the mark of a step TensorBoard's overview of a profile is empty.
    assert b"step_num" in profiles(tmp_path)[0].read_bytes()


def test_profile_cut_short_by_the_end_of_input_is_finished(tmp_path: Path) -> None:
    hook = ProfilerHook(save_steps=3, output_dir=str(tmp_path))
    SmallLoop(trace(), [hook], batches=2).run(4)
    tf.profiler.experimental.start(str(tmp_path / "next"))  # would fail if one were running
    tf.profiler.experimental.stop()


def test_other_profiler_is_left_in_peace(tmp_path: Path, caplog) -> None:
    tf.profiler.experimental.start(str(tmp_path / "user"))
    try:
        hook = ProfilerHook(save_steps=1, output_dir=str(tmp_path / "hook"))
        SmallLoop(trace(), [hook]).run(3)
    finally:
        tf.profiler.experimental.stop()
    assert profiles(tmp_path / "hook") == []
    assert len(profiles(tmp_path / "user")) == 1
    assert len([m for m in caplog.messages if "another profiler runs" in m]) == 1


def test_v1_session_is_profiled(tmp_path: Path) -> None:
    monitored_session(lambda loss: [ProfilerHook(save_steps=2, output_dir=str(tmp_path))], 3)
    assert len(profiles(tmp_path)) == 1


def test_profiler_needs_a_frequency() -> None:
    with pytest.raises(ValueError, match="Either every_secs or every_steps should be provided"):
        ProfilerHook()
