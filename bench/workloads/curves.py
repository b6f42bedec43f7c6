"""What one more costs: a feature column, a table, a hook, an evaluation, a megabyte, a model.

Each curve is a workload whose measures are its points. A contestant works through them within its
turn, each with an estimator (or a server) of its own; what comes before the steps run evenly is
not measured where the time of a step is.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from environments import PROJECT, UPSTREAM
from turns import Turns
from workload import Contestant, Measure, Workload

from workloads import checkpoint, dnn, serving, train_and_evaluate

_ESTIMAND, _UPSTREAM = "Estimand", "tf.estimator"
_STEPS_PER_LOOK = 25
_SETTLE_SECONDS, _MEASURED_SECONDS = 0.4, 0.6

COLUMN_POINTS = (1, 4, 16, 64)
TABLE_POINTS = (1, 4, 16, 64)
HOOK_POINTS = (0, 1, 4, 16)
EVALUATION_POINTS = (1, 2, 5, 10)
CHECKPOINT_POINTS = (1, 10, 100)  # megabytes
MODEL_POINTS = (1, 4, 16, 32)

Point = Callable[[int], dict[str, float]]


def key(measure: str, point: int) -> str:
    """
    >>> key("step", 16)
    'step_16'
    """
    return f"{measure}_{point}"


def _take_turns(turns: Turns, points: Sequence[int], measure: Point) -> None:
    measure(points[0])  # what happens once in a process is no part of any point
    while True:
        turns.wait()
        found = ((point, measure(point)) for point in points)
        turns.report(**{key(k, n): value for n, values in found for k, value in values.items()})


# ---------------------------------------------------------------- the time of a step


class _Stopwatch:
    """The mean time of a step, as soon as they have run evenly for a while."""

    def __init__(self) -> None:
        self._first: float | None = None
        self._began: float | None = None
        self._steps = 0
        self.milliseconds = 0.0

    def has_seen(self, steps: int) -> bool:
        """Whether that is enough."""
        now = time.perf_counter()
        if self._first is None:
            self._first = now
        elif self._began is None:
            self._began = now if now - self._first >= _SETTLE_SECONDS else None
        else:
            self._steps += steps
            self.milliseconds = (now - self._began) / self._steps * 1e3
        return self._began is not None and now - self._began >= _MEASURED_SECONDS


def _step(api: Any, make_estimator: Any, data: Any, hooks: Sequence[Any] = ()) -> dict[str, float]:
    stopwatch = _Stopwatch()
    every = _STEPS_PER_LOOK if hasattr(api, "every") else 1  # tf.estimator's hooks see all steps

    class Count(api.SessionRunHook):
        if every > 1:
            cadence = api.every(steps=every)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            if stopwatch.has_seen(every):
                run_context.request_stop()

    with tempfile.TemporaryDirectory() as model_dir:
        estimator = make_estimator(model_dir)
        estimator.train(data, hooks=[Count(), *hooks])
    return {"step": stopwatch.milliseconds}


def _apis(name: str) -> tuple[Any, Any]:
    """TensorFlow, and whose estimators they are."""
    import tensorflow as tf

    if name == _UPSTREAM:
        return tf, tf.estimator
    import estimand as est

    return tf, est


def _batches(tf: Any, features: dict[str, np.ndarray], batch: int) -> Any:
    rows = len(next(iter(features.values())))
    labels = np.random.default_rng(0).integers(0, 2, rows)

    def input_fn() -> Any:
        data = tf.data.Dataset.from_tensor_slices((features, labels))
        return data.shuffle(1000).repeat().batch(batch, drop_remainder=True).prefetch(2)

    return input_fn


def columns(who: str, turns: Turns) -> None:
    """Half of them numbers, half words of a vocabulary."""
    tf, api = _apis(who)
    fc = tf.feature_column if who == _UPSTREAM else api.feature_column
    random, words = np.random.default_rng(0), [f"word{i}" for i in range(20)]

    def measure(count: int) -> dict[str, float]:
        features: dict[str, np.ndarray] = {}
        made = []
        for i in range(count):
            if i % 2:
                column = fc.categorical_column_with_vocabulary_list(f"c{i}", words)
                made.append(fc.indicator_column(column))
                features[f"c{i}"] = random.choice(words, 2000)
            else:
                made.append(fc.numeric_column(f"c{i}"))
                features[f"c{i}"] = random.normal(size=2000).astype(np.float32)
        return _step(
            api,
            lambda model_dir: api.DNNClassifier([64, 32], made, model_dir=model_dir),
            _batches(tf, features, 128),
        )

    _take_turns(turns, COLUMN_POINTS, measure)


def tables(who: str, turns: Turns) -> None:
    """Embeddings of 10,000 x 16 with v1's Adam, and a small network on top."""
    tf, api = _apis(who)
    v1 = tf.compat.v1

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        rows = []
        for name in sorted(features):
            table = v1.get_variable(name, [10_000, 16], use_resource=True)
            rows.append(tf.nn.embedding_lookup(table, features[name]))
        net = tf.concat(rows, axis=1)
        for i, units in enumerate((64, 2)):
            w = v1.get_variable(f"w{i}", [net.shape[1], units], use_resource=True)
            net = tf.matmul(net if i == 0 else tf.nn.relu(net), w)
        loss = v1.losses.sparse_softmax_cross_entropy(labels, net)
        train_op = v1.train.AdamOptimizer().minimize(loss, v1.train.get_global_step())
        return api.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def measure(count: int) -> dict[str, float]:
        random = np.random.default_rng(0)
        ids = {f"t{i}": random.integers(0, 10_000, 4096, np.int32) for i in range(count)}
        return _step(
            api,
            lambda model_dir: api.Estimator(model_fn, model_dir=model_dir),
            _batches(tf, ids, 512),
        )

    _take_turns(turns, TABLE_POINTS, measure)


