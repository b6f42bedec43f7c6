"""The hooks of a training run, in the order in which they are called, and who saves."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand import hooks as ready_made
from estimand.core import tf_private
from estimand.core.config import RunConfig
from estimand.core.errors import ConfigError
from estimand.core.spec import EstimatorSpec
from estimand.engine.model_dir import anchored
from estimand.engine.saving.save_policy import SavePolicy
from estimand.engine.saving.taking import CheckpointTaker, NoCheckpoints, Write
from estimand.engine.tracing.built_model import BuiltModel
from estimand.engine.tracing.trace import Trace
from estimand.hooks.adopt import adopt
from estimand.hooks.eager_summaries import EagerSummaryHook

Save = Callable[..., str]
_SAVERS = (ready_made.CheckpointSaverHook, tf.compat.v1.train.CheckpointSaverHook)


def assemble(trace: BuiltModel, config: RunConfig, user_hooks: Sequence[Any]) -> list[Any]:
    """The chief's, counters and summaries, the user's, the watchers."""
    chief, user, own = _given(trace.spec, config, user_hooks)
    return [
        *chief,
        *(_chief_watchers(trace, config) if config.is_chief else ()),
        *user,
        *_watchers(trace, config),
        *own,
    ]


def checkpoint_taker(
    trace: BuiltModel, config: RunConfig, hooks: Sequence[Any], listeners: Sequence[Any], save: Save
) -> CheckpointTaker | NoCheckpoints:
    """What takes the checkpoints that the configuration asks for, unless hooks do.

    `save` does it for a model that has no way of its own. Listeners are told by whoever saves.
    """
    saver = next((hook for hook in hooks if isinstance(hook, _SAVERS)), None)
    if saver is not None:
        _tell_also(tf_private.listeners_of(saver), listeners)
        return NoCheckpoints()
    if not (config.save_checkpoints_steps or config.save_checkpoints_secs):
        if listeners:
            raise ConfigError(
                "There should be a CheckpointSaverHook to use saving_listeners. Please set one of "
                "the RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs."
            )
        return NoCheckpoints()
    if not config.is_chief:
        return NoCheckpoints()  # it is the chief that saves, and tells its own listeners
    path = os.path.join(anchored(config.model_dir or ""), "model.ckpt")
    taker = CheckpointTaker(
        SavePolicy(config.save_checkpoints_steps, config.save_checkpoints_secs),
        path,
        _write(trace, path, save),
        save_graph_def=config.checkpoint_save_graph_def,
    )
    _tell_also(taker.listeners, listeners)
    return taker


def _tell_also(told: list[Any], listeners: Sequence[Any]) -> None:
    told.extend(listener for listener in listeners if listener not in told)


def _write(trace: BuiltModel, path: str, save: Save) -> Write:
    scaffold = None if trace.runs_eagerly else trace.spec.scaffold
    of_model = None if scaffold is None else scaffold.saver
    own_way = of_model if tf_private.saver_overrides(of_model, "save") else None

    def write(session: tf.compat.v1.Session, step: int, synchronous: bool) -> None:
        if own_way is not None:
            own_way.save(session, path, global_step=step, write_meta_graph=False)
            return
        with tf_private.eager_mode():
            save(step, directory=os.path.dirname(path), synchronous=synchronous)

    return write


def _given(
    spec: EstimatorSpec, config: RunConfig, user_hooks: Sequence[Any]
) -> tuple[list[Any], list[Any], list[Any]]:
    """The model function's for the chief, those given to `train`, the model function's."""
    chief = spec.training_chief_hooks if config.is_chief else ()
    groups = (chief or (), user_hooks, spec.training_hooks or ())
    first, second, third = ([adopt(hook) for hook in hooks] for hooks in groups)
    return first, second, third


def _chief_watchers(trace: BuiltModel, config: RunConfig) -> list[Any]:
    result: list[Any] = []
    if config.log_step_count_steps:
        result.append(_step_counter(config))
    if config.save_summary_steps and isinstance(trace, Trace):
        result.append(
            ready_made.SummarySaverHook(
                save_steps=config.save_summary_steps,
                output_dir=config.model_dir,
                summary_op=trace.summary_op,
                tensor_summaries=trace.tensor_summaries,
            )
        )
    elif config.save_summary_steps:
        result.append(EagerSummaryHook(config.save_summary_steps, config.model_dir or ""))
    return result


def _step_counter(config: RunConfig) -> Any:
    return ready_made.StepCounterHook(
        every_n_steps=config.log_step_count_steps, output_dir=config.model_dir
    )


def _watchers(trace: BuiltModel, config: RunConfig) -> list[Any]:
    result: list[Any] = [ready_made.NanTensorHook(trace.spec.loss)]
    if config.log_step_count_steps:
        result.append(
            ready_made.LoggingTensorHook(
                {"loss": trace.spec.loss, "step": trace.global_step},
                every_n_iter=config.log_step_count_steps,
            )
        )
    return result
