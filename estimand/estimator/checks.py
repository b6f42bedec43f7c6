"""Arguments of the verbs, checked before any work is done."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimand.core import old_code
from estimand.core.config import RunConfig
from estimand.core.errors import ConfigError, SpecTypeError


def positive(name: str, value: int | None) -> None:
    if value is not None and not isinstance(value, numbers.Real):
        raise SpecTypeError(
            f"Must specify {name} as a number, given: {value!r} ({type(value).__name__})"
        )
    if value is not None and value <= 0:
        raise ConfigError(f"Must specify {name} > 0, given: {value}")


def steps(count: int | None, max_steps: int | None) -> None:
    if count is not None and max_steps is not None:
        raise ConfigError(
            "Can not provide both steps and max_steps. "
            f"Given: steps={count}, max_steps={max_steps}."
        )
    positive("steps", count)
    positive("max_steps", max_steps)


def whole(count: float | None) -> int | None:
    """A number of steps: 12.5 of them are done after 13, as with `steps=examples / batch_size`."""
    return None if count is None else math.ceil(count)


def hooks(given: Iterable[Any] | None) -> list[Any]:
    """The hooks as a list, whatever they came in."""
    listed = _listed("hooks", given, "hooks must be a list of SessionRunHook")
    for hook in listed:
        if not isinstance(hook, tf.compat.v1.train.SessionRunHook):
            advice = "Derive the class from est.SessionRunHook."
            if isinstance(hook, type) and issubclass(hook, tf.compat.v1.train.SessionRunHook):
                advice = f"That is the class; pass an instance: {hook.__name__}(...)."
            raise SpecTypeError(f"Hooks must be a SessionRunHook, given: {hook!r}. {advice}")
    return listed


def saving_listeners(given: Iterable[Any] | None) -> list[Any]:
    """The listeners as a list, whatever they came in."""
    sentence = "saving_listeners must be a list of CheckpointSaverListener"
    listed = _listed("saving_listeners", given, sentence)
    for listener in listed:
        if not isinstance(listener, tf.compat.v1.train.CheckpointSaverListener):
            raise SpecTypeError(f"{sentence}, given: {listener!r}")
    return listed


def _listed(name: str, given: Iterable[Any] | None, sentence: str) -> list[Any]:
    if given is not None and not isinstance(given, Iterable):
        raise SpecTypeError(
            f"{sentence}, given: {given!r}. Put it into one: {name}=[{type(given).__name__}(...)]."
        )
    return list(given or ())


# By name: TensorFlow has two of each, one for version 1.
_DEFAULT_STRATEGY = "_DefaultDistributionStrategy"
_UNKNOWN_STRATEGIES = ("CentralStorageStrategy", "TPUStrategy", "ParameterServerStrategyV1")


def strategies(config: RunConfig) -> RunConfig:
    """`config` without strategies that stand for having none; others must be known here."""
    for name in ("train_distribute", "eval_distribute"):
        given = type(getattr(config, name)).__name__
        if given.startswith(_DEFAULT_STRATEGY):  # of tf.distribute.get_strategy()
            config = config.replace(**{name: None})
        elif given.startswith(_UNKNOWN_STRATEGIES):
            raise ConfigError(
                f"RunConfig({name}=...) cannot be a {given} "
                f"({type(getattr(config, name)).__module__}). Give a tf.distribute strategy out of "
                "OneDeviceStrategy, MirroredStrategy, MultiWorkerMirroredStrategy, "
                "ParameterServerStrategy; or none."
            )
        elif given.startswith("MirroredStrategy"):
            _replicas_have_devices(name, getattr(config, name))
    return config


def _replicas_have_devices(name: str, strategy: Any) -> None:
    """One replica may run elsewhere, by soft placement; several would wait for each other there."""
    devices = [device.split("/")[-1] for device in strategy.extended.worker_devices]
    there = [device.name.split("/")[-1] for device in tf.config.list_logical_devices()]
    absent = [device for device in devices if device not in there]
    if len(devices) > 1 and absent:
        raise ConfigError(
            f"RunConfig({name}=...) mirrors the model on {', '.join(devices)}, but this process "
            f"has no {', '.join(absent)}. Name devices out of {', '.join(there)}, or none: "
            "tf.distribute.MirroredStrategy()."
        )


def trains_here(config: RunConfig) -> None:
    if config.task_type in ("evaluator", "ps"):
        raise ConfigError(
            "Train has been called wrong configuration. Please use "
            "tf.estimator.train_and_evaluate which calls proper API according to given "
            f"configuration. Current configuration: {config.task_type!r}."
        )


# What tf.estimator let no subclass change.
_FINAL = (
    "config", "eval_dir", "evaluate", "experimental_export_all_saved_models", "export_saved_model",
    "export_savedmodel", "get_variable_names", "get_variable_value", "model_dir", "params",
    "predict", "train",
)  # fmt: skip


def members_not_overridden(estimator: Any, base: type) -> None:
    """For old code, refuse subclasses that tf.estimator refused; new code may override."""
    kind = type(estimator)
    if not old_code.expected or kind.__module__.partition(".")[0] == "estimand":
        return
    changed = [name for name in _FINAL if name in vars(kind) and hasattr(base, name)]
    if changed:
        raise ConfigError(
            "Subclasses of Estimator cannot override members of Estimator. "
            f"{kind} does override {changed}. Give the method another name, and call "
            f"{changed[0]} from it."
        )
