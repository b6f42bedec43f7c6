"""What optimizers of Keras 2 were told about their rate before the newer family of them.

Up to TensorFlow 2.10 `tf.keras.optimizers.SGD(lr=0.1, decay=1e-6)` was all there was. The family
that came after it refuses `decay`, and takes `lr` to train at its default rate all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

_GIVEN = "_estimand_rate_given"


def old_arguments() -> list[tuple[Any, str, Any]]:
    """Owner, name and value of what lets the newer family take `lr`, `decay` and tensors."""
    import tf_keras

    # Two classes build a rate: the one that is derived asks the other, unless it has a mesh.
    base = tf_keras.optimizers.Optimizer.__mro__[1]
    return [
        (base, "_process_kwargs", _keeping_rates(base._process_kwargs)),
        (base, "_build_learning_rate", _of_what_was_given(base._build_learning_rate)),
    ]


def _keeping_rates(original: Callable[..., None]) -> Callable[..., None]:
    def process(self: Any, kwargs: dict[str, Any]) -> None:
        setattr(self, _GIVEN, (kwargs.pop("lr", None), kwargs.pop("decay", None)))
        original(self, kwargs)

    return process


def _of_what_was_given(original: Callable[..., Any]) -> Callable[..., Any]:
    def build(self: Any, learning_rate: Any) -> Any:
        lr, decay = getattr(self, _GIVEN, (None, None))
        rate = learning_rate if lr is None else lr
        if tf.is_tensor(rate) and not isinstance(rate, tf.Variable) and not hasattr(rate, "numpy"):
            return rate  # of the graph that is being built: no variable can start from it
        return original(self, _decaying(rate, decay) if decay else rate)

    return build


def _decaying(rate: Any, decay: float) -> Any:
    """As it was: divided by 1 + decay x steps. A schedule of Keras, so that models can be saved."""
    from tf_keras.optimizers import schedules

    if isinstance(rate, schedules.LearningRateSchedule):
        raise ValueError("A learning rate that is a schedule takes no `decay`: give one of both.")
    return schedules.InverseTimeDecay(rate, decay_steps=1, decay_rate=decay)
