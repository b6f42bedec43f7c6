"""Keras 2 (`tf_keras`, what `tf.keras` is under TF_USE_LEGACY_KERAS=1) and Keras 3, as one.

Whoever is given an optimizer, a model or a variable of either asks `of(thing)` and goes on with
what the `Keras` protocol says.
"""

from __future__ import annotations

import sys
from typing import Any

from estimand.core.tf_private.kerases.keras2 import Keras2
from estimand.core.tf_private.kerases.keras3 import Keras3
from estimand.core.tf_private.kerases.protocol import Keras

__all__ = [
    "KERAS2",
    "KERAS3",
    "Keras",
    "called_by_keras",
    "is_optimizer",
    "keras_2_is_creating",
    "of",
]

KERAS2: Keras = Keras2()
KERAS3: Keras = Keras3()
_ALL = (KERAS2, KERAS3)
_PRIVATE = tuple(keras.package + "." for keras in _ALL)
# Layers of TensorFlow 1, which Keras 2 brings along: they leave their updates to the user.
_V1_LAYERS = "tf_keras.src.legacy_tf_layers"


def of(thing: Any) -> Keras | None:
    """The Keras whose class an object has, or inherits from; None: neither."""
    modules = [kind.__module__ for kind in type(thing).__mro__]
    for keras in _ALL:
        if any(f"{module}.".startswith(f"{keras.package}.") for module in modules):
            return keras
    return None


def current() -> Keras:
    """The Keras that `tf.keras` is in this process."""
    import tensorflow as tf

    of_keras_2 = tf.keras.Model.__module__.startswith(f"{KERAS2.package}.")
    return KERAS2 if of_keras_2 else KERAS3


def is_optimizer(thing: Any) -> bool:
    """Whether an object is an optimizer of either Keras."""
    return of(thing) is not None and callable(getattr(thing, "apply_gradients", None))


def called_by_keras(depth: int = 2) -> bool:
    """Whether a Keras is the one that calls, maybe through TensorFlow."""
    frame: Any = sys._getframe(depth)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(("tensorflow.", "contextlib")):
            return module.startswith(_PRIVATE)
        frame = frame.f_back
    return False


def keras_2_is_creating(depth: int = 41) -> tuple[bool, bool]:
    """Whether Keras 2 makes the variable whose creator is up the stack, and for a metric.

    Its variables are TensorFlow's, named by name scopes, so nothing but the caller tells.
    """
    if KERAS2.package not in sys.modules:
        return False, False
    frame: Any = sys._getframe(1)
    ours = False
    for _ in range(depth):
        frame = frame.f_back
        if frame is None:
            break
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_V1_LAYERS):
            return False, False
        if not module.startswith("tf_keras.src."):
            if ours and not module.startswith(("tensorflow.", "contextlib")):
                break
            continue
        ours = True
        caller = frame.f_locals.get("self")
        if hasattr(caller, "update_state") and hasattr(caller, "reset_state"):
            return True, True
    return ours, False
