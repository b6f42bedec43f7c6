"""Errors that leave a model function, told by what is known of how it was called."""

from __future__ import annotations

import contextlib
import os
import re
import traceback
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any

import tensorflow as tf

from estimand.core.errors import EstimandError, InputError, ModelFnError, UnknownKeyError
from estimand.core.interpreter.tracebacks import raised_by_user, users_line
from estimand.core.modes import ModeKeys
from estimand.core.names import missing_key
from estimand.inputs.structure import describe

# Not where it is a size that varies, (None, 3), or an argument nobody gave, mask=None.
_ABOUT_NONE = re.compile(r"(?<!, )(?<!=)\bNone(?!,)")
_OF_A_V1_OPTIMIZER = ("minimize", "compute_gradients", "get_updates")
_OF_A_TRAINER = re.compile(r"\.(fit|evaluate|predict|train_on_batch|test_on_batch)\(")
# Of messages of TensorFlow and Keras.
_SYMBOLIC = "Cannot convert a symbolic"
_NUMBER_OF_TENSOR = re.compile(r"(?P<call>(int|float)\(\)) argument must be .*'SymbolicTensor'")
_ONE_INPUT = "expects 1 input(s), but it received"


@contextlib.contextmanager
def explained(features: Any, labels: Any, mode: str, params: Any) -> Iterator[None]:
    """Raise what a model function raises, or what is to be said about it."""
    try:
        yield
    except Exception as error:
        told = None if raised_by_user(error) else _single_rows(features, labels)
        if told is None and not isinstance(error, EstimandError):
            told = (
                missing_key(error, {"feature": features, "param": params})
                or _v1_method_of_keras_optimizer(error)
                or _value_of_symbolic_tensor(error)
                or _no_labels(error, labels, mode)
                or _labels_of_a_sparse_loss(error, labels)
                or _all_features_at_once(error, features)
                or _training_by_keras(error)
            )
        if told is None:
            raise
        if isinstance(told, UnknownKeyError):  # which says all that the KeyError does
            raise told.with_traceback(error.__traceback__) from None
        raise told from error


def _single_rows(features: Any, labels: Any) -> Exception | None:
    """Labels are of rank 0, or a feature is where there are none: nobody has made batches."""
    looked_at = labels if labels is not None else features
    ranks = [getattr(getattr(leaf, "shape", None), "rank", None) for leaf in _leaves(looked_at)]
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
    elif isinstance(error, NotImplementedError) and _SYMBOLIC in str(error):
        what = "gives a tensor to NumPy"
    elif isinstance(error, TypeError) and (asked := _NUMBER_OF_TENSOR.match(str(error))):
        what = f"asks a tensor for its value, {asked['call']}"
    else:
        return None
    return ModelFnError(
        f"{users_line(error)} {what}, but while a model function is traced, tensors have no values "
        "yet. Use TensorFlow functions (tf.where, tf.cond, tf.print), or run it step by step: "
        "est.RunConfig(run_eagerly=True)."
    )


def _no_labels(error: Exception, labels: Any, mode: str) -> Exception | None:
    if labels is not None:
        return None
    line = users_line(error)
    about_none = _ABOUT_NONE.search(str(error)) or (line is not None and "labels" in line.text)
    if not isinstance(error, (ValueError, TypeError, AttributeError)) or not about_none:
        return None
    if mode != ModeKeys.PREDICT:
        return ModelFnError(
            f"{line} failed in {mode.upper()} mode, and labels is None: input_fn gives features "
            "alone. Let it return (features, labels), or a Dataset of such pairs."
        )
    return ModelFnError(
        f"{line} failed in PREDICT mode, in which labels is None. Return before labels are used: "
        "if mode == est.ModeKeys.PREDICT: return est.EstimatorSpec(mode, predictions=...)."
    )


def _labels_of_a_sparse_loss(error: Exception, labels: Any) -> Exception | None:
    if not isinstance(error, (ValueError, TypeError)) or not tf.is_tensor(labels):
        return None
    if "parameter 'labels' has DataType" in str(error):
        cure = "labels = tf.cast(labels, tf.int64)"
    elif "`labels.shape.rank` must equal" in str(error):
        cure = "labels = tf.squeeze(labels, axis=-1)"
    else:
        return None
    return ModelFnError(
        f"{users_line(error)}: labels are {describe(labels)}, but a sparse loss takes the number "
        f"of a class for each row, int64 (None,). Write {cure}, or use a loss that is not sparse."
    )


def _all_features_at_once(error: Exception, features: Any) -> Exception | None:
    several = isinstance(features, Mapping) and len(features) > 1
    if not several or not isinstance(error, ValueError) or _ONE_INPUT not in str(error):
        return None
    names = ", ".join(map(repr, features))
    return ModelFnError(
        f"{users_line(error)}: a Keras layer takes one tensor, and features is a dict of several: "
        f"{names}. Give it one of them, features[{next(iter(features))!r}], or join them: "
        "keras.layers.Concatenate()([...])."
    )


def _training_by_keras(error: Exception) -> Exception | None:
    line = users_line(error)
    called = None if line is None else _OF_A_TRAINER.search(line.text)
    # Keras takes its own frames out of a traceback, all but the one that does so.
    frames = (frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__))
    if called is None or not any(map(_is_keras, frames)):
        return None
    return ModelFnError(
        f"{line} calls {called[1]}() of a Keras model. In a model function the estimator "
        "runs the steps: call the model itself, model(features['x']), and return "
        "est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss)). A compiled "
        "model needs no model function: est.keras.model_to_estimator(model)."
    )


def _is_keras(code: CodeType) -> bool:
    return {"keras", "tf_keras"} & set(code.co_filename.split(os.sep)) != set()
