"""Heads of `canned.head` in a graph and session of one's own, as libraries use them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.private import canned_heads
from estimand.compat.v1.tpu import TPUEstimatorSpec

v1 = tf.compat.v1

LOGITS = np.array([[2.0], [-1.0]], np.float32)
LABELS = np.array([[1], [1]])
EACH = np.log1p(np.exp(-LOGITS))


def started(session: Any) -> None:
    session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])


def test_an_optimizer_trains_all_variables_and_updates_run_with_the_step() -> None:
    head = canned_heads._binary_logistic_head_with_sigmoid_cross_entropy_loss()
    with tf.Graph().as_default(), v1.Session() as session:
        weight, moved = v1.get_variable("w", initializer=1.0), v1.get_variable("m", initializer=0)
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_add(moved, 1))
        step = v1.train.create_global_step()
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        spec = head.create_estimator_spec({}, "train", LOGITS * weight, LABELS, optimizer)
        summaries = v1.summary.merge_all()
        started(session)
        written = v1.Summary.FromString(session.run(summaries))
        session.run(spec.train_op)
        gradient = np.sum(-LOGITS / (1 + np.exp(LOGITS)))
        assert session.run(weight) == pytest.approx(1 - 0.1 * gradient)
        assert session.run([step, moved]) == [1, 1]
    values = {value.tag: value.simple_value for value in written.value}
    assert values == pytest.approx({"loss": EACH.sum(), "average_loss": EACH.mean()})


def test_anything_with_minimize_is_an_optimizer() -> None:
    class Own:
        def minimize(self, loss: Any, global_step: Any) -> Any:
            return tf.strings.as_string(loss, precision=2)

    with tf.Graph().as_default(), v1.Session() as session:
        head = canned_heads._regression_head()
        spec = head.create_estimator_spec({}, "train", [[3.0]], [[1.0]], optimizer=Own())
        assert session.run(spec.train_op) == b"4.00"


def test_a_spec_for_tpus_has_the_same_metrics() -> None:
    head = canned_heads._multi_class_head_with_softmax_cross_entropy_loss(3)
    with tf.Graph().as_default(), v1.Session() as session:
        spec = head._create_tpu_estimator_spec({}, "eval", [[0.0, 1.0, 0.0]], [[1]])
        assert isinstance(spec, TPUEstimatorSpec)
        (value, update) = spec.as_estimator_spec().eval_metric_ops["accuracy"]
        started(session)
        session.run(update)
        assert session.run(value) == 1.0


def test_labels_out_of_range_are_told_in_the_older_words() -> None:
    head = canned_heads._multi_class_head_with_softmax_cross_entropy_loss(3)
    with tf.Graph().as_default(), v1.Session() as session:
        labels = v1.placeholder(tf.int64)
        loss = head.create_loss({}, "eval", tf.constant([[1.0, 2.0, 3.0]]), labels).training_loss
        with pytest.raises(tf.errors.InvalidArgumentError, match="Labels must <= n_classes - 1"):
            session.run(loss, {labels: [[45]]})


def test_a_head_that_makes_neither_spec_says_so() -> None:
    class Own(canned_heads._Head):
        name = None
        logits_dimension = 1

        def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> Any:
            return None

    with pytest.raises(NotImplementedError, match="must implement `create_estimator_spec"):
        Own().create_estimator_spec({}, "eval", None)


def test_tensors_of_a_model_function_are_found_in_lists() -> None:
    found: list[Any] = []

    def model_fn(features: Any, mode: str) -> est.EstimatorSpec:
        loss, other = tf.reduce_sum(features), tf.constant(1.0)
        counter = v1.assign_add(v1.train.get_global_step(), 1)
        count = tf.identity(counter)
        things = [other, count, count.op, loss]
        found.extend([loss in things, loss in things[:-1], loss != other, loss == count.op])
        found.append(tf.cast(features == 1.0, tf.float32))  # values are still compared by value
        return est.EstimatorSpec(mode, loss=loss, train_op=counter)

    est.Estimator(model_fn).train(lambda: tf.data.Dataset.from_tensors([1.0]), steps=1)
    assert [bool(answer) for answer in found[:4]] == [True, False, True, False]
    assert found[4].shape == [1]


class EachLoss(canned_heads._MultiClassHeadWithSoftmaxCrossEntropyLoss):
    """As libraries derive heads: a step from the losses of examples, and metrics by hand."""

    def _create_tpu_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        train_op_fn: Any = None,
        regularization_losses: Any = None,
    ) -> TPUEstimatorSpec:
        loss, each, weights, ids = self.create_loss(features, mode, logits, labels)
        classes = tf.expand_dims(tf.argmax(logits, -1), -1)
        metrics = canned_heads._create_eval_metrics_tuple(
            self._eval_metric_ops,
            {
                "labels": ids,
                "class_ids": classes,
                "weights": weights,
                "unreduced_loss": each,
                "regularization_loss": None,
            },
        )
        assert self._label_vocabulary is None and self._n_classes == 3
        train_op = None
        if mode == "train":
            train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
        return TPUEstimatorSpec(
            mode, {"c": classes}, tf.reduce_max(loss), train_op, eval_metrics=metrics
        )


def test_a_derived_head_trains_on_the_losses_of_examples() -> None:
    column = tf.feature_column.numeric_column("x")
    head = EachLoss(3, loss_reduction=v1.losses.Reduction.NONE)
    points = {"x": [[1.0], [2.0], [3.0]]}, [[0], [1], [2]]

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        logits = v1.feature_column.linear_model(features, [column], units=3)
        optimizer = v1.train.GradientDescentOptimizer(0.0)
        return head.create_estimator_spec(features, mode, logits, labels, optimizer)

    estimator = est.Estimator(model_fn, config=est.RunConfig(progress=False))
    data = tf.data.Dataset.from_tensors
    estimator.train(lambda: data(points), steps=1)
    results = estimator.evaluate(lambda: data(points))
    # Logits of zeros: the first class of three for all, and the same loss for each.
    assert results["accuracy"] == pytest.approx(1 / 3)
    assert results["loss"] == pytest.approx(np.log(3))
    assert results["average_loss"] == pytest.approx(np.log(3))


def test_metrics_of_several_heads_can_be_joined_as_pairs() -> None:
    """As an ensemble chooses among the metrics of its members."""
    head = est.BinaryClassHead()

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        rows = v1.get_variable("w", initializer=[[1.0], [-1.0]])
        v1.train.get_or_create_global_step()
        logits = [features["x"] * rows[i] for i in range(2)]
        specs = [head.create_estimator_spec(features, mode, one, labels) for one in logits]
        values, updates = zip(*(spec.eval_metric_ops["accuracy"] for spec in specs), strict=True)
        assert specs[0].eval_metric_ops["accuracy"][1].type == "NoOp"
        assert [op.type for op in specs[0].eval_metric_ops["accuracy"].updates] == [
            "AssignAddVariableOp"
        ]
        best = tf.reduce_max(tf.stack(values)), tf.group(*updates)
        return est.EstimatorSpec(mode, loss=specs[0].loss, eval_metric_ops={"best": best})

    estimator = est.Estimator(model_fn, config=est.RunConfig(progress=False))
    points = {"x": [[1.0], [2.0], [-3.0]]}, [[0], [0], [0]]
    results = estimator.evaluate(lambda: tf.data.Dataset.from_tensors(points).repeat(2))
    assert results["best"] == pytest.approx(2 / 3)
