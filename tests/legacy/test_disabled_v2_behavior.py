"""Scripts that begin with `disable_v2_behavior()`, each in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import forked

SCRIPT = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
tf.{switch}()
import estimand
from estimand.compat.v1 import layers

x = np.linspace(-1, 1, 40).astype(np.float32)[:, None]
y = (x[:, 0] > 0).astype(np.int32)

def model_fn(features, labels, mode, params):
    hidden = layers.dense(features["x"], 8, activation=tf.nn.relu)
    hidden = layers.batch_normalization(hidden, training=mode == "train")
    hidden = layers.dropout(hidden, 0.1, training=mode == "train")
    logits = layers.dense(hidden, 2)
    classes = tf.argmax(logits, 1, name="classes")
    if mode == estimand.ModeKeys.PREDICT:
        return estimand.EstimatorSpec(mode, predictions={{"classes": classes}})
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    tf.summary.scalar("my_loss", loss)
    if mode == estimand.ModeKeys.EVAL:
        metrics = {{"accuracy": tf.metrics.accuracy(labels, classes)}}
        return estimand.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        optimizer = tf.train.AdamOptimizer(params["rate"])
        train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return estimand.EstimatorSpec(mode, loss=loss, train_op=train_op)

def train_input_fn():
    dataset = tf.data.Dataset.from_tensor_slices(({{"x": x}}, y)).shuffle(40).repeat().batch(10)
    return dataset.make_one_shot_iterator().get_next()

def main(_):
    config = estimand.RunConfig(tf_random_seed=3, progress=False)
    estimator = estimand.Estimator(model_fn, sys.argv[1], config, params={{"rate": 0.05}})
    hook = tf.train.LoggingTensorHook(["classes"], every_n_iter=50)
    estimator.train(train_input_fn, steps=100, hooks=[hook])
    once = estimand.inputs.numpy_input_fn({{"x": x}}, y, num_epochs=1, shuffle=False)
    result = estimator.evaluate(once)
    assert result["global_step"] == 100 and result["accuracy"] > 0.9, result
    # The caller's own graph code goes on working beside it, also between two predictions.
    predictions = estimator.predict(once)
    rows = [next(predictions)]
    with tf.Session() as session:
        assert session.run(tf.constant(3) + 4) == 7
    rows += list(predictions)
    accuracy = np.mean([row["classes"] == label for row, label in zip(rows, y)])
    assert abs(accuracy - result["accuracy"]) < 1e-6
    assert not tf.executing_eagerly()
    print("done", len(rows))

tf.app.run(main)
"""


@pytest.mark.parametrize("switch", ["disable_v2_behavior", "disable_eager_execution"])
def test_legacy_script_trains_evaluates_and_predicts(tmp_path: Path, switch: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(switch=switch))
    finished = forked.run([script, tmp_path / "model"])
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert finished.stdout.splitlines()[-1] == "done 40"
