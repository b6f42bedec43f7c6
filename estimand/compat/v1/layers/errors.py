"""Errors of the layers: ours, and also the built-in type that `tf.layers` raised."""

from __future__ import annotations

from estimand.core.errors import EstimandError


class LayerError(EstimandError, ValueError):
    """A layer was given an argument or an input that it cannot work with."""


class LayerTypeError(EstimandError, TypeError):
    """A layer was given an argument or an input of a type that it cannot work with."""
