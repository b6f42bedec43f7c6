"""Where a warm start takes its values from: finding the checkpoint, and the names inside it."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import WarmStartError
from estimand.engine.checkpoints.files import (
    examine_checkpoints,
    prefix_at,
    saved_model_variables,
    without_ending,
)
from estimand.engine.checkpoints.fitting import OBJECT_GRAPH_KEY

_VALUE_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_MOST_NAMES = 50

_log = logging.getLogger("tensorflow")


# ------------------------------------------------------------------ finding it


def checkpoint_to_start_from(path: str | bytes | os.PathLike[str]) -> str:
    """The checkpoint that is meant by a path: a prefix, a directory of checkpoints, a SavedModel.

    >>> import tempfile
    >>> directory = tempfile.mkdtemp()
    >>> prefix = tf.train.Checkpoint(v=tf.Variable(1.0)).save(os.path.join(directory, "model"))
    >>> checkpoint_to_start_from(directory) == checkpoint_to_start_from(prefix) == prefix
    True
    """
    given = os.fsdecode(path)
    prefix = prefix_at(given)
    if prefix is not None:
        return prefix
    if os.path.isdir(given):
        return _newest_in(given)
    raise WarmStartError(
        "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for "
        f"{given}. There is neither a directory of that name nor a file "
        f"{without_ending(given)}.index. To warm-start, give a checkpoint without the ending "
        "('.../model.ckpt-1200'), a model_dir, or the directory of a SavedModel."
    )


def _newest_in(directory: str) -> str:
    broken: dict[str, str] = {}
    for path, problem in examine_checkpoints(directory):
        if problem is None:
            if broken:
                _log.warning("Warm-starting from %s: %s", path, "; ".join(broken.values()))
            return path
        broken[path] = problem
    message = f"Couldn't find 'checkpoint' file or checkpoints in given directory {directory}."
    if broken:
        message += " None of those it names can be read: " + "; ".join(broken.values()) + "."
    if exports := list(_saved_models_below(directory)):
        message += f" There are SavedModels below it; to use the last, give {exports[-1]!r}."
    raise WarmStartError(message)


def _saved_models_below(directory: str) -> Iterator[str]:
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        if os.path.isdir(path) and saved_model_variables(path):
            yield path


# ------------------------------------------------------------------ what is in it


@dataclass(frozen=True)
class Source:
    """A checkpoint: its tensors, and the names by which they can be asked for."""

    path: str
    shapes: dict[str, list[int]]
    dtypes: dict[str, tf.DType]
    # Only of an object-based checkpoint, whose keys are paths of Python objects: the keys of
    # each variable name. Two objects may have used the same name.
    keys_of_name: dict[str, list[str]] = field(default_factory=dict)

    @property
    def object_based(self) -> bool:
        return OBJECT_GRAPH_KEY in self.shapes

    def key(self, name: str) -> str | None:
        """The key of the tensor that was called `name`, by its variable name or as a key."""
        if name in self.shapes:
            return name
        keys = [key for key in self.keys_of_name.get(name, []) if key in self.shapes]
        if len(keys) > 1 and not self._all_equal(keys):
            raise WarmStartError(
                f"The object-based checkpoint {self.path} holds {len(keys)} different variables "
                f"that were called {name!r}: {', '.join(keys)}. Say which one is meant: "
                f"WarmStartSettings(..., var_name_to_prev_var_name={{{name!r}: {keys[0]!r}}})."
            )
        if keys:
            return keys[0]
        return name + _VALUE_SUFFIX if name + _VALUE_SUFFIX in self.shapes else None

    def _all_equal(self, keys: Sequence[str]) -> bool:
        """Keras' `Model.export` saves each weight twice: as its own variable and TensorFlow's."""
        reader = tf.train.load_checkpoint(self.path)
        first = reader.get_tensor(keys[0])
        # By bytes: equal also where a value is not a number.
        return all(
            self.shapes[key] == self.shapes[keys[0]]
            and reader.get_tensor(key).tobytes() == first.tobytes()
            for key in keys[1:]
        )

    @property
    def names(self) -> dict[str, list[int]]:
        """The names that variables had, with their shapes."""
        if not self.object_based:
            return dict(self.shapes)
        return {
            name: self.shapes[keys[0]]
            for name, keys in self.keys_of_name.items()
            if keys[0] in self.shapes
        }

    def missing_message(self, given: str, missing: Sequence[tuple[str, str]]) -> str:
        """What to say if `missing`, pairs of a variable and its name in here, are not in here."""
        if self.object_based:
            message = (
                "Attempting to warm-start from an object-based checkpoint, but found that the "
                "checkpoint did not contain values for all variables. The following variables "
                f"were missing: {sorted(old for _, old in missing)}. "
                f"Variables in {given}: {_some(self.names)}."
            )
        else:
            message = (
                f"Tensor {missing[0][1]} is not found in {given} checkpoint {_some(self.names)}."
            )
            if len(missing) > 1:
                message += f" {len(missing)} variables are not found in it: " + (
                    _some(old for _, old in missing) + "."
                )
        return message + self._what_to_type(missing)

    def _what_to_type(self, missing: Sequence[tuple[str, str]]) -> str:
        renamed = {}
        for variable, old in missing[:_MOST_NAMES]:
            if alike := difflib.get_close_matches(old, self.names, n=1):
                renamed[variable] = alike[0]
        hint = f"\nIf they were renamed: var_name_to_prev_var_name={renamed}." if renamed else ""
        return (
            f"{hint}\nTo let variables that the checkpoint lacks keep their initial values: "
            "est.WarmStartSettings(..., ignore_missing=True). To leave out some variables: "
            "vars_to_warm_start."
        )


def open_source(path: str) -> Source:
    """Read the index of a checkpoint, and the object graph if it has one."""
    try:
        reader: Any = tf.train.load_checkpoint(path)
        shapes = reader.get_variable_to_shape_map()
        dtypes = reader.get_variable_to_dtype_map()
        serialized = reader.get_tensor(OBJECT_GRAPH_KEY) if OBJECT_GRAPH_KEY in shapes else None
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        raise WarmStartError(
            f"Cannot warm-start from {path}, which cannot be read: {error}"
        ) from error
    keys_of_name: dict[str, list[str]] = {}
    if serialized is not None:
        for name, key in tf_private.object_graph_names(serialized):
            keys_of_name.setdefault(name, []).append(key)
    return Source(path, shapes, dtypes, keys_of_name)


def _some(names: Iterable[str] | dict[str, list[int]]) -> str:
    """A list or mapping, cut off where nobody would read on."""
    ordered = sorted(names)
    shown = ordered[:_MOST_NAMES]
    text = str({n: names[n] for n in shown} if isinstance(names, dict) else shown)
    left = len(ordered) - len(shown)
    return f"{text[:-1]}, … and {left} more{text[-1]}" if left else text
