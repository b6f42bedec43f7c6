"""From the start of the process to the end of the first training step.

TensorFlow imports Keras, and Keras 3 imports scikit-learn and pandas wherever they are installed,
which takes up to two seconds more. They are hidden here: the project's environment has them for
the tests, the other environments have not.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from environments import PROJECT, UPSTREAM
from turns import Turns
from workload import Contestant, Measure, Target, Workload


class _Clock:
    def __init__(self) -> None:
        for name in ("sklearn", "pandas"):
            sys.modules[name] = None  # type: ignore[assignment]
        self._started = float(os.environ["BENCH_STARTED"])
        self._imported = 0.0

    def imported(self) -> None:
        self._imported = time.time()

    def only_imported(self, turns: Turns) -> None:
        seconds = time.time() - self._started
        turns.report(total=seconds, imports=seconds)
        os._exit(0)

    def first_step_done(self, turns: Turns) -> None:
        now = time.time()
        turns.report(
            total=now - self._started,
            imports=self._imported - self._started,
            build=now - self._imported,
        )
        os._exit(0)


def _train(turns: Turns, clock: _Clock, tf: Any, make_estimator: Any) -> None:
    class FirstStep(tf.compat.v1.train.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            clock.first_step_done(turns)

    from workloads import dnn

    clock.imported()
    tf, estimator = make_estimator(dnn)
    estimator.train(lambda: dnn.dataset(tf), steps=1, hooks=[FirstStep()])


def estimand(turns: Turns) -> None:
    clock = _Clock()
    import tensorflow as tf

    import estimand as est

    _ = est.Estimator  # loaded when first used
    _train(turns, clock, tf, lambda dnn: dnn.estimand_estimator())


def upstream(turns: Turns) -> None:
    clock = _Clock()
    import tensorflow as tf

    _ = tf.estimator.Estimator
    _train(turns, clock, tf, lambda dnn: dnn.upstream_estimator())


def keras_fit(turns: Turns) -> None:
    clock = _Clock()
    import keras
    import tensorflow as tf

    from workloads import dnn

    clock.imported()
    hidden = [keras.layers.Dense(units, activation="relu") for units in dnn.SIZES[1:-1]]
    model = keras.Sequential([keras.Input((4,)), *hidden, keras.layers.Dense(dnn.SIZES[-1])])
    losses = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adagrad(dnn.LEARNING_RATE), losses)
    done = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: clock.first_step_done(turns)
    )
    model.fit(dnn.dataset(tf, named=False), steps_per_epoch=1, verbose=0, callbacks=[done])


def only_import(turns: Turns) -> None:
    """What nobody who uses TensorFlow can go below."""
    clock = _Clock()
    import tensorflow as tf

    _ = tf.function  # TensorFlow, too, loads parts of itself when first used
    clock.only_imported(turns)


WORKLOAD = Workload(
    title="Process start to first training step done",
    contestants=[
        Contestant("Estimand", PROJECT, estimand),
        Contestant("tf.estimator", UPSTREAM, upstream),
        Contestant("Keras fit", PROJECT, keras_fit),
        Contestant("import tensorflow alone", PROJECT, only_import, in_quick=False),
        Contestant("import tensorflow 2.15 alone", UPSTREAM, only_import, in_quick=False),
    ],
    measures=[
        Measure("total", "in all", "s", "seconds"),
        Measure("imports", "imports", "s", "seconds"),
        Measure("build", "after the imports", "s", "seconds"),
    ],
    baseline=["tf.estimator"],
    targets=[Target("Estimand", ["tf.estimator"], at_least=1.4, measure="build")],
    rounds=8,
    quick_rounds=2,
    fresh_process=True,
)
