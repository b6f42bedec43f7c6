"""Trains every model on one replica and on two, and writes down what came out, as JSON.

    python -m tests.engine.distributed.mirrored_program OUTPUT [MODEL...]

One process for all of it: logical devices can be made at the start of a process only.
"""

from __future__ import annotations

import functools
import json
import logging
import sys
import tempfile
from typing import Any

import tensorflow as tf

import estimand as est
from tests.engine.distributed import models

STEPS, BATCH = 4, 8


class Losses(tf.compat.v1.train.SessionRunHook):
    """The loss of every step."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def before_run(self, run_context):
        del run_context
        (loss,) = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1:]
        return tf.compat.v1.train.SessionRunArgs(loss)

    def after_run(self, run_context, run_values):
        del run_context
        self.values.append(float(run_values.results))


def checkpoint(estimator) -> dict[str, list[float]]:
    reader = tf.train.load_checkpoint(estimator.latest_checkpoint())
    names = sorted(reader.get_variable_to_shape_map())
    return {name: reader.get_tensor(name).ravel().tolist() for name in names}


def numbers(results) -> dict[str, float]:
    return {key: float(value) for key, value in results.items()}


def trained(name: str, strategy, batch: int) -> dict:
    config = est.RunConfig(
        model_dir=tempfile.mkdtemp(),
        tf_random_seed=7,
        train_distribute=strategy,
        eval_distribute=strategy,
        log_step_count_steps=None,
    )
    estimator = models.ESTIMATORS[name](config)
    losses = Losses()
    estimator.train(models.input_fn(batch), max_steps=STEPS // 2, hooks=[losses])
    estimator.train(models.input_fn(batch), max_steps=STEPS)  # without hooks: many steps a call
    result = {"losses": losses.values, "checkpoint": checkpoint(estimator)}
    result["metrics"] = numbers(estimator.evaluate(models.input_fn(10, repeat=False)))
    if name in ("v1", "keras"):
        rows = estimator.predict(models.input_fn(BATCH, repeat=False))
        result["predictions"] = [float(row["p"][0]) for row in rows]
    if name == "v1":
        # A checkpoint of two replicas goes on in one process without a strategy, and the reverse.
        other = None if strategy is not None else two_replicas()
        resumed = models.ESTIMATORS[name](
            config.replace(train_distribute=other, eval_distribute=None)
        )
        resumed.train(models.input_fn(2 * BATCH if other is None else BATCH), steps=2)
        result["resumed by the other"] = checkpoint(resumed)
    return result


@functools.cache
def two_replicas() -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def normalized() -> dict:
    """Two steps of batch normalization on two replicas; then what one process makes of it."""
    config = est.RunConfig(
        model_dir=tempfile.mkdtemp(), tf_random_seed=7, train_distribute=two_replicas()
    )
    estimator = est.Estimator(models.norm_model_fn, config=config)
    estimator.train(models.input_fn(BATCH), max_steps=2)
    rows = estimator.predict(models.input_fn(BATCH, repeat=False))
    again = est.Estimator(models.norm_model_fn, config=config.replace(train_distribute=None))
    return {
        "checkpoint": checkpoint(estimator),
        "rows": [row["normed"].tolist() for row in rows],
        "rows alone": [
            row["normed"].tolist() for row in again.predict(models.input_fn(BATCH, repeat=False))
        ],
    }


def masks() -> list[list[float]]:
    """Of one step on two replicas."""
    config = est.RunConfig(
        model_dir=tempfile.mkdtemp(), tf_random_seed=7, train_distribute=two_replicas()
    )
    estimator = est.Estimator(models.mask_model_fn, config=config)
    labels = tf.data.Dataset.from_tensor_slices([[[0.0]], [[1.0]]])
    estimator.train(lambda: labels.map(lambda label: ({"x": label}, label)), max_steps=1)
    return (-estimator.get_variable_value("masks")).tolist()


def printing_before_the_sum() -> int:
    """The step reached by a model whose replicas print what they dropped before they sum."""
    config = est.RunConfig(model_dir=tempfile.mkdtemp(), train_distribute=two_replicas())
    estimator = est.Estimator(models.printing_model_fn, config=config)
    estimator.train(models.input_fn(BATCH), max_steps=2)
    return int(estimator.get_variable_value("global_step"))


def what_is_left_over() -> list[str]:
    """What the log says of an input of five batches for two replicas."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    log = logging.getLogger("tensorflow")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    config = est.RunConfig(model_dir=tempfile.mkdtemp(), train_distribute=two_replicas())
    estimator = est.Estimator(models.sum_model_fn, config=config)
    estimator.train(lambda: models.input_fn(BATCH)().take(5))
    log.setLevel(logging.ERROR)
    log.removeHandler(handler)
    return lines


