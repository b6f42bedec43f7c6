"""`tf.train.SyncReplicasOptimizer` in model functions of processes that train alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

import estimand as est
from estimand.compat.install import installed

v1 = tf.compat.v1


def test_one_worker_waits_for_nobody(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = v1.get_variable("w", initializer=1.0)
        loss = tf.square(w - 3.0) + 0.0 * tf.reduce_sum(features)
        averages = tf.train.ExponentialMovingAverage(0.5)
        optimizer = v1.train.SyncReplicasOptimizer(
            v1.train.GradientDescentOptimizer(0.25), 1, 1, averages, [w]
        )
        hook = optimizer.make_session_run_hook(True)
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op, training_chief_hooks=[hook])

    original = v1.train.SyncReplicasOptimizer
    with installed():
        assert issubclass(v1.train.SyncReplicasOptimizer, original)
        model = est.Estimator(model_fn, tmp_path)
        model.train(lambda: tf.data.Dataset.from_tensors([1.0]).repeat(), steps=2)
    # w: 1, 2, 2.5; its average: 1, then half of what it was and half of w.
    assert model.get_variable_value("w") == 2.5
    assert model.get_variable_value("w/ExponentialMovingAverage") == 2.0
    assert model.get_variable_value("global_step") == 2
