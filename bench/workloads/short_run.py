"""A short run from beginning to end: 5,000 steps of a small network on data in memory.

Building the model, choosing how to run it, compiling and the last checkpoint are part of it;
importing the framework is not.
"""

from __future__ import annotations

import time
from typing import Any

from environments import PROJECT, UPSTREAM
from turns import Turns
from workload import Contestant, Measure, Target, Workload

from workloads import dnn, in_memory

_STEPS = 5000


def _report(turns: Turns, estimator: Any, read: Any) -> None:
    start = time.perf_counter()
    estimator.train(read, steps=_STEPS)
    turns.report(seconds=time.perf_counter() - start)


def estimand(turns: Turns) -> None:
    import estimand as est

    _, estimator = dnn.estimand_estimator()
    _report(turns, estimator, in_memory._read(est.inputs))


def upstream(turns: Turns) -> None:
    tf, estimator = dnn.upstream_estimator()
    _report(turns, estimator, in_memory._read(tf.compat.v1.estimator.inputs))


_ESTIMAND = "Estimand"
_UPSTREAM = "tf.estimator"

WORKLOAD = Workload(
    title="A short run: 5,000 steps of the same, all included",
    contestants=[
        Contestant(_ESTIMAND, PROJECT, estimand),
        Contestant(_UPSTREAM, UPSTREAM, upstream),
    ],
    baseline=[_UPSTREAM],
    measures=[Measure("seconds", "the whole call of train", "s", "seconds")],
    targets=[Target(_ESTIMAND, [_UPSTREAM], at_least=6, measure="seconds")],
    rounds=8,
    quick_rounds=3,
    fresh_process=True,
)
