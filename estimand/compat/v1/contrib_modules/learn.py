"""`tf.contrib.learn.ModeKeys`: the same modes under an older name for prediction."""

from __future__ import annotations


class ModeKeys:
    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"
