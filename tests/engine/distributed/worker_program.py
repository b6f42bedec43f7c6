"""One process of several that train together, as TF_CONFIG says; writes down what came out.

python -m tests.engine.distributed.worker_program MODEL_DIR OUTPUT '{"model": "v1", "max_steps": 6}'
"""

from __future__ import annotations

import json
import logging
import sys
import time

import tensorflow as tf

import estimand as est
from tests.engine.distributed import models


class Watch(tf.compat.v1.train.SessionRunHook):
    """Notes the loss of the steps it looks at, may be slow, and may want to stop."""

    def __init__(self, stop_at: int | None, seconds: float, progress: str, every: int) -> None:
        self.losses: dict[int, float] = {}
        self.cadence = est.every(steps=every)
        self._stop_at, self._seconds, self._progress = stop_at, seconds, progress

    def before_run(self, run_context):
        del run_context
        (loss,) = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1:]
        step = tf.compat.v1.train.get_global_step()
        return tf.compat.v1.train.SessionRunArgs([loss, step])

    def after_run(self, run_context, run_values):
        loss, before = run_values.results
        self.losses[int(before)] = float(loss)
        time.sleep(self._seconds)
        with open(self._progress, "w") as file:
            file.write(str(int(before) + 1))
        if self._stop_at is not None and int(before) + 1 >= self._stop_at:
            run_context.request_stop()


class Rows(tf.compat.v1.train.SessionRunHook):
    """Notes the rows that this process was given."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def before_run(self, run_context):
        del run_context
        (rows,) = tf.compat.v1.get_collection("rows")
        return tf.compat.v1.train.SessionRunArgs(rows)

    def after_run(self, run_context, run_values):
        del run_context
        self.seen += [int(row) for row in run_values.results]


def rows_given(config: est.RunConfig, input_fn) -> list[int]:
    """One epoch of `input_fn`, in a model_dir of its own."""
    config = config.replace(model_dir=f"{config.model_dir}-{input_fn.__name__}")
    rows = Rows()
    est.Estimator(models.rows_model_fn, config=config).train(input_fn, hooks=[rows])
    return rows.seen


def main() -> None:
    model_dir, output, settings = sys.argv[1:]
    given = json.loads(settings)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    config = est.RunConfig(
        model_dir=model_dir,
        tf_random_seed=7,
        log_step_count_steps=None,
        save_checkpoints_steps=given.get("save_every", 1000),
    )
    me = f"{config.task_type}{config.task_id}"
    stop_at = given["stop_at"] if given.get("stop_who") == me else None
    # The chief looks less often, so it takes more steps at once than the other does.
    every = 2 if config.is_chief else 1
    watch = Watch(stop_at, given.get("seconds", 0.0), f"{output}.progress", every)
    estimator = models.ESTIMATORS[given["model"]](config)
    input_fn = getattr(models, given.get("input", "input_fn"))(given.get("batch", 8))
    hooks = [watch] if given.get("hooks", True) else []
    estimator.train(input_fn, max_steps=given.get("max_steps"), hooks=hooks)
    result = {"losses": watch.losses, "chief": config.is_chief}
    step = estimator._workspace.live._traces["train"]
    (trace,) = step.values()
    result["values"] = {
        name: variable.numpy().ravel().tolist()
        for name, variable in trace.variables.saved().items()
    }
    if "files" in given:
        result["rows of files"] = rows_given(config, models.rows_of_files(given["files"]))
        result["rows chosen"] = rows_given(config, models.rows_chosen)
    with open(output, "w") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
