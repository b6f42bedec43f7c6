"""Steps per second with parameter servers, against workers and the size of embeddings.

The constants of the model in docs/capacity.md: what a step costs the worker and the server.
"""

from __future__ import annotations

import functools
import os
import time
from typing import Any

from environments import PROJECT
from turns import Turns, cpu_seconds_of
from workload import Contestant, Measure, Workload

from workloads import criteo, local_cluster

_STEPS_PER_LOOK = {8: 100, 64: 50, 256: 25}  # by the dimension: about as long each
_WORKERS = (1, 2)


def run(turns: Turns, workers: int, dimension: int) -> None:
    processes = local_cluster.start(workers)
    looks = 2 if turns.quick else 5
    processes["chief"] = [os.getpid()]
    hook = _watch(turns, processes, looks, _STEPS_PER_LOOK[dimension])
    # Half a gigabyte of tables would be written meanwhile, and functions traced for other hooks.
    quiet = dict.fromkeys(("save_checkpoints_secs", "save_summary_steps", "log_step_count_steps"))
    criteo.estimand_training(hook, dimension=dimension, **quiet)


def _watch(turns: Turns, processes: dict[str, list[int]], looks: int, steps_per_look: int) -> Any:
    import estimand as est

    class Watch(est.SessionRunHook):
        cadence = est.every(steps=steps_per_look)
        seen = 0

        def after_run(self, run_context: Any, run_values: Any) -> None:
            now = {"clock": time.perf_counter()}
            for role, ids in processes.items():
                now[role] = sum(map(cpu_seconds_of, ids))
            self.seen += 1
            if self.seen == 2:  # by then all inputs and buffers are in use
                self.began = now
            elif self.seen == 2 + looks:
                steps = looks * steps_per_look
                spent = {key: (value - self.began[key]) / steps for key, value in now.items()}
                rate = 1 / spent.pop("clock")
                turns.report(rate=rate, **{role: 1e3 * cpu for role, cpu in spent.items()})
                os._exit(0)

    return Watch()


def _name(workers: int, dimension: int) -> str:
    return f"{workers} worker{'s' if workers > 1 else ''}, embeddings of {dimension}"


WORKLOAD = Workload(
    title="The Criteo-like model with 1 parameter server: workers and embeddings",
    contestants=[
        Contestant(
            _name(workers, dimension),
            PROJECT,
            functools.partial(run, workers=workers, dimension=dimension),
        )
        for dimension in _STEPS_PER_LOOK
        for workers in _WORKERS
    ],
    baseline=[_name(1, min(_STEPS_PER_LOOK))],
    measures=[
        Measure(unit="steps/s"),
        Measure("worker", "processor time of the workers", "ms/step", "seconds"),
        Measure("ps", "processor time of the server", "ms/step", "seconds"),
        Measure("chief", "processor time of the chief", "ms/step", "seconds"),
    ],
    rounds=4,
    quick_rounds=1,
    fresh_process=True,
)
