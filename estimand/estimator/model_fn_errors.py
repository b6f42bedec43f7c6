"""Errors that leave a model function, told by what is known of how it was called."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimand.core.errors import EstimandError, InputError, ModelFnError, UnknownKeyError
from estimand.core.modes import ModeKeys
from estimand.core.names import missing_key
from estimand.core.tracebacks import users_line
from estimand.inputs.structure import describe

_OF_A_V1_OPTIMIZER = ("minimize", "compute_gradients", "get_updates")


@contextlib.contextmanager
def explained(features: Any, labels: Any, mode: str, params: Any) -> Iterator[None]:
    """Raise what a model function raises, or what is to be said about it."""
    try:
        yield
    except Exception as error:
        told = _single_rows(features, labels)
        if told is None and not isinstance(error, EstimandError):
            told = (
                missing_key(error, {"feature": features, "param": params})
                or _v1_method_of_keras_optimizer(error)
                or _value_of_symbolic_tensor(error)
                or _labels_in_predict(error, labels, mode)
            )
        if told is None:
            raise
        if isinstance(told, UnknownKeyError):  # which says all that the KeyError does
            raise told.with_traceback(error.__traceback__) from None
        raise told from error


def _single_rows(features: Any, labels: Any) -> Exception | None:
    """Labels are of rank 0, or a feature is where there are none: nobody has made batches."""
    looked_at = labels if labels is not None else features
    ranks = [getattr(getattr(one, "shape", None), "rank", None) for one in _leaves(looked_at)]
    if not ranks or not (all if labels is not None else any)(rank == 0 for rank in ranks):
        return None
    parts = f"features {describe(features)}"
    if labels is not None:
        parts += f", labels {describe(labels)}"
    return InputError(
        f"input_fn gives single rows ({parts}), but a model function takes batches. Let input_fn "
        "return dataset.batch(32)."
    )


def _leaves(part: Any) -> list[Any]:
    return tf.nest.flatten(part)


def _v1_method_of_keras_optimizer(error: Exception) -> Exception | None:
    if not isinstance(error, AttributeError) or error.name not in _OF_A_V1_OPTIMIZER:
        return None
    optimizer, line = error.obj, users_line(error)
    if not hasattr(optimizer, "apply_gradients"):
        return None
    return ModelFnError(
        f"{line}: a Keras optimizer ({type(optimizer).__name__}) has no {error.name}(). Write "
        "train_op = est.minimize(optimizer, loss), which takes Keras optimizers and those of "
        "tf.compat.v1.train."
    )


def _value_of_symbolic_tensor(error: Exception) -> Exception | None:
    asked_for_numpy = isinstance(error, AttributeError) and error.name == "numpy"
    if asked_for_numpy and tf.is_tensor(error.obj):  # type: ignore[attr-defined]
        what = "asks a tensor for its value, .numpy()"
    elif isinstance(error, tf.errors.OperatorNotAllowedInGraphError):
        what = "uses a tensor as a Python value (if, while, for, and, bool(...))"
    else:
        return None
    return ModelFnError(
        f"{users_line(error)} {what}, but while a model function is traced, tensors have no values "
        "yet. Use TensorFlow functions (tf.where, tf.cond, tf.print), or run it step by step: "
        "est.RunConfig(run_eagerly=True)."
    )


def _labels_in_predict(error: Exception, labels: Any, mode: str) -> Exception | None:
    if mode != ModeKeys.PREDICT or labels is not None:
        return None
    line = users_line(error)
    about_none = "None" in str(error) or (line is not None and "labels" in line.text)
    if not isinstance(error, (ValueError, TypeError, AttributeError)) or not about_none:
        return None
    return ModelFnError(
        f"{line} failed in PREDICT mode, in which labels is None. Return before labels are used: "
        "if mode == est.ModeKeys.PREDICT: return est.EstimatorSpec(mode, predictions=...)."
    )
