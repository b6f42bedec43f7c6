"""What all metrics of heads have in common: one variable that sums things up."""

from __future__ import annotations

import abc
import re
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.metric_objects import update_operations

_Keys = tf.compat.v1.GraphKeys
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_./-]")


class HeadMetric(Sequence[Any]):
    """A metric over many batches: `update_state` per batch, `result` at any time.

    In a graph it can also be taken for the pair `(value, update_op)` that metrics of TensorFlow 1
    are: code that joins the metrics of several heads unpacks them.
    """

    def __init__(self, name: str, shape: Sequence[int]) -> None:
        self.name = name
        # A local variable: it counts from zero in every evaluation and is in no checkpoint.
        self._state = tf.compat.v1.Variable(
            lambda: tf.zeros(shape),
            trainable=False,
            collections=[_Keys.LOCAL_VARIABLES, _Keys.METRIC_VARIABLES],
            name=_NOT_IN_A_NAME.sub("_", name),
            dtype=tf.float32,
            use_resource=True,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )

    @property
    def variables(self) -> list[tf.Variable]:
        return [self._state]

    @property
    def updates(self) -> list[tf.Operation]:
        """What the updates so far have added to the graph; nothing eagerly."""
        return update_operations(self) or []

    @abc.abstractmethod
    def result(self) -> tf.Tensor:
        """The value over everything seen so far."""

    def __iter__(self) -> Iterator[Any]:
        return iter((self.result(), tf.group(*self.updates)))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: Any) -> Any:
        return tuple(self)[place]

    def reset_state(self) -> None:
        self._state.assign(tf.zeros(self._state.shape))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


def as_float(values: Any) -> tf.Tensor:
    return tf.cast(tf.convert_to_tensor(values), tf.float32)


def broadcast_weights(weights: Any, values: tf.Tensor) -> tf.Tensor:
    """A weight per value; weights lack the last dimension, or have a 1 there."""
    weights = as_float(weights)
    if weights.shape.rank is not None and values.shape.rank is not None:
        if 0 < weights.shape.rank == values.shape.rank - 1:
            weights = tf.expand_dims(weights, -1)
        elif (
            weights.shape.rank == values.shape.rank + 1
            and tf.compat.dimension_value(weights.shape[-1]) == 1
        ):
            weights = tf.squeeze(weights, -1)
    if weights.shape.is_fully_defined() and weights.shape == values.shape:
        return weights
    return tf.broadcast_to(weights, tf.shape(values))
