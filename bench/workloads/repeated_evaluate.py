"""`evaluate` called again and again on an unchanged checkpoint: 1,000 rows each time."""

from __future__ import annotations

import time
from typing import Any

from environments import PROJECT, UPSTREAM
from turns import Turns
from workload import Contestant, Measure, Workload

from workloads import dnn

_CALLS, _QUICK_CALLS = 20, 5
_ROWS, _BATCH = 1000, 100


def _evaluate(turns: Turns, tf: Any, estimator: Any) -> None:
    features, labels = dnn.examples(_ROWS)

    def input_fn() -> Any:
        return tf.data.Dataset.from_tensor_slices(({"x": features}, labels)).batch(_BATCH)

    estimator.train(lambda: dnn.dataset(tf), steps=5)
    estimator.evaluate(input_fn)
    calls = _QUICK_CALLS if turns.quick else _CALLS
    while True:
        turns.wait()
        start = time.perf_counter()
        for _ in range(calls):
            estimator.evaluate(input_fn)
        turns.report(call=(time.perf_counter() - start) / calls)


def estimand(turns: Turns) -> None:
    _evaluate(turns, *dnn.estimand_estimator())


def upstream(turns: Turns) -> None:
    _evaluate(turns, *dnn.upstream_estimator())


WORKLOAD = Workload(
    title="evaluate, called 20 times on an unchanged checkpoint (--quick: 5 times)",
    contestants=[
        Contestant("Estimand", PROJECT, estimand),
        Contestant("tf.estimator", UPSTREAM, upstream),
    ],
    measures=[Measure("call", "one call", "s", "seconds")],
    baseline=["tf.estimator"],
    rounds=3,
    quick_rounds=2,
)
