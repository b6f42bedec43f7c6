"""An input of unknown length, read by several processes that have to stop together.

Who finds its input at an end cannot take part in another step, and the others would wait for it
for ever. So every batch comes with the knowledge whether another follows: the process whose
input ends votes to stop with its last batch.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.core.errors import InputError
from estimand.engine.distributed.stopping import StopVote
from estimand.engine.feeding.feeder import Feeder, Unpack
from estimand.engine.feeding.source import StepsTogether

_Optional = tf.experimental.Optional


class LookaheadFeeder(Feeder):
    """Gives batches, and votes to stop with the last one."""

    has_position = False  # it is one batch ahead

    def __init__(
        self, dataset: tf.data.Dataset, unpack: Unpack, *, stop: StopVote, **options: Any
    ) -> None:
        if options.get("replicas", 1) > 1:
            raise InputError(
                "The length of the input is not known, and each process trains on "
                f"{options['replicas']} devices: call .repeat() on the Dataset that input_fn "
                "returns and give max_steps, or tell the length by "
                "tf.data.experimental.assert_cardinality."
            )
        super().__init__(_with_next(dataset), unpack, **options)
        self._stop = stop
        self.size, self.may_end_unexpectedly = None, False

    def agree(self, team: StepsTogether) -> None:
        _, more = self.iterator.get_next()
        if not team.least(int(more)):  # somebody has no first batch
            self.size = self.batches
        super().agree(team)

    def draw(self, iterator: Any) -> list[tf.Tensor]:
        batch, more = iterator.get_next()
        self._stop.cast_unless(more)
        return self.flatten(batch.get_value())


def _with_next(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """(batch, whether another follows), each as an Optional, after one that is empty."""
    spec = dataset.element_spec

    @tf.autograph.experimental.do_not_convert
    def present(*element: Any) -> Any:
        return _Optional.from_value(element if isinstance(spec, tuple) else element[0])

    @tf.autograph.experimental.do_not_convert
    def look(pair: tf.data.Dataset) -> Any:
        following = pair.skip(1).get_single_element()
        return pair.take(1).get_single_element(), following.has_value()

    absent = tf.autograph.experimental.do_not_convert(lambda _: _Optional.empty(spec))
    nothing = tf.data.Dataset.from_tensors(0).map(absent)
    sequence = nothing.concatenate(dataset.map(present)).concatenate(nothing)
    return sequence.window(2, shift=1, drop_remainder=True).map(look)
