"""TensorFlow's own hooks do their job without looking at every step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand import hooks
from estimand.engine.hook_calls.cadence import NEVER
from estimand.hooks.adopt import adopt
from tests.hooks.driving import SmallLoop, trace, v1

_train = tf.compat.v1.train
NAMES = [
    "CheckpointSaverHook",
    "FeedFnHook",
    "FinalOpsHook",
    "GlobalStepWaiterHook",
    "LoggingTensorHook",
    "NanTensorHook",
    "ProfilerHook",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
]
_scaffold = _train.Scaffold()
_listener = _train.CheckpointSaverListener()
# What is given, and what two hooks made with it have to agree on.
MADE_WITH: list[tuple[str, dict[str, Any]]] = [
    ("CheckpointSaverHook", {"checkpoint_dir": "d", "save_steps": 7, "checkpoint_basename": "b"}),
    ("CheckpointSaverHook", {"checkpoint_dir": "d", "save_secs": 60, "scaffold": _scaffold}),
    (
        "CheckpointSaverHook",
        {"checkpoint_dir": "d", "save_secs": 60, "save_graph_def": False, "listeners": [_listener]},
    ),
    ("FinalOpsHook", {"final_ops": ["a"], "final_ops_feed_dict": {"b": 1}}),
    ("GlobalStepWaiterHook", {"wait_until_step": 5}),
    ("LoggingTensorHook", {"tensors": {"b": "x", "a": "y:0"}, "every_n_iter": 10}),
    ("LoggingTensorHook", {"tensors": ["b", "a"], "every_n_secs": 10, "formatter": str}),
    ("LoggingTensorHook", {"tensors": ["b", "a"], "at_end": True}),
    ("NanTensorHook", {"loss_tensor": "x", "fail_on_nan_loss": False}),
    ("StepCounterHook", {"every_n_steps": 5, "output_dir": "d"}),
    ("StepCounterHook", {"every_n_steps": None, "every_n_secs": 5, "summary_writer": "writer"}),
    ("StopAtStepHook", {"num_steps": 5}),
    ("StopAtStepHook", {"last_step": 5}),
    ("SummarySaverHook", {"save_steps": 5, "output_dir": "d", "summary_op": "x"}),
    ("SummarySaverHook", {"save_secs": 5, "scaffold": _scaffold, "summary_writer": "writer"}),
]


def settings(hook: Any) -> dict[str, Any]:
    timer = {"_timer": vars(hook._timer)} if "_timer" in vars(hook) else {}
    taker = {"_taker": vars(hook._taker) | {"_write": None}} if hasattr(hook, "_taker") else {}
    return vars(hook) | timer | taker | {"_original": None}


@pytest.mark.parametrize(("name", "arguments"), MADE_WITH)
def test_settings_are_carried_over(name: str, arguments: dict[str, Any]) -> None:
    adopted = adopt(getattr(_train, name)(**arguments))
    ours = getattr(hooks, name)(**arguments)
    assert isinstance(adopted, getattr(hooks, name))
    assert settings(adopted) == settings(ours)


def test_profiler_is_carried_over(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        theirs = _train.ProfilerHook(save_secs=5, output_dir=str(tmp_path), show_memory=True)
    ours = hooks.ProfilerHook(save_secs=5, output_dir=str(tmp_path), show_memory=True)
    assert settings(adopt(theirs)) == settings(ours)


def test_every_ready_made_hook_is_adopted() -> None:
    from estimand.hooks.adopt import _OURS

    assert sorted(kind.__name__ for kind in _OURS) == NAMES
    assert {kind for kind in _OURS} == {getattr(_train, name) for name in NAMES}


@pytest.mark.parametrize(
    ("make", "cadence"),
    [
        (lambda: _train.StopAtStepHook(num_steps=1), NEVER),
        (lambda: _train.FinalOpsHook("x"), NEVER),
        (lambda: _train.LoggingTensorHook(["x"], every_n_iter=5), est.every(5)),
        (lambda: _train.FeedFnHook(dict), None),
    ],
)
def test_adopted_hooks_say_when_they_look(make: Callable[[], Any], cadence: Any) -> None:
    assert adopt(make()).cadence == cadence


def test_final_values_are_on_the_hook_that_the_user_has() -> None:
    theirs = _train.FinalOpsHook({"step": "global_step"})
    SmallLoop(trace(), [adopt(theirs)]).run(3)
    assert theirs.final_ops_values == {"step": 3}


def test_feed_fn_replaced_by_the_user_is_used() -> None:
    theirs = _train.FeedFnHook(lambda: {"a": 1})
    adopted = adopt(theirs)
    theirs.feed_fn = lambda: {"a": 2}
    assert adopted.before_run(None).feed_dict == {"a": 2}


def test_same_hook_can_be_adopted_again_for_the_next_run() -> None:
    model, theirs = trace(), _train.StopAtStepHook(num_steps=3)
    for target in (3, 6):
        assert SmallLoop(model, [adopt(theirs)]).run(100).global_step() == target


def test_listeners_added_to_the_adopted_hook_do_not_pile_up() -> None:
    theirs = _train.CheckpointSaverHook("d", save_steps=1, listeners=[_listener])
    adopt(theirs)._listeners.append(_listener)
    assert adopt(theirs)._listeners == [_listener]


def test_subclass_is_left_as_it_is() -> None:
    class Own(_train.LoggingTensorHook):
        pass

    hook = Own(["x"], every_n_iter=1)
    assert adopt(hook) is hook


def test_hook_with_a_replaced_method_is_left_as_it_is() -> None:
    hook = _train.StopAtStepHook(num_steps=1)
    hook.after_run = lambda context, values: None
    assert adopt(hook) is hook


@pytest.mark.parametrize(
    "make", [v1.train.SessionRunHook, lambda: hooks.StopAtStepHook(1), lambda: "no hook at all"]
)
def test_anything_else_is_left_as_it_is(make: Callable[[], Any]) -> None:
    hook = make()
    assert adopt(hook) is hook
