"""A feeder whose batches depend on nothing but their number."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from estimand.engine.feeding.feeder import Feeder
from estimand.engine.feeding.supply import Supply

_MANY = 10**9


class NumberedFeeder(Feeder):
    """What its supply draws it can draw as often as it is asked to."""

    def in_hand(self) -> Supply:
        supply = self.supply(1)
        self.took()
        return supply

    def on_trial(self, batch: Sequence[tf.Tensor]) -> Supply:
        del batch
        return self.supply(_MANY)

    def next_batch(self) -> list[tf.Tensor]:
        supply = self.in_hand()
        return supply.draw(supply.values, tf.constant(supply.first))
