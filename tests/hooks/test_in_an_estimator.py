"""The ready-made hooks, and hooks as users write them, in whole runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.events import event_files, read_events, read_scalars
from tests.hooks.driving import BATCH, LOSSES, build_model, close_event_file, v1


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(BATCH).repeat(30)


def estimator(
    directory: Path, extend: Callable[[tf.Tensor], dict[str, Any]] = lambda loss: {}, **config: Any
) -> est.Estimator:
    def model_fn(features: tf.Tensor, mode: str) -> est.EstimatorSpec:
        loss, train_op = build_model(features)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op, **extend(loss))

    return est.Estimator(model_fn, str(directory), est.RunConfig(progress=False, **config))


def story(directory: Path) -> list[tuple[int, str]]:
    """What the event files of a directory tell, one word per event."""
    close_event_file(directory)
    found = []
    for event in (e for file in event_files(directory) for e in read_events(file)):
        if event.HasField("session_log"):
            status = v1.SessionLog.SessionStatus.Name(event.session_log.status)
            found.append((event.step, status))
        elif event.HasField("summary"):
            found.append((event.step, " ".join(v.tag for v in event.summary.value)))
    return found


def test_event_file_tells_the_story_that_tf_estimator_tells(tmp_path: Path) -> None:
    def extend(loss: tf.Tensor) -> dict[str, Any]:
        v1.summary.scalar("double", 2 * loss)
        return {}

    config = {"save_checkpoints_steps": 4, "log_step_count_steps": 3, "save_summary_steps": 3}
    estimator(tmp_path, extend, **config).train(input_fn, steps=9)
    assert story(tmp_path) == [
        (0, "CHECKPOINT"),
        (1, "START"),
        (1, "double loss_1"),
        (4, "CHECKPOINT"),
        (4, "global_step/sec"),
        (4, "double loss_1"),
        (7, "global_step/sec"),
        (7, "double loss_1"),
        (8, "CHECKPOINT"),
        (9, "CHECKPOINT"),
    ]


def test_tensorflows_logging_hook_logs_a_tensor_by_name(tmp_path: Path, caplog) -> None:
    caplog.set_level(logging.INFO, "tensorflow")
    hook = tf.compat.v1.train.LoggingTensorHook({"shown": "loss"}, every_n_iter=4)
    estimator(tmp_path).train(input_fn, steps=9, hooks=[hook])
    shown = [m.split(" (")[0] for m in caplog.messages if m.startswith("shown = ")]
    assert shown == [f"shown = {LOSSES[step]}" for step in (0, 4, 8)]


def test_evaluation_summaries_beside_the_metrics(tmp_path: Path) -> None:
    def extend(loss: tf.Tensor) -> dict[str, Any]:
        with v1.name_scope("histogram_summary") as scope:
            v1.summary.scalar("cost", loss)
            hook = tf.compat.v1.train.SummarySaverHook(
                save_steps=1,
                output_dir=str(tmp_path / "eval"),
                summary_op=v1.summary.merge_all(scope=scope),
            )
        return {"evaluation_hooks": [hook]}

    model = estimator(tmp_path, extend).train(input_fn, steps=9)
    model.evaluate(input_fn, steps=2)
    assert story(tmp_path / "eval") == [
        (9, "START"),
        (9, "histogram_summary/cost"),
        (9, "histogram_summary/cost"),
        (9, "loss"),
        (9, "checkpoint_path"),
    ]
    values = read_scalars(tmp_path / "eval")["histogram_summary/cost"]
    assert [v for _, v in values] == pytest.approx([LOSSES[9]] * 2, rel=1e-6)


def test_users_hook_resets_a_training_metric_every_few_steps(tmp_path: Path) -> None:
    read: list[float] = []

    class ResetMetric(est.SessionRunHook):
        cadence = est.every(steps=3, at_start=False)

        def begin(self) -> None:
            self.total, self.reset = v1.get_collection("counted")

        def before_run(self, run_context: Any) -> Any:
            return None

        def after_run(self, run_context: Any, run_values: Any) -> None:
            read.append(float(run_context.session.run(self.total)))
            run_context.session.run(self.reset)

    def model_fn(features: tf.Tensor, mode: str) -> est.EstimatorSpec:
        loss, train_op = build_model(features)
        with v1.variable_scope("train_metrics"):
            mean, update = v1.metrics.mean(loss)
        local = v1.get_collection(v1.GraphKeys.LOCAL_VARIABLES, scope="train_metrics")
        v1.add_to_collection("counted", mean)
        v1.add_to_collection("counted", tf.group([v.assign(tf.zeros_like(v)) for v in local]))
        return est.EstimatorSpec(mode, loss=loss, train_op=tf.group(train_op, update))

    model = est.Estimator(model_fn, str(tmp_path), est.RunConfig(progress=False))
    model.train(input_fn, steps=6, hooks=[ResetMetric()])
    losses = [np.sum((BATCH * [0.98**n, 0.92**n]) ** 2) for n in range(6)]
    assert read == pytest.approx([np.mean(losses[:3]), np.mean(losses[3:])], rel=1e-5)


def test_stop_at_step_hook_stops_at_the_step(tmp_path: Path) -> None:
    model = estimator(tmp_path)
    for expected in (7, 14):
        model.train(input_fn, hooks=[est.StopAtStepHook(num_steps=7)])
        assert model.get_variable_value("global_step") == expected


def test_listener_finds_the_checkpoint_on_disk(tmp_path: Path) -> None:
    found = []

    class Listener(est.CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            path = str(tmp_path / f"model.ckpt-{global_step_value}")
            weights = tf.train.load_checkpoint(path).get_tensor("w")
            found.append((global_step_value, float(weights[0])))

    model = estimator(tmp_path, save_checkpoints_steps=2)
    model.train(input_fn, steps=3, saving_listeners=[Listener()])
    assert [step for step, _ in found] == [0, 2, 3]
    assert [w for _, w in found] == pytest.approx([1, 0.98**2, 0.98**3], rel=1e-6)


def test_nan_loss_ends_training_and_leaves_no_checkpoint_behind_it(tmp_path: Path) -> None:
    def diverging() -> tf.data.Dataset:
        good = tf.data.Dataset.from_tensors(BATCH).repeat(3)
        return good.concatenate(tf.data.Dataset.from_tensors(np.float32([np.nan, 1])).repeat(9))

    model = estimator(tmp_path, save_checkpoints_steps=2)
    with pytest.raises(est.NanLossDuringTrainingError):
        model.train(diverging, steps=12)
    steps = sorted(int(p.name.split("-")[1].split(".")[0]) for p in tmp_path.glob("*.data-*"))
    assert set(steps) <= {0, 2, 3}


def test_hooks_that_need_no_graph_work_in_an_eager_run(tmp_path: Path, caplog) -> None:
    caplog.set_level(logging.INFO, "tensorflow")
    final = est.FinalOpsHook({"w": "w"})
    hooks = [
        est.CheckpointSaverHook(str(tmp_path), save_steps=2),
        est.LoggingTensorHook({"seen": "global_step"}, every_n_iter=2),
        est.NanTensorHook("loss"),
        est.StepCounterHook(every_n_steps=2, output_dir=str(tmp_path)),
        est.StopAtStepHook(num_steps=5),
        final,
    ]
    estimator(tmp_path, run_eagerly=True).train(input_fn, hooks=hooks)
    np.testing.assert_allclose(final.final_ops_values["w"], [0.98**5, 0.92**5], rtol=1e-5)
    assert len([m for m in caplog.messages if m.startswith("seen = ")]) == 3
    saved = [step for step, word in story(tmp_path) if word == "CHECKPOINT"]
    assert saved == [0, 2, 4, 5]
