"""Scaffold, averaged weights, initial values from a checkpoint, things saved beside variables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.estimator.conftest import run_config, v1

RATE = 0.1


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(np.float32([1, 2])).repeat()


def two_batches() -> tf.data.Dataset:
    return input_fn().take(2)


def weight_after(steps: int, start: Any = (1.0, 1.0)) -> np.ndarray:
    """Loss sum(x * w): every step lowers w by x times the rate."""
    return np.array(start) - steps * RATE * np.array([1, 2])


Extend = Callable[[str, tf.Variable, tf.Operation], dict[str, Any]]


def estimator(model_dir: str, extend: Extend, **config: Any) -> est.Estimator:
    def model_fn(features: tf.Tensor, mode: str) -> est.EstimatorSpec:
        w = v1.get_variable("w", [2], initializer=v1.ones_initializer())
        loss = tf.reduce_sum(features * w)
        step = v1.train.get_global_step()
        train_op = v1.train.GradientDescentOptimizer(RATE).minimize(loss, global_step=step)
        fields = {"loss": loss, "train_op": train_op, "predictions": w[None]}
        return est.EstimatorSpec(mode, **{**fields, **extend(mode, w, train_op)})

    return est.Estimator(model_fn, model_dir, run_config(**config))


# Averaged weights


def test_evaluation_with_averaged_weights(model_dir: str) -> None:
    def extend(mode: str, w: tf.Variable, train_op: tf.Operation) -> dict[str, Any]:
        average = v1.train.ExponentialMovingAverage(0.5)
        if mode == est.ModeKeys.TRAIN:
            with v1.control_dependencies([train_op]):
                return {"train_op": average.apply([w])}
        saver = v1.train.Saver(average.variables_to_restore())
        return {"scaffold": v1.train.Scaffold(saver=saver)}

    model = estimator(model_dir, extend).train(input_fn, steps=3)
    averaged = np.ones(2)
    for step in (1, 2, 3):
        averaged = 0.5 * averaged + 0.5 * weight_after(step)
    name = "w/ExponentialMovingAverage"
    np.testing.assert_allclose(model.get_variable_value(name), averaged, atol=1e-6)
    np.testing.assert_allclose(model.get_variable_value("w"), weight_after(3), atol=1e-6)
    expected = float(averaged @ [1, 2])
    assert model.evaluate(two_batches)["loss"] == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(next(model.predict(two_batches)), averaged, atol=1e-6)
    # Training goes on with the weights themselves, not with their averages.
    model.train(input_fn, steps=1)
    np.testing.assert_allclose(model.get_variable_value("w"), weight_after(4), atol=1e-6)
    assert est.Estimator(model._model_fn, model_dir, run_config()).evaluate(two_batches)[
        "loss"
    ] == pytest.approx(float((0.5 * averaged + 0.5 * weight_after(4)) @ [1, 2]), abs=1e-5)


# Scaffold


def test_init_fn_fills_variables_once(model_dir: str) -> None:
    calls: list[Any] = []

    def extend(mode: str, w: tf.Variable, train_op: tf.Operation) -> dict[str, Any]:
        given = v1.placeholder(tf.float32, [2])
        fill = w.assign(given)

        def init_fn(scaffold: Any, session: Any) -> None:
            calls.append(scaffold)
            session.run(fill, feed_dict={given: [5.0, 7.0]})

        return {"scaffold": v1.train.Scaffold(init_fn=init_fn)}

    for _ in range(2):
        model = estimator(model_dir, extend).train(input_fn, steps=1)
    assert [type(c) for c in calls] == [v1.train.Scaffold]  # not again: there is a checkpoint
    expected = weight_after(2, (5, 7))
    np.testing.assert_allclose(model.get_variable_value("w"), expected, atol=1e-6)


def test_init_fn_that_restores_with_a_saver(model_dir: str, tmp_path: Path) -> None:
    donor = estimator(str(tmp_path / "donor"), lambda *_: {}).train(input_fn, steps=3)

    def extend(mode: str, w: tf.Variable, train_op: tf.Operation) -> dict[str, Any]:
        saver = v1.train.Saver({"w": w})

        def init_fn(scaffold: Any, session: Any) -> None:
            saver.restore(session, donor.latest_checkpoint())

        return {"scaffold": v1.train.Scaffold(init_fn=init_fn)}

    model = estimator(model_dir, extend).train(input_fn, steps=1)
    np.testing.assert_allclose(model.get_variable_value("w"), weight_after(4), atol=1e-6)
    assert model.get_variable_value("global_step") == 1


def test_local_init_op_runs_at_the_start_of_every_run(model_dir: str) -> None:
    def extend(mode: str, w: tf.Variable, train_op: tf.Operation) -> dict[str, Any]:
        count = v1.get_local_variable("count", shape=[], initializer=v1.zeros_initializer())
        start = tf.group(v1.local_variables_initializer(), v1.tables_initializer())
        with v1.control_dependencies([start]):
            start = v1.assign(count, 10.0)
        metric = (count.value(), v1.assign_add(count, 1.0))
        scaffold = v1.train.Scaffold(local_init_op=start)
        return {"scaffold": scaffold, "eval_metric_ops": {"count": metric}}

    model = estimator(model_dir, extend)
    for _ in range(2):
        assert model.evaluate(two_batches)["count"] == 12


def test_tables_initializer_beside_a_table_that_is_filled_at_once(model_dir: str) -> None:
    """A column's table is lifted out of the graph; the program's group is still one of ops."""

    def extend(mode: str, w: tf.Variable, train_op: tf.Operation) -> dict[str, Any]:
        kind = tf.feature_column.categorical_column_with_vocabulary_list("kind", ["a", "b"])
        columns = [tf.feature_column.indicator_column(kind)]
        row = v1.feature_column.input_layer({"kind": tf.constant([["b"]])}, columns)
        start = tf.group(v1.local_variables_initializer(), v1.tables_initializer())
        metric = v1.metrics.mean(row[0, 1])
        return {
            "scaffold": v1.train.Scaffold(local_init_op=start),
            "eval_metric_ops": {"is_b": metric},
        }

    assert estimator(model_dir, extend).evaluate(two_batches)["is_b"] == 1


@pytest.mark.parametrize(
    "given", [tf.group, lambda assigned: assigned, lambda assigned: [assigned]]
)
def test_custom_init_op(model_dir: str, given: Callable[[Any], Any]) -> None:
    """An op, what `assign` returns, or a list: whatever a session runs."""

    def extend(mode: str, w: tf.Variable, train_op: tf.Operation) -> dict[str, Any]:
        init_op = tf.group(v1.global_variables_initializer(), name="before")
        with v1.control_dependencies([init_op]):
            assigned = w.assign([3.0, 3.0])
        return {"scaffold": v1.train.Scaffold(init_op=given(assigned))}

    model = estimator(model_dir, extend).train(input_fn, steps=1)
    np.testing.assert_allclose(model.get_variable_value("w"), weight_after(1, (3, 3)), atol=1e-6)


def test_saver_of_the_scaffold_decides_what_is_saved(model_dir: str) -> None:
    def extend(mode: str, w: tf.Variable, train_op: tf.Operation) -> dict[str, Any]:
        v1.get_variable("left_out", [1])
        saver = v1.train.Saver([w, v1.train.get_global_step()])
        return {"scaffold": v1.train.Scaffold(saver=saver)}

    model = estimator(model_dir, extend).train(input_fn, steps=1)
    assert sorted(model.get_variable_names()) == ["global_step", "w"]


# Initial values from a checkpoint


@pytest.mark.parametrize("donor_steps", [4])
def test_init_from_checkpoint(model_dir: str, tmp_path: Path, donor_steps: int) -> None:
    """As the BERT family does it: an assignment map from the names of the old checkpoint."""
    donor = estimator(str(tmp_path / "donor"), lambda *_: {}).train(input_fn, steps=donor_steps)
    checkpoint = donor.latest_checkpoint()

    def model_fn(features: tf.Tensor, mode: str) -> est.EstimatorSpec:
        with v1.variable_scope("bert"):
            w = v1.get_variable("w", [2], initializer=v1.zeros_initializer())
        head = v1.get_variable("head", [2], initializer=v1.zeros_initializer())
        found = {name for name, _ in tf.train.list_variables(checkpoint)}
        assert "w" in found
        v1.train.init_from_checkpoint(checkpoint, {"w": "bert/w"})
        loss = tf.reduce_sum(features * (w + head))
        step = v1.train.get_global_step()
        train_op = v1.train.GradientDescentOptimizer(RATE).minimize(loss, global_step=step)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def make() -> est.Estimator:
        return est.Estimator(model_fn, model_dir, run_config())

    untrained = make().evaluate(two_batches)
    assert untrained["loss"] == pytest.approx(weight_after(4) @ [1, 2], abs=1e-5)
    for steps in (1, 2):  # the second time from our own checkpoint, not from the donor's
        model = make().train(input_fn, steps=1)
        found = model.get_variable_value
        np.testing.assert_allclose(found("bert/w"), weight_after(4 + steps), atol=1e-6)
        np.testing.assert_allclose(found("head"), weight_after(steps, (0, 0)), atol=1e-6)


def test_init_from_checkpoint_by_scope(model_dir: str, tmp_path: Path) -> None:
    donor = estimator(str(tmp_path / "donor"), lambda *_: {}).train(input_fn, steps=2)

    def extend(mode: str, w: tf.Variable, train_op: tf.Operation) -> dict[str, Any]:
        v1.train.init_from_checkpoint(donor.latest_checkpoint(), {"w": w})
        return {}

    model = estimator(model_dir, extend).train(input_fn, steps=1)
    np.testing.assert_allclose(model.get_variable_value("w"), weight_after(3), atol=1e-6)


@pytest.mark.parametrize("by", ["name", "variable"])
def test_init_from_checkpoint_by_a_hook(model_dir: str, tmp_path: Path, by: str) -> None:
    """As hooks for GPT-2 do it: first values, of which a training that goes on takes no notice."""
    donor = estimator(str(tmp_path / "donor"), lambda *_: {}).train(input_fn, steps=4)

    class Restore(est.SessionRunHook):
        def begin(self) -> None:
            (w,) = v1.trainable_variables()
            to = w if by == "variable" else "w"
            v1.train.init_from_checkpoint(donor.latest_checkpoint(), {"w": to})

    for steps in (1, 2):
        model = estimator(model_dir, lambda *_: {}).train(input_fn, steps=1, hooks=[Restore()])
        found = model.get_variable_value("w")
        np.testing.assert_allclose(found, weight_after(4 + steps), atol=1e-6)


# Saved beside variables


def test_mutable_table_is_saved_and_restored(model_dir: str) -> None:
    """A table registers itself in SAVEABLE_OBJECTS; each step notes itself in it."""

    def extend(mode: str, w: tf.Variable, train_op: tf.Operation) -> dict[str, Any]:
        table = tf.lookup.experimental.MutableHashTable(
            tf.int64, tf.int64, default_value=-1, name="seen"
        )
        assert len(v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS)) == 1
        keys = tf.range(4, dtype=tf.int64)
        if mode == est.ModeKeys.PREDICT:
            return {"predictions": {"key": keys, "value": table.lookup(keys)}}
        with v1.control_dependencies([train_op]):
            step = v1.train.get_global_step().read_value()
        return {"train_op": table.insert(step[None], (step * 10)[None])}

    def contents(model: est.Estimator) -> dict[int, int]:
        rows = model.predict(lambda: input_fn().take(1))
        return {int(row["key"]): int(row["value"]) for row in rows}

    first = estimator(model_dir, extend).train(input_fn, steps=1)
    assert contents(first) == {0: -1, 1: 10, 2: -1, 3: -1}
    second = estimator(model_dir, extend).train(input_fn, steps=2)
    assert contents(second) == {0: -1, 1: 10, 2: 20, 3: 30}
    assert contents(estimator(model_dir, extend)) == contents(second)
    assert {"seen-keys", "seen-values"} < set(second.get_variable_names())


def test_tables_of_two_estimators_are_two_tables(tmp_path: Path) -> None:
    def extend(mode: str, w: tf.Variable, train_op: tf.Operation) -> dict[str, Any]:
        table = tf.lookup.experimental.MutableHashTable(
            tf.int64, tf.int64, default_value=-1, name="seen"
        )
        with v1.control_dependencies([train_op]):
            insert = table.insert([1], [1])
        size = (table.size(), tf.no_op())
        return {"train_op": insert, "eval_metric_ops": {"size": size}}

    trained = estimator(str(tmp_path / "trained"), extend).train(input_fn, steps=1)
    other = estimator(str(tmp_path / "other"), extend)
    assert trained.evaluate(two_batches)["size"] == 1
    assert other.evaluate(two_batches)["size"] == 0
