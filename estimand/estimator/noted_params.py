"""Params and settings as they are noted in model_dir, to compare runs by."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core import tf_private
from estimand.core.tf_private import kerases

_LONGEST = 100  # list or word: data is none of it
# Of every estimator: told elsewhere, or nothing of the model.
_NOT_SETTINGS = ("self", "model_fn", "model_dir", "config", "params", "warm_start_from")


def noted(params: Any) -> dict[str, Any] | None:
    """Numbers, words, short lists of these, and dicts; what has a name, by it.

    Whatever else there is, is left out.

    >>> noted({"units": (8, 4), "adam": {"rate": 0.1}, "table": np.zeros(3), "loss": abs})
    {'units': [8, 4], 'adam': {'rate': 0.1}, 'loss': 'abs'}
    """
    if hasattr(params, "to_json") and callable(getattr(params, "values", None)):
        params = params.values()  # hyperparameters
    if not isinstance(params, Mapping):
        return None
    entries = {str(name): _short(value) for name, value in params.items()}
    return {name: value for name, value in entries.items() if value is not None} or None


def settings(kind: type, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What an estimator of a class is made with and others do not have: sizes of canned ones.

    >>> class Mine:
    ...     def __init__(self, units, model_dir=None, rate=0.1, **more):
    ...         pass
    >>> settings(Mine, [[8, 4]], {"model_dir": "runs/mine", "dropout": 0.5})
    {'units': [8, 4], 'rate': 0.1, 'dropout': 0.5}
    """
    signature = inspect.signature(kind.__init__)  # type: ignore[misc]
    try:
        bound = signature.bind(None, *args, **kwargs)
    except TypeError:  # which calling it says better
        return {}
    bound.apply_defaults()
    given: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        is_open = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        given |= value if is_open else {name: value}
    return {name: value for name, value in given.items() if name not in _NOT_SETTINGS}


def _short(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else None
    if isinstance(value, bool | int | float):
        return value
    if (name := _name(value)) is not None:
        return name
    if isinstance(value, list | tuple) and len(value) <= _LONGEST:
        parts = [_short(part) for part in value]
        return None if None in parts else parts
    return noted(value)


def _name(value: Any) -> Any:
    """Of feature columns, functions and classes; of optimizers also the rate."""
    if hasattr(value, "parse_example_spec"):
        return str(value.name)
    if isinstance(value, tf.compat.v1.train.Optimizer):
        return _optimizer(value, tf_private.v1_learning_rate(value))
    if not isinstance(value, type) and kerases.is_optimizer(value):
        rate = None
        with contextlib.suppress(Exception):  # of a graph that is gone: no note is worth an error
            keras: Any = kerases.of(value)
            rate = keras.learning_rate(value)
        return _optimizer(value, rate)
    name = getattr(value, "__name__", None) if callable(value) else None
    return None if name == "<lambda>" else name


def _optimizer(optimizer: Any, rate: Any) -> dict[str, Any]:
    kind = {"name": type(optimizer).__name__}
    if isinstance(rate, int | float):
        return {**kind, "learning_rate": rate}
    return {**kind, "learning_rate": type(rate).__name__} if callable(rate) else kind
