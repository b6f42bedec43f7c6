"""Training and evaluation in turns: 20 x (100 steps, a checkpoint, an evaluation of 1,000 rows).

Each turn is a whole run with a new model, from the first trace to the last file. Beside it stands
what nobody can avoid: the same 2,000 steps in one call, without a checkpoint, and 20 calls of
`evaluate`.
"""

from __future__ import annotations

import tempfile
import time
from typing import Any

from environments import PROJECT, UPSTREAM
from turns import Turns
from workload import Contestant, Measure, Target, Workload

from workloads import dnn

_TURNS, _QUICK_TURNS = 20, 5
_STEPS, _ROWS, _BATCH = 100, 1000, 32


def _turns(turns: Turns) -> int:
    return _QUICK_TURNS if turns.quick else _TURNS


def _eval_dataset(tf: Any, *, named: bool = True) -> Any:
    features, labels = dnn.examples(_ROWS)
    data = tf.data.Dataset.from_tensor_slices(({"x": features} if named else features, labels))
    return data.batch(_BATCH)


def _train_and_evaluate(turns: Turns, tf: Any, estimator_api: Any) -> None:
    while True:
        turns.wait()
        config = estimator_api.RunConfig(
            model_dir=tempfile.mkdtemp(), save_checkpoints_steps=_STEPS
        )
        estimator = estimator_api.Estimator(dnn.v1_model_fn(tf, estimator_api), config=config)
        train = estimator_api.TrainSpec(lambda: dnn.dataset(tf), max_steps=_turns(turns) * _STEPS)
        evaluate = estimator_api.EvalSpec(
            lambda: _eval_dataset(tf), steps=None, start_delay_secs=0, throttle_secs=0
        )
        start = time.perf_counter()
        estimator_api.train_and_evaluate(estimator, train, evaluate)
        turns.report(whole=time.perf_counter() - start)


def estimand(turns: Turns) -> None:
    import tensorflow as tf

    import estimand as est

    _train_and_evaluate(turns, tf, est)


def upstream(turns: Turns) -> None:
    import tensorflow as tf

    _train_and_evaluate(turns, tf, tf.estimator)


def apart(turns: Turns) -> None:
    """The same steps and evaluations by Estimand, but not in turns, and with nothing saved."""
    import tensorflow as tf

    while True:
        turns.wait()
        _, estimator = dnn.estimand_estimator(save_checkpoints_steps=None)
        start = time.perf_counter()
        estimator.train(lambda: dnn.dataset(tf), max_steps=_turns(turns) * _STEPS)
        for _ in range(_turns(turns)):
            estimator.evaluate(lambda: _eval_dataset(tf))
        turns.report(whole=time.perf_counter() - start)


def keras(turns: Turns) -> None:
    import keras as k
    import tensorflow as tf

    while True:
        turns.wait()
        folder = tempfile.mkdtemp()
        layers = [
            k.layers.Dense(units, "relu" if i < len(dnn.SIZES) - 2 else None)
            for i, units in enumerate(dnn.SIZES[1:])
        ]
        start = time.perf_counter()
        model = k.Sequential([k.Input((dnn.SIZES[0],)), *layers])
        model.compile(
            k.optimizers.Adagrad(dnn.LEARNING_RATE),
            k.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            steps_per_execution=_STEPS,
        )
        model.fit(
            dnn.dataset(tf, named=False),
            steps_per_epoch=_STEPS,
            epochs=_turns(turns),
            validation_data=_eval_dataset(tf, named=False),
            verbose=0,
            callbacks=[
                k.callbacks.ModelCheckpoint(f"{folder}/model.weights.h5", save_weights_only=True),
                k.callbacks.BackupAndRestore(f"{folder}/backup"),
            ],
        )
        turns.report(whole=time.perf_counter() - start)


_APART = "Estimand, steps and evaluations apart"

WORKLOAD = Workload(
    title="train_and_evaluate: 20 x (100 steps + evaluation of 1,000 rows) (--quick: 5 x)",
    contestants=[
        Contestant("Estimand", PROJECT, estimand),
        Contestant(_APART, PROJECT, apart),
        Contestant("Keras, 100 steps per execution", PROJECT, keras),
        Contestant("tf.estimator", UPSTREAM, upstream),
    ],
    measures=[Measure("whole", "the whole run", "s", "share")],
    baseline=["tf.estimator"],
    targets=[
        Target("Estimand", ["tf.estimator"], at_most=1 / 6, measure="whole"),
        Target("Estimand", [_APART], at_most=1.1, measure="whole"),
    ],
    rounds=7,
    quick_rounds=2,
)
