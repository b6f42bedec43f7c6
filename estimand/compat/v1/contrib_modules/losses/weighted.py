"""`tf.contrib.losses`: the losses of `tf.losses`, with predictions or logits before labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
add_loss = v1.losses.add_loss
get_losses = v1.losses.get_losses
get_regularization_losses = v1.losses.get_regularization_losses
get_total_loss = v1.losses.get_total_loss
compute_weighted_loss = v1.losses.compute_weighted_loss


def _swapped(loss: Callable[..., Any], first: str, second: str, *others: str) -> Any:
    """A loss with the arguments in this order, by place and by name."""
    order = (first, second, *others)

    def swapped(*args: Any, **kwargs: Any) -> tf.Tensor:
        given = dict(zip(order, args, strict=False)) | kwargs
        if "weight" in given:  # as the first releases called it
            given["weights"] = given.pop("weight")
        return loss(**given)

    swapped.__name__ = swapped.__qualname__ = loss.__name__
    swapped.__doc__ = f"`tf.compat.v1.losses.{loss.__name__}` of `{first}` and `{second}`."
    return swapped


_MORE = ("weights", "scope")
absolute_difference = _swapped(v1.losses.absolute_difference, "predictions", "labels", *_MORE)
mean_squared_error = _swapped(v1.losses.mean_squared_error, "predictions", "labels", *_MORE)
mean_pairwise_squared_error = _swapped(
    v1.losses.mean_pairwise_squared_error, "predictions", "labels", *_MORE
)
log_loss = _swapped(v1.losses.log_loss, "predictions", "labels", "weights", "epsilon", "scope")
cosine_distance = _swapped(v1.losses.cosine_distance, "predictions", "labels", "axis", *_MORE)
softmax_cross_entropy = _swapped(
    v1.losses.softmax_cross_entropy,
    "logits",
    "onehot_labels",
    "weights",
    "label_smoothing",
    "scope",
)
sigmoid_cross_entropy = _swapped(
    v1.losses.sigmoid_cross_entropy,
    "logits",
    "multi_class_labels",
    "weights",
    "label_smoothing",
    "scope",
)
sparse_softmax_cross_entropy = _swapped(
    v1.losses.sparse_softmax_cross_entropy, "logits", "labels", *_MORE
)


def hinge_loss(logits: Any, labels: Any = None, scope: Any = None) -> tf.Tensor:
    """Of each label, 0 or 1; it is not collected, and no mean is taken."""
    with v1.name_scope(scope, "hinge_loss", [logits, labels]):
        labels = tf.cast(labels, logits.dtype)
        return tf.nn.relu(1 - (2 * labels - 1) * logits)
