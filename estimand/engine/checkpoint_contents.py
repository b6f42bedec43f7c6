"""Everything that a checkpoint holds, whoever wrote it: for looking at it, not for restoring."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core.errors import CheckpointError, NoCheckpointError
from estimand.engine.checkpoint_files import STEP_VARIABLE, latest_checkpoint
from estimand.engine.checkpoint_parts import further_parts, parts_of
from estimand.engine.checkpoint_reader import Wanted, read_tensors

_FILE_ENDING = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
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
    prefix = _FILE_ENDING.sub("", path)
    if os.path.exists(prefix + ".index"):
        return prefix
    exported = os.path.join(path, "variables", "variables")
    if os.path.exists(exported + ".index"):
        return exported
    found = latest_checkpoint(path) if os.path.isdir(path) else None
    if found is None:
        raise NoCheckpointError(
            f"There is no checkpoint at {path}. Give a checkpoint (.../model.ckpt-1200), a "
            "model_dir or the folder of a SavedModel."
        )
    return found


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a checkpoint, by what its index says."""

    name: str
    shape: tuple[int, ...]
    dtype: tf.DType

    @property
    def elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def nbytes(self) -> int:
        """Without strings, whose sizes the index does not tell."""
        return 0 if self.dtype == tf.string else self.elements * self.dtype.size


class CheckpointContents:
    """The tensors of one checkpoint, sorted by name; values are read when asked for."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.prefix = find_checkpoint(path)
        try:
            reader: Any = tf.train.load_checkpoint(self.prefix)
            shapes, dtypes = (
                reader.get_variable_to_shape_map(),
                reader.get_variable_to_dtype_map(),
            )
        except (tf.errors.OpError, RuntimeError, ValueError) as error:
            raise CheckpointError(f"{self.prefix}.index cannot be read: {error}") from error
        self._reader = reader
        hidden = {_OBJECT_GRAPH} | further_parts(shapes)  # a first part stands for the whole
        self._keys = {_shown(key): key for key in shapes if key not in hidden}
        self._in_parts = {key for key in shapes if parts_of(key, shapes)}
        self.tensors = [
            StoredTensor(name, tuple(shapes[key]), dtypes[key])
            for name, key in sorted(self._keys.items())
        ]

    def value(self, name: str) -> Any:
        """A tensor, as a NumPy array."""
        key = self._keys[name]
        if key in self._in_parts:
            dtype = next(one.dtype for one in self.tensors if one.name == name)
            return read_tensors(self.prefix, [Wanted(key, dtype, None)])[0].numpy()
        try:
            return self._reader.get_tensor(key)
        except (tf.errors.OpError, RuntimeError, ValueError) as error:
            raise CheckpointError(
                f"{name} cannot be read from {self.prefix}.data-*: the file is damaged or missing."
            ) from error

    @property
    def step(self) -> int | None:
        """The global step, if there is one."""
        return int(self.value(STEP_VARIABLE)) if STEP_VARIABLE in self._keys else None


def _shown(key: str) -> str:
    return key.removesuffix(_OBJECT_ENDING)
