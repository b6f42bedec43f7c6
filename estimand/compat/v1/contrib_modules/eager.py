"""`tf.contrib.eager`, usually imported as `tfe`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

Checkpoint = tf.train.Checkpoint
Saver = tf.compat.v1.train.Saver
in_eager_mode = tf.executing_eagerly


def Iterator(dataset: tf.data.Dataset) -> Any:
    """An iterator over a dataset; `next()` gives tensors."""
    return iter(dataset)


def num_gpus() -> int:
    """How many GPUs TensorFlow can use."""
    return len(tf.config.list_logical_devices("GPU"))


def gradients_function(f: Callable[..., Any], params: Any = None) -> Callable[..., list[Any]]:
    """A function that gives the gradients of `f` by its arguments.

    >>> [float(g) for g in gradients_function(lambda x: x * x)(3.0)]
    [6.0]
    """
    both = value_and_gradients_function(f, params)
    return lambda *args: both(*args)[1]


def value_and_gradients_function(
    f: Callable[..., Any], params: Any = None
) -> Callable[..., tuple[Any, list[Any]]]:
    """A function that gives the value of `f` and its gradients by its arguments."""

    def value_and_gradients(*args: Any) -> tuple[Any, list[Any]]:
        tensors = [tf.convert_to_tensor(arg) for arg in args]
        chosen = tensors if params is None else [tensors[i] for i in params]
        with tf.GradientTape() as tape:
            for tensor in chosen:
                tape.watch(tensor)
            value = f(*tensors)
        return value, tape.gradient(value, chosen)

    return value_and_gradients


def implicit_value_and_gradients(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives the value of `f` and (gradient, variable) pairs for all it used."""

    def value_and_gradients(*args: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            value = f(*args, **kwargs)
        variables = tape.watched_variables()
        return value, list(zip(tape.gradient(value, variables), variables, strict=True))

    return value_and_gradients


def implicit_gradients(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives (gradient, variable) pairs for all variables that `f` used."""
    both = implicit_value_and_gradients(f)
    return lambda *args, **kwargs: both(*args, **kwargs)[1]


class _Metric:
    """A metric that is called with values and asked with `result()`."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name or type(self).__name__.lower()
        self._total = tf.Variable(0.0, trainable=False)
        self._count = tf.Variable(0.0, trainable=False)

    def _add(self, values: Any, weights: Any) -> None:
        values = tf.cast(values, tf.float32)
        weights = tf.ones_like(values) if weights is None else tf.cast(weights, tf.float32)
        weights = tf.broadcast_to(weights, tf.shape(values))
        self._total.assign_add(tf.reduce_sum(values * weights))
        self._count.assign_add(tf.reduce_sum(weights))

    def result(self) -> tf.Tensor:
        return tf.math.divide_no_nan(self._total, self._count)

    def init_variables(self) -> None:
        self._total.assign(0.0)
        self._count.assign(0.0)


class Mean(_Metric):
    """The mean of all values so far."""

    def __call__(self, values: Any, weights: Any = None) -> Any:
        self._add(values, weights)
        return values


class Accuracy(_Metric):
    """How often predictions equalled labels so far."""

    def __call__(self, labels: Any, predictions: Any, weights: Any = None) -> Any:
        labels = tf.convert_to_tensor(labels)
        self._add(labels == tf.cast(predictions, labels.dtype), weights)
        return labels, predictions
