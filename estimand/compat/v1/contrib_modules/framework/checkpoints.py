"""`tf.contrib.framework`: variables that get their values from a checkpoint, or from arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.compat.v1.contrib_modules.framework.variables import get_variable_full_name
from estimand.core.errors import ConfigError

v1 = tf.compat.v1
Feeds = dict[Any, Any]


def assign_from_values(var_names_to_values: Mapping[str, Any]) -> tuple[Any, Feeds]:
    """An op that assigns these, and what to feed it with."""
    by_name = {v.op.name: v for v in v1.global_variables()}
    unknown = [name for name in var_names_to_values if name not in by_name]
    if unknown:
        raise ConfigError(f"Variable {unknown[0]} wasn't found. There are: {sorted(by_name)}")
    return _assigned([(by_name[name], value) for name, value in var_names_to_values.items()])


def assign_from_values_fn(var_names_to_values: Mapping[str, Any]) -> Callable[[Any], None]:
    """A function that assigns these in a session."""
    assign, feeds = assign_from_values(var_names_to_values)
    return lambda session: session.run(assign, feeds)


def assign_from_checkpoint(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False
) -> tuple[Any, Feeds]:
    """An op that assigns what a checkpoint has, and what to feed it with.

    Args:
        model_path: of the checkpoint.
        var_list: variables, or by their names in the checkpoint variables or lists of parts.
        ignore_missing_vars: whether those that it has not are left as they are.
    """
    reader = tf.train.load_checkpoint(model_path)
    pairs = []
    for name, variables in _by_name(var_list).items():
        if not reader.has_tensor(name):
            if not ignore_missing_vars:
                raise ConfigError(f"Checkpoint is missing variable [{name}]: {model_path}")
            tf.get_logger().warning("Variable %s missing in checkpoint %s", name, model_path)
            continue
        pairs += _parts(name, variables, reader.get_tensor(name))
    return _assigned(pairs)


def assign_from_checkpoint_fn(
    model_path: str,
    var_list: Any,
    ignore_missing_vars: bool = False,
    reshape_variables: bool = False,
) -> Callable[[Any], None]:
    """A function that restores these in a session, as `Scaffold(init_fn=...)` takes it."""
    by_name = _by_name(var_list)
    if not by_name:
        raise ConfigError("var_list cannot be empty")
    if ignore_missing_vars:
        reader = tf.train.load_checkpoint(model_path)
        missing = [name for name in by_name if not reader.has_tensor(name)]
        for name in missing:
            tf.get_logger().warning("Variable %s missing in checkpoint %s", name, model_path)
            del by_name[name]
        if not by_name:
            tf.get_logger().warning("No variables to restore from %s", model_path)
            return lambda session: None
    if reshape_variables:
        assign, feeds = assign_from_checkpoint(model_path, by_name)
        return lambda session: session.run(assign, feeds)
    saver = v1.train.Saver({k: v[0] if len(v) == 1 else v for k, v in by_name.items()})
    return lambda session: saver.restore(session, model_path)


def _by_name(var_list: Any) -> dict[str, list[Any]]:
    if isinstance(var_list, Mapping):
        return {k: list(v) if isinstance(v, (list, tuple)) else [v] for k, v in var_list.items()}
    grouped: dict[str, list[Any]] = {}
    for variable in var_list:
        grouped.setdefault(get_variable_full_name(variable), []).append(variable)
    return grouped


def _parts(name: str, variables: Sequence[Any], value: Any) -> list[tuple[Any, Any]]:
    pairs = []
    for variable in variables:
        info = getattr(variable, "_save_slice_info", None)
        part = value
        if info is not None:
            places = zip(info.var_offset, info.var_shape, strict=True)
            part = value[tuple(slice(start, start + size) for start, size in places)]
        if part.size != variable.shape.num_elements():
            raise ConfigError(
                f"Total size of new array must be unchanged for {name} lh_shape: "
                f"[{part.shape}], rh_shape: [{variable.shape}]"
            )
        pairs.append((variable, np.reshape(part, variable.shape.as_list())))
    return pairs


def _assigned(pairs: Sequence[tuple[Any, Any]]) -> tuple[Any, Feeds]:
    ops, feeds = [], {}
    for variable, value in pairs:
        given = v1.placeholder(variable.dtype.base_dtype, variable.shape)
        ops.append(v1.assign(variable, given))
        feeds[given] = value
    return tf.group(*ops), feeds
