"""The small network that most workloads share, its data, and ways to count its steps.

4 features, two hidden layers of 10, 3 classes, batches of 32, Adagrad. So little arithmetic that
what is measured is the machinery around it.
"""

from __future__ import annotations

import itertools
import tempfile
from typing import Any

import numpy as np
from turns import Turns

BATCH = 32
LEARNING_RATE = 0.05
SIZES = (4, 10, 10, 3)
LOSS_NAME = "loss_to_look_at"


def examples(count: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """Three clouds of points, as Iris has them."""
    random = np.random.default_rng(0)
    centers = random.normal(size=(3, 4)) * 2
    labels = random.integers(0, 3, count)
    features = centers[labels] + random.normal(size=(count, 4)) * 0.5
    return features.astype(np.float32), labels.astype(np.int64)


def dataset(tf: Any, *, named: bool = True) -> Any:
    """Endless shuffled batches, with the features in a dict if `named`."""
    features, labels = examples()
    data = tf.data.Dataset.from_tensor_slices(({"x": features} if named else features, labels))
    data = data.shuffle(len(labels)).repeat().batch(BATCH, drop_remainder=True)
    return data.prefetch(tf.data.AUTOTUNE)


def v1_model_fn(tf: Any, estimator_api: Any) -> Any:
    """A model function written for tf.estimator; the same text runs on both."""
    v1 = tf.compat.v1

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        net = features["x"]
        for i, (inputs, units) in enumerate(itertools.pairwise(SIZES)):
            with v1.variable_scope(f"layer_{i}"):
                w = v1.get_variable("w", [inputs, units], use_resource=True)
                b = v1.get_variable(
                    "b", [units], initializer=v1.zeros_initializer(), use_resource=True
                )
            net = tf.matmul(net, w) + b
            if i < len(SIZES) - 2:
                net = tf.nn.relu(net)
        classes = tf.argmax(net, axis=1)
        if mode == "infer":
            predictions = {
                "logits": net,
                "probabilities": tf.nn.softmax(net),
                "class_ids": classes[:, tf.newaxis],
            }
            return estimator_api.EstimatorSpec(mode, predictions=predictions)
        loss = v1.losses.sparse_softmax_cross_entropy(labels, net)
        loss = tf.identity(loss, name=LOSS_NAME)
        if mode == "eval":
            metrics = {"accuracy": v1.metrics.accuracy(labels, classes)}
            return estimator_api.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
        optimizer = v1.train.AdagradOptimizer(LEARNING_RATE)
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
        return estimator_api.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


# Estimand and tf.estimator


def estimand_estimator(**config: Any) -> tuple[Any, Any]:
    """TensorFlow, and an Estimand estimator of the v1 model function."""
    import tensorflow as tf

    import estimand as est

    run_config = est.RunConfig(model_dir=tempfile.mkdtemp(), **config)
    return tf, est.Estimator(v1_model_fn(tf, est), config=run_config)


def upstream_estimator(**config: Any) -> tuple[Any, Any]:
    """TensorFlow 2.15, and a tf.estimator of the same model function."""
    import tensorflow as tf

    run_config = tf.estimator.RunConfig(model_dir=tempfile.mkdtemp(), **config)
    return tf, tf.estimator.Estimator(v1_model_fn(tf, tf.estimator), config=run_config)


def estimand_counter(turns: Turns, every: int) -> Any:
    """A hook that counts `every` steps at once, and so leaves blocks of steps whole."""
    import estimand as est

    class Counter(est.SessionRunHook):
        cadence = est.every(steps=every)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            turns.tick(every)

    return Counter()


def upstream_counter(turns: Turns) -> Any:
    import tensorflow as tf

    class Counter(tf.estimator.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            turns.tick()

    return Counter()


def keras_counter(turns: Turns) -> Any:
    import keras

    class Counter(keras.callbacks.Callback):
        counted = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            turns.tick(batch + 1 - self.counted)
            self.counted = batch + 1

    return Counter()
