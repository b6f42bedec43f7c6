"""Whether this process runs code that was written for tf.estimator, and is to be let through."""

from __future__ import annotations

from typing import Any

import numpy as np

# Set by estimand.install(): what tf.estimator did in silence is done, with a warning.
expected = False

# Set by `estimand run`: what a program's arrays are, if it is used to those of an older NumPy.
array_type: type[np.ndarray] = np.ndarray


def handed_out(value: Any) -> Any:
    """An array as the program is to get it."""
    if array_type is np.ndarray or not isinstance(value, np.ndarray):
        return value
    return value.view(array_type)
