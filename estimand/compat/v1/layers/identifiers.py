"""From the strings that `tf.layers` accepted (`"relu"`, `"he_normal"`, `"l2"`) to callables.

Callables pass through untouched. A name we do not know here is looked up in Keras, which is
imported only then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.compat.v1.layers.errors import LayerError

_INITIALIZERS = tf.compat.v1.initializers

_ACTIVATIONS = {
    "elu": tf.nn.elu,
    "gelu": tf.nn.gelu,
    "leaky_relu": tf.nn.leaky_relu,
    "relu": tf.nn.relu,
    "relu6": tf.nn.relu6,
    "selu": tf.nn.selu,
    "sigmoid": tf.nn.sigmoid,
    "silu": tf.nn.silu,
    "softmax": tf.nn.softmax,
    "softplus": tf.nn.softplus,
    "softsign": tf.nn.softsign,
    "swish": tf.nn.silu,
    "tanh": tf.nn.tanh,
}

# The spreads of the last six are those of the Keras strings, not of the v1 classes' defaults.
_INITIALIZER_MAKERS: dict[str, Callable[[], Any]] = {
    "glorot_normal": _INITIALIZERS.glorot_normal,
    "glorot_uniform": _INITIALIZERS.glorot_uniform,
    "he_normal": _INITIALIZERS.he_normal,
    "he_uniform": _INITIALIZERS.he_uniform,
    "identity": _INITIALIZERS.identity,
    "lecun_normal": _INITIALIZERS.lecun_normal,
    "lecun_uniform": _INITIALIZERS.lecun_uniform,
    "ones": _INITIALIZERS.ones,
    "orthogonal": _INITIALIZERS.orthogonal,
    "zeros": _INITIALIZERS.zeros,
    "normal": lambda: _INITIALIZERS.random_normal(stddev=0.05),
    "random_normal": lambda: _INITIALIZERS.random_normal(stddev=0.05),
    "uniform": lambda: _INITIALIZERS.random_uniform(-0.05, 0.05),
    "random_uniform": lambda: _INITIALIZERS.random_uniform(-0.05, 0.05),
    "truncated_normal": lambda: _INITIALIZERS.truncated_normal(stddev=0.05),
    "variance_scaling": lambda: _INITIALIZERS.variance_scaling(),
}


def activation(identifier: Any) -> Callable[[Any], Any] | None:
    """`None` and `"linear"` mean no activation."""
    if identifier is None or identifier == "linear":
        return None
    if callable(identifier):
        return identifier
    if identifier in _ACTIVATIONS:
        return _ACTIVATIONS[identifier]
    return _from_keras("activations", identifier, _ACTIVATIONS)


def initializer(identifier: Any) -> Any:
    """`None` stays `None`: `tf.compat.v1.get_variable` then applies the scope's or its own."""
    if not isinstance(identifier, str):
        return identifier
    if identifier in _INITIALIZER_MAKERS:
        return _INITIALIZER_MAKERS[identifier]()
    return _from_keras("initializers", identifier, _INITIALIZER_MAKERS)


def regularizer(identifier: Any) -> Any:
    """A callable from a variable to its penalty, or `None`."""
    if identifier is None or callable(identifier):
        return identifier
    return _from_keras("regularizers", identifier, ("l1", "l2", "l1_l2"))


def constraint(identifier: Any) -> Any:
    """A callable from a variable to its allowed value, or `None`."""
    if identifier is None or callable(identifier):
        return identifier
    return _from_keras("constraints", identifier, ("max_norm", "non_neg", "unit_norm"))


def _from_keras(kind: str, identifier: Any, known: Any) -> Any:
    import keras

    try:
        return getattr(keras, kind).get(identifier)
    except (TypeError, ValueError):
        raise LayerError(
            f"{identifier!r} names none of the {kind}. "
            f"Give a callable, or one of: {', '.join(sorted(known))}."
        ) from None
