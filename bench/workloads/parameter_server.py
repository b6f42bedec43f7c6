"""The Criteo-like model on one worker and one parameter server, against training in one process.

All of it on this machine, so the worker, the server and the chief share its processors: what is
seen is the cost of taking variables from another process, not what more machines would bring.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from environments import PROJECT
from turns import Turns
from workload import Contestant, Measure, Target, Workload

from workloads import dnn, tabular

_BATCH = 512
_HIDDEN = [128, 64]
_STEPS_PER_LOOK = 100


def alone(turns: Turns) -> None:
    _train(turns, time.perf_counter())


def served(turns: Turns) -> None:
    began = time.perf_counter()
    addresses = [f"127.0.0.1:{port}" for port in _free_ports(3)]
    cluster = dict(zip(("chief", "worker", "ps"), ([a] for a in addresses), strict=True))

    def tf_config(role: str) -> str:
        return json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})

    for role in ("worker", "ps"):
        code = "from workloads import parameter_server; parameter_server.serve()"
        path = os.pathsep.join(p for p in sys.path if p)
        _servers.append(
            subprocess.Popen(
                [sys.executable, "-c", code],
                env={**os.environ, "TF_CONFIG": tf_config(role), "PYTHONPATH": path},
                stdin=subprocess.PIPE,
                stdout=2,
            )
        )
    os.environ["TF_CONFIG"] = tf_config("chief")
    _train(turns, began)


def serve() -> None:
    """What the worker and the server do, until the process that started them is gone."""
    import estimand as est
    from estimand.cluster import servers

    threading.Thread(target=_end_with_parent, daemon=True).start()
    servers.serve(est.RunConfig(), timeout=600)


def _end_with_parent() -> None:
    sys.stdin.read()  # which says nothing, and ends when the other process does
    os._exit(0)


def _train(turns: Turns, began: float) -> None:
    import tensorflow as tf

    import estimand as est

    estimator = est.DNNClassifier(
        _HIDDEN,
        tabular.criteo_columns(est.feature_column),
        model_dir=tempfile.mkdtemp(),
        optimizer=lambda: _adagrad(),
    )
    input_fn = est.inputs.tfrecord_input_fn(
        tabular.criteo_file(tf),
        tabular.criteo_spec(tf),
        label_key="label",
        batch_size=_BATCH,
        shuffle_buffer=10_000,
        drop_remainder=True,
    )
    first = _FirstStep(turns, began)
    counter = dnn.estimand_counter(first, _STEPS_PER_LOOK)  # type: ignore[arg-type]
    estimator.train(input_fn, hooks=[first.hook(est), counter])


def _adagrad() -> Any:
    import keras

    return keras.optimizers.Adagrad(0.05)


class _FirstStep:
    """Adds to each report how long it took from the start to the first step."""

    def __init__(self, turns: Turns, began: float) -> None:
        self._turns, self._began = turns, began
        self._seconds = 0.0
        report = turns.report

        def with_first_step(**values: float) -> None:
            report(first_step=self._seconds, **values)

        turns.report = with_first_step  # type: ignore[method-assign]

    def tick(self, steps: int) -> None:
        self._turns.tick(steps)

    def hook(self, est: Any) -> Any:
        outer = self

        class Hook(est.SessionRunHook):
            cadence = est.every(steps=10**9)

            def after_run(self, run_context: Any, run_values: Any) -> None:
                outer._seconds = outer._seconds or time.perf_counter() - outer._began

        return Hook()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


_servers: list[subprocess.Popen[bytes]] = []  # their end of the pipe is open as long as this is
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
        Measure("first_step", "start of the processes to the first step", "s", "seconds"),
    ],
    targets=[Target(_SERVED, [_ALONE], at_least=0.5)],
    rounds=8,
    quick_rounds=2,
)
