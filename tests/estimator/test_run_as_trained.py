"""Evaluations and predictions take oneDNN's kernels where the training does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.core import tf_private
from estimand.engine.model_dir import RECORD_FILE
from tests.estimator.conftest import eval_input_fn, input_fn, run_config

pytestmark = pytest.mark.skipif(
    not tf_private.onednn_kernels_to_ask_for(),
    reason="TensorFlow uses oneDNN by itself here, or has none",
)

v1 = tf.compat.v1
KERNEL = np.array([[0.5, -1.0], [2.0, 0.25]], np.float32).reshape(2, 2, 1, 1)


def model_fn(features: Any, labels: tf.Tensor, mode: str) -> est.EstimatorSpec:
    kernel = v1.get_variable("kernel", initializer=KERNEL)
    pictures = tf.reshape(features["x"], [-1, 2, 2, 1])
    sums = tf.reshape(tf.nn.conv2d(pictures, kernel, 1, "VALID"), [-1])
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions={"sums": sums})
    loss = tf.reduce_mean((sums - tf.cast(labels, tf.float32)) ** 2)
    step = v1.train.GradientDescentOptimizer(0.0).minimize(loss, v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=step)


def sums_by_numpy(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) @ KERNEL.reshape(-1)


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ops that oneDNN was given since the list was cleared."""
    seen: list[str] = []
    make: Callable[[Any], None] = tf_private.make_onednn
    monkeypatch.setattr(tf_private, "make_onednn", lambda node: seen.append(node.op) or make(node))
    return seen


def trained(model_dir: Path, **settings: Any) -> est.Estimator:
    estimator = est.Estimator(model_fn, str(model_dir), run_config(**settings))
    return estimator.train(input_fn, steps=2)


def loss_and_sums(estimator: est.Estimator, **how: Any) -> tuple[float, np.ndarray]:
    loss = estimator.evaluate(eval_input_fn)["loss"]
    rows = [row["sums"] for row in estimator.predict(eval_input_fn, **how)]
    return loss, np.array(rows)


def test_an_estimator_that_finds_onednn_in_model_dir_reads_with_it(
    tmp_path: Path, handed_over: list[str]
) -> None:
    trained(tmp_path, block_mode="onednn")
    handed_over.clear()
    estimator = est.Estimator(model_fn, str(tmp_path), run_config())
    batches = list(eval_input_fn().as_numpy_iterator())
    errors = [np.mean((sums_by_numpy(x["x"]) - y) ** 2) for x, y in batches]
    assert estimator.evaluate(eval_input_fn)["loss"] == pytest.approx(np.mean(errors), rel=1e-5)
    assert "Conv2D" in handed_over
    handed_over.clear()
    found = [row["sums"] for row in estimator.predict(eval_input_fn)]
    expected = np.concatenate([sums_by_numpy(x["x"]) for x, _ in batches])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert "Conv2D" in handed_over


def test_whoever_reads_and_how_often_gets_the_same_bits(tmp_path: Path) -> None:
    one = trained(tmp_path, block_mode="onednn")
    another = est.Estimator(model_fn, str(tmp_path), run_config())
    watched = loss_and_sums(another, hooks=[est.SessionRunHook()])
    loss, sums = loss_and_sums(one)
    for other_loss, other_sums in (watched, loss_and_sums(another), loss_and_sums(one)):
        assert loss == other_loss
        np.testing.assert_array_equal(sums, other_sums)


def test_a_choice_made_after_an_evaluation_holds_for_the_next(
    tmp_path: Path, handed_over: list[str]
) -> None:
    estimator = trained(tmp_path, block_mode="auto")
    before, _ = loss_and_sums(estimator)
    assert not handed_over
    record = tmp_path / RECORD_FILE
    record.write_text(json.dumps(json.loads(record.read_text()) | {"block_mode": "onednn"}))
    after, _ = loss_and_sums(estimator)
    assert handed_over.count("Conv2D") == 2
    assert after == pytest.approx(before, rel=1e-5)


def test_a_pin_is_heeded_whatever_the_training_chose(
    tmp_path: Path, handed_over: list[str]
) -> None:
    trained(tmp_path, block_mode="onednn")
    handed_over.clear()
    loss_and_sums(est.Estimator(model_fn, str(tmp_path), run_config(block_mode="plain")))
    assert not handed_over
