"""Stopping at the same step in all processes.

With every step goes a sum of votes, beside that of the losses, so it costs nothing extra. Who has
to stop (a hook, a signal) casts a vote before a step; after that step all have seen it, also in
the middle of a block, and stop there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.engine.distributed import collectives
from estimand.engine.distribution import Stop

_STOP = 1.0
_INTERRUPTED = 1000.0


class StopVote(Stop):
    """The vote of this process, and the sum of all votes that the last step has seen."""

    def __init__(self) -> None:
        # Used by their handles only, so that nobody takes them for variables of the model.
        self._mine = tf.Variable(0.0, trainable=False)
        self._seen = tf.Variable(0.0, trainable=False)

    # Between steps

    def reset(self) -> None:
        self._mine.assign(0.0)
        self._seen.assign(0.0)

    def cast(self, *, interrupted: bool) -> None:
        """Ask all to stop after the next step."""
        self._mine.assign(_INTERRUPTED if interrupted else _STOP)

    @property
    def agreed(self) -> bool:  # type: ignore[override]
        return float(self._seen.numpy()) > 0

    @property
    def interrupted(self) -> bool:  # type: ignore[override]
        """Whether somebody was told to end, as opposed to having found the training finished."""
        return float(self._seen.numpy()) >= _INTERRUPTED

    # In the step

    def cast_unless(self, more: tf.Tensor) -> tf.Operation:
        """Ask all to stop after this step, unless there is `more` input."""
        mine = tf.raw_ops.ReadVariableOp(resource=self._mine.handle, dtype=tf.float32)
        vote = tf.where(more, mine, tf.maximum(mine, _STOP))
        return tf.raw_ops.AssignVariableOp(resource=self._mine.handle, value=vote)

    def vote(self) -> tf.Tensor:
        return tf.raw_ops.ReadVariableOp(resource=self._mine.handle, dtype=tf.float32)

    def see(self, votes: tf.Tensor) -> tf.Operation:
        return tf.raw_ops.AssignVariableOp(
            resource=self._seen.handle, value=tf.cast(votes, tf.float32)
        )

    def in_loops(self, step: Callable[..., tf.Tensor]) -> Any:
        return collectives.outside_of_loops(step)

    def unless_agreed(self, condition: tf.Tensor) -> tf.Tensor:
        seen = tf.raw_ops.ReadVariableOp(resource=self._seen.handle, dtype=tf.float32)
        return condition & tf.equal(seen, 0.0)
