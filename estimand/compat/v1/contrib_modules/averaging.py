"""`tf.contrib.opt.MovingAverageOptimizer`: trains weights, and keeps averages of them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.compat.v1.optimizer_wrappers import OptimizerWrapper

v1 = tf.compat.v1


class MovingAverageOptimizer(OptimizerWrapper):
    """Updates exponential averages of all variables with each step of another optimizer.

    Args:
        opt: what computes and applies the gradients.
        average_decay: how much of an average stays in a step.
        num_updates: counts the steps; as long as there are few, less of the average stays.
        sequential_update: whether the averages wait for the new values of the step.
    """

    def __init__(
        self,
        opt: Any,
        average_decay: Any = 0.9999,
        num_updates: Any = None,
        sequential_update: bool = True,
    ) -> None:
        super().__init__(opt, "MovingAverageOptimizer")
        # By contrib's own name: programs look into it.
        self._ema = v1.train.ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._sequential_update = sequential_update
        self._averaged: list[Any] = []

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        pairs = list(grads_and_vars)
        step = self._inside.apply_gradients(pairs, global_step=global_step, name=name)
        self._averaged = [variable for gradient, variable in pairs if gradient is not None]
        with tf.control_dependencies([step] if self._sequential_update else []):
            averages = self._ema.apply(self._averaged)
        return tf.group(step, averages)

    def swapping_saver(
        self, var_list: Any = None, name: str = "swapping_saver", **options: Any
    ) -> Any:
        """A Saver whose files have the averages under the names of the variables, and vice versa.

        So whoever restores the variables evaluates with averages, and training goes on from
        where it was.
        """
        if not self._averaged:
            raise RuntimeError(
                "swapping_saver() comes after minimize() or apply_gradients(): before, "
                "there are no averages to be saved."
            )
        chosen = v1.global_variables() if var_list is None else var_list
        if not isinstance(chosen, dict):
            chosen = {variable.op.name: variable for variable in chosen}
        swapped = dict(chosen)
        names = {id(variable): key for key, variable in chosen.items()}
        for variable in self._averaged:
            average = self._ema.average(variable)
            if id(variable) in names and id(average) in names:
                swapped[names[id(variable)]] = average
                swapped[names[id(average)]] = variable
        return v1.train.Saver(swapped, name=name, **options)
