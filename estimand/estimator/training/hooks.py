"""The hooks of a training run, in the order in which they are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand import hooks as ready_made
from estimand.core.config import RunConfig
from estimand.core.errors import ConfigError
from estimand.core.spec import EstimatorSpec
from estimand.engine.tracing.trace import Trace
from estimand.estimator.eager.summary_hook import EagerSummaryHook
from estimand.hooks.adopt import adopt


def assemble(
    trace: Trace, config: RunConfig, user_hooks: Sequence[Any], saving_listeners: Sequence[Any]
) -> list[Any]:
    """Checkpoints first, then the chief's, counters and summaries, the user's, the watchers."""
    chief, user, own = _given(trace.spec, config, user_hooks)
    savers = _savers((*chief, *user, *own))
    default_saver = [] if savers else _checkpoint_hooks(config, trace.spec.scaffold)
    _attach_listeners(savers or default_saver, saving_listeners, config)
    return [
        *default_saver,
        *chief,
        *(_chief_watchers(trace, config) if config.is_chief else ()),
        *user,
        *_watchers(trace, config),
        *own,
    ]


def eager_hooks(
    spec: EstimatorSpec,
    config: RunConfig,
    user_hooks: Sequence[Any],
    saving_listeners: Sequence[Any],
) -> list[Any]:
    """The same without those of ours that look at tensors of a graph."""
    chief, user, own = _given(spec, config, user_hooks)
    savers = _savers((*chief, *user, *own))
    default_saver = (
        [] if savers else _checkpoint_hooks(config.replace(checkpoint_save_graph_def=False), None)
    )
    _attach_listeners(savers or default_saver, saving_listeners, config)
    watchers: list[Any] = []
    if config.is_chief and config.log_step_count_steps:
        watchers.append(_step_counter(config))
    if config.is_chief and config.save_summary_steps:
        watchers.append(EagerSummaryHook(config.save_summary_steps, config.model_dir or ""))
    return [*default_saver, *chief, *watchers, *user, *own]


def _given(
    spec: EstimatorSpec, config: RunConfig, user_hooks: Sequence[Any]
) -> tuple[list[Any], list[Any], list[Any]]:
    """The model function's for the chief, those given to `train`, the model function's."""
    chief = spec.training_chief_hooks if config.is_chief else ()
    groups = (chief or (), user_hooks, spec.training_hooks or ())
    first, second, third = ([adopt(hook) for hook in hooks] for hooks in groups)
    return first, second, third


def _checkpoint_hooks(config: RunConfig, scaffold: Any) -> list[Any]:
    if not (config.is_chief and _saves(config)):
        return []
    return [
        ready_made.CheckpointSaverHook(
            config.model_dir or "",
            save_secs=config.save_checkpoints_secs,
            save_steps=config.save_checkpoints_steps,
            scaffold=scaffold,
            save_graph_def=config.checkpoint_save_graph_def,
        )
    ]


def _saves(config: RunConfig) -> bool:
    return bool(config.save_checkpoints_steps or config.save_checkpoints_secs)


def _savers(hooks: Sequence[Any]) -> list[Any]:
    kinds = (ready_made.CheckpointSaverHook, tf.compat.v1.train.CheckpointSaverHook)
    return [h for h in hooks if isinstance(h, kinds)]


def _attach_listeners(
    savers: Sequence[Any], saving_listeners: Sequence[Any], config: RunConfig
) -> None:
    if not saving_listeners:
        return
    if not savers and not config.is_chief and _saves(config):
        return  # it is the chief that saves, and tells its own
    if not savers:
        raise ConfigError(
            "There should be a CheckpointSaverHook to use saving_listeners. Please set one of the "
            "RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs."
        )
    known = savers[0]._listeners
    known.extend(listener for listener in saving_listeners if listener not in known)


def _chief_watchers(trace: Trace, config: RunConfig) -> list[Any]:
    result: list[Any] = []
    if config.log_step_count_steps:
        result.append(_step_counter(config))
    if config.save_summary_steps:
        result.append(
            ready_made.SummarySaverHook(
                save_steps=config.save_summary_steps,
                output_dir=config.model_dir,
                summary_op=trace.summary_op,
                tensor_summaries=trace.tensor_summaries,
            )
        )
    return result


def _step_counter(config: RunConfig) -> Any:
    return ready_made.StepCounterHook(
        every_n_steps=config.log_step_count_steps, output_dir=config.model_dir
    )


def _watchers(trace: Trace, config: RunConfig) -> list[Any]:
    result: list[Any] = [ready_made.NanTensorHook(trace.spec.loss)]
    if config.log_step_count_steps:
        result.append(
            ready_made.LoggingTensorHook(
                {"loss": trace.spec.loss, "step": trace.global_step},
                every_n_iter=config.log_step_count_steps,
            )
        )
    return result
