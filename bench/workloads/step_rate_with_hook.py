"""Steps per second when a user's hook looks at every step."""

from __future__ import annotations

from typing import Any

from environments import PROJECT, UPSTREAM
from turns import Turns
from workload import Contestant, Target, Workload

from workloads import dnn


def _loss_hook(tf: Any, turns: Turns) -> Any:
    """Written for tf.estimator years ago: no cadence, a fetch by name."""
    train = tf.compat.v1.train

    class LookAtLoss(train.SessionRunHook):
        highest = 0.0

        def before_run(self, run_context: Any) -> Any:
            return train.SessionRunArgs(dnn.LOSS_NAME + ":0")

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.highest = max(self.highest, run_values.results)
            turns.tick()

    return LookAtLoss()


def estimand(turns: Turns) -> None:
    tf, estimator = dnn.estimand_estimator()
    estimator.train(lambda: dnn.dataset(tf), hooks=[_loss_hook(tf, turns)])


def upstream(turns: Turns) -> None:
    tf, estimator = dnn.upstream_estimator()
    estimator.train(lambda: dnn.dataset(tf), hooks=[_loss_hook(tf, turns)])


WORKLOAD = Workload(
    title="The same network with a hook that fetches the loss of every step",
    contestants=[
        Contestant("Estimand", PROJECT, estimand),
        Contestant("tf.estimator", UPSTREAM, upstream),
    ],
    baseline=["tf.estimator"],
    targets=[Target("Estimand", ["tf.estimator"], at_least=1)],
    rounds=25,
    quick_rounds=6,
)
