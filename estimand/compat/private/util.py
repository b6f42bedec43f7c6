"""Helpers of `tensorflow_estimator.python.estimator.util`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core.errors import InputError
from estimand.estimator.model_fn import argument_names

_TABLES = tf.compat.v1.GraphKeys.TABLE_INITIALIZERS


def fn_args(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's arguments, `self` and those already bound left out.

    >>> fn_args(lambda features, mode: None)
    ('features', 'mode')
    """
    return tuple(argument_names(function))


class _DatasetInitializerHook(tf.compat.v1.train.SessionRunHook):
    """Runs an iterator's initializer when the session is there."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    def begin(self) -> None:
        self._initializer = self._iterator.initializer

    def after_create_session(self, session: Any, coord: Any) -> None:
        del coord
        session.run(self._initializer)


class DistributedIteratorInitializerHook(_DatasetInitializerHook):
    """The same for the iterator of a strategy."""


class MultiHostDatasetInitializerHook(tf.compat.v1.train.SessionRunHook):
    """The same for a list of iterators."""

    def __init__(self, dataset_initializers: Any) -> None:
        self._initializers = dataset_initializers

    def after_create_session(self, session: Any, coord: Any) -> None:
        del coord
        session.run(self._initializers)


def parse_input_fn_result(result: Any) -> tuple[Any, Any, list[Any]]:
    """(features, labels, hooks) of what an input_fn returned, in a graph."""
    hooks: list[Any] = []
    if isinstance(result, tf.data.Dataset):
        iterator = tf.compat.v1.data.make_initializable_iterator(result)
        hooks.append(_DatasetInitializerHook(iterator))
        result = iterator.get_next()
    return *parse_iterator_result(result), hooks


def parse_iterator_result(result: Any) -> tuple[Any, Any]:
    """(features, labels) of what an iterator gave."""
    if isinstance(result, list | tuple):
        if len(result) != 2:
            raise InputError(
                "input_fn should return (features, labels) as a len 2 tuple. "
                f"It returned {len(result)} values."
            )
        return result[0], result[1]
    return result, None
