"""Hooks that build graph in `begin`, as hooks of TensorFlow 1 did."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(({"x": [[1.0]]}, [[1.0]])).repeat()


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    w = v1.get_variable("w", [1, 1])
    loss = tf.reduce_mean((tf.matmul(features["x"], w) - labels) ** 2)
    optimizer = v1.train.GradientDescentOptimizer(0.1)
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


class Fetching(est.SessionRunHook):
    """Fetches at every step what `build` has made."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build
        self.seen: list[Any] = []

    def begin(self) -> None:
        self._tensors = self._build()

    def before_run(self, run_context: Any) -> Any:
        return est.SessionRunArgs(self._tensors)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen.append(run_values.results)


def train(hook: Any, model_dir: Path, steps: int = 5) -> None:
    est.Estimator(model_fn, str(model_dir)).train(input_fn, steps=steps, hooks=[hook])


def test_conditions_and_loops_see_the_step_before_its_update(tmp_path: Path) -> None:
    def build() -> Any:
        step = v1.train.get_global_step()
        late = tf.greater(step, 2)
        return [
            tf.cond(late, lambda: tf.constant(1), lambda: tf.constant(2)),
            tf.cond(late, lambda: step, lambda: tf.constant(-1, tf.int64)),
            tf.case([(late, lambda: tf.identity(step))], default=lambda: tf.constant(7, tf.int64)),
            tf.while_loop(lambda i: i < step, lambda i: i + 1, [tf.constant(0, tf.int64)])[0],
        ]

    hook = Fetching(build)
    train(hook, tmp_path)
    assert hook.seen == [[2, -1, 7, 0], [2, -1, 7, 1], [2, -1, 7, 2], [1, 3, 3, 3], [1, 4, 4, 4]]


def test_a_writer_is_initialised_by_the_hook_that_made_it(tmp_path: Path) -> None:
    class Writing(est.SessionRunHook):
        def begin(self) -> None:
            writer = tf.summary.create_file_writer(str(tmp_path / "own"))
            with writer.as_default():
                self._write = tf.summary.scalar("a", 0.5, step=v1.train.get_global_step())
            self._initialise = writer.init()
            self._flush = writer.flush()

        def after_create_session(self, session: Any, coord: Any) -> None:
            session.run(self._initialise)

        def before_run(self, run_context: Any) -> Any:
            return est.SessionRunArgs(self._write)

        def end(self, session: Any) -> None:
            session.run(self._flush)

    train(Writing(), tmp_path / "model")
    (file,) = (tmp_path / "own").iterdir()
    events = list(v1.train.summary_iterator(str(file)))
    assert [event.step for event in events if event.summary.value] == [0, 1, 2, 3, 4]


def nested(x: tf.Tensor, levels: int) -> tf.Tensor:
    if levels == 0:
        return 2.0 * x
    return tf.cond(x > -1e9, lambda: nested(x + 1.0, levels - 1), lambda: x)


@pytest.mark.parametrize("where", ["hook", "model"])
def test_conditions_nested_deeper_than_there_are_threads(where: str, tmp_path: Path) -> None:
    levels = (tf.config.threading.get_inter_op_parallelism_threads() or os.cpu_count() or 1) + 2

    def with_nested(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = model_fn(features, labels, mode)
        return spec._replace(loss=spec.loss + 0.0 * nested(spec.loss, levels))

    hook = Fetching(lambda: nested(tf.constant(1.0), levels) if where == "hook" else [])
    estimator = est.Estimator(model_fn if where == "hook" else with_nested, str(tmp_path))
    estimator.train(input_fn, steps=3, hooks=[hook])
    if where == "hook":
        assert hook.seen == [2.0 * (1 + levels)] * 3
    assert estimator.get_variable_value("global_step") == 3


def test_histograms_of_a_users_writer_on_some_steps(tmp_path: Path) -> None:
    def writing(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = model_fn(features, labels, mode)
        step = v1.train.get_global_step()
        writer = tf.summary.create_file_writer(str(tmp_path / "own"))
        with writer.as_default(step=step), tf.summary.record_if(lambda: tf.equal(step % 2, 0)):
            tf.summary.histogram("h", features["x"])
        with tf.control_dependencies([spec.train_op, *v1.summary.all_v2_summary_ops()]):
            return spec._replace(train_op=tf.group(writer.flush()))

    est.Estimator(writing, str(tmp_path / "model")).train(input_fn, steps=4)
    (file,) = (tmp_path / "own").iterdir()
    written = [e for e in v1.train.summary_iterator(str(file)) if e.summary.value]
    assert [value.tag for event in written for value in event.summary.value] == ["h", "h"]
