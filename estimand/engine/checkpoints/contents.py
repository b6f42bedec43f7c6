"""Everything that a checkpoint holds, whoever wrote it: for looking at it, not for restoring."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from typing import Any

from estimand.core.errors import CheckpointError, NoCheckpointError
from estimand.core.files import bundle
from estimand.engine.checkpoints.files import STEP_VARIABLE, latest_checkpoint, prefix_at
from estimand.engine.checkpoints.partitioned_slots import further_parts, parts_of

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"  # how Python objects hang together; no tensor
_OBJECT_ENDING = "/.ATTRIBUTES/VARIABLE_VALUE"


def find_checkpoint(path: str | os.PathLike[str]) -> str:
    """The prefix meant by a prefix, one of its files, a `model_dir` or a SavedModel.

    >>> find_checkpoint("/nowhere")
    Traceback (most recent call last):
      ...
    estimand.core.errors.NoCheckpointError: There is no checkpoint at /nowhere. Give a ...
    """
    path = os.fspath(path)
    prefix = prefix_at(path)
    if prefix is None and os.path.isdir(path):
        prefix = latest_checkpoint(path)
    if prefix is None:
        raise NoCheckpointError(
            f"There is no checkpoint at {path}. Give a checkpoint (.../model.ckpt-1200), a "
            "model_dir or the folder of a SavedModel."
        )
    return prefix


class CheckpointContents:
    """The tensors of one checkpoint, sorted by name.

    Only values need TensorFlow, which is imported when one is asked for.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.prefix = find_checkpoint(path)
        self._bundle = bundle.read(self.prefix)
        stored = self._bundle.tensors
        shapes = {key: tensor.shape for key, tensor in stored.items()}
        hidden = {_OBJECT_GRAPH} | further_parts(shapes)  # a first part stands for the whole
        self._keys = {_shown(key): key for key in shapes if key not in hidden}
        self._in_parts = {key for key in shapes if parts_of(key, shapes)}
        self.tensors = [replace(stored[key], name=name) for name, key in sorted(self._keys.items())]

    def value(self, name: str) -> Any:
        """A tensor, as a NumPy array."""
        import tensorflow as tf

        from estimand.engine.checkpoints.fitting import Wanted
        from estimand.engine.checkpoints.reader import read_tensors

        key = self._keys[name]
        if key in self._in_parts:
            dtype = tf.as_dtype(self._bundle.tensors[key].dtype)
            return read_tensors(self.prefix, [Wanted(key, dtype, None)])[0].numpy()
        try:
            return self._reader.get_tensor(key)
        except (tf.errors.OpError, RuntimeError, ValueError) as error:
            raise CheckpointError(
                f"{name} cannot be read from {self.prefix}.data-*: the file is damaged or missing."
            ) from error

    @cached_property
    def _reader(self) -> Any:
        import tensorflow as tf

        return tf.train.load_checkpoint(self.prefix)

    @property
    def step(self) -> int | None:
        """The global step, if there is one."""
        key = self._keys.get(STEP_VARIABLE)
        return None if key is None else self._bundle.integer(key)


def _shown(key: str) -> str:
    return key.removesuffix(_OBJECT_ENDING)
