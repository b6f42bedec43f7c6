"""Rates of optimizers of Keras 2, as programs gave them up to TensorFlow 2.10."""

from __future__ import annotations

import tempfile
from typing import Any

import tensorflow as tf

import estimand as est
from estimand.compat import install

K = tf.keras
v1 = tf.compat.v1


def rates_as_told_before_the_newer_optimizers() -> dict[str, Any]:
    def after_three_steps(make: Any) -> float:
        variable = tf.Variable(0.0)
        optimizer = make()
        for _ in range(3):
            optimizer.apply_gradients([(tf.constant(-1.0), variable)])
        return float(variable.numpy())

    def of_a_tensor() -> float:
        def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
            w = tf.Variable(0.0, name="w")
            step = v1.train.get_or_create_global_step()
            optimizer = K.optimizers.SGD(v1.train.inverse_time_decay(0.5, step, 1, 0.5))
            return est.EstimatorSpec(mode, loss=-w, train_op=est.minimize(optimizer, -w))

        estimator = est.Estimator(model_fn, tempfile.mkdtemp())
        estimator.train(lambda: tf.data.Dataset.from_tensors({"x": [0.0]}).repeat(), steps=3)
        return float(estimator.get_variable_value("w"))

    new, old = K.optimizers.SGD, K.optimizers.legacy.SGD
    with install.installed():
        return {
            "lr": after_three_steps(lambda: new(lr=0.5)),
            "decay": after_three_steps(lambda: new(lr=0.5, decay=0.5)),
            "legacy decay": after_three_steps(lambda: old(lr=0.5, decay=0.5)),
            "saved": after_three_steps(lambda: new.from_config(new(0.5, decay=0.5).get_config())),
            "tensor": of_a_tensor(),
        }
