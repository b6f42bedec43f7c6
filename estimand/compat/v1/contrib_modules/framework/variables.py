"""`tf.contrib.framework`: variables, made and found by scope."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimand.compat.v1.contrib_modules.framework.arg_scope import add_arg_scope
from estimand.core.errors import ConfigError

v1 = tf.compat.v1
Keys = v1.GraphKeys


@add_arg_scope
def variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    use_resource: bool | None = None,
    **others: Any,
) -> Any:
    """A variable of this scope, made or found, on a device if that is given."""
    collections = _as_list(Keys.GLOBAL_VARIABLES if collections is None else collections)
    getter = v1.get_variable
    if custom_getter is not None:
        inner = getter

        def getter(*args: Any, **kwargs: Any) -> Any:
            return custom_getter(inner, *args, **kwargs)

    with tf.device(device or ""):
        return getter(
            name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
            collections=list(dict.fromkeys(collections)),
            caching_device=caching_device,
            partitioner=partitioner,
            use_resource=use_resource,
            **others,
        )


@add_arg_scope
def model_variable(
    name: str,
    shape: Any = None,
    dtype: Any = tf.float32,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    **others: Any,
) -> Any:
    """The same, also in the collection of the model's variables."""
    known = [*_as_list(collections or []), Keys.GLOBAL_VARIABLES, Keys.MODEL_VARIABLES]
    return variable(name, shape, dtype, initializer, regularizer, trainable, known, **others)


def local_variable(
    initial_value: Any, validate_shape: bool = True, name: str | None = None, **others: Any
) -> Any:
    """A variable that checkpoints do not have."""
    return _plain(initial_value, Keys.LOCAL_VARIABLES, validate_shape, name, others)


def global_variable(
    initial_value: Any, validate_shape: bool = True, name: str | None = None, **others: Any
) -> Any:
    """A variable that is not trained, and is in checkpoints."""
    return _plain(initial_value, Keys.GLOBAL_VARIABLES, validate_shape, name, others)


def _plain(value: Any, collection: str, validate: bool, name: Any, others: Any) -> Any:
    return v1.Variable(
        value,
        trainable=False,
        collections=[collection],
        validate_shape=validate,
        name=name,
        **others,
    )


def zero_initializer(ref: Any, use_locking: bool = True, name: str = "zero_initializer") -> Any:
    """Sets a variable to zeros."""
    return v1.assign(ref, tf.zeros_like(ref), use_locking=use_locking, name=name)


# Finding them


def get_variables(
    scope: Any = None, suffix: str | None = None, collection: str = Keys.GLOBAL_VARIABLES
) -> list[Any]:
    """The variables below a scope, those whose name ends in `suffix` if it is given."""
    name = scope.name if isinstance(scope, v1.VariableScope) else scope
    if suffix is not None:
        return v1.get_collection(collection, f"{name or ''}.*{re.escape(suffix)}(:0)?$")
    return v1.get_collection(collection, name)


def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """The same of trainable ones."""
    return get_variables(scope, suffix, Keys.TRAINABLE_VARIABLES)


def get_model_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """The same of those that layers made."""
    return get_variables(scope, suffix, Keys.MODEL_VARIABLES)


def get_local_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """The same of local ones."""
    return get_variables(scope, suffix, Keys.LOCAL_VARIABLES)


def get_variables_by_suffix(suffix: str, scope: Any = None) -> list[Any]:
    """Those whose name ends so."""
    return get_variables(scope, suffix)


def get_variables_by_name(given_name: str, scope: Any = None) -> list[Any]:
    """Those whose last part of the name is this."""
    last = re.compile(rf"(^|/){re.escape(given_name)}(:0)?$")
    return [v for v in get_variables(scope) if last.search(v.name)]


def get_unique_variable(var_op_name: str) -> Any:
    """The one of this name."""
    for candidate in v1.get_collection(Keys.GLOBAL_VARIABLES, var_op_name):
        if candidate.op.name == var_op_name:
            return candidate
    raise ConfigError(f"Variable {var_op_name} does not uniquely identify a variable.")


def get_variable_full_name(var: Any) -> str:
    """The name in checkpoints: without `part_0`, where a variable is in parts."""
    saved = getattr(var, "_save_slice_info", None)
    return saved.full_name if saved else var.op.name


def get_variables_to_restore(
    include: Iterable[str] | None = None, exclude: Iterable[str] | None = None
) -> list[Any]:
    """All variables of these scopes, without those of the others."""
    if isinstance(include, str) or isinstance(exclude, str):
        raise TypeError("include and exclude must be lists of scopes, not a string.")
    chosen = get_variables() if include is None else [v for s in include for v in get_variables(s)]
    left_out = {id(v) for scope in exclude or () for v in get_variables(scope)}
    return [v for v in chosen if id(v) not in left_out]


def filter_variables(
    var_list: Sequence[Any],
    include_patterns: Sequence[str] | None = None,
    exclude_patterns: Sequence[str] | None = None,
    reg_search: bool = True,
) -> list[Any]:
    """Those whose name fits one of the first patterns, and none of the others."""
    fits = re.search if reg_search else re.match
    kept = list(var_list)
    if include_patterns is not None:
        kept = [v for v in kept if any(fits(pattern, v.name) for pattern in include_patterns)]
    return [v for v in kept if not any(fits(p, v.name) for p in exclude_patterns or ())]


def add_model_variable(var: Any) -> None:
    """Into the collection of the model's variables, unless it is there."""
    members = v1.get_collection_ref(Keys.MODEL_VARIABLES)
    if not any(var is member for member in members):
        members.append(var)


def _as_list(collections: Any) -> list[Any]:
    return [collections] if isinstance(collections, str) else list(collections)


# The number of the step


def assert_global_step(global_step_tensor: Any) -> None:
    """A step is a whole number."""
    if not global_step_tensor.dtype.is_integer or global_step_tensor.shape.rank != 0:
        raise TypeError(f"The global step must be one integer, not {global_step_tensor}.")


def assert_or_get_global_step(graph: Any = None, global_step_tensor: Any = None) -> Any:
    """The given step, or that of the graph."""
    if global_step_tensor is None:
        return v1.train.get_global_step(graph)
    assert_global_step(global_step_tensor)
    return global_step_tensor
