"""What variables, savers and checkpoints keep to themselves."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import tensorflow as tf


def get_variable_is_creating(depth: int = 7) -> bool:
    """Whether the variable being created was asked for through `get_variable`.

    Executing eagerly, `get_variable` itself adds what it creates to the collections. It is looked
    for in the next functions of TensorFlow, however many of ours are in between.
    """
    frame: Any = sys._getframe(1)
    while frame is not None and depth:
        if frame.f_code.co_name == "_get_single_variable":
            return True
        depth -= not frame.f_globals.get("__name__", "").startswith("estimand.")
        frame = frame.f_back
    return False


def read_after(variable: tf.Variable, op: Any) -> tf.Variable:
    """What `assign` returns: the variable, once `op` has been run (called, if that is possible)."""
    return variable._lazy_read(op)


def op_before_read(value: Any) -> Any:
    """The `op` of `read_after`; None for anything else."""
    return getattr(value, "_parent_op", None) if isinstance(value, tf.Variable) else None


def saver_variables(saver: Any) -> dict[str, Any] | None:
    """What a v1 Saver was told to save, by checkpoint name; None if it was told nothing.

    A Saver keeps this to itself, but a `Scaffold(saver=Saver(ema.variables_to_restore()))` is
    the usual way to evaluate with averaged weights.
    """
    chosen = getattr(saver, "_var_list", None)
    if isinstance(chosen, dict):
        return dict(chosen)
    if not isinstance(chosen, Iterable):  # nothing, or an object in front of a Saver
        return None
    return {v.name.split(":")[0]: v for v in chosen}


def saver_overrides(saver: Any, method: str) -> bool:
    """Whether a Saver has a `save` or `restore` of its own, which then has to be called."""
    original = getattr(tf.compat.v1.train.Saver, method)
    return (
        callable(getattr(saver, method, None)) and getattr(type(saver), method, 0) is not original
    )


def saver_limits(saver: Any) -> tuple[int, float] | None:
    """How many checkpoints a v1 Saver keeps, 0 for all, and one for good every so many hours.

    One that has not been built yet (`defer_build`, or made in eager mode) has no public
    `saver_def`, and keeps what it was told to itself.
    """
    if saver is None:
        return None
    told = getattr(saver, "saver_def", None)
    if told is not None:
        return told.max_to_keep, told.keep_checkpoint_every_n_hours
    if not hasattr(saver, "_max_to_keep"):
        return None
    return saver._max_to_keep or 0, saver._keep_checkpoint_every_n_hours


def save_slice(variable: tf.Variable) -> tuple[str, str] | None:
    """Full name and slice of a part of a partitioned variable, as its checkpoint has it."""
    info = getattr(variable, "_save_slice_info", None)
    return None if info is None else (info.full_name, info.spec)


def save_like(variable: tf.Variable, part: tf.Variable, full_name: str) -> None:
    """Let `variable` be saved as the slice of `full_name` that `part` is of its own whole."""
    info = part._save_slice_info
    variable._set_save_slice_info(
        tf.Variable.SaveSliceInfo(full_name, info.full_shape, info.var_offset, info.var_shape)
    )


def object_graph_names(serialized: bytes) -> list[tuple[str, str]]:
    """Variable name and checkpoint key of all that an object-based checkpoint holds.

    The message class of `_CHECKPOINTABLE_OBJECT_GRAPH` has no public name.
    """
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(serialized)
    attributes = (attribute for node in graph.nodes for attribute in node.attributes)
    return [(a.full_name, a.checkpoint_key) for a in attributes if a.full_name]


def initializer_set_from_checkpoint(variable: tf.Variable) -> tf.Operation | None:
    """The op that `tf.compat.v1.train.init_from_checkpoint` put in place of an initializer."""
    return getattr(variable, "_initializer_op", None)


def text_file_of_table(table: Any) -> tuple[str, dict[str, Any]] | None:
    """The file that a lookup table was filled from, and how; None if it was not from a file.

    An export takes the file along and fills the table from it. The table's initializer knows,
    but keeps it to itself.
    """
    initializer: Any = getattr(table, "_initializer", None)
    filename = getattr(initializer, "_filename", None)
    if initializer is None or filename is None:
        return None
    path = tf.get_static_value(getattr(filename, "asset_path", filename))
    if path is None:
        return None
    how = {
        "key_index": initializer._key_index,
        "value_index": initializer._value_index,
        "vocab_size": -1 if initializer._vocab_size is None else initializer._vocab_size,
        "delimiter": initializer._delimiter,
        "offset": initializer._offset,
    }
    return getattr(path, "item", lambda: path)().decode(), how
