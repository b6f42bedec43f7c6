"""From probabilities to logits, so that models which count votes can use the heads."""

from __future__ import annotations

import tensorflow as tf

_SMALLEST = 1e-7  # certainty would be an infinite logit


def logits_for(probabilities: tf.Tensor) -> tf.Tensor:
    """Logits of which a head for so many classes makes these probabilities again.

    >>> logits = logits_for(tf.constant([[0.25, 0.75]]))
    >>> round(float(tf.sigmoid(logits)[0, 0]), 4)
    0.75
    """
    logs = tf.math.log(tf.maximum(probabilities, _SMALLEST))
    return (
        logs[:, 1:] - logs[:, :1]
        if tf.compat.dimension_value(probabilities.shape[1]) == 2
        else logs
    )
