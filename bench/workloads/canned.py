"""Steps per second of a small `DNNClassifier`, the canned model.

The network of `dnn`, with its columns, head, summaries and checkpoints as a user gets them: nothing
is turned off on either side. Keras fit does the same arithmetic on the same data.
"""

from __future__ import annotations

import tempfile
from typing import Any

from environments import PROJECT, UPSTREAM
from turns import Turns
from workload import Contestant, Target, Workload

from workloads import dnn, step_rate

_STEPS_AT_ONCE = 100


def _classifier(tf: Any, estimator_api: Any, optimizer: Any) -> Any:
    return estimator_api.DNNClassifier(
        list(dnn.SIZES[1:-1]),
        [tf.feature_column.numeric_column("x", shape=dnn.SIZES[0])],
        n_classes=dnn.SIZES[-1],
        optimizer=optimizer,
        model_dir=tempfile.mkdtemp(),
    )


def estimand(turns: Turns) -> None:
    import keras
    import tensorflow as tf

    import estimand as est

    classifier = _classifier(tf, est, lambda: keras.optimizers.Adagrad(dnn.LEARNING_RATE))
    hooks = [dnn.estimand_counter(turns, _STEPS_AT_ONCE)]
    classifier.train(lambda: dnn.dataset(tf), hooks=hooks)


def estimand_v1(turns: Turns) -> None:
    import tensorflow as tf

    from estimand.compat import v1

    classifier = _classifier(tf, v1, "Adagrad")  # which means a rate of 0.05 here
    hooks = [dnn.estimand_counter(turns, _STEPS_AT_ONCE)]
    classifier.train(lambda: dnn.dataset(tf), hooks=hooks)


_ESTIMAND = "Estimand, DNNClassifier"
_UPSTREAM = "tf.estimator, DNNClassifier"

WORKLOAD = Workload(
    title="Canned DNNClassifier: 10 and 10 units, batch 32, Adagrad",
    contestants=[
        Contestant(_ESTIMAND, PROJECT, estimand),
        Contestant("Estimand, DNNClassifier of compat.v1", PROJECT, estimand_v1, in_quick=False),
        Contestant(_UPSTREAM, UPSTREAM, step_rate.upstream_canned),
        Contestant("Keras fit", PROJECT, step_rate.keras_fit),
        Contestant("Keras fit, steps_per_execution=100", PROJECT, step_rate.keras_fit_many),
    ],
    baseline=[_UPSTREAM],
    targets=[Target(_ESTIMAND, [_UPSTREAM], at_least=4)],
    quick_rounds=4,
)
