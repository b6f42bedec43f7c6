"""How replicas share one loss, and their gradients.

Gradients of all replicas are added up. A loss that is a mean over the batch of one replica is
therefore divided by the number of replicas before: N replicas with batches of B rows then train
as one does with batches of N x B rows. A loss that is a sum is left as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ConfigError

MEAN, SUM = "mean", "sum"
_NOTED = "estimand/loss_reduction"


def replicas_in_sync() -> int:
    """How many replicas the model function being built is one of, in all processes."""
    return tf.distribute.get_strategy().num_replicas_in_sync


@contextlib.contextmanager
def shared(loss: tf.Tensor, reduction: str) -> Iterator[tf.Tensor]:
    """What a replica differentiates of its loss, a "mean" or a "sum" over its batch.

    Inside, a v1 optimizer takes the share as it is and does not divide it again.
    """
    if reduction not in (MEAN, SUM):
        raise ConfigError(
            f"loss_reduction={reduction!r} is not known; what the loss is over a batch must be "
            '"mean" or "sum".'
        )
    tf.compat.v1.get_default_graph().add_to_collection(_NOTED, reduction)
    count = replicas_in_sync()
    share = loss / count if count > 1 and reduction == MEAN else loss
    with tf_private.v1_optimizers_share_the_loss(tf.distribute.get_strategy(), False):
        yield share


def loss_reduction() -> tf.distribute.ReduceOp:
    """How the losses of the replicas make up that of the whole batch."""
    noted = tf.compat.v1.get_default_graph().get_collection(_NOTED)
    if noted:
        only_sums = all(reduction == SUM for reduction in noted)
        return tf.distribute.ReduceOp.SUM if only_sums else tf.distribute.ReduceOp.MEAN
    return tf.compat.v1.distribute.get_loss_reduction()


def summed(gradients: Sequence[Any]) -> list[Any]:
    """The gradients of all replicas added up, where this is called in one of several."""
    if replicas_in_sync() == 1 or tf.distribute.in_cross_replica_context():
        return list(gradients)
    given = [g for g in gradients if g is not None]
    context = tf.distribute.get_replica_context()
    total = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, given) if given else ())
    return [None if g is None else next(total) for g in gradients]
