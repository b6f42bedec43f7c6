"""Helpers of `tensorflow_estimator.python.estimator.{estimator,model_fn}`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from estimand.core.config import RunConfig
from estimand.core.errors import NoCheckpointError
from estimand.engine.warm_start import apply as warm_start
from estimand.estimator import checks
from estimand.estimator.estimator import _with_model_dir
from estimand.estimator.model_fn import check_model_fn

T = TypeVar("T")

LOSS_METRIC_KEY = "loss"
AVERAGE_LOSS_METRIC_KEY = "average_loss"


class _Gauge:
    """Where TensorFlow counted which estimators are in use; nothing is counted here."""

    def get_cell(self, *labels: str) -> _Gauge:
        return self

    def set(self, value: Any) -> None:
        """Forget the value."""


_canned_estimator_api_gauge = _estimator_api_gauge = _Gauge()


def maybe_overwrite_model_dir_and_session_config(config: Any, model_dir: Any) -> RunConfig:
    """The configuration with the directory that both agree on."""
    return _with_model_dir(config, model_dir)


def _get_default_warm_start_settings(warm_start_from: Any) -> Any:
    return warm_start.normalize(warm_start_from)


def _verify_model_fn_args(model_fn: Callable[..., Any], params: Any) -> None:
    check_model_fn(model_fn, params)


def _check_hooks_type(hooks: Any) -> list[Any]:
    return checks.hooks(hooks)


def _check_listeners_type(saving_listeners: Any) -> list[Any]:
    return checks.saving_listeners(saving_listeners)


def _check_checkpoint_available(model_dir: str) -> None:
    if not tf.train.latest_checkpoint(model_dir):
        raise NoCheckpointError(f"Could not find trained model in model_dir: {model_dir}.")


def _load_global_step_from_checkpoint_dir(checkpoint_dir: str) -> int:
    """The step of the newest checkpoint; 0 where there is none to read."""
    try:
        reader = tf.train.load_checkpoint(checkpoint_dir)
        return int(reader.get_tensor(tf.compat.v1.GraphKeys.GLOBAL_STEP))
    except (ValueError, tf.errors.OpError):
        return 0


def _assert_members_are_not_overridden(cls: type, instance: Any) -> None:
    """Overriding is allowed."""
    del cls, instance


def _check_is_tensor_or_operation(x: Any, name: str) -> Any:
    if not isinstance(x, tf.Operation) and not tf.is_tensor(x):
        raise TypeError(f"{name} must be Operation or Tensor, given: {x}")
    return x


def _check_is_tensor(x: Any, tensor_name: str) -> Any:
    if not tf.is_tensor(x):
        raise TypeError(f"{tensor_name} must be Tensor, given: {x}")
    return x


class estimator_export:
    """The decorator that published a class under a name: it only hands the class back.

    >>> @estimator_export("estimator.Mine", v1=["estimator.Mine"])
    ... class Mine: ...
    >>> Mine.__name__
    'Mine'
    """

    def __init__(self, *names: str, **kwargs: Any) -> None:
        del names, kwargs

    def __call__(self, symbol: T) -> T:
        return symbol
