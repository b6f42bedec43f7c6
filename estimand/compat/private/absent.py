"""What is known by name and not offered: using it says so."""

from __future__ import annotations

from typing import Any, NoReturn

from estimand.core.errors import EstimandError


class NotOfferedError(EstimandError, NotImplementedError):
    """A part of tf.estimator that Estimand does not have."""


class LinearSDCA:
    """The SDCA solver for linear models: not offered."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        del args, kwargs
        raise NotOfferedError(
            "LinearSDCA is not offered by Estimand. Linear models take any other optimizer: leave "
            "out `optimizer` for Ftrl, which handles L1 and L2 as well."
        )
