"""The Criteo-like model on one worker and one parameter server, against training in one process."""

from __future__ import annotations

from environments import PROJECT
from turns import Turns
from workload import Contestant, Measure, Target, Workload

from workloads import criteo, dnn, local_cluster

_STEPS_PER_LOOK = 100
_CPU = "cpu_seconds_per_unit"


def alone(turns: Turns) -> None:
    criteo.estimand_training(dnn.estimand_counter(turns, _STEPS_PER_LOOK))


def served(turns: Turns) -> None:
    for processes in local_cluster.start().values():
        turns.others += processes
    alone(turns)


_ALONE, _SERVED = "Estimand, one process", "Estimand, 1 worker and 1 parameter server"

WORKLOAD = Workload(
    title="The Criteo-like model with a parameter server, 100 steps per look",
    contestants=[
        Contestant(_ALONE, PROJECT, alone),
        Contestant(_SERVED, PROJECT, served),
    ],
    baseline=[_ALONE],
    measures=[
        Measure(unit="steps/s"),
        Measure(_CPU, "processor time of all processes", "s/step", "share"),
    ],
    targets=[
        Target(_SERVED, [_ALONE], at_least=0.5),
        Target(_SERVED, [_ALONE], at_most=1.3, measure=_CPU),
    ],
    rounds=8,
    quick_rounds=4,
)
