"""The arguments with which TensorFlow's own hooks were made."""

from __future__ import annotations

import os
from typing import Any

# For each hook of TensorFlow: which attribute holds which argument, and what the arguments that
# went into its timer are called (steps, seconds).
_HOOK_ATTRIBUTES: dict[str, dict[str, str]] = {
    "CheckpointSaverHook": {
        "checkpoint_dir": "_checkpoint_dir",
        "checkpoint_basename": "_save_path",
        "saver": "_saver",
        "scaffold": "_scaffold",
        "listeners": "_listeners",
        "save_graph_def": "_save_graph_def",
    },
    "FeedFnHook": {"feed_fn": "feed_fn"},
    "FinalOpsHook": {"final_ops": "_final_ops", "final_ops_feed_dict": "_final_ops_feed_dict"},
    "GlobalStepWaiterHook": {"wait_until_step": "_wait_until_step"},
    "LoggingTensorHook": {
        "tensors": "_tensors",
        "at_end": "_log_at_end",
        "formatter": "_formatter",
    },
    "NanTensorHook": {"loss_tensor": "_loss_tensor", "fail_on_nan_loss": "_fail_on_nan_loss"},
    "ProfilerHook": {
        "output_dir": "_output_file",
        "show_dataflow": "_show_dataflow",
        "show_memory": "_show_memory",
    },
    "StepCounterHook": {"output_dir": "_output_dir", "summary_writer": "_summary_writer"},
    "StopAtStepHook": {"num_steps": "_num_steps", "last_step": "_last_step"},
    "SummarySaverHook": {
        "output_dir": "_output_dir",
        "summary_writer": "_summary_writer",
        "scaffold": "_scaffold",
        "summary_op": "_summary_op",
    },
}


_HOOK_TIMERS = {
    "CheckpointSaverHook": ("save_steps", "save_secs"),
    "LoggingTensorHook": ("every_n_iter", "every_n_secs"),
    "ProfilerHook": ("save_steps", "save_secs"),
    "StepCounterHook": ("every_n_steps", "every_n_secs"),
    "SummarySaverHook": ("save_steps", "save_secs"),
}


def hook_arguments(hook: Any) -> dict[str, Any]:
    """The arguments with which one of TensorFlow's own hooks was made.

    The hooks keep them to themselves, and we need them to do the same job without looking at
    every step.
    """
    kind = type(hook).__name__
    given = {name: getattr(hook, held) for name, held in _HOOK_ATTRIBUTES[kind].items()}
    if kind in _HOOK_TIMERS:
        steps, secs = _HOOK_TIMERS[kind]
        # A hook that logs only at the end has a timer without these.
        given[steps] = getattr(hook._timer, "_every_steps", None)
        given[secs] = getattr(hook._timer, "_every_secs", None)
    if kind == "CheckpointSaverHook":
        given["checkpoint_basename"] = os.path.basename(given["checkpoint_basename"])
    elif kind == "LoggingTensorHook" and all(t is tag for tag, t in given["tensors"].items()):
        given["tensors"] = list(hook._tag_order)  # it was given a list, not a dict
    elif kind == "ProfilerHook":
        given["output_dir"] = os.path.dirname(given["output_dir"])
    elif kind == "StopAtStepHook" and given["num_steps"] is not None:
        given["last_step"] = None  # worked out in an earlier run
    return given


def listeners_of(saver_hook: Any) -> list[Any]:
    """Those that a `CheckpointSaverHook`, of TensorFlow or ours, tells of its checkpoints."""
    return saver_hook._listeners


def set_final_ops_values(hook: Any, values: Any) -> None:
    """Let a `FinalOpsHook` of TensorFlow answer with values that were computed elsewhere."""
    hook._final_ops_values = values
