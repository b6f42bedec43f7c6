"""The three things an estimator can ask of a model function."""

from __future__ import annotations

from typing import Final


class ModeKeys:
    """The value of `mode` a `model_fn` is called with.

    Plain strings, because real code compares with `==`, branches with `in` and passes the raw
    string:

    >>> ModeKeys.TRAIN == "train"
    True
    >>> ModeKeys.PREDICT
    'infer'
    """

    TRAIN: Final = "train"
    EVAL: Final = "eval"
    PREDICT: Final = "infer"  # The historic spelling; saved metadata and old scripts rely on it.
