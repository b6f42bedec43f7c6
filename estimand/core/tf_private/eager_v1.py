"""What v1 code does in a graph, and TensorFlow leaves out in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core.interpreter.swapping import Swap, swapped


def losses_are_collected() -> list[Swap]:
    """`tf.compat.v1.losses` note what they compute, so that `get_total_loss` is their sum.

    TensorFlow does not, because it cannot know when a step ends; where each step has a graph of
    its own for its collections, that is no matter.
    """
    from tensorflow.python.ops.losses import util

    def collecting(add_loss: Callable[..., None]) -> Callable[..., None]:
        def add(loss: tf.Tensor, loss_collection: Any = tf.compat.v1.GraphKeys.LOSSES) -> None:
            if not tf.executing_eagerly():
                add_loss(loss, loss_collection)
            elif loss_collection:
                tf.compat.v1.add_to_collection(loss_collection, loss)

        return add

    return [(util, "add_loss", collecting), (tf.compat.v1.losses, "add_loss", collecting)]


def averages_start_from(value_at_start: Callable[[Any], tf.Tensor]) -> Swap:
    """Moving averages of variables start from what those held before the step.

    In a graph they start from the initial value; in eager mode TensorFlow takes the present one,
    which a train_op may have changed already.
    """
    from tensorflow.python.training import slot_creator

    def in_apply(apply: Callable[..., Any]) -> Callable[..., Any]:
        def from_the_start(create_slot: Callable[..., Any]) -> Callable[..., Any]:
            def create(primary: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
                return create_slot(primary, value_at_start(primary), *args, **kwargs)

            return create

        def apply_to(self: Any, var_list: Any = None) -> Any:
            with swapped([(slot_creator, "create_slot", from_the_start)]):
                return apply(self, var_list)

        return apply_to

    return tf.compat.v1.train.ExponentialMovingAverage, "apply", in_apply
