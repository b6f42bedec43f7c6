"""Logits of the canned models for use in model functions of one's own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.canned.deep_and_linear import DeepPart, LinearPart
from estimand.core.errors import ConfigError, ModelFnError

_v1 = tf.compat.v1


def dnn_logit_fn_builder(
    units: int,
    hidden_units: Any,
    feature_columns: Any,
    activation_fn: Any = tf.nn.relu,
    dropout: float | None = None,
    input_layer_partitioner: Any = None,
    batch_norm: bool = False,
) -> Callable[..., tf.Tensor]:
    """A function of (features, mode) that gives the logits of a deep network.

    Variables are made in the variable scope it is called in. With `batch_norm`, the updates of
    the averages are in the collection UPDATE_OPS. Partitioners are accepted and not used.

    Args:
      units: how many logits.
      hidden_units: sizes of the hidden layers.
      feature_columns: the columns that the model reads.
      activation_fn: the activation of hidden layers.
      dropout: the part of each hidden layer that is dropped in training; None: nothing.
      input_layer_partitioner: accepted for old code.
      batch_norm: whether to normalize batches after each hidden layer.

    >>> import tensorflow as tf
    >>> columns = [tf.feature_column.numeric_column("x")]
    >>> logit_fn = dnn_logit_fn_builder(1, [8], columns, tf.nn.relu, None, None, False)
    >>> with tf.Graph().as_default():
    ...     logit_fn({"x": tf.zeros([3, 1])}, "train").shape
    TensorShape([3, 1])
    """
    del input_layer_partitioner
    _check_units(units)
    part = DeepPart(hidden_units, feature_columns, activation_fn, dropout, batch_norm)

    def dnn_logit_fn(features: Any, mode: str) -> tf.Tensor:
        updates: list[Any] = []
        logits = part.build(features, mode, units, updates)
        for update in updates:
            _v1.add_to_collection(_v1.GraphKeys.UPDATE_OPS, update)
        return logits

    return dnn_logit_fn


def linear_logit_fn_builder(
    units: int, feature_columns: Any, sparse_combiner: str = "sum"
) -> Callable[..., tf.Tensor]:
    """A function of (features) that gives the logits of a linear model.

    Args:
      units: how many logits.
      feature_columns: the columns that the model reads.
      sparse_combiner: how several values of one feature are summed up: "sum", "mean", "sqrtn".

    >>> import tensorflow as tf
    >>> logit_fn = linear_logit_fn_builder(2, [tf.feature_column.numeric_column("x")])
    >>> with tf.Graph().as_default():
    ...     logit_fn({"x": tf.zeros([3, 1])}).shape
    TensorShape([3, 2])
    """
    _check_units(units)
    part = LinearPart(feature_columns, sparse_combiner)

    def linear_logit_fn(features: Any) -> tf.Tensor:
        bias: list[Any] = []
        logits = part.build(features, units, bias)
        part.summarise(bias, [])
        return logits

    return linear_logit_fn


def call_logit_fn(
    logit_fn: Callable[..., Any], features: Any, mode: str, params: Any, config: Any
) -> Any:
    """Calls a logit_fn with those of mode, params and config that it takes.

    >>> import tensorflow as tf
    >>> def logit_fn(features, params):
    ...     return features["x"] * params["scale"]
    >>> float(call_logit_fn(logit_fn, {"x": tf.constant(2.0)}, "train", {"scale": 3.0}, None))
    6.0
    """
    offered = {"mode": mode, "params": params, "config": config}
    taken = _parameter_names(logit_fn)
    logits = logit_fn(features=features, **{n: v for n, v in offered.items() if n in taken})
    tensors = logits.values() if isinstance(logits, dict) else [logits]
    named = not isinstance(logits, dict) or all(isinstance(key, str) for key in logits)
    if not (named and all(isinstance(t, tf.Tensor) for t in tensors)):
        raise ModelFnError(
            "logit_fn should return a Tensor or a dictionary mapping strings to Tensors.  "
            f"logit_fn returned: {logits}"
        )
    return logits


def _parameter_names(function: Callable[..., Any]) -> set[str]:
    if isinstance(function, functools.partial):
        return _parameter_names(function.func) - set(function.keywords)
    return set(inspect.signature(function).parameters)


def _check_units(units: Any) -> None:
    if not isinstance(units, int):
        raise ConfigError(f"units must be an int.  Given type: {type(units)}")
