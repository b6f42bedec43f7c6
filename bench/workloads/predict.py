"""Rows per second of `predict` over 100,000 rows, from the first result to the last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from environments import PROJECT, UPSTREAM
from turns import Turns
from workload import Contestant, Measure, Target, Workload

from workloads import dnn

_ROWS = 100_000
_MEASURED_SECONDS = 0.3
# What is measured -> batch size, and whether rows are handed out one by one
_CASES = {"batch_32": (32, False), "batch_1024": (1024, False), "rows_1024": (1024, True)}

Predict = Callable[[int, bool], tuple[int, float]]


def _rows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(_ROWS, 4)).astype(np.float32)


def _take_turns(turns: Turns, predict: Predict, cases: dict[str, tuple[int, bool]]) -> None:
    """Let `predict` say, for a case, how many rows came in how many seconds."""
    for case in cases.values():
        predict(*case)
    while True:
        turns.wait()
        rates = {}
        for name, case in cases.items():
            rows, seconds = 0, 0.0
            while seconds < _MEASURED_SECONDS:
                more_rows, more_seconds = predict(*case)
                rows, seconds = rows + more_rows, seconds + more_seconds
            rates[name] = rows / seconds
        turns.report(**rates)


def _from_estimator(turns: Turns, tf: Any, estimator: Any) -> None:
    rows = _rows()
    estimator.train(lambda: dnn.dataset(tf), steps=5)

    def predict(batch: int, one_by_one: bool) -> tuple[int, float]:
        def input_fn() -> Any:
            data = tf.data.Dataset.from_tensor_slices({"x": rows}).batch(batch)
            return data.prefetch(tf.data.AUTOTUNE)

        results = estimator.predict(input_fn, yield_single_examples=one_by_one)
        next(results)
        start, count = time.perf_counter(), 0
        if one_by_one:
            for _ in results:
                count += 1
        else:
            for result in results:
                count += len(result["probabilities"])
        return count, time.perf_counter() - start

    _take_turns(turns, predict, _CASES)


def estimand(turns: Turns) -> None:
    _from_estimator(turns, *dnn.estimand_estimator())


def upstream(turns: Turns) -> None:
    _from_estimator(turns, *dnn.upstream_estimator())


def keras_predict(turns: Turns) -> None:
    """Gives whole arrays only, and of the three predictions only the probabilities."""
    import keras
    import tensorflow as tf

    rows = _rows()
    hidden = [keras.layers.Dense(units, activation="relu") for units in dnn.SIZES[1:-1]]
    last = keras.layers.Dense(dnn.SIZES[-1], activation="softmax")
    model = keras.Sequential([keras.Input((4,)), *hidden, last])

    class Clock(keras.callbacks.Callback):
        first = last = 0.0

        def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
            self.last = time.perf_counter()
            if batch == 0:
                self.first = self.last

    def predict(batch: int, one_by_one: bool) -> tuple[int, float]:
        data = tf.data.Dataset.from_tensor_slices(rows).batch(batch).prefetch(tf.data.AUTOTUNE)
        clock = Clock()
        model.predict(data, verbose=0, callbacks=[clock])
        return len(rows) - batch, clock.last - clock.first

    _take_turns(turns, predict, {k: c for k, c in _CASES.items() if not c[1]})


def _target(measure: str, at_least: float) -> Target:
    return Target("Estimand", ["tf.estimator"], at_least=at_least, measure=measure)


WORKLOAD = Workload(
    title="predict: 100,000 rows, first result to last",
    contestants=[
        Contestant("Estimand", PROJECT, estimand),
        Contestant("tf.estimator", UPSTREAM, upstream),
        Contestant("Keras predict, probabilities only", PROJECT, keras_predict, in_quick=False),
    ],
    measures=[
        Measure("batch_32", "whole batches of 32", "rows/s"),
        Measure("batch_1024", "whole batches of 1,024", "rows/s"),
        Measure("rows_1024", "row by row, batches of 1,024", "rows/s"),
    ],
    baseline=["tf.estimator"],
    targets=[_target("batch_32", 12), _target("batch_1024", 3.5), _target("rows_1024", 1.8)],
    rounds=10,
    quick_rounds=2,
)
