"""What the settings of a `RunConfig` have to be, one rule each."""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable
from typing import Any

from estimand.core.errors import ConfigError

_BLOCK_MODES = ("auto", "plain", "single_thread", "xla", "onednn")
_BOTH_CHECKPOINT_RULES = (
    "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set. Given: steps={}, "
    "secs={}. Pass one of them, or None for both to save no checkpoints."
)


def shown(value: Any) -> str:
    """For a message, on one line."""
    if hasattr(value, "ListFields"):  # A proto's repr spreads over lines.
        return f"<{type(value).__name__} {' '.join(str(value).split())}>"
    return repr(value)


def _at_least(bound: float) -> Callable[[Any], bool]:
    return lambda value: _is_number(value) and value >= bound


def _more_than(bound: float) -> Callable[[Any], bool]:
    return lambda value: _is_number(value) and value > bound


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real)


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_config_proto(value: Any) -> bool:
    import tensorflow as tf

    return isinstance(value, tf.compat.v1.ConfigProto)


def _takes_only_op(function: Any) -> bool:
    if not callable(function):
        return False
    bound = set(function.keywords) if isinstance(function, functools.partial) else set()
    try:
        return set(inspect.signature(function).parameters) - bound == {"op"}
    except ValueError:  # A built-in that does not tell.
        return False


# Name, what must hold, the sentence when it does not. None is allowed for each.
_RULES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("save_summary_steps", _at_least(0), "save_summary_steps should be >= 0"),
    ("save_checkpoints_steps", _at_least(0), "save_checkpoints_steps should be >= 0"),
    ("save_checkpoints_secs", _at_least(0), "save_checkpoints_secs should be >= 0"),
    ("session_config", _is_config_proto, "session_config must be instance of ConfigProto"),
    ("keep_checkpoint_max", _at_least(0), "keep_checkpoint_max should be >= 0"),
    ("keep_checkpoint_every_n_hours", _more_than(0), "keep_checkpoint_every_n_hours should be > 0"),
    ("log_step_count_steps", _more_than(0), "log_step_count_steps should be > 0"),
    ("tf_random_seed", _is_integer, "tf_random_seed must be integer."),
    (
        "experimental_max_worker_delay_secs",
        _is_integer,
        "experimental_max_worker_delay_secs must be an integer if set.",
    ),
    ("session_creation_timeout_secs", _more_than(0), "session_creation_timeout_secs should be > 0"),
    (
        "device_fn",
        _takes_only_op,
        'device_fn must be callable with exactly one argument "op".',
    ),
    ("protocol", ("grpc", "grpc+verbs").__contains__, "protocol should be grpc or grpc+verbs"),
    ("run_eagerly", _is_bool, "run_eagerly should be True or False"),
    ("block_mode", _BLOCK_MODES.__contains__, f"block_mode should be one of {_BLOCK_MODES}"),
    (
        "max_steps_per_call",
        lambda value: _is_integer(value) and value >= 1,
        "max_steps_per_call should be an integer >= 1",
    ),
    ("save_input_position", _is_bool, "save_input_position should be True or False"),
    ("save_meta_graph", _is_bool, "save_meta_graph should be True, False or None"),
    ("progress", _is_bool, "progress should be True, False or None"),
    ("check_data", _is_bool, "check_data should be True or False"),
    ("variable_partitioner", callable, "variable_partitioner should be callable"),
)


def check(value_of: Callable[[str], Any]) -> None:
    """Raises a ConfigError for the first setting that breaks a rule."""
    steps, secs = value_of("save_checkpoints_steps"), value_of("save_checkpoints_secs")
    if steps is not None and secs is not None:
        raise ConfigError(_BOTH_CHECKPOINT_RULES.format(steps, secs))
    for name, holds, sentence in _RULES:
        value = value_of(name)
        if value is not None and not holds(value):
            given = shown(value) if len(shown(value)) < 200 else type(value).__name__
            raise ConfigError(f"{sentence.rstrip('.')}. Given: {name}={given}.")
