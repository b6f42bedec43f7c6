"""Does a checkpoint fit a model: which tensors are wanted, which are there, and what differs."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from estimand.core.errors import CheckpointError

OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
MOST_ROWS = 50


class CheckpointMismatch(CheckpointError):
    """The checkpoint is intact, but the model has other variables or shapes.

    What is raised is one of the two below, which are also errors of `tf.errors`: those that
    restoring in a session raised, and that programs catch.
    """


class VariablesMissing(CheckpointMismatch, tf.errors.NotFoundError):
    """The model has variables that are not in the checkpoint."""

    def __init__(self, message: str) -> None:
        tf.errors.NotFoundError.__init__(self, None, None, message)


class VariablesDiffer(CheckpointMismatch, tf.errors.InvalidArgumentError):
    """The model has variables of other shapes or types than the checkpoint."""

    def __init__(self, message: str) -> None:
        tf.errors.InvalidArgumentError.__init__(self, None, None, message)


@dataclass(frozen=True)
class Wanted:
    """One tensor to be read; `shape` of None takes any. `slice_spec` as in `Entry`.

    What has a `device` is read there, and by itself.
    """

    name: str
    dtype: tf.DType
    shape: tuple[int | None, ...] | None
    slice_spec: str = ""
    device: str = ""

    @property
    def whole_shape(self) -> tuple[int | None, ...] | None:
        """The shape the checkpoint must have: of the variable that this may be a part of."""
        if self.slice_spec:
            return tuple(int(size) for size in self.slice_spec.split()[:-1])
        return self.shape


@dataclass(frozen=True)
class Stored:
    """What the index says is in the checkpoint."""

    shapes: dict[str, list[int]]
    dtypes: dict[str, tf.DType]

    def describe(self, name: str) -> str:
        return _describe(tuple(self.shapes[name]), self.dtypes[name])


def check_fit(path: str, wanted: Sequence[Wanted], stored: Stored) -> None:
    misfits = [entry for entry in wanted if not _fits(entry, stored)]
    if not misfits:
        return
    missing = [entry for entry in misfits if entry.name not in stored.shapes]
    rows = [("variable", "model", "checkpoint")]
    for entry in misfits[:MOST_ROWS]:
        there = f"Key {entry.name} not found in checkpoint"
        if entry.name in stored.shapes:
            there = stored.describe(entry.name)
        rows.append((entry.name, _describe(entry.whole_shape, entry.dtype), there))
    parts = [f"Restoring from checkpoint failed: {path} does not fit the model.", *_table(rows)]
    if len(misfits) > MOST_ROWS:
        parts.append(f"  … and {len(misfits) - MOST_ROWS} more")
    if OBJECT_GRAPH_KEY in stored.shapes:
        parts.append(
            "The checkpoint is an object-based one, written by tf.train.Checkpoint or "
            "Keras' save_weights: its keys are paths of Python objects, not names of variables. "
            "Load it with tf.train.Checkpoint(...).restore, or give it to warm_start_from."
        )
    else:
        parts.extend(_look_alikes(missing, wanted, stored))
    cause = "a mismatch between the current graph and the graph"
    if missing:
        cause = "a Variable name or other graph key that is missing"
    parts.append(
        f"This is most likely due to {cause} from the checkpoint: the model_fn was changed since "
        "the checkpoint was written. Change it back, train into another model_dir, or take over "
        "what fits: Estimator(..., warm_start_from=...) with a new model_dir."
    )
    raise (VariablesMissing if missing else VariablesDiffer)("\n".join(parts))


def _fits(entry: Wanted, stored: Stored) -> bool:
    if entry.name not in stored.shapes or stored.dtypes[entry.name] != tf.as_dtype(entry.dtype):
        return False
    shape = entry.whole_shape
    return shape is None or tf.TensorShape(shape).is_compatible_with(stored.shapes[entry.name])


def _describe(shape: tuple[int | None, ...] | None, dtype: tf.DType) -> str:
    return f"{'any shape' if shape is None else shape} {tf.as_dtype(dtype).name}"


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _look_alikes(missing: Sequence[Wanted], wanted: Sequence[Wanted], stored: Stored) -> list[str]:
    """Hints at variables that were renamed: unused names like those that are missing."""
    unused = sorted(stored.shapes.keys() - {entry.name for entry in wanted})
    hints: list[str] = []
    for entry in missing[:MOST_ROWS]:
        fitting = [name for name in unused if _fits(Wanted(name, entry.dtype, entry.shape), stored)]
        alike = difflib.get_close_matches(entry.name, fitting, n=1) or difflib.get_close_matches(
            entry.name, unused, n=1
        )
        hints.extend(f"  {name} ({stored.describe(name)}), like {entry.name}" for name in alike)
    return ["In the checkpoint, but not in the model:", *hints] if hints else []
