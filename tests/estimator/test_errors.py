"""Faults of models, inputs, hooks and disks: what is told, and what is left behind."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.model_dir import ModelDirLock
from tests.line import (
    X,
    Y,
    batches,
    checkpoint_steps,
    endless,
    estimator,
    loss_of,
    model_fn,
    v1,
    weight_after,
)


def assert_usable(model_dir: Path, step: int) -> None:
    """The newest checkpoint is whole, nothing half-written is left, and training goes on."""
    assert not [name for name in os.listdir(model_dir) if "tmp" in name or "temp" in name]
    made = estimator(model_dir)
    assert made.get_variable_value("global_step") == step
    assert made.get_variable_value("w") == pytest.approx(weight_after(step))
    made.train(endless, max_steps=step + 2)
    assert made.get_variable_value("global_step") == step + 2


# ------------------------------------------------------------------ NaN


def nan_from(step: int) -> tf.data.Dataset:
    good = endless().take(step)
    bad = tf.data.Dataset.from_tensors(({"x": np.float32([np.nan, 1])}, Y[:2])).repeat()
    return good.concatenate(bad)


def test_nan_loss_is_told_and_nothing_is_saved_after_it(tmp_path: Path, caplog) -> None:
    made = estimator(tmp_path, save_checkpoints_steps=2)
    with pytest.raises(est.NanLossDuringTrainingError, match=r"NaN loss during training\."):
        made.train(lambda: nan_from(5), steps=50)
    assert "Model diverged with loss = NaN." in caplog.messages
    assert max(checkpoint_steps(tmp_path)) <= 5
    for step in checkpoint_steps(tmp_path):
        reader = tf.train.load_checkpoint(str(tmp_path / f"model.ckpt-{step}"))
        assert np.isfinite(reader.get_tensor("w"))


def test_nan_loss_calls_no_end_of_hooks(tmp_path: Path) -> None:
    class Ends(est.SessionRunHook):
        def end(self, session: Any) -> None:
            pytest.fail("end was called")

    with pytest.raises(est.NanLossDuringTrainingError):
        estimator(tmp_path).train(lambda: nan_from(0), steps=5, hooks=[Ends()])


def test_nan_inside_a_long_block_is_never_saved(tmp_path: Path) -> None:
    made = estimator(tmp_path, save_checkpoints_steps=400)
    with pytest.raises(est.NanLossDuringTrainingError):
        made.train(lambda: nan_from(399), steps=2000)
    assert checkpoint_steps(tmp_path) == [0]


# ------------------------------------------------------------------ input


def broken_at(batch: int) -> tf.data.Dataset:
    def check(i: tf.Tensor, element: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_less(i, np.int64(batch), "broken row")]):
            return tf.nest.map_structure(tf.identity, element)

    return endless().enumerate().map(check)


def test_error_in_the_pipeline_comes_out_as_it_is(tmp_path: Path) -> None:
    made = estimator(tmp_path, save_checkpoints_steps=2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="broken row"):
        made.train(lambda: broken_at(5), steps=50)
    assert checkpoint_steps(tmp_path) == [0, 2, 4]
    assert_usable(tmp_path, step=4)


def test_error_of_a_python_generator_names_it(tmp_path: Path) -> None:
    def rows() -> Any:
        yield {"x": X[:2]}, Y[:2]
        raise KeyError("no such column")

    with pytest.raises(Exception, match="no such column"):
        estimator(tmp_path).train(rows)
    assert checkpoint_steps(tmp_path) == [0]


def test_missing_file_is_named(tmp_path: Path) -> None:
    def missing() -> tf.data.Dataset:
        lines = tf.data.TextLineDataset(str(tmp_path / "no-such-file.csv")).batch(2)
        return lines.map(lambda line: ({"x": tf.strings.to_number(line)}, Y[:2]))

    with pytest.raises(tf.errors.NotFoundError, match=r"no-such-file\.csv"):
        estimator(tmp_path / "model").train(missing, steps=3)


def test_error_in_input_fn_itself_leaves_nothing_behind(tmp_path: Path) -> None:
    def broken() -> Any:
        raise LookupError("no data today")

    with pytest.raises(LookupError, match="no data today"):
        estimator(tmp_path).train(broken)
    assert checkpoint_steps(tmp_path) == []
    estimator(tmp_path).train(batches)


@pytest.mark.parametrize("verb", ["evaluate", "predict"])
def test_error_in_the_pipeline_of_other_verbs(tmp_path: Path, verb: str) -> None:
    made = estimator(tmp_path)
    with pytest.raises(tf.errors.InvalidArgumentError, match="broken row"):
        options = {"untrained": True} if verb == "predict" else {}
        list(getattr(made, verb)(lambda: broken_at(3), **options))
    made.evaluate(batches)


# ------------------------------------------------------------------ the user's own code


class Broken(Exception):
    pass


def test_error_in_model_fn_comes_out_as_it_is(tmp_path: Path) -> None:
    def broken(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        raise Broken("in model_fn")

    estimator(tmp_path).train(endless, steps=2)
    with pytest.raises(Broken, match="in model_fn"):
        estimator(tmp_path, broken).train(endless, steps=2)
    assert_usable(tmp_path, step=2)


def test_model_fn_that_fails_once_may_be_tried_again(tmp_path: Path) -> None:
    attempts = []

    def fails_once(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = model_fn(features, labels, mode)
        attempts.append(mode)
        if len(attempts) == 1:
            raise Broken("the first time")
        return spec

    made = estimator(tmp_path, fails_once)
    with pytest.raises(Broken):
        made.train(endless, steps=2)
    made.train(endless, steps=2)
    assert made.get_variable_value("w") == pytest.approx(weight_after(2))


@pytest.mark.parametrize("value", [None, 3, {"loss": 1}])
def test_model_fn_must_return_a_spec(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ValueError, match="model_fn should return an EstimatorSpec") as error:
        estimator(tmp_path, lambda features, labels, mode: value).train(batches)
    assert repr(value) in str(error.value)


def test_spec_of_another_mode_is_refused(tmp_path: Path) -> None:
    def confused(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        return model_fn(features, labels, est.ModeKeys.EVAL)

    with pytest.raises(
        ValueError, match="mode 'train' but returned an EstimatorSpec of mode 'eval'"
    ):
        estimator(tmp_path, confused).train(batches)


@pytest.mark.parametrize(
    "method", ["begin", "after_create_session", "before_run", "after_run", "end"]
)
def test_error_in_a_hook_leaves_a_usable_directory(tmp_path: Path, method: str) -> None:
    def fail(self: Any, *args: Any) -> None:
        raise Broken(f"in {method}")

    hook = type("Hook", (est.SessionRunHook,), {method: fail})()
    made = estimator(tmp_path, save_checkpoints_steps=2).train(endless, steps=4)
    with pytest.raises(Broken, match=f"in {method}"):
        made.train(endless, steps=1, hooks=[hook])
    saved_before_hooks_end = 5 if method == "end" else 4
    assert_usable(tmp_path, step=saved_before_hooks_end)


@pytest.mark.parametrize("verb", ["train", "evaluate", "predict"])
def test_one_hook_in_the_place_of_a_list_is_told(tmp_path: Path, verb: str) -> None:
    made = estimator(tmp_path)
    with pytest.raises(TypeError, match="hooks must be a list of SessionRunHook, given: ") as error:
        getattr(made, verb)(batches, hooks=est.SessionRunHook())
    assert "hooks=[SessionRunHook(...)]" in str(error.value)


def test_one_listener_in_the_place_of_a_list_is_told(tmp_path: Path) -> None:
    sentence = "saving_listeners must be a list of CheckpointSaverListener, given: "
    with pytest.raises(TypeError, match=sentence) as error:
        estimator(tmp_path).train(batches, saving_listeners=est.CheckpointSaverListener())
    assert "saving_listeners=[CheckpointSaverListener(...)]" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_hooks_and_listeners_may_come_in_anything_that_can_be_iterated(tmp_path: Path) -> None:
    called = []

    class Hook(est.SessionRunHook):
        def begin(self) -> None:
            called.append("hook")

    class Listener(est.CheckpointSaverListener):
        def begin(self) -> None:
            called.append("listener")

    made = estimator(tmp_path)
    made.train(batches, hooks=(h for h in [Hook()]), saving_listeners=iter({Listener()}))
    made.evaluate(batches, hooks=iter([Hook()]))
    assert called == ["listener", "hook", "hook"]


@pytest.mark.parametrize("method", ["begin", "before_save", "after_save", "end"])
def test_error_in_a_listener_leaves_a_usable_directory(tmp_path: Path, method: str) -> None:
    def fail(self: Any, *args: Any) -> None:
        raise Broken(f"in {method}")

    listener = type("Listener", (est.CheckpointSaverListener,), {method: fail})()
    made = estimator(tmp_path, save_checkpoints_steps=2).train(endless, steps=4)
    with pytest.raises(Broken, match=f"in {method}"):
        made.train(endless, steps=1, saving_listeners=[listener])
    step = 5 if method == "end" else 4
    assert_usable(tmp_path, step)


def test_same_estimator_goes_on_after_an_error(tmp_path: Path) -> None:
    class Fail(est.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            raise Broken

    made = estimator(tmp_path, save_checkpoints_steps=2).train(endless, steps=4)
    with pytest.raises(Broken):
        made.train(endless, steps=3, hooks=[Fail()])
    results = made.evaluate(batches)
    assert results["global_step"] == 4  # of the checkpoint, not of the step that failed
    w = weight_after(4)
    assert results["loss"] == pytest.approx((loss_of(w, 0) + loss_of(w, 1)) / 2, rel=1e-5)
    made.train(endless, max_steps=6)
    assert made.get_variable_value("w") == pytest.approx(weight_after(6))


# ------------------------------------------------------------------ model_dir


def test_file_in_the_place_of_model_dir_is_told(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("")
    with pytest.raises(OSError, match="a file of that name is in its place") as error:
        estimator(tmp_path / "model").train(batches)
    assert str(tmp_path / "model") in str(error.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_model_dir_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OSError, match="cannot be written to"):
            estimator(tmp_path / "model").train(batches)
    finally:
        tmp_path.chmod(0o700)


def test_pseudo_file_system_is_told() -> None:
    with pytest.raises(OSError, match="cannot be written to") as error:
        estimator("/proc/estimand").train(batches)
    assert "/proc/estimand" in str(error.value)


def test_model_dir_removed_during_training_is_told(tmp_path: Path) -> None:
    class Remove(est.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            if (tmp_path / "model").exists():  # at once: what is being written must not matter
                (tmp_path / "model").rename(tmp_path / "elsewhere")

    made = estimator(tmp_path / "model", save_checkpoints_steps=5)
    with pytest.raises(OSError, match="has been removed"):
        made.train(endless, steps=20, hooks=[Remove()])


def test_model_dir_in_use_by_this_process_is_told(tmp_path: Path) -> None:
    with ModelDirLock(tmp_path), pytest.raises(RuntimeError, match="is in use") as error:
        estimator(tmp_path).train(batches)
    assert f"pid {os.getpid()}" in str(error.value)


def test_training_inside_a_training_in_the_same_place_is_told(tmp_path: Path) -> None:
    class Train(est.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            estimator(tmp_path).train(batches)

    with pytest.raises(est.errors.ModelDirBusyError, match="is in use"):
        estimator(tmp_path).train(endless, steps=2, hooks=[Train()])


def test_model_dir_emptied_between_two_calls_starts_afresh(tmp_path: Path) -> None:
    made = estimator(tmp_path / "model").train(endless, steps=4)
    shutil.rmtree(tmp_path / "model")
    made.train(endless, steps=2)
    assert made.get_variable_value("global_step") == 2
    assert made.get_variable_value("w") == pytest.approx(weight_after(2))


# ------------------------------------------------------------------ checkpoints that do not fit


def wide(shape: int, name: str = "v") -> Any:
    def with_vector(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        v1.get_variable(name, [shape], initializer=v1.zeros_initializer())
        return model_fn(features, labels, mode)

    return with_vector


@pytest.mark.parametrize("verb", ["train", "evaluate", "predict"])
def test_shapes_that_changed_are_listed_side_by_side(tmp_path: Path, verb: str) -> None:
    estimator(tmp_path, wide(3)).train(endless, steps=2)
    with pytest.raises(ValueError, match="Restoring from checkpoint failed") as error:
        result = getattr(estimator(tmp_path, wide(5)), verb)(endless)
        next(result)
    [row] = [line for line in str(error.value).splitlines() if line.strip().startswith("v ")]
    assert [cell.strip() for cell in row.split("|")] == ["v", "(5,) float32", "(3,) float32"]
    assert str(tmp_path / "model.ckpt-2") in str(error.value)
    assert_usable(tmp_path, step=2)


def test_variable_that_is_missing_is_named_with_a_look_alike(tmp_path: Path) -> None:
    estimator(tmp_path, wide(3, "bias_old")).train(endless, steps=2)
    with pytest.raises(ValueError, match="Key bias_new not found in checkpoint") as error:
        estimator(tmp_path, wide(3, "bias_new")).train(endless, steps=2)
    assert "bias_old ((3,) float32), like bias_new" in str(error.value)


def test_variable_that_only_the_checkpoint_has_is_ignored(tmp_path: Path) -> None:
    estimator(tmp_path, wide(3)).train(endless, steps=2)
    made = estimator(tmp_path).train(endless, steps=2)
    assert made.get_variable_value("w") == pytest.approx(weight_after(4))


# ------------------------------------------------------------------ damaged checkpoints


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def overwrite(file: Path) -> None:
    file.write_bytes(b"\0" * file.stat().st_size)


@pytest.mark.parametrize("damage", [cut_short, overwrite, Path.unlink])
@pytest.mark.parametrize("part", ["index", "data-00000-of-00001"])
def test_damaged_checkpoint_is_passed_over_for_the_newest_intact_one(
    tmp_path: Path, caplog, damage: Any, part: str
) -> None:
    estimator(tmp_path, save_checkpoints_steps=2).train(endless, steps=6)
    damage(tmp_path / f"model.ckpt-6.{part}")
    made = estimator(tmp_path, save_checkpoints_steps=2)
    made.train(endless, max_steps=8)
    assert made.get_variable_value("global_step") == 8
    assert made.get_variable_value("w") == pytest.approx(weight_after(8))
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert any("model.ckpt-6" in w and "model.ckpt-4" in w for w in warnings)


def test_evaluation_passes_over_a_damaged_checkpoint_too(tmp_path: Path) -> None:
    estimator(tmp_path, save_checkpoints_steps=2).train(endless, steps=6)
    overwrite(tmp_path / "model.ckpt-6.data-00000-of-00001")
    results = estimator(tmp_path).evaluate(batches)
    w = weight_after(4)
    assert results["global_step"] == 4
    assert results["loss"] == pytest.approx((loss_of(w, 0) + loss_of(w, 1)) / 2, rel=1e-5)


def test_damaged_checkpoint_that_was_asked_for_is_an_error(tmp_path: Path) -> None:
    estimator(tmp_path, save_checkpoints_steps=2).train(endless, steps=4)
    overwrite(tmp_path / "model.ckpt-4.data-00000-of-00001")
    with pytest.raises(ValueError, match="is damaged"):
        estimator(tmp_path).evaluate(batches, checkpoint_path=str(tmp_path / "model.ckpt-4"))


def test_all_checkpoints_damaged_is_an_error_that_lists_them(tmp_path: Path) -> None:
    estimator(tmp_path).train(endless, steps=4)
    for step in (0, 4):
        overwrite(tmp_path / f"model.ckpt-{step}.data-00000-of-00001")
    with pytest.raises(ValueError, match="None of the checkpoints") as error:
        estimator(tmp_path).train(endless, steps=2)
    assert "model.ckpt-0" in str(error.value) and "model.ckpt-4" in str(error.value)


@pytest.mark.parametrize("verb", ["evaluate", "predict"])
def test_checkpoint_path_that_does_not_exist_is_told(tmp_path: Path, verb: str) -> None:
    path = str(tmp_path / "model.ckpt-7")
    with pytest.raises(ValueError, match="There is no checkpoint") as error:
        list(getattr(estimator(tmp_path), verb)(batches, checkpoint_path=path))
    assert path in str(error.value)
