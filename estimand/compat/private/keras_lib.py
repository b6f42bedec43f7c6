"""`model_to_estimator`, where the Keras bridge has it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def model_to_estimator(*args: Any, **kwargs: Any) -> Any:
    """An Estimator of a compiled Keras model; `checkpoint_format` is accepted and not needed."""
    # The bridge is found by its public name, wherever it is kept.
    kwargs.pop("checkpoint_format", None)
    return import_module("estimand").keras.model_to_estimator(*args, **kwargs)
