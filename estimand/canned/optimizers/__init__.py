"""Optimizers with the arithmetic and the checkpoint names of `tf.estimator`'s canned models.

>>> from estimand.canned.optimizers import Adagrad
>>> Adagrad(learning_rate=0.05)
Adagrad(learning_rate=0.05)
"""

from __future__ import annotations

from estimand.canned.optimizers.adagrad import Adagrad
from estimand.canned.optimizers.adam import Adam
from estimand.canned.optimizers.base import LegacyOptimizer
from estimand.canned.optimizers.choice import (
    choose_optimizer,
    choose_v1_optimizer,
    for_many_models,
)
from estimand.canned.optimizers.ftrl import Ftrl
from estimand.canned.optimizers.rmsprop import RMSprop
from estimand.canned.optimizers.sgd import SGD

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "Ftrl",
    "LegacyOptimizer",
    "RMSprop",
    "choose_optimizer",
    "choose_v1_optimizer",
    "for_many_models",
]
