"""Looks for which the loss of a block's last step is enough."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.running import program
from tests import line

v1 = tf.compat.v1


class Sees(est.SessionRunHook):
    """Every tenth step: what it was told to look at; `earlier`, as ready-made hooks do."""

    cadence = est.every(steps=10)

    def __init__(self, look_at: Callable[[], Any]) -> None:
        self.look_at, self.seen = look_at, []

    def before_run(self, run_context: Any) -> est.SessionRunArgs:
        return est.SessionRunArgs(self.look_at())

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen.append(run_values.results)


class SeesEarlier(Sees):
    before_run = est.hooks.LoggingTensorHook.before_run

    def begin(self) -> None:
        self._should_trigger, self._only_at_end = True, False
        self._current_tensors = self.look_at()

    def _called_when_due(self, session: Any) -> bool:
        return True


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
    loss = tf.reduce_mean((features["x"] * weight - labels) ** 2, name="the_loss")
    tf.identity(loss * 2, name="twice")
    tf.identity(weight * 2, name="of_variable")
    v1.summary.scalar("scaled", loss / 3)
    step = v1.train.get_global_step()
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def graph_tensor(name: str) -> Callable[[], Any]:
    return lambda: v1.get_default_graph().get_tensor_by_name(name)


def steps_run_alone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    alone: list[str] = []
    step = program.StepProgram.step

    def noted(self: Any, feeder: Any, plan: Any, *args: Any, **kwargs: Any) -> Any:
        alone.append(str(plan.key))
        return step(self, feeder, plan, *args, **kwargs)

    monkeypatch.setattr(program.StepProgram, "step", noted)
    return alone


def train(model_dir: Path, hook: Any, mode: str, model: Any = model_fn) -> None:
    config = est.RunConfig(
        str(model_dir),
        tf_random_seed=1,
        block_mode=mode,
        check_data=False,
        log_step_count_steps=None,
        save_summary_steps=None,
    )
    est.Estimator(model, config=config).train(line.endless, max_steps=41, hooks=[hook])


@pytest.mark.parametrize("mode", ["plain", "single_thread", "xla"])
@pytest.mark.parametrize(
    "look_at",
    [
        lambda: {"loss": graph_tensor("the_loss:0")(), "step": v1.train.get_global_step()},
        lambda: [graph_tensor("twice:0")(), v1.summary.merge_all()],
    ],
    ids=["loss and step", "made of the loss"],
)
def test_same_values_as_of_a_step_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, look_at: Callable[[], Any]
) -> None:
    alone = steps_run_alone(monkeypatch)
    by_itself, after_block = Sees(look_at), SeesEarlier(look_at)
    train(tmp_path / "by_itself", by_itself, mode)
    assert len(alone) == len(by_itself.seen) == 5
    alone.clear()
    train(tmp_path / "after_block", after_block, mode)
    assert len(alone) == 1  # the first block is a single step
    kept = [est.Estimator(model_fn, str(tmp_path / d)) for d in ("by_itself", "after_block")]
    assert kept[0].get_variable_value("weight") == kept[1].get_variable_value("weight")
    for one, other in zip(by_itself.seen, after_block.seen, strict=True):
        tf.nest.map_structure(assert_alike, one, other)


def assert_alike(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, bytes):
        one, other = (v1.Summary.FromString(s).value[0].simple_value for s in (one, other))
    # Under XLA what a step by itself shows is computed beside it, by other kernels.
    np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("name", ["of_variable:0", "weight:0"])
def test_what_more_is_needed_for_takes_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    alone = steps_run_alone(monkeypatch)
    hook = SeesEarlier(lambda: name)
    train(tmp_path, hook, "single_thread")
    assert len(alone) == 5


def test_global_step_that_moves_now_and_then_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def every_other(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = model_fn(features, labels, mode)
        turn = v1.get_variable("turn", [], tf.int64, v1.zeros_initializer())
        step = v1.train.get_global_step()
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        with tf.control_dependencies([optimizer.minimize(spec.loss)]):
            moved = turn.assign_add(1)
            train_op = step.assign_add(2 * (moved % 2))
        return spec._replace(train_op=train_op)

    alone = steps_run_alone(monkeypatch)
    hook = SeesEarlier(lambda: v1.train.get_global_step())
    train(tmp_path, hook, "single_thread", every_other)
    assert len(alone) == len(hook.seen) > 0


def test_hook_that_brings_its_own_before_run_is_asked_just_before_the_step(
    tmp_path: Path,
) -> None:
    values = []

    class Watches(est.SessionRunHook):
        cadence = est.every(steps=10)

        def before_run(self, run_context: Any) -> None:
            values.append(int(run_context.session.run(v1.train.get_global_step())))

    train(tmp_path, Watches(), "single_thread")
    assert values == [0, 10, 20, 30, 40]
