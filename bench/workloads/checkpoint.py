"""How long a checkpoint of 1 GB (100 MB with --quick) keeps training from going on.

Every step changes every variable, so a snapshot that only shares memory has to be paid for, and
is counted, in the step after it. `blocked` is what the step of a save and the one after it took
more than usual ones: what training stands still for. `slowed` is the same of all steps until the
next save: it also has the processor time of writing in the background, of which a machine with
two cores has little to spare.

What is saved, and how, is the same for "Estimand" and "Estimand, each save waited for": both
check the data, write it down to the disk and rename it, and train between saves. tf.estimator and
the Saver called by hand leave the data to the system's cache, and the latter does not train.

Saves are seconds apart, long enough for the one before to be on the disk: a save that comes
earlier waits for it, and then the disk is measured.
"""

from __future__ import annotations

import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from environments import PROJECT, UPSTREAM
from turns import Turns
from workload import Contestant, Measure, Target, Workload

_VARIABLES = 10
_COLUMNS = 1000
_STEPS_BETWEEN_SAVES = {"quick": 200, "whole": 60}  # of about 10 and 100 ms
# The step of the save and the next; upstream saves one step later than asked for.
_STEPS_AROUND = 3
_SAVES = 5  # the first of them is not counted
_SAVE_BY_HAND = 4


def shape_for(megabytes: int) -> list[int]:
    """That of each variable, for a checkpoint of so many megabytes."""
    return [megabytes * 1_000_000 // 4 // _VARIABLES // _COLUMNS, _COLUMNS]


def _shape(turns: Turns) -> list[int]:
    return shape_for(100 if turns.quick else 1000)


def _model_fn(tf: Any, estimator_api: Any, shape: Sequence[int]) -> Any:
    v1 = tf.compat.v1

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        variables = [
            v1.get_variable(
                f"v{i}", shape, initializer=v1.random_uniform_initializer(), use_resource=True
            )
            for i in range(_VARIABLES)
        ]
        loss = tf.reduce_mean(features["x"])
        change = tf.fill(shape, loss * 1e-6)
        changes = [v.assign_sub(change, read_value=False) for v in variables]
        with tf.control_dependencies(changes):
            train_op = v1.assign_add(v1.train.get_global_step(), 1)
        return estimator_api.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def _train(turns: Turns, tf: Any, estimator_api: Any, listeners: Sequence[Any] = ()) -> None:
    period = _STEPS_BETWEEN_SAVES["quick" if turns.quick else "whole"]
    turns.report(**held_up(tf, estimator_api, _shape(turns), period, _SAVES, listeners))
    os._exit(0)


def held_up(
    tf: Any,
    estimator_api: Any,
    shape: Sequence[int],
    period: int,
    saves: int,
    listeners: Sequence[Any] = (),
) -> dict[str, float]:
    """Train with a save every `period` steps; seconds, of which the first save is no part."""
    ended: list[float] = []

    class Clock(tf.compat.v1.train.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            ended.append(time.perf_counter())

    def input_fn() -> Any:
        return tf.data.Dataset.from_tensors({"x": tf.ones([8])}).repeat()

    config = estimator_api.RunConfig(
        model_dir=tempfile.mkdtemp(),
        save_checkpoints_steps=period,
        keep_checkpoint_max=1,
    )
    estimator = estimator_api.Estimator(_model_fn(tf, estimator_api, shape), config=config)
    steps = (saves + 1) * period - 2  # ends before another save would be due
    estimator.train(input_fn, steps=steps, hooks=[Clock()], saving_listeners=listeners)
    return _blocked_and_slowed(ended, period, saves)


def _blocked_and_slowed(ended: Sequence[float], period: int, saves: int) -> dict[str, float]:
    """From the times at which steps ended; medians over the saves."""
    seconds = [b - a for a, b in itertools.pairwise(ended)]
    usual = statistics.median(seconds)
    standing, excess = [], []
    for save in range(2, saves + 1):
        begin = save * period - 2  # seconds[i] is the time of step i + 2
        around = seconds[begin : begin + _STEPS_AROUND]
        standing.append(sum(around) - usual * len(around))
        until_next = seconds[begin : begin + period - 2]
        excess.append(sum(until_next) - usual * len(until_next))
    return {
        "blocked": max(0.0, statistics.median(standing)),
        "slowed": max(0.0, statistics.median(excess)),
        "usual_step": usual,
    }


def estimand(turns: Turns) -> None:
    import tensorflow as tf

    import estimand as est

    _train(turns, tf, est)


def waited_for(turns: Turns) -> None:
    """The same training, standing still until each checkpoint is on the disk."""
    import tensorflow as tf

    import estimand as est

    reads_the_files = tf.compat.v1.train.CheckpointSaverListener()
    _train(turns, tf, est, [reads_the_files])


def upstream(turns: Turns) -> None:
    import tensorflow as tf

    _train(turns, tf, tf.estimator)


def synchronous_saver(turns: Turns) -> None:
    """A v1 Saver, called by hand on variables of the same size."""
    import tensorflow as tf

    shape = _shape(turns)
    variables = [tf.Variable(tf.random.uniform(shape), name=f"v{i}") for i in range(_VARIABLES)]
    saver = tf.compat.v1.train.Saver(variables, max_to_keep=1)
    path = os.path.join(tempfile.mkdtemp(), "model.ckpt")
    seconds = []
    for step in range(_SAVE_BY_HAND):
        start = time.perf_counter()
        saver.save(None, path, global_step=step, write_meta_graph=False)
        seconds.append(time.perf_counter() - start)
    turns.report(blocked=statistics.median(seconds[1:]))


_SYNCHRONOUS = "Estimand, each save waited for"
_BY_HAND = "v1 Saver called by hand"

WORKLOAD = Workload(
    title="Training held up by a checkpoint of 1 GB (--quick: 100 MB)",
    contestants=[
        Contestant("Estimand", PROJECT, estimand),
        Contestant(_SYNCHRONOUS, PROJECT, waited_for),
        Contestant("tf.estimator", UPSTREAM, upstream),
        Contestant(_BY_HAND, PROJECT, synchronous_saver),
    ],
    measures=[
        Measure("blocked", "blocked", "s", "share"),
        Measure("slowed", "slowed until the next save", "s", "share"),
        Measure("usual_step", "a usual step", "s", "seconds"),
    ],
    baseline=[_SYNCHRONOUS, "tf.estimator"],
    targets=[Target("Estimand", [_SYNCHRONOUS], at_most=0.10, measure="blocked")],
    rounds=4,
    quick_rounds=1,
    fresh_process=True,
)
