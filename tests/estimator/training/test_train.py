"""train(): how many steps, what is on disk afterwards, what stops it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
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

# ------------------------------------------------------------------ steps and max_steps


def test_steps_count_from_where_training_stands(tmp_path: Path) -> None:
    made = estimator(tmp_path)
    assert made.train(endless, steps=3) is made
    assert made.get_variable_value("w") == pytest.approx(weight_after(3))
    made.train(endless, steps=3)
    assert made.get_variable_value("global_step") == 6


def test_max_steps_is_absolute(tmp_path: Path) -> None:
    made = estimator(tmp_path)
    made.train(endless, max_steps=3)
    made.train(endless, max_steps=5)
    assert made.get_variable_value("global_step") == 5


def test_both_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Can not provide both steps and max_steps\."):
        estimator(tmp_path).train(endless, steps=1, max_steps=1)


@pytest.mark.parametrize("name", ["steps", "max_steps"])
@pytest.mark.parametrize("value", [0, -1])
def test_less_than_one_is_refused(tmp_path: Path, name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"Must specify {name} > 0, given: {value}"):
        estimator(tmp_path).train(endless, **{name: value})


def test_nothing_is_built_when_max_steps_are_done(tmp_path: Path, caplog) -> None:
    made = estimator(tmp_path).train(endless, max_steps=3)
    caplog.set_level("INFO", "tensorflow")
    again = estimator(tmp_path, lambda features, labels, mode: pytest.fail("built"))
    assert again.train(lambda: pytest.fail("read"), max_steps=3) is again
    assert "Skipping training since max_steps has already saved." in caplog.messages
    assert made.latest_checkpoint() == again.latest_checkpoint()


def test_neither_means_until_the_end_of_input(tmp_path: Path) -> None:
    made = estimator(tmp_path).train(batches)
    assert made.get_variable_value("w") == pytest.approx(weight_after(2))


def test_long_run_in_blocks_gives_the_numbers_of_single_steps(tmp_path: Path) -> None:
    made = estimator(tmp_path).train(endless, steps=1234)
    assert made.get_variable_value("global_step") == 1234
    assert made.get_variable_value("w") == pytest.approx(weight_after(1234), rel=1e-5)


# ------------------------------------------------------------------ the end of input


def test_input_that_ends_early_ends_training_with_a_final_checkpoint(tmp_path: Path) -> None:
    made = estimator(tmp_path).train(lambda: endless().take(5), steps=100)
    assert checkpoint_steps(tmp_path) == [0, 5]
    assert made.get_variable_value("w") == pytest.approx(weight_after(5))


def test_input_of_unknown_length_that_ends_inside_a_block(tmp_path: Path, caplog) -> None:
    def unknown() -> tf.data.Dataset:
        return endless().take(37).filter(lambda features, labels: True)

    caplog.set_level("INFO", "tensorflow")
    made = estimator(tmp_path).train(unknown, steps=1000)
    assert made.get_variable_value("w") == pytest.approx(weight_after(37))
    [told] = [m for m in caplog.messages if m.startswith("Loss for final step: ")]
    final = float(told.split(": ")[1].rstrip("."))
    assert final == pytest.approx(loss_of(weight_after(36), 0), rel=1e-4)


def test_stop_iteration_of_a_python_input_ends_training(tmp_path: Path) -> None:
    def rows() -> Any:
        for _ in range(3):
            yield {"x": np.float32([1, 2])}, np.float32([2, 4])

    made = estimator(tmp_path).train(rows)
    assert made.get_variable_value("global_step") == 3


def test_empty_input_is_warned_of(tmp_path: Path, caplog) -> None:
    estimator(tmp_path).train(lambda: batches().take(0), steps=10)
    message = "Training with estimator made no steps. Perhaps input is empty or misspecified."
    assert message in caplog.messages
    assert checkpoint_steps(tmp_path) == [0]


def test_empty_input_of_unknown_length_is_warned_of(tmp_path: Path, caplog) -> None:
    def nothing() -> tf.data.Dataset:
        return batches().filter(lambda features, labels: False)

    estimator(tmp_path).train(nothing, steps=10)
    assert any("made no steps" in m for m in caplog.messages)
    assert checkpoint_steps(tmp_path) == [0]


# ------------------------------------------------------------------ checkpoints


def test_checkpoints_at_start_at_the_end_and_every_so_many_steps(tmp_path: Path) -> None:
    estimator(tmp_path, save_checkpoints_steps=4).train(endless, steps=10)
    assert checkpoint_steps(tmp_path) == [0, 4, 8, 10]


def test_end_that_was_just_saved_is_not_saved_twice(tmp_path: Path, caplog) -> None:
    caplog.set_level("INFO", "tensorflow")
    estimator(tmp_path, save_checkpoints_steps=4).train(endless, steps=8)
    saved = [m.split()[3] for m in caplog.messages if m.startswith("Saving checkpoints for")]
    assert saved == ["0", "4", "8"]


def test_two_calls_save_where_they_start_and_end(tmp_path: Path, caplog) -> None:
    caplog.set_level("INFO", "tensorflow")
    made = estimator(tmp_path)
    made.train(endless, steps=3).train(endless, steps=3)
    saved = [m.split()[3] for m in caplog.messages if m.startswith("Saving checkpoints for")]
    assert saved == ["0", "3", "3", "6"]
    assert checkpoint_steps(tmp_path) == [0, 3, 6]


def test_by_time(tmp_path: Path) -> None:
    estimator(tmp_path, save_checkpoints_secs=3600).train(endless, steps=5)
    assert checkpoint_steps(tmp_path) == [0, 5]


def test_checkpointed_values_are_those_of_the_step(tmp_path: Path) -> None:
    estimator(tmp_path, save_checkpoints_steps=2).train(endless, steps=6)
    for step in (0, 2, 4, 6):
        reader = tf.train.load_checkpoint(str(tmp_path / f"model.ckpt-{step}"))
        assert reader.get_tensor("w") == pytest.approx(weight_after(step))
        assert reader.get_tensor("global_step") == step


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    estimator(tmp_path, save_checkpoints_steps=2, keep_checkpoint_max=3).train(endless, steps=12)
    assert checkpoint_steps(tmp_path) == [8, 10, 12]
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert [os.path.basename(p) for p in state.all_model_checkpoint_paths] == [
        f"model.ckpt-{step}" for step in (8, 10, 12)
    ]


def test_state_file_has_relative_paths(tmp_path: Path) -> None:
    estimator(tmp_path).train(batches)
    lines = (tmp_path / "checkpoint").read_text().splitlines()
    assert lines[0] == 'model_checkpoint_path: "model.ckpt-2"'


def test_directory_may_be_moved(tmp_path: Path) -> None:
    estimator(tmp_path / "here").train(endless, steps=2)
    (tmp_path / "here").rename(tmp_path / "there")
    made = estimator(tmp_path / "there").train(endless, steps=2)
    assert made.get_variable_value("global_step") == 4


def test_files_of_a_run(tmp_path: Path) -> None:
    estimator(tmp_path).train(batches)
    names = {name.replace("-2.", "-N.").replace("-0.", "-N.") for name in os.listdir(tmp_path)}
    expected = {"checkpoint", "graph.pbtxt", "model.ckpt-N.index"}
    assert expected | {"model.ckpt-N.data-00000-of-00001"} <= names
    assert len(event_files(tmp_path)) == 1


def test_no_graph_file_if_it_is_not_wanted(tmp_path: Path) -> None:
    estimator(tmp_path, checkpoint_save_graph_def=False).train(batches)
    assert not (tmp_path / "graph.pbtxt").exists()
    assert not list(tmp_path.glob("*.meta"))


def test_without_checkpoints_only_events_appear(tmp_path: Path) -> None:
    estimator(tmp_path, save_checkpoints_steps=None).train(batches)
    assert checkpoint_steps(tmp_path) == [] and not (tmp_path / "graph.pbtxt").exists()
    assert len(event_files(tmp_path)) == 1


def test_listeners_need_checkpoints(tmp_path: Path) -> None:
    message = (
        "There should be a CheckpointSaverHook to use saving_listeners. Please set one of the "
        "RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs."
    )
    made = estimator(tmp_path, save_checkpoints_steps=None)
    with pytest.raises(ValueError, match="CheckpointSaverHook to use saving_listeners") as error:
        made.train(batches, saving_listeners=[est.CheckpointSaverListener()])
    assert message in str(error.value)


def test_saver_hook_of_the_user_takes_the_place_of_the_default(tmp_path: Path) -> None:
    told = []

    class Listener(est.CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            told.append(global_step_value)

    hook = est.CheckpointSaverHook(str(tmp_path / "mine"), save_steps=3)
    made = estimator(tmp_path, save_checkpoints_steps=1)
    made.train(endless, steps=4, hooks=[hook], saving_listeners=[Listener()])
    assert checkpoint_steps(tmp_path) == []
    assert checkpoint_steps(tmp_path / "mine") == told == [0, 3, 4]


def test_training_goes_on_from_a_checkpoint_that_somebody_else_wrote(tmp_path: Path) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("w", initializer=1.5)
        v1.get_variable("global_step", initializer=np.int64(20), trainable=False)
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(tmp_path / "model.ckpt"), 20)
    made = estimator(tmp_path).train(endless, steps=1)
    assert made.get_variable_value("global_step") == 21
    expected = 1.5 - 0.01 * np.mean([2 * 1 * -0.5, 2 * 2 * -1])
    assert made.get_variable_value("w") == pytest.approx(expected)


# ------------------------------------------------------------------ what stops it, or does not


@pytest.mark.parametrize("task", ["evaluator", "ps"])
def test_roles_that_do_not_train_are_told(tmp_path: Path, monkeypatch, task: str) -> None:
    cluster = {"chief": ["a:1"], "ps": ["b:1"], "worker": ["c:1"]}
    tf_config = {"cluster": cluster, "task": {"type": task, "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
    with pytest.raises(ValueError, match="Train has been called wrong configuration") as error:
        estimator(tmp_path).train(batches)
    assert "train_and_evaluate" in str(error.value) and task in str(error.value)


def train_without_global_step(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    w = v1.get_variable("w", [], initializer=v1.ones_initializer())
    loss = tf.reduce_mean(tf.square(features["x"] * w - labels))
    return est.EstimatorSpec(
        mode, loss=loss, train_op=v1.train.GradientDescentOptimizer(0.01).minimize(loss)
    )


def test_global_step_that_does_not_move_is_warned_of(tmp_path: Path, caplog) -> None:
    estimator(tmp_path, train_without_global_step).train(batches)
    assert any("did not advance the global step" in m for m in caplog.messages)


@pytest.mark.parametrize("eagerly", [False, True])
@pytest.mark.parametrize("known_length", [True, False])
def test_what_was_trained_without_a_step_is_what_the_checkpoint_holds(
    tmp_path: Path, known_length: bool, eagerly: bool
) -> None:
    """The values in memory, those on the disk and those of a new process are the same."""

    def some() -> tf.data.Dataset:
        data = endless().take(6)
        return data if known_length else data.filter(lambda x, y: True)

    made = estimator(tmp_path, train_without_global_step, run_eagerly=eagerly)
    for trained in (6, 12):
        made.train(some)
        w = made.get_variable_value("w")
        assert w == pytest.approx(weight_after(trained))
        anew = estimator(tmp_path, train_without_global_step)
        assert made.evaluate(batches)["loss"] == anew.evaluate(batches)["loss"]
        assert checkpoint_steps(tmp_path) == [0]


def test_evaluating_in_a_hook_where_no_step_moves_uses_the_checkpoint(tmp_path: Path) -> None:
    """As in tf.estimator: what is evaluated is the newest checkpoint, here that of the start."""
    made = estimator(tmp_path, train_without_global_step)
    losses = []

    class Evaluate(est.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            losses.append(made.evaluate(batches)["loss"])

    made.train(lambda: endless().take(3), hooks=[Evaluate()])
    assert losses == [pytest.approx((loss_of(1.0, 0) + loss_of(1.0, 1)) / 2)] * 3
    assert made.get_variable_value("w") == pytest.approx(weight_after(3))


def test_what_a_hook_assigns_after_the_last_checkpoint_is_not_taken_for_saved(
    tmp_path: Path,
) -> None:
    class Overwrite(est.SessionRunHook):
        def begin(self) -> None:
            [self._w] = [v for v in v1.global_variables() if v.name == "w:0"]
            self._assign = self._w.assign(100.0)

        def end(self, session: Any) -> None:
            session.run(self._assign)

    made = estimator(tmp_path).train(endless, max_steps=3, hooks=[Overwrite()])
    expected = estimator(tmp_path).evaluate(batches)
    assert made.get_variable_value("w") == pytest.approx(weight_after(3))
    assert made.evaluate(batches) == expected


def test_target_that_cannot_be_reached_is_an_error_not_an_endless_loop(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did not advance the global step"):
        estimator(tmp_path, train_without_global_step).train(endless, steps=10)


def only_twenty_steps(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    """A model with a table of what to do at each step."""
    nothing = tf.cast(0 * features["x"][0], tf.int64)  # to wait for a batch, at the end in vain
    rates = tf.gather(tf.ones([20]), v1.train.get_global_step() + nothing)
    return model_fn({"x": features["x"] * rates}, labels, mode)


def test_measuring_how_to_run_blocks_does_not_trip_over_limits_of_the_model(
    tmp_path: Path,
) -> None:
    def twenty() -> tf.data.Dataset:
        return endless().take(20).filter(lambda features, labels: True)

    made = estimator(tmp_path, only_twenty_steps).train(twenty)
    assert made.get_variable_value("global_step") == 20
    assert made.get_variable_value("w") == pytest.approx(weight_after(20))


def two_optimizers(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    step = v1.train.get_global_step()
    first = model_fn(features, labels, mode)
    v = v1.get_variable("v", [], initializer=v1.ones_initializer())
    second = v1.train.GradientDescentOptimizer(0.01).minimize(tf.square(v), step)
    return first._replace(train_op=tf.group(first.train_op, second))


def test_two_optimizers_count_every_step_twice(tmp_path: Path) -> None:
    made = estimator(tmp_path, two_optimizers).train(endless, steps=10)
    assert made.get_variable_value("global_step") == 10
    assert made.get_variable_value("w") == pytest.approx(weight_after(5))


# ------------------------------------------------------------------ the loss in summaries


def test_loss_is_summarised(tmp_path: Path) -> None:
    estimator(tmp_path, save_summary_steps=1).train(endless, steps=3)
    values = read_scalars(tmp_path)["loss"]
    expected = [(s + 1, loss_of(weight_after(s), s % 2)) for s in range(3)]
    assert [step for step, _ in values] == [step for step, _ in expected]
    assert [v for _, v in values] == pytest.approx([v for _, v in expected])


def test_loss_summary_of_the_model_itself_is_the_only_one(tmp_path: Path) -> None:
    def with_summary(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = model_fn(features, labels, mode)
        v1.summary.scalar("loss", 2 * spec.loss)
        return spec

    estimator(tmp_path, with_summary, save_summary_steps=1).train(endless, steps=1)
    found = {t: v for t, v in read_scalars(tmp_path).items() if t.startswith("loss")}
    assert found == {"loss": [(1, pytest.approx(2 * loss_of(1, 0)))]}


def test_loss_is_in_the_losses_collection(tmp_path: Path) -> None:
    found = []

    class Look(est.SessionRunHook):
        def begin(self) -> None:
            found.extend(v1.get_collection(v1.GraphKeys.LOSSES))

    estimator(tmp_path).train(batches, steps=1, hooks=[Look()])
    assert len(found) == 1


def test_graph_is_in_the_events(tmp_path: Path) -> None:
    estimator(tmp_path).train(batches)
    [file] = event_files(tmp_path)
    assert any(event.HasField("graph_def") for event in read_events(file))
