"""Examples per second of a DNN with 26 embeddings on Criteo-like TFRecords, end to end."""

from __future__ import annotations

import tempfile
from typing import Any

from environments import PROJECT, UPSTREAM
from turns import Turns
from workload import Contestant, Measure, Target, Workload

from workloads import dnn, tabular

_BATCH = 512
_HIDDEN = [128, 64]
_STEPS_PER_CALL = 10


class _Examples:
    """Counts examples where the hooks count steps."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def tick(self, steps: int = 1) -> None:
        self._turns.tick(steps * _BATCH)


def estimand(turns: Turns) -> None:
    estimand_training(dnn.estimand_counter(_Examples(turns), _STEPS_PER_CALL))


def estimand_training(*hooks: Any, dimension: int = 16, **config: Any) -> None:
    """Train with Estimand until a hook ends the process."""
    import tensorflow as tf

    import estimand as est

    estimator = est.DNNClassifier(
        _HIDDEN,
        tabular.criteo_columns(est.feature_column, dimension),
        model_dir=tempfile.mkdtemp(),
        optimizer=lambda: _adagrad(),
        config=est.RunConfig(**config),
    )
    input_fn = est.inputs.tfrecord_input_fn(
        tabular.criteo_file(tf),
        tabular.criteo_spec(tf),
        label_key="label",
        batch_size=_BATCH,
        shuffle_buffer=10_000,
        drop_remainder=True,
    )
    estimator.train(input_fn, hooks=hooks)


def _adagrad() -> Any:
    import keras

    return keras.optimizers.Adagrad(0.05)


def upstream(turns: Turns) -> None:
    import tensorflow as tf

    estimator = tf.estimator.DNNClassifier(
        _HIDDEN,
        tabular.criteo_columns(tf.feature_column),
        model_dir=tempfile.mkdtemp(),
        optimizer=lambda: tf.keras.optimizers.legacy.Adagrad(0.05),
    )

    def input_fn() -> Any:
        return tabular.dataset(tf, tabular.criteo_file(tf), tabular.criteo_spec(tf), _BATCH)

    estimator.train(input_fn, hooks=[dnn.upstream_counter(_Examples(turns))])


_ESTIMAND = "Estimand, DNNClassifier"
_UPSTREAM = "tf.estimator, DNNClassifier"

WORKLOAD = Workload(
    title="26 embeddings on Criteo-like TFRecords, batch 512",
    contestants=[
        Contestant(_ESTIMAND, PROJECT, estimand),
        Contestant(_UPSTREAM, UPSTREAM, upstream),
    ],
    baseline=[_UPSTREAM],
    measures=[Measure(unit="examples/s")],
    targets=[Target(_ESTIMAND, [_UPSTREAM], at_least=1.5)],
    rounds=12,
    quick_rounds=3,
)
