"""What the estimators of version 1 have in common."""

from __future__ import annotations

from estimand.estimator import estimator


class Estimator(estimator.Estimator):
    """Predicts without a checkpoint, as tf.estimator did; with a warning."""

    _predicts_untrained = True
