"""An input that ends inside of a block: the step that finds no batch leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1
MODES = ("plain", "single_thread")


def rows(count):
    def input_fn():
        numbers = tf.data.Dataset.range(count).filter(lambda n: n >= 0)
        return numbers.map(lambda n: ({"x": tf.cast(n, tf.float32)[None]}, tf.zeros([1])))

    return input_fn


def counting(features, labels, mode):
    """Counts without looking at the batch, in variables of v1 and by an op of the loss metric."""
    counted = v1.get_variable("counted", [], tf.int64, v1.zeros_initializer(), trainable=False)
    loss = tf.reduce_sum(features["x"])
    step = v1.train.get_or_create_global_step()
    train_op = tf.group(v1.assign_add(step, 1), v1.assign_add(counted, 1))
    noise = tf.random.uniform([])
    return est.EstimatorSpec(mode, {"noise": noise}, loss + 0 * noise, train_op)


@pytest.mark.parametrize("count", [2, 3, 101])
def test_the_mean_loss_is_that_of_the_batches(tmp_path: Path, count: int) -> None:
    result = est.Estimator(counting, tmp_path).evaluate(rows(count))
    assert result["loss"] == pytest.approx(np.arange(count).mean())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", [3, 40])
def test_what_needs_no_batch_is_done_once_for_each(tmp_path: Path, mode: str, count: int) -> None:
    config = est.RunConfig(tmp_path, block_mode=mode, tf_random_seed=3)
    estimator = est.Estimator(counting, config=config).train(rows(count))
    values = [estimator.get_variable_value(name) for name in ("global_step", "counted")]
    assert values == [count, count]


def test_the_last_line_tells_all_steps(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "estimand")
    config = est.RunConfig(tmp_path, block_mode="plain", tf_random_seed=3)
    est.Estimator(counting, config=config).train(rows(40))
    lines = [line for line in caplog.messages if line.startswith("training  ")]
    assert lines[-1].startswith("training  40 steps")
    assert "loss 39" in lines[-1]
