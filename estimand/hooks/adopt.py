"""TensorFlow's own hooks, translated into ours."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.hooks.checkpoint_saver import CheckpointSaverHook
from estimand.hooks.feed_fn import FeedFnHook
from estimand.hooks.final_ops import FinalOpsHook
from estimand.hooks.global_step_waiter import GlobalStepWaiterHook
from estimand.hooks.logging_tensor import LoggingTensorHook
from estimand.hooks.nan_tensor import NanTensorHook
from estimand.hooks.profiler import ProfilerHook
from estimand.hooks.step_counter import StepCounterHook
from estimand.hooks.stop_at_step import StopAtStepHook
from estimand.hooks.summary_saver import SummarySaverHook

_train = tf.compat.v1.train
_METHODS = ("begin", "after_create_session", "before_run", "after_run", "end")


class _ReportingFinalOpsHook(FinalOpsHook):
    """Leaves its values on the hook that the user made, and reads them from."""

    def __init__(self, original: Any, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._original = original

    def end(self, session: tf.compat.v1.Session) -> None:
        super().end(session)
        tf_private.set_final_ops_values(self._original, self.final_ops_values)


_OURS: dict[type, type] = {
    _train.CheckpointSaverHook: CheckpointSaverHook,
    _train.FeedFnHook: FeedFnHook,
    _train.FinalOpsHook: _ReportingFinalOpsHook,
    _train.GlobalStepWaiterHook: GlobalStepWaiterHook,
    _train.LoggingTensorHook: LoggingTensorHook,
    _train.NanTensorHook: NanTensorHook,
    _train.ProfilerHook: ProfilerHook,
    _train.StepCounterHook: StepCounterHook,
    _train.StopAtStepHook: StopAtStepHook,
    _train.SummarySaverHook: SummarySaverHook,
}


def adopt(hook: Any) -> Any:
    """Our hook with the same settings, if `hook` is one of TensorFlow's; else `hook` itself.

    TensorFlow's hooks declare no cadence and would have to see every step. Subclasses of them
    may do anything, and are left as they are.

    >>> import tensorflow as tf
    >>> adopt(tf.compat.v1.train.StepCounterHook(every_n_steps=50)).cadence.steps
    50
    """
    ours = _OURS.get(type(hook))
    if ours is None or any(name in vars(hook) for name in _METHODS):  # patched by the user
        return hook
    arguments = tf_private.hook_arguments(hook)
    if ours is _ReportingFinalOpsHook:
        arguments["original"] = hook
    if ours is FeedFnHook:
        arguments["feed_fn"] = lambda: hook.feed_fn()  # a public attribute: it may be replaced
    return ours(**arguments)
