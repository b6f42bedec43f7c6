"""MirroredStrategy on two logical processors, against one device at the same global batch.

Both use all cores of the machine: what is seen is the cost of two replicas and of their sums.
"""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
from environments import PROJECT
from turns import Turns
from workload import Contestant, Measure, Target, Workload

from workloads import dnn

_GLOBAL_BATCH = 256
_SIZES = (128, 512, 512, 10)
_STEPS_PER_LOOK = 20
_CPU = "cpu_seconds_per_unit"


def one_device(turns: Turns) -> None:
    _train(turns, _GLOBAL_BATCH)


def two_replicas(turns: Turns) -> None:
    import tensorflow as tf

    processor = tf.config.list_physical_devices("CPU")[0]
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(processor, two)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    _train(turns, _GLOBAL_BATCH // 2, train_distribute=strategy)


def _train(turns: Turns, batch: int, **config: Any) -> None:
    import tensorflow as tf

    import estimand as est

    random = np.random.default_rng(0)
    features = random.normal(size=(2000, _SIZES[0])).astype(np.float32)
    labels = random.integers(0, _SIZES[-1], 2000)

    def input_fn() -> Any:
        data = tf.data.Dataset.from_tensor_slices((features, labels))
        return data.repeat().batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        import keras

        net = features
        for units in _SIZES[1:-1]:
            net = keras.layers.Dense(units, activation="relu")(net)
        logits = keras.layers.Dense(_SIZES[-1])(net)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        train_op = est.minimize(keras.optimizers.SGD(0.01), loss)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = est.Estimator(
        model_fn, config=est.RunConfig(model_dir=tempfile.mkdtemp(), **config)
    )
    estimator.train(input_fn, hooks=[dnn.estimand_counter(turns, _STEPS_PER_LOOK)])


_ONE, _TWO = "one device, batches of 256", "two replicas, batches of 128 each"

WORKLOAD = Workload(
    title="Mirrored on two logical CPUs, 128 - 512 - 512 - 10",
    contestants=[Contestant(_ONE, PROJECT, one_device), Contestant(_TWO, PROJECT, two_replicas)],
    baseline=[_ONE],
    measures=[
        Measure(unit="steps/s"),
        Measure(_CPU, "processor time", "s/step", "share"),
    ],
    targets=[Target(_TWO, [_ONE], at_most=1.3, measure=_CPU)],
    rounds=12,
    quick_rounds=5,
)
