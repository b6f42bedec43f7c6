"""When hooks and listeners are called, and what is logged and recorded meanwhile.

The orders and lines are those of tf.estimator 2.15, taken down from runs of the same programs.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.events import event_files, read_events, read_scalars
from tests.line import (
    batches,
    checkpoint_steps,
    endless,
    estimator,
    loss_of,
    model_fn,
    v1,
    weight_after,
)

Calls = list[str]


class Recorder(est.SessionRunHook):
    def __init__(self, calls: Calls, name: str) -> None:
        self._call = lambda what: calls.append(f"{name} {what}")

    def begin(self) -> None:
        self._call("begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._call("created")

    def before_run(self, run_context: Any) -> None:
        self._call("before")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._call("after")

    def end(self, session: Any) -> None:
        self._call("end")


class Listener(est.CheckpointSaverListener):
    def __init__(self, calls: Calls, stop_at: int | None = None) -> None:
        self._calls = calls
        self._stop_at = stop_at

    def begin(self) -> None:
        self._calls.append("listener begin")

    def before_save(self, session: Any, global_step_value: int) -> None:
        self._calls.append(f"listener before {global_step_value}")

    def after_save(self, session: Any, global_step_value: int) -> bool:
        self._calls.append(f"listener after {global_step_value}")
        return self._stop_at is not None and global_step_value >= self._stop_at

    def end(self, session: Any, global_step_value: int) -> None:
        self._calls.append(f"listener end {global_step_value}")


def observed(tmp_path: Path, calls: Calls, **options: Any) -> est.Estimator:
    """The line, with a recorder in every place a spec has for hooks."""

    def with_hooks(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        return model_fn(features, labels, mode)._replace(
            training_chief_hooks=[Recorder(calls, "chief")],
            training_hooks=[Recorder(calls, "spec")],
            evaluation_hooks=[Recorder(calls, "spec")],
            prediction_hooks=[Recorder(calls, "spec")],
        )

    return estimator(tmp_path, with_hooks, **{"save_checkpoints_steps": 1000, **options})


def of_all(*names: str) -> Callable[[str], Calls]:
    return lambda what: [f"{name} {what}" for name in names]


# ------------------------------------------------------------------ order


def test_training_to_the_end_of_input(tmp_path: Path) -> None:
    calls: Calls = []
    made = observed(tmp_path, calls)
    made.train(batches, hooks=[Recorder(calls, "user")], saving_listeners=[Listener(calls)])
    every = of_all("chief", "user", "spec")
    step = every("before") + every("after")
    assert calls == [
        "listener begin", *every("begin"),
        "listener before 0", "listener after 0", *every("created"),
        *step, *step,
        *every("before"),  # the try that finds no more input
        "listener before 2", "listener after 2", "listener end 2", *every("end"),
    ]  # fmt: skip


def test_training_for_some_steps(tmp_path: Path) -> None:
    calls: Calls = []
    observed(tmp_path, calls).train(endless, steps=2, hooks=[Recorder(calls, "user")])
    every = of_all("chief", "user", "spec")
    step = every("before") + every("after")
    assert calls == [*every("begin"), *every("created"), *step, *step, *every("end")]


@pytest.mark.parametrize("known_length", [True, False])
def test_evaluation_to_the_end_of_input(tmp_path: Path, known_length: bool) -> None:
    def input_fn() -> tf.data.Dataset:
        return batches() if known_length else batches().filter(lambda *_: True)

    calls: Calls = []
    observed(tmp_path, calls).evaluate(input_fn, hooks=[Recorder(calls, "user")])
    every = of_all("user", "spec")
    step = every("before") + every("after")
    expected = [*every("begin"), *every("created"), *step, *step, *every("before"), *every("end")]
    assert calls == expected


def test_evaluation_of_some_steps(tmp_path: Path) -> None:
    calls: Calls = []
    observed(tmp_path, calls).evaluate(batches, steps=1, hooks=[Recorder(calls, "user")])
    every = of_all("user", "spec")
    step = every("before") + every("after")
    assert calls == [*every("begin"), *every("created"), *step, *every("end")]


def test_prediction(tmp_path: Path) -> None:
    calls: Calls = []
    rows = list(
        observed(tmp_path, calls).predict(batches, hooks=[Recorder(calls, "user")], untrained=True)
    )
    every = of_all("user", "spec")
    step = every("before") + every("after")
    assert len(rows) == 4
    expected = [*every("begin"), *every("created"), *step, *step, *every("before"), *every("end")]
    assert calls == expected


def test_prediction_given_up_half_way_calls_no_end(tmp_path: Path) -> None:
    calls: Calls = []
    rows = observed(tmp_path, calls).predict(
        batches, hooks=[Recorder(calls, "user")], untrained=True
    )
    next(rows)
    rows.close()
    every = of_all("user", "spec")
    assert calls == [*every("begin"), *every("created"), *every("before"), *every("after")]


# ------------------------------------------------------------------ listeners


def test_listener_is_told_of_every_checkpoint(tmp_path: Path) -> None:
    calls: Calls = []
    made = estimator(tmp_path, save_checkpoints_steps=2)
    made.train(endless, steps=3, saving_listeners=[Listener(calls)])
    saves = [f"listener {when} {step}" for step in (0, 2, 3) for when in ("before", "after")]
    assert calls == ["listener begin", *saves, "listener end 3"]


def test_listener_that_returns_true_stops_training(tmp_path: Path) -> None:
    calls: Calls = []
    made = estimator(tmp_path, save_checkpoints_steps=2)
    made.train(endless, steps=50, saving_listeners=[Listener(calls, stop_at=4)])
    assert calls[-2:] == ["listener after 4", "listener end 4"]
    assert checkpoint_steps(tmp_path) == [0, 2, 4]


def test_listener_evaluates_the_checkpoint_it_is_told_of(tmp_path: Path) -> None:
    found = []
    made = estimator(tmp_path, save_checkpoints_steps=2)

    class Evaluate(est.CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            results = made.evaluate(batches)
            found.append((int(results["global_step"]), float(results["loss"])))

    made.train(endless, steps=4, saving_listeners=[Evaluate()])
    expected = [(s, (loss_of(weight_after(s), 0) + loss_of(weight_after(s), 1)) / 2) for s in
                (0, 2, 4)]  # fmt: skip
    assert [step for step, _ in found] == [0, 2, 4]
    assert [loss for _, loss in found] == pytest.approx([loss for _, loss in expected], rel=1e-5)
    assert made.get_variable_value("w") == pytest.approx(weight_after(4))


# ------------------------------------------------------------------ what hooks see


def test_fetched_global_step_is_the_one_before_the_update(tmp_path: Path) -> None:
    seen = []

    class Look(est.SessionRunHook):
        def before_run(self, run_context: Any) -> Any:
            tensors = [v1.train.get_global_step(), "Mean:0"]
            return est.SessionRunArgs(tensors)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            now = run_context.session.run(v1.train.get_global_step())
            seen.append((int(run_values.results[0]), float(run_values.results[1]), int(now)))

    estimator(tmp_path).train(endless, steps=3, hooks=[Look()])
    expected = [(s, pytest.approx(loss_of(weight_after(s), s % 2)), s + 1) for s in range(3)]
    assert seen == expected


def test_two_hooks_must_not_feed_the_same_tensor(tmp_path: Path) -> None:
    class Feed(est.SessionRunHook):
        def before_run(self, run_context: Any) -> Any:
            [w] = v1.get_collection("factor")
            return est.SessionRunArgs(None, feed_dict={w: 0.0})

    def scaled(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        factor = v1.placeholder_with_default(1.0, [])
        v1.add_to_collection("factor", factor)
        return model_fn({"x": features["x"] * factor}, labels, mode)

    made = estimator(tmp_path, scaled)
    made.train(endless, steps=1, hooks=[Feed()])
    assert made.get_variable_value("w") == 1  # of zeros there is nothing to learn
    with pytest.raises(RuntimeError, match="Same tensor is fed by two hooks"):
        made.train(endless, steps=1, hooks=[Feed(), Feed()])


def test_request_stop_ends_after_the_step(tmp_path: Path) -> None:
    class Stop(est.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            run_context.request_stop()

    made = estimator(tmp_path).train(endless, steps=10, hooks=[Stop()])
    assert made.get_variable_value("global_step") == 1


def test_hook_of_one_run_serves_the_next_as_well(tmp_path: Path) -> None:
    calls: Calls = []
    hook = Recorder(calls, "user")
    made = estimator(tmp_path)
    for _ in range(2):
        made.train(endless, steps=1, hooks=[hook])
    assert calls == ["user begin", "user created", "user before", "user after", "user end"] * 2


@pytest.mark.parametrize("verb", ["train", "evaluate", "predict"])
def test_something_that_is_no_hook_is_refused(tmp_path: Path, verb: str) -> None:
    made = estimator(tmp_path)
    with pytest.raises(TypeError, match="Hooks must be a SessionRunHook, given: 'a'"):
        result = getattr(made, verb)(batches, hooks=["a"])
        next(result)


def test_something_that_is_no_listener_is_refused(tmp_path: Path) -> None:
    message = "saving_listeners must be a list of CheckpointSaverListener, given: 'a'"
    with pytest.raises(TypeError, match=message):
        estimator(tmp_path).train(batches, saving_listeners=["a"])


# ------------------------------------------------------------------ log lines


def lines(caplog: Any) -> list[str]:
    """What was logged, with times and rates made equal."""
    text = [re.sub(r"\(\d+\.\d{3} sec\)", "(T sec)", m) for m in caplog.messages]
    return [re.sub(r"global_step/sec: [\d.]+", "global_step/sec: R", m) for m in text]


def test_lines_of_training(tmp_path: Path, caplog) -> None:
    made = estimator(
        tmp_path, save_checkpoints_steps=4, log_step_count_steps=3, save_summary_steps=2
    )
    caplog.set_level(logging.INFO, "tensorflow")
    made.train(endless, steps=10)
    saving = f"Saving checkpoints for {{}} into {tmp_path}/model.ckpt."
    assert lines(caplog) == [
        "Calling model_fn.",
        "Done calling model_fn.",
        saving.format(0),
        "loss = 2.5, step = 0",
        saving.format(4),
        "global_step/sec: R",
        "loss = 5.7269993, step = 3 (T sec)",
        "global_step/sec: R",
        "loss = 0.3270766, step = 6 (T sec)",
        saving.format(8),
        "global_step/sec: R",
        "loss = 0.74926656, step = 9 (T sec)",
        saving.format(10),
        "Loss for final step: 0.74926656.",
    ]


def test_lines_of_evaluation(tmp_path: Path, caplog) -> None:
    made = estimator(tmp_path).train(endless, steps=10)
    caplog.clear()
    caplog.set_level(logging.INFO, "tensorflow")
    made.evaluate(batches)
    assert lines(caplog) == [
        "Calling model_fn.",
        "Done calling model_fn.",
        "Saving dict for global step 10: global_step = 10, loss = 0.25287747, mae = 0.4590547",
        f"Saving 'checkpoint_path' summary for global step 10: {tmp_path}/model.ckpt-10",
    ]


@pytest.mark.parametrize(
    ("steps", "told"), [(3, [1, 2, 3]), (25, [*range(2, 25, 2), 25]), (200, [*range(20, 201, 20)])]
)
def test_lines_of_an_evaluation_of_some_steps(
    tmp_path: Path, caplog, steps: int, told: list[int]
) -> None:
    made = estimator(tmp_path)
    caplog.set_level(logging.INFO, "tensorflow")
    made.evaluate(endless, steps=steps)
    found = [m for m in caplog.messages if m.startswith("Evaluation [")]
    assert found == [f"Evaluation [{n}/{steps}]" for n in told]


# ------------------------------------------------------------------ events


def events(directory: Path) -> list[Any]:
    [file] = event_files(directory)
    return list(read_events(file))


def test_summaries_at_the_first_step_and_every_so_many_after_it(tmp_path: Path) -> None:
    estimator(tmp_path, save_summary_steps=4, log_step_count_steps=3).train(endless, steps=10)
    scalars = read_scalars(tmp_path)
    assert [step for step, _ in scalars["loss"]] == [1, 5, 9]
    assert [step for step, _ in scalars["global_step/sec"]] == [4, 7, 10]


def test_checkpoints_and_the_start_are_told_in_the_events(tmp_path: Path) -> None:
    estimator(tmp_path, save_checkpoints_steps=4).train(endless, steps=10)
    logs = [e for e in events(tmp_path) if e.HasField("session_log")]
    status = v1.SessionLog.SessionStatus.Name
    assert [(e.step, status(e.session_log.status)) for e in logs] == [
        (0, "CHECKPOINT"),
        (1, "START"),
        (4, "CHECKPOINT"),
        (8, "CHECKPOINT"),
        (10, "CHECKPOINT"),
    ]


def test_no_summaries_if_none_are_wanted(tmp_path: Path) -> None:
    made = estimator(tmp_path, save_summary_steps=None, log_step_count_steps=None)
    made.train(endless, steps=10)
    assert read_scalars(tmp_path) == {}
