"""Heads and input functions in a graph that the caller's own session runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.heads import MultiClassHead

v1 = tf.compat.v1


@pytest.fixture
def session() -> Iterator[Any]:
    with tf.Graph().as_default(), v1.Session() as session:
        yield session


def fails_when_run(session: Any, tensor: Any, text: str, feed: Any = None) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        session.run(tensor, feed)


def test_weights_that_do_not_fit_fail_when_run(session):
    head = est.BinaryClassHead(weight_column="w")
    batch = np.zeros([2, 2, 1], np.float32)
    loss = head.loss(labels=batch, logits=batch, features={"w": np.ones([2, 1], np.float32)})
    fails_when_run(session, loss, r"\[logits_shape: \] \[2 2 1\] \[weights_shape: \] \[2 1\]")


def test_a_loss_per_logit_where_one_per_example_is_due_fails_when_run(session):
    head = est.MultiLabelHead(2, loss_fn=lambda labels, logits: tf.zeros([2]))
    loss = head.loss(labels=np.ones([2, 2]), logits=np.ones([2, 2], np.float32))
    text = r"\[loss_fn must return Tensor of shape \[D0, D1, ... DN, 1\]\. \] "
    fails_when_run(session, loss, text + r"\[logits_shape: \] \[2 2\] \[loss_shape: \] \[2\]")


@pytest.mark.parametrize("shape", [(2, 2), (3, 1)])
def test_labels_of_unknown_shape_are_told_with_the_expected_one(session, shape):
    labels, logits = v1.placeholder(tf.int64), v1.placeholder(tf.float32)
    loss = est.MultiClassHead(3).loss(labels=labels, logits=logits)
    feed = {labels: np.ones(shape), logits: np.zeros([2, 3])}
    text = rf"\[expected_labels_shape: \] \[2 1\] \[labels_shape: \] \[{shape[0]} {shape[1]}\]"
    fails_when_run(session, loss, text, feed)


def test_weights_per_logit_of_unknown_shape(session):
    weights = v1.placeholder(tf.float32)
    head = est.RegressionHead(label_dimension=2, weight_column="w", loss_reduction="sum")
    loss = head.loss(labels=[[1.0, 2.0]], logits=[[0.0, 0.0]], features={"w": weights})
    assert session.run(loss, {weights: [[1.0, 10.0]]}) == 41.0
    assert session.run(loss, {weights: [3.0]}) == 15.0


def test_a_number_of_classes_that_is_a_tensor(session):
    classes = tf.constant(3)
    head = MultiClassHead(classes)
    assert head.logits_dimension is classes
    made = head.predictions([[1.0, 0.0, 0.0]])
    assert session.run(made["all_classes"]).tolist() == [[b"0", b"1", b"2"]]


def test_metrics_of_a_spec_are_pairs_that_a_session_runs(session):
    head = est.BinaryClassHead()
    spec = head.create_estimator_spec(
        features={}, mode="eval", logits=tf.constant([[45.0], [-41.0]]), labels=[[1], [1]]
    )
    session.run(v1.local_variables_initializer())
    session.run([update for _, update in spec.eval_metric_ops.values()])
    assert session.run(spec.eval_metric_ops["accuracy"][0]) == 0.5


def test_trainable_variables_have_to_be_given(session):
    with pytest.raises(ValueError, match="trainable_variables cannot be None"):
        est.BinaryClassHead().create_estimator_spec(
            features={},
            mode="train",
            logits=tf.zeros([2, 1]),
            labels=[[1], [1]],
            optimizer=v1.train.GradientDescentOptimizer(0.1),
        )


def test_a_head_that_makes_its_spec_for_tpus():
    class ForTPU(est.RegressionHead):
        def _create_tpu_estimator_spec(self, features, mode, logits, labels=None):
            return est.compat.v1.tpu.TPUEstimatorSpec(mode="eval", loss=tf.constant(0.5))

    spec = ForTPU().create_estimator_spec(features=None, mode="eval", logits=None)
    assert isinstance(spec, est.EstimatorSpec)
    with pytest.raises(NotImplementedError, match="TPUEstimatorSpec not available"):
        est.RegressionHead()._create_tpu_estimator_spec(None, "eval", None)


@pytest.mark.parametrize("shuffle", [False, True])
def test_numpy_input_fn_gives_tensors_that_end(session, shuffle):
    read = est.inputs.numpy_input_fn(
        {"a": np.arange(4)}, np.arange(4) * 10, batch_size=2, num_epochs=1, shuffle=shuffle
    )
    features, labels = read()
    seen = [session.run([features["a"], labels]) for _ in range(2)]
    assert sorted(np.concatenate([a for a, _ in seen]).tolist()) == [0, 1, 2, 3]
    assert all((a * 10 == b).all() for a, b in seen)
    with pytest.raises(tf.errors.OutOfRangeError):
        session.run(labels)
