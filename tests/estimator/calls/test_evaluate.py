"""evaluate(): the numbers, where they are written, and what is not done twice."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.checkpoints import api as checkpoints
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


def mean_loss(w: float) -> float:
    return (loss_of(w, 0) + loss_of(w, 1)) / 2


def events(directory: Path) -> list[Any]:
    return [event for file in event_files(directory) for event in read_events(file)]


# ------------------------------------------------------------------ numbers


def test_metrics_loss_and_global_step(tmp_path: Path) -> None:
    results = estimator(tmp_path).train(endless, steps=3).evaluate(batches)
    assert results.keys() == {"mae", "loss", "global_step"}
    w = weight_after(3)
    assert results["loss"] == pytest.approx(mean_loss(w), rel=1e-5)
    assert results["mae"] == pytest.approx(abs(w - 2) * 2.5, rel=1e-5)
    assert results["global_step"] == 3
    assert (type(results["loss"]), type(results["global_step"])) == (float, int)


def test_loss_is_the_mean_over_batches_not_over_rows(tmp_path: Path) -> None:
    def uneven() -> tf.data.Dataset:
        return batches().unbatch().batch(3)

    results = estimator(tmp_path).evaluate(uneven)
    first, second = np.mean([1.0, 4.0, 9.0]), 16.0
    assert results["loss"] == pytest.approx((first + second) / 2)


def test_steps_limit_the_batches(tmp_path: Path) -> None:
    results = estimator(tmp_path).evaluate(endless, steps=1)
    assert results["loss"] == pytest.approx(loss_of(1, 0))


def test_more_steps_than_batches_end_with_the_input(tmp_path: Path) -> None:
    assert estimator(tmp_path).evaluate(batches, steps=9)["loss"] == pytest.approx(mean_loss(1))


def test_input_of_unknown_length(tmp_path: Path) -> None:
    def unknown() -> tf.data.Dataset:
        return endless().take(401).filter(lambda *_: True)

    expected = (201 * loss_of(1, 0) + 200 * loss_of(1, 1)) / 401
    assert estimator(tmp_path).evaluate(unknown)["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("known_length", [True, False])
def test_empty_input_gives_zeros_and_a_warning(
    tmp_path: Path, known_length: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def nothing() -> tf.data.Dataset:
        return batches().take(0) if known_length else batches().filter(lambda *_: False)

    results = estimator(tmp_path).evaluate(nothing)
    assert results == {"loss": 0, "mae": 0, "global_step": 0}
    assert "The input of evaluate is empty: input_fn gave no batch" in caplog.text


def test_empty_input_of_an_eager_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="The input of evaluate is empty"):
        estimator(tmp_path, run_eagerly=True).evaluate(lambda: batches().take(0))


def test_a_fraction_of_steps_counts_as_one_more_step(tmp_path: Path) -> None:
    model = estimator(tmp_path).train(batches, max_steps=1)
    wanted = model.evaluate(batches, steps=2)
    assert model.evaluate(batches, steps=1.5) == wanted
    assert model.evaluate(batches, steps=2.0) == wanted


@pytest.mark.parametrize("steps", [0, -1])
def test_less_than_one_step_is_refused(tmp_path: Path, steps: int) -> None:
    with pytest.raises(ValueError, match=f"Must specify steps > 0, given: {steps}"):
        estimator(tmp_path).evaluate(batches, steps=steps)


@pytest.mark.parametrize(("name", "quoted"), [("loss", '"loss"'), ("global_step", "`global_step`")])
def test_names_of_our_own_metrics_are_refused(tmp_path: Path, name: str, quoted: str) -> None:
    def clashing(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = model_fn(features, labels, mode)
        return spec._replace(eval_metric_ops={name: v1.metrics.mean(labels)})

    message = (
        f"Metric with name {quoted} is not allowed, because Estimator already defines a default "
        "metric with the same name."
    )
    with pytest.raises(ValueError, match="is not allowed") as error:
        estimator(tmp_path, clashing).evaluate(batches)
    assert message in str(error.value)


def test_metrics_count_anew_in_every_call(tmp_path: Path) -> None:
    made = estimator(tmp_path)
    assert made.evaluate(batches) == made.evaluate(batches)


def test_global_step_does_not_move(tmp_path: Path) -> None:
    made = estimator(tmp_path).train(endless, steps=3)
    made.evaluate(batches)
    assert made.evaluate(batches)["global_step"] == 3
    assert checkpoint_steps(tmp_path) == [0, 3]


def test_array_metric(tmp_path: Path) -> None:
    def with_array(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = model_fn(features, labels, mode)
        sums = tf.stack([tf.reduce_sum(features["x"]), tf.reduce_sum(labels)])
        return spec._replace(eval_metric_ops={"sums": v1.metrics.mean_tensor(sums)})

    results = estimator(tmp_path, with_array).evaluate(batches)
    assert results["sums"].tolist() == [(3 + 7) / 2, (6 + 14) / 2]


# ------------------------------------------------------------------ which values are evaluated


def test_untrained_model_is_evaluated_with_its_initial_values(tmp_path: Path, caplog) -> None:
    caplog.set_level("INFO", "tensorflow")
    results = estimator(tmp_path).evaluate(batches)
    assert results["loss"] == pytest.approx(mean_loss(1))
    told = f"Could not find trained model in model_dir: {tmp_path}, running initialization to "
    assert told + "evaluate." in caplog.messages
    assert checkpoint_steps(tmp_path) == []


def test_untrained_model_has_no_variables_to_show(tmp_path: Path) -> None:
    made = estimator(tmp_path)
    for ask in (made.get_variable_names, lambda: made.get_variable_value("w")):
        with pytest.raises(ValueError, match="Could not find trained model in model_dir"):
            ask()
    assert made.latest_checkpoint() is None


def test_names_and_values_of_variables(tmp_path: Path) -> None:
    made = estimator(tmp_path).train(endless, steps=2)
    assert sorted(made.get_variable_names()) == ["global_step", "w"]
    with pytest.raises(ValueError, match=r"no variable 'v' .* It has: global_step, w\."):
        made.get_variable_value("v")


def test_given_checkpoint_wins(tmp_path: Path) -> None:
    made = estimator(tmp_path, save_checkpoints_steps=2).train(endless, steps=4)
    results = made.evaluate(batches, checkpoint_path=str(tmp_path / "model.ckpt-2"))
    assert results["global_step"] == 2
    assert results["loss"] == pytest.approx(mean_loss(weight_after(2)), rel=1e-5)
    assert made.evaluate(batches)["global_step"] == 4
    made.train(endless, steps=1)
    assert made.get_variable_value("w") == pytest.approx(weight_after(5))


def test_checkpoint_of_another_process_is_noticed(tmp_path: Path) -> None:
    watching = estimator(tmp_path)
    estimator(tmp_path).train(endless, steps=2)
    assert watching.evaluate(batches)["global_step"] == 2
    estimator(tmp_path).train(endless, steps=2)
    assert watching.evaluate(batches)["global_step"] == 4


def test_model_trained_without_checkpoints_is_evaluated_as_it_is(tmp_path: Path) -> None:
    made = estimator(tmp_path, save_checkpoints_steps=None).train(endless, steps=2)
    assert made.evaluate(batches)["loss"] == pytest.approx(mean_loss(weight_after(2)), rel=1e-5)


# ------------------------------------------------------------------ events


def test_events_go_into_eval(tmp_path: Path) -> None:
    made = estimator(tmp_path).train(endless, steps=3)
    results = made.evaluate(batches)
    assert made.eval_dir() == str(tmp_path / "eval")
    assert read_scalars(tmp_path / "eval") == {
        "loss": [(3, pytest.approx(results["loss"]))],
        "mae": [(3, pytest.approx(results["mae"]))],
    }


def test_events_of_a_named_evaluation_go_into_a_directory_of_its_own(tmp_path: Path) -> None:
    made = estimator(tmp_path).train(endless, steps=3)
    made.evaluate(batches, name="held_out")
    assert made.eval_dir("held_out") == str(tmp_path / "eval_held_out")
    assert read_scalars(tmp_path / "eval_held_out")["loss"]
    assert not os.path.exists(made.eval_dir())


def test_checkpoint_path_is_told_in_an_event_of_its_own(tmp_path: Path) -> None:
    estimator(tmp_path).train(endless, steps=3).evaluate(batches)
    [value] = [
        value
        for event in events(tmp_path / "eval")
        for value in event.summary.value
        if value.tag == "checkpoint_path"
    ]
    assert tf.make_ndarray(value.tensor).item() == str(tmp_path / "model.ckpt-3").encode()


def test_no_checkpoint_path_without_a_checkpoint(tmp_path: Path) -> None:
    estimator(tmp_path).evaluate(batches)
    tags = {value.tag for event in events(tmp_path / "eval") for value in event.summary.value}
    assert tags == {"loss", "mae"}


# ------------------------------------------------------------------ nothing twice


class Counted:
    """The line, counting the calls of its model function and the reads of checkpoints."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, model_dir: Path) -> None:
        self.built: list[str] = []
        self.read: list[str] = []
        original = checkpoints.give_tensors

        def give_tensors(path: str, *arguments: Any) -> Any:
            self.read.append(os.path.basename(path))
            return original(path, *arguments)

        def counting(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
            self.built.append(mode)
            return model_fn(features, labels, mode)

        monkeypatch.setattr(checkpoints, "give_tensors", give_tensors)
        self.estimator = estimator(model_dir, counting)


def test_repeated_calls_neither_build_nor_restore(tmp_path: Path, monkeypatch) -> None:
    estimator(tmp_path).train(endless, steps=3)
    counted = Counted(monkeypatch, tmp_path)
    for _ in range(3):
        counted.estimator.evaluate(batches)
        list(counted.estimator.predict(batches))
    assert counted.built == ["eval", "infer"]
    assert counted.read == ["model.ckpt-3"]


def test_after_training_in_the_same_process_nothing_is_restored(
    tmp_path: Path, monkeypatch
) -> None:
    counted = Counted(monkeypatch, tmp_path)
    for _ in range(3):
        counted.estimator.train(endless, steps=2)
        counted.estimator.evaluate(batches)
        list(counted.estimator.predict(batches))
    assert counted.built == ["train", "eval", "infer"]
    assert counted.read == []


def test_repeated_calls_compile_nothing_anew(tmp_path: Path, monkeypatch) -> None:
    made = estimator(tmp_path).train(endless, steps=2)
    made.evaluate(batches)
    list(made.predict(batches))
    # Among other things it drops everything that has been compiled so far.
    monkeypatch.setattr(tf.random, "set_seed", lambda seed: pytest.fail("kernels are dropped"))
    made.evaluate(batches)
    list(made.predict(batches))
    made.train(endless, steps=2)


def test_new_checkpoint_is_restored_once(tmp_path: Path, monkeypatch) -> None:
    estimator(tmp_path).train(endless, steps=2)
    counted = Counted(monkeypatch, tmp_path)
    counted.estimator.evaluate(batches)
    estimator(tmp_path).train(endless, steps=2)
    counted.read.clear()
    for _ in range(2):
        assert counted.estimator.evaluate(batches)["global_step"] == 4
    assert counted.read == ["model.ckpt-4"]
    assert counted.built == ["eval"]


def test_batches_of_another_shape_build_the_model_anew_and_others_do_not(
    tmp_path: Path, monkeypatch
) -> None:
    def of_three() -> tf.data.Dataset:
        return batches().unbatch().batch(3, drop_remainder=True)

    counted = Counted(monkeypatch, tmp_path)
    for _ in range(2):
        counted.estimator.evaluate(batches)
        counted.estimator.evaluate(of_three)
    assert counted.built == ["eval", "eval"]


def resident_megabytes() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def graphs_alive() -> int:
    gc.collect()
    return sum(1 for thing in gc.get_objects() if issubclass(type(thing), tf.Graph))


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_hundred_evaluations_do_not_grow_memory(tmp_path: Path) -> None:
    made = estimator(tmp_path).train(endless, steps=2)
    for _ in range(20):
        made.evaluate(batches)
    before, graphs = resident_megabytes(), graphs_alive()
    for _ in range(100):
        made.evaluate(batches)
    assert graphs_alive() == graphs
    assert resident_megabytes() - before < 20


def test_hundred_evaluations_keep_one_event_file_open(tmp_path: Path) -> None:
    made = estimator(tmp_path)
    for _ in range(5):
        made.evaluate(batches)
    assert len(event_files(tmp_path / "eval")) == 1
