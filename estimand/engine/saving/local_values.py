"""Local variables of a training step, kept beside a checkpoint for the call that is resumed.

They are no part of the model, so a checkpoint does not hold them, and a new call starts them anew.
But a step may depend on them (a running mean that sets the learning rate): an interrupted call
that goes on as if nothing had happened needs them as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.engine.checkpoints.files import companion_prefix
from estimand.engine.checkpoints.fitting import CheckpointMismatch, Wanted
from estimand.engine.checkpoints.publishing import Entry
from estimand.engine.checkpoints.reader import read_tensors
from estimand.engine.tracing.built_model import BuiltModel

NAMES = "local_variables"  # in what is noted with a checkpoint
_PREFIX = "local/"


def taken(trace: BuiltModel) -> list[Entry]:
    """The values now. None where several replicas or workers have their own."""
    return [Entry(_PREFIX + name, value) for name, value in _values(trace).items()]


def names_of(entries: Sequence[Entry]) -> list[str]:
    """What to note, so that it is known what lies there."""
    return [entry.name.removeprefix(_PREFIX) for entry in entries]


def put_back(trace: BuiltModel, path: str, names: Sequence[str]) -> dict[str, Any]:
    """Give the local variables what they had when the checkpoint at `path` was taken.

    Those that got their value, by name.
    """
    known = {name: v for name, v in trace.variables.local.items() if name in set(names)}
    wanted = [Wanted(_PREFIX + name, v.dtype, tuple(v.shape)) for name, v in known.items()]
    beside = companion_prefix(path)
    if beside is None or not wanted:
        return {}
    try:
        values = read_tensors(beside, wanted)
    except CheckpointMismatch:  # the model function has others by now
        return {}
    for variable, value in zip(known.values(), values, strict=True):
        variable.assign(value)
    return known


def _values(trace: BuiltModel) -> dict[str, tf.Tensor]:
    if trace.has_remote_variables or trace.distribution.is_strategy:
        return {}
    return {name: variable.read_value() for name, variable in trace.variables.local.items()}