def hooks(who: str, turns: Turns, rarely: bool = False) -> None:
    """Written for tf.estimator: they fetch the loss by its name. `rarely`: every 100 steps."""
    tf, api = _apis(who)
    train = tf.compat.v1.train

    class Look(train.SessionRunHook):
        if rarely:
            cadence = api.every(steps=100)

        def before_run(self, run_context: Any) -> Any:
            return train.SessionRunArgs(dnn.LOSS_NAME + ":0")

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.last = run_values.results

    def measure(count: int) -> dict[str, float]:
        return _step(
            api,
            lambda model_dir: api.Estimator(dnn.v1_model_fn(tf, api), model_dir=model_dir),
            lambda: dnn.dataset(tf),
            [Look() for _ in range(count)],
        )

    _take_turns(turns, HOOK_POINTS, measure)


# ---------------------------------------------------------------- whole runs


def evaluations(who: str, turns: Turns) -> None:
    """In a run of 1,000 steps, each of 1,000 rows."""
    tf, api = _apis(who)

    def measure(count: int) -> dict[str, float]:
        with tempfile.TemporaryDirectory() as model_dir:
            config = api.RunConfig(model_dir=model_dir, save_checkpoints_steps=1000 // count)
            estimator = api.Estimator(dnn.v1_model_fn(tf, api), config=config)
            train = api.TrainSpec(lambda: dnn.dataset(tf), max_steps=1000)
            evaluate = api.EvalSpec(
                lambda: train_and_evaluate._eval_dataset(tf),
                steps=None,
                start_delay_secs=0,
                throttle_secs=0,
            )
            start = time.perf_counter()
            api.train_and_evaluate(estimator, train, evaluate)
            return {"run": time.perf_counter() - start}

    _take_turns(turns, EVALUATION_POINTS, measure)


def checkpoints(who: str, turns: Turns, waiting: bool = False) -> None:
    """What a save takes from training: its step and the next, beyond what steps take."""
    tf, api = _apis(who)
    listeners = [tf.compat.v1.train.CheckpointSaverListener()] if waiting else []

    def measure(megabytes: int) -> dict[str, float]:
        shape = checkpoint.shape_for(megabytes)
        period = max(80, min(400, 8000 // megabytes))  # about a second
        seconds = checkpoint.held_up(tf, api, shape, period, 2, listeners)["blocked"]
        return {"blocked": max(seconds * 1e3, 0.1)}  # what is less is noise

    _take_turns(turns, CHECKPOINT_POINTS, measure)


def models(turns: Turns) -> None:
    """From the start of the server until each has answered; then one after the other is asked."""
    serving.tools_are_there("wrk")
    folder = Path("models").absolute()
    names = [f"{serving.NAME}_{i}" for i in range(max(MODEL_POINTS))]
    for name in names:
        shutil.copytree(serving.base_path(), folder / name)

    def measure(count: int) -> dict[str, float]:
        served, port = names[:count], serving.free_port()
        entries = "".join(
            f'config {{ name: "{name}" base_path: "{folder / name}" '
            'model_platform: "tensorflow" }\n'
            for name in served
        )
        config = folder / "models.config"
        config.write_text(f"model_config_list {{\n{entries}}}\n")
        start = time.perf_counter()
        server = serving.Served(serving.estimand_serves(config, port), port)
        try:
            for name in served:
                ask = functools.partial(serving.ask_rest, port, name)
                server.wait_until(ask, serving.expected(serving.SMALL))
            seconds = time.perf_counter() - start
            return {"start": seconds, "rate": serving.wrk(port, 32, 1.0, served).rate}
        finally:
            server.stop()

    _take_turns(turns, MODEL_POINTS, measure)


# ---------------------------------------------------------------- the workloads


def _contestants(run: Callable[..., None], *more: Contestant) -> list[Contestant]:
    return [
        Contestant(_ESTIMAND, PROJECT, functools.partial(run, _ESTIMAND)),
        *more,
        Contestant(_UPSTREAM, UPSTREAM, functools.partial(run, _UPSTREAM)),
    ]


def _curve(
    title: str,
    contestants: Sequence[Contestant],
    points: Sequence[int],
    quick_rounds: int = 2,
    **measures: str,
) -> Workload:
    kinds = {unit: "rate" if unit.endswith("/s") else "seconds" for unit in measures.values()}
    return Workload(
        title=title,
        contestants=contestants,
        baseline=[_ESTIMAND],
        measures=[
            Measure(key(name, n), f"{n}", unit, kinds[unit])  # type: ignore[arg-type]
            for name, unit in measures.items()
            for n in points
        ],
        rounds=5,
        quick_rounds=quick_rounds,
    )


_RARELY = Contestant(
    "Estimand, every 100 steps", PROJECT, functools.partial(hooks, _ESTIMAND, rarely=True)
)
_WAITING = Contestant(
    "Estimand, waited for", PROJECT, functools.partial(checkpoints, _ESTIMAND, waiting=True)
)
COLUMNS = _curve("Feature columns", _contestants(columns), COLUMN_POINTS, step="ms/step")
TABLES = _curve("Embedding tables", _contestants(tables), TABLE_POINTS, step="ms/step")
HOOKS = _curve("Hooks", _contestants(hooks, _RARELY), HOOK_POINTS, step="ms/step")
EVALUATIONS = _curve("Evaluations", _contestants(evaluations), EVALUATION_POINTS, run="s")
CHECKPOINTS = _curve(
    "Size of a checkpoint", _contestants(checkpoints, _WAITING), CHECKPOINT_POINTS, blocked="ms"
)
MODELS = _curve(
    "Models served",
    [Contestant(_ESTIMAND, PROJECT, models)],
    MODEL_POINTS,
    quick_rounds=1,  # servers take their time to start
    start="s",
    rate="requests/s",
)
