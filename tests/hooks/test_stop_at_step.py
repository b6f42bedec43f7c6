"""StopAtStepHook: exactly at the step, however many steps run at once."""

from __future__ import annotations

import pytest

from estimand.hooks import StopAtStepHook
from tests.hooks.driving import SmallLoop, monitored_session, trace, v1


def test_stops_exactly_without_looking() -> None:
    loop = SmallLoop(trace(), [StopAtStepHook(last_step=7)]).run(100)
    assert loop.global_step() == 7
    assert loop.looked_at == []


def test_num_steps_count_from_the_start_of_each_run() -> None:
    model, hook = trace(), StopAtStepHook(num_steps=3)
    assert SmallLoop(model, [hook]).run(100).global_step() == 3
    assert SmallLoop(model, [hook]).run(100).global_step() == 6


def test_target_is_known_once_the_run_has_begun() -> None:
    hook = StopAtStepHook(num_steps=3)
    assert hook.stop_step is None
    SmallLoop(trace(), [hook]).run(1)
    assert hook.stop_step == 3


@pytest.mark.parametrize("arguments", [{"num_steps": 4}, {"last_step": 4}])
def test_v1_session_is_stopped_at_the_step(arguments) -> None:
    steps = []

    class Steps(v1.train.SessionRunHook):
        def before_run(self, run_context):
            return v1.train.SessionRunArgs(v1.train.get_global_step())

        def after_run(self, run_context, run_values):
            steps.append(int(run_values.results))

    monitored_session(lambda loss: [Steps(), StopAtStepHook(**arguments)], 100)
    assert len(steps) == 4  # a v1 session does not order the read against the update


def test_nothing_given_is_refused() -> None:
    with pytest.raises(ValueError, match="One of num_steps or last_step must be specified"):
        StopAtStepHook()


def test_both_given_are_refused() -> None:
    with pytest.raises(ValueError, match="Only one of num_steps or last_step can be specified"):
        StopAtStepHook(1, 2)


def test_graph_without_global_step_is_refused() -> None:
    import tensorflow as tf

    with (
        tf.Graph().as_default(),
        pytest.raises(RuntimeError, match="Global step should be created to use StopAtStepHook"),
    ):
        StopAtStepHook(last_step=1).begin()