def variable_from_outside() -> str:
    weights = tf.Variable(tf.ones([3, 1]), name="mine")

    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(tf.square(features["x"] @ weights - tf.cast(labels, tf.float32)))
        train_op = est.minimize(tf.compat.v1.train.GradientDescentOptimizer(0.1), loss)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    config = est.RunConfig(model_dir=tempfile.mkdtemp(), train_distribute=two_replicas())
    try:
        est.Estimator(model_fn, config=config).train(models.input_fn(BATCH), max_steps=1)
    except est.errors.ModelFnError as error:
        return str(error)
    return "nothing was raised"


def averaged() -> dict[str, list[float]]:
    """Averages of the weights, kept by TensorFlow's own class in each replica."""

    def model_fn(features, labels, mode):
        w = tf.compat.v1.get_variable("w", [1, 1], initializer=tf.compat.v1.ones_initializer())
        loss = tf.reduce_mean((tf.matmul(features["x"], w) - labels) ** 2)
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.01)
        step = optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
        with tf.control_dependencies([step]):
            train_op = tf.train.ExponentialMovingAverage(0.5).apply([w])
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    config = est.RunConfig(model_dir=tempfile.mkdtemp(), train_distribute=two_replicas())
    estimator = est.Estimator(model_fn, config=config)
    rows = ({"x": [[1.0]]}, [[0.0]])
    estimator.train(lambda: tf.data.Dataset.from_tensors(rows).repeat(), max_steps=2)
    return checkpoint(estimator)


def on_one_device() -> dict:
    config = est.RunConfig(
        model_dir=tempfile.mkdtemp(),
        tf_random_seed=7,
        train_distribute=tf.distribute.OneDeviceStrategy("CPU:1"),  # not the default one
    )
    estimator = models.ESTIMATORS["v1"](config)
    estimator.train(models.input_fn(2 * BATCH), max_steps=STEPS // 2)
    estimator.train(models.input_fn(2 * BATCH), max_steps=STEPS)
    rows = estimator.predict(models.input_fn(BATCH, repeat=False))
    return {
        "checkpoint": checkpoint(estimator),
        "metrics": numbers(estimator.evaluate(models.input_fn(10, repeat=False))),
        "predictions": {"p": [float(row["p"][0]) for row in rows]},
    }


def main() -> None:
    output, *wanted = sys.argv[1:]
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    cpu = tf.config.list_physical_devices("CPU")[0]
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, two)
    results: dict[str, Any] = {}
    others = {
        "norm": normalized,
        "masks": masks,
        "printing": printing_before_the_sum,
        "left over": what_is_left_over,
        "outside": variable_from_outside,
        "one device": on_one_device,
        "averaged": averaged,
    }
    for name in wanted or (*models.MIRRORED, *others):
        if name in others:
            results[name] = others[name]()
            continue
        results[name] = {
            "one": trained(name, None, 2 * BATCH),
            "two": trained(name, two_replicas(), BATCH),
        }
    with open(output, "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
