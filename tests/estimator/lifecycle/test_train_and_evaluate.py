"""`est.train_and_evaluate` in one process: when it evaluates, what it returns and leaves behind."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.events import read_scalars
from tests.estimator.lifecycle import line


def test_evaluates_every_new_checkpoint_and_the_last(tmp_path: Path) -> None:
    model = line.estimator(tmp_path)
    metrics, exports = est.train_and_evaluate(model, line.train_spec(10), line.eval_spec())
    assert line.evaluated_steps(model) == [3, 6, 9, 10]
    assert metrics["global_step"] == 10 and exports == []
    np.testing.assert_allclose(metrics["loss"], line.loss_after(10), rtol=1e-5)


def test_throttle_lets_through_the_first_and_the_last(tmp_path: Path) -> None:
    model = line.estimator(tmp_path)
    est.train_and_evaluate(model, line.train_spec(10), line.eval_spec(throttle_secs=600))
    assert line.evaluated_steps(model) == [3, 10]


def test_skipped_evaluation_says_why(tmp_path: Path, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "tensorflow")
    spec = line.eval_spec(throttle_secs=600)
    est.train_and_evaluate(line.estimator(tmp_path), line.train_spec(7), spec)
    assert "Skip the current checkpoint eval due to throttle secs (600 secs)" in caplog.text


def test_results_on_disk_are_those_of_the_checkpoints(tmp_path: Path) -> None:
    """The variables are evaluated while they are being saved: it must not matter."""
    model = line.estimator(tmp_path)
    est.train_and_evaluate(model, line.train_spec(10), line.eval_spec())
    found = read_scalars(model.eval_dir())["loss"]
    assert [step for step, _ in found] == [3, 6, 9, 10]
    np.testing.assert_allclose(
        [value for _, value in found], [line.loss_after(s) for s in (3, 6, 9, 10)], rtol=1e-5
    )
    for step in (3, 6, 9, 10):
        saved = tf.train.load_checkpoint(str(tmp_path / f"model.ckpt-{step}")).get_tensor("w")
        np.testing.assert_allclose(saved, line.weight_after(step), rtol=1e-5)


def test_model_is_built_once_for_each_mode_and_nothing_is_restored(
    tmp_path: Path, caplog: Any
) -> None:
    caplog.set_level(logging.INFO, "tensorflow")
    built: list[str] = []

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        built.append(mode)
        return line.model_fn(features, labels, mode)

    model = line.estimator(tmp_path, model_fn)
    est.train_and_evaluate(model, line.train_spec(10), line.eval_spec())
    assert built == ["train", "eval"]
    assert "Restoring parameters" not in caplog.text


def test_training_is_the_same_as_without_evaluations(tmp_path: Path) -> None:
    model = line.estimator(tmp_path)
    est.train_and_evaluate(model, line.train_spec(20), line.eval_spec())
    np.testing.assert_allclose(model.get_variable_value("w"), line.weight_after(20), rtol=1e-5)


def test_every_n_steps_brings_its_own_checkpoints(tmp_path: Path) -> None:
    model = line.estimator(tmp_path, save_checkpoints_steps=None, save_checkpoints_secs=600)
    spec = line.eval_spec(every_n_steps=4, throttle_secs=600)
    est.train_and_evaluate(model, line.train_spec(10), spec)
    assert line.evaluated_steps(model) == [4, 8, 10]
    assert (tmp_path / "model.ckpt-4.index").exists()


@pytest.mark.parametrize("eagerly", [False, True])
def test_every_n_steps_saves_also_where_nothing_else_does(tmp_path: Path, eagerly: bool) -> None:
    never = {"save_checkpoints_steps": None, "save_checkpoints_secs": None}
    model = line.estimator(tmp_path, **never, run_eagerly=eagerly)
    est.train_and_evaluate(model, line.train_spec(7), line.eval_spec(every_n_steps=3))
    assert line.evaluated_steps(model) == [3, 6, 7]
    np.testing.assert_allclose(model.get_variable_value("w"), line.weight_after(7), rtol=1e-5)


def test_every_n_steps_is_counted_from_zero_also_after_a_start_in_between(tmp_path: Path) -> None:
    model = line.estimator(tmp_path)
    model.train(line.train_input_fn, max_steps=3)
    spec = line.eval_spec(every_n_steps=4)
    est.train_and_evaluate(model, line.train_spec(10), spec)
    assert line.evaluated_steps(model) == [4, 8, 10]


def test_every_n_secs_of_next_to_nothing_evaluates_at_every_look(tmp_path: Path) -> None:
    model = line.estimator(tmp_path, save_checkpoints_steps=None, save_checkpoints_secs=600)
    est.train_and_evaluate(model, line.train_spec(3), line.eval_spec(every_n_secs=1e-9))
    assert line.evaluated_steps(model) == [1, 2, 3]


def test_finished_model_is_evaluated(tmp_path: Path) -> None:
    line.estimator(tmp_path).train(line.train_input_fn, max_steps=5)
    again = line.estimator(tmp_path)
    metrics, exports = est.train_and_evaluate(again, line.train_spec(5), line.eval_spec())
    np.testing.assert_allclose(metrics["loss"], line.loss_after(5), rtol=1e-5)
    assert exports == []


def test_ends_with_its_input_where_there_is_no_max_steps(tmp_path: Path) -> None:
    model = line.estimator(tmp_path)
    exporter = line.RecordingExporter()
    train = est.TrainSpec(lambda: line.train_input_fn().take(4))
    metrics, _ = est.train_and_evaluate(model, train, line.eval_spec(exporters=exporter))
    assert metrics["global_step"] == 4
    assert [call["final"] for call in exporter.calls] == [False, False]


def test_several_eval_specs_have_a_directory_and_a_result_each(tmp_path: Path) -> None:
    def half() -> tf.data.Dataset:
        return line.eval_input_fn().take(1)

    model = line.estimator(tmp_path)
    specs = [
        line.eval_spec(name="whole"),
        line.eval_spec(name="half", throttle_secs=600)._replace(input_fn=half),
    ]
    metrics, exports = est.train_and_evaluate(model, line.train_spec(7), specs)
    assert line.evaluated_steps(model, "whole") == [3, 6, 7]
    assert line.evaluated_steps(model, "half") == [3, 7]
    error = line.weight_after(7) * line.X - line.Y
    np.testing.assert_allclose(metrics["whole"]["loss"], np.mean(error**2), rtol=1e-5)
    np.testing.assert_allclose(metrics["half"]["loss"], np.mean(error[:4] ** 2), rtol=1e-5)
    assert exports == {"whole": [], "half": []}


def test_exporters_see_each_evaluation_with_its_checkpoint_on_disk(tmp_path: Path) -> None:
    first, second = line.RecordingExporter("first"), line.RecordingExporter("second")
    spec = line.eval_spec(exporters=[first, second])
    _, exports = est.train_and_evaluate(line.estimator(tmp_path), line.train_spec(7), spec)
    assert [(c["step"], c["final"]) for c in first.calls] == [(3, False), (6, False), (7, True)]
    assert first.checkpoint_was_there == [True, True, True]
    assert first.calls[0]["path"] == os.path.join(str(tmp_path), "export", "first")
    assert first.calls[0]["checkpoint"] == str(tmp_path / "model.ckpt-3")
    assert exports == ["export 3", "export 3"]


def test_finished_model_is_not_exported_twice(tmp_path: Path) -> None:
    class Writing(line.RecordingExporter):
        def export(self, estimator: Any, export_path: str, *args: Any, **kwargs: Any) -> str:
            os.makedirs(os.path.join(export_path, str(len(self.calls))))
            return super().export(estimator, export_path, *args, **kwargs)

    # The second writes nothing, as one that keeps only the best may: it is told every time.
    exporters = [Writing("writing"), line.RecordingExporter("silent")]
    for _ in range(2):
        _, exports = est.train_and_evaluate(
            line.estimator(tmp_path), line.train_spec(3), line.eval_spec(exporters=exporters)
        )
    assert [call["step"] for call in exporters[0].calls] == [3]
    assert [call["step"] for call in exporters[1].calls] == [3, 3]
    assert exports == [None, "export 2"]


def test_an_export_that_was_begun_and_not_finished_is_done_again(tmp_path: Path) -> None:
    """What a process that died while exporting leaves is newer than the checkpoint, too."""

    class Dying(line.RecordingExporter):
        def export(self, estimator: Any, export_path: str, *args: Any, **kwargs: Any) -> str:
            os.makedirs(os.path.join(export_path, f"temp-1794865060-df60c84{len(self.calls)}"))
            return super().export(estimator, export_path, *args, **kwargs)

    exporter = Dying()
    for _ in range(2):
        est.train_and_evaluate(
            line.estimator(tmp_path), line.train_spec(3), line.eval_spec(exporters=exporter)
        )
    assert [call["step"] for call in exporter.calls] == [3, 3]


def test_exporters_hear_of_a_checkpoint_whose_export_had_failed(tmp_path: Path) -> None:
    class FullDisk(line.RecordingExporter):
        def export(self, *args: Any, **kwargs: Any) -> str:
            result = super().export(*args, **kwargs)
            if len(self.calls) == 2:
                raise OSError("No space left on device")
            return result

    exporters = [FullDisk("first"), line.RecordingExporter("second")]
    for _ in range(3):
        with contextlib.suppress(OSError):
            est.train_and_evaluate(
                line.estimator(tmp_path, save_checkpoints_steps=3),
                line.train_spec(10),
                line.eval_spec(exporters=exporters, throttle_secs=0),
            )
            break
    assert [call["step"] for call in exporters[1].calls] == [3, 6, 9, 10]
    assert [call["step"] for call in exporters[0].calls] == [3, 6, 6, 9, 10]
    assert not list((tmp_path / "eval").glob("exports_due"))


def test_listener_and_hooks_of_the_train_spec_are_called(tmp_path: Path) -> None:
    saved: list[int] = []

    class Listener(est.CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            saved.append(int(global_step_value))
            assert (tmp_path / f"model.ckpt-{global_step_value}.index").exists()

    hook = est.StopAtStepHook(last_step=5)
    train = line.train_spec(10, hooks=[hook], saving_listeners=[Listener()])
    metrics, _ = est.train_and_evaluate(line.estimator(tmp_path), train, line.eval_spec())
    assert saved == [0, 3, 5]
    assert metrics["global_step"] == 5


def test_listener_may_evaluate_and_predict_with_an_older_checkpoint(tmp_path: Path) -> None:
    """Training goes on from its own values, not from those of the checkpoint it looked at."""
    model = line.estimator(tmp_path)
    losses: dict[int, float] = {}
    predicted: dict[int, float] = {}

    class Listener(est.CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            if global_step_value == 6:
                path = str(tmp_path / "model.ckpt-3")
                losses[3] = model.evaluate(line.eval_input_fn, checkpoint_path=path)["loss"]
                losses[6] = model.evaluate(line.eval_input_fn)["loss"]
                rows = list(model.predict(line.eval_input_fn, checkpoint_path=path))
                predicted[3] = float(rows[-1]["y"][0])

    model.train(line.train_input_fn, max_steps=9, saving_listeners=[Listener()])
    np.testing.assert_allclose(losses[3], line.loss_after(3), rtol=1e-5)
    np.testing.assert_allclose(losses[6], line.loss_after(6), rtol=1e-5)
    np.testing.assert_allclose(predicted[3], line.weight_after(3), rtol=1e-5)
    np.testing.assert_allclose(model.get_variable_value("w"), line.weight_after(9), rtol=1e-5)


def test_evaluation_that_takes_averages_for_variables_gets_them(tmp_path: Path) -> None:
    """A saver that restores averages: the live variables are not what is to be evaluated."""

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        v1 = tf.compat.v1
        w = v1.get_variable("w", [1, 1], initializer=v1.zeros_initializer(), use_resource=True)
        average = tf.train.ExponentialMovingAverage(0.5)
        loss = tf.reduce_mean(tf.square(features["x"] @ w - labels))
        if mode == est.ModeKeys.EVAL:
            average.apply([w])
            scaffold = v1.train.Scaffold(saver=v1.train.Saver(average.variables_to_restore([w])))
            return est.EstimatorSpec(mode, loss=loss, scaffold=scaffold)
        step = est.minimize(v1.train.GradientDescentOptimizer(line.RATE), loss)
        with tf.control_dependencies([step]):
            train_op = average.apply([w])
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    model = line.estimator(tmp_path, model_fn)
    metrics, _ = est.train_and_evaluate(model, line.train_spec(7), line.eval_spec())
    average = model.get_variable_value("w/ExponentialMovingAverage")
    live = model.get_variable_value("w")
    assert abs(average - live) > 0.05
    np.testing.assert_allclose(live, line.weight_after(7), rtol=1e-5)
    np.testing.assert_allclose(
        metrics["loss"], np.mean((average * line.X - line.Y) ** 2), rtol=1e-5
    )


def test_runs_eagerly(tmp_path: Path) -> None:
    model = line.estimator(tmp_path, run_eagerly=True)
    metrics, _ = est.train_and_evaluate(model, line.train_spec(5), line.eval_spec())
    assert line.evaluated_steps(model) == [3, 5]
    np.testing.assert_allclose(metrics["loss"], line.loss_after(5), rtol=1e-5)


def test_table_has_a_line_for_each_evaluation(tmp_path: Path, capsys: Any) -> None:
    model = line.estimator(tmp_path, progress=True)
    est.train_and_evaluate(model, line.train_spec(7), line.eval_spec())
    printed = re.sub(r"\r|\x1b\[2K", "\n", capsys.readouterr().err)
    printed = re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", printed)
    lines = [text.split() for text in printed.splitlines()]
    rows = [words for words in lines if words and words[0].isdigit()]
    assert ["step", "loss"] in lines
    assert [(words[0], words[2:]) for words in rows] == [
        ("3", ["best"]), ("6", ["best"]), ("7", ["best"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (1, None, None),
            r"`estimator` must have type `tf.estimator.Estimator`. Got: <class 'int'>",
        ),
        ((None, 1, None), r"`train_spec` must have type `tf.estimator.TrainSpec`. Got: .*int"),
        ((None, None, 1), r"`eval_spec` must have type `tf.estimator.EvalSpec`. Got: .*int"),
        ((None, None, []), r"`eval_spec` must have type `tf.estimator.EvalSpec`. Got: .*list"),
    ],
)
def test_wrong_types_are_told(tmp_path: Path, arguments: Any, message: str) -> None:
    good = (line.estimator(tmp_path), line.train_spec(), line.eval_spec())
    given = [ok if wrong is None else wrong for ok, wrong in zip(good, arguments, strict=True)]
    with pytest.raises(TypeError, match=message):
        est.train_and_evaluate(*given)


@pytest.mark.parametrize("names", [(None, "a"), ("a", "a")])
def test_several_eval_specs_need_a_name_each(tmp_path: Path, names: tuple[str, str]) -> None:
    specs = [line.eval_spec(name=name) for name in names]
    with pytest.raises(ValueError, match=r"every EvalSpec needs a name of its own"):
        est.train_and_evaluate(line.estimator(tmp_path), line.train_spec(), specs)


def test_without_checkpoints_there_is_nothing_to_evaluate(tmp_path: Path) -> None:
    model = line.estimator(tmp_path, save_checkpoints_steps=None, save_checkpoints_secs=None)
    with pytest.raises(ValueError, match=r"set one of the RunConfig.save_checkpoints_steps"):
        est.train_and_evaluate(model, line.train_spec(), line.eval_spec())
