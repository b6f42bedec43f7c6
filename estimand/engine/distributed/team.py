"""The processes that train one model together, each with replicas of its own.

All run the same steps in the same order. What one of them decides (which checkpoint to go on
from, that it is time to stop) it tells the others through sums, the one thing they all compute
together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.engine.distributed.replicas import for_each, number_of_worker, workers
from estimand.engine.distribution import Team
from estimand.engine.variables.placement import copies

_NONE = -1
_SUMMABLE = (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64)


class SeveralProcesses(Team):
    """This process and the others. Each method must be called by all, in the same order."""

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self.size = workers(strategy)
        self.number = number_of_worker(strategy)

    def from_chief(self, values: Sequence[int]) -> list[int]:
        mine = np.array(values if self.is_chief else [0] * len(values), np.int64)
        return [int(v) for v in self._total(tf.constant(mine))]

    def least(self, value: int | None) -> int | None:
        row: np.ndarray = np.zeros(self.size, np.int64)
        row[self.number] = _NONE if value is None else value
        given = [int(v) for v in self._total(tf.constant(row)) if int(v) != _NONE]
        return min(given, default=None)

    def wait(self) -> None:
        self.from_chief([0])

    def take_from_chief(self, variables: Sequence[tf.Variable]) -> None:
        by_type: dict[tf.DType, list[Any]] = {}
        for variable in variables:
            numeric = variable.dtype.is_floating or variable.dtype.is_integer
            if (numeric or variable.dtype.is_bool) and variable.shape.is_fully_defined():
                by_type.setdefault(variable.dtype, []).append(variable)
        for dtype, group in sorted(by_type.items(), key=lambda item: item[0].name):
            self._take(dtype, group)

    def _take(self, dtype: tf.DType, variables: Sequence[Any]) -> None:
        sent_as = dtype if dtype in _SUMMABLE else tf.int64
        sizes = [v.shape.num_elements() for v in variables]
        if self.is_chief:
            values = [tf.reshape(copies(v)[0].read_value(), [-1]) for v in variables]
            mine = tf.cast(tf.concat(values, axis=0), sent_as)
        else:
            mine = tf.zeros([sum(sizes)], sent_as)
        parts = tf.split(tf.cast(self._total(mine), dtype), sizes)
        if not self.is_chief:
            for variable, part in zip(variables, parts, strict=True):
                variable.assign(tf.reshape(part, variable.shape))

    def _total(self, value: tf.Tensor) -> tf.Tensor:
        """`value` of all processes added up."""

        def one_replica(number: int) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            mine = value if number == 0 else tf.zeros_like(value)
            return context.all_reduce(tf.distribute.ReduceOp.SUM, mine)

        # In a function: TensorFlow warns of every sum that is not in one. It would also warn of
        # calls that trace anew, as each of these few does.
        total = tf.function(lambda: for_each(self._strategy, one_replica)[0], autograph=False)
        return total.get_concrete_function()()
