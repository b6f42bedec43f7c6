"""Which checkpoints have been evaluated, by what the event files say."""

from __future__ import annotations

import os
from dataclasses import dataclass

import tensorflow as tf

from estimand.engine.checkpoints.api import checkpoint_candidates, checkpoint_step
from estimand.engine.events import event_files, read_events

_TAG = "checkpoint_path"


@dataclass(frozen=True)
class Evaluated:
    """One evaluation that was done: of which checkpoint, at which step, and when."""

    checkpoint: str
    step: int
    time: float


def evaluations_in(eval_dir: str | os.PathLike[str]) -> list[Evaluated]:
    """The evaluations that left their results in `eval_dir`, in the order of steps.

    An evaluation names its checkpoint in a second event, when its results are written: one
    without it was not finished, or had no checkpoint. Only the last name of the path counts, so
    that a `model_dir` may be moved.
    """
    evaluated = [
        Evaluated(os.path.basename(_text(value.tensor)), event.step, event.wall_time)
        for file in event_files(eval_dir)
        for event in read_events(file)
        for value in event.summary.value
        if value.tag == _TAG and value.HasField("tensor")
    ]
    return sorted(evaluated, key=lambda evaluation: (evaluation.step, evaluation.time))


def not_yet_evaluated(
    model_dir: str | os.PathLike[str], eval_dir: str | os.PathLike[str]
) -> list[str]:
    """The checkpoints of a `model_dir` that have no results in `eval_dir`, oldest first."""
    done = {evaluation.checkpoint for evaluation in evaluations_in(eval_dir)}
    paths = [p for p in checkpoint_candidates(model_dir) if os.path.basename(p) not in done]
    return sorted(paths, key=checkpoint_step)


def _text(tensor: tf.Tensor) -> str:
    value = tf.make_ndarray(tensor).item()
    return os.fsdecode(value) if isinstance(value, bytes) else str(value)
