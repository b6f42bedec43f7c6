"""The ready-made hooks, and the v1 classes that hooks are made of.

Ours have the names and arguments of `tf.compat.v1.train`'s, but say when they look, so that the
steps in between run at full speed. `SessionRunHook` and its kin are TensorFlow's own classes.

>>> import tensorflow as tf
>>> from estimand import hooks
>>> hooks.SessionRunHook is tf.compat.v1.train.SessionRunHook
True
"""

from __future__ import annotations

import tensorflow as tf

from estimand.hooks.adopt import adopt
from estimand.hooks.base import LoopHook
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

# The very same classes: user code tests for them and catches them.
CheckpointSaverListener = tf.compat.v1.train.CheckpointSaverListener
NanLossDuringTrainingError = tf.compat.v1.train.NanLossDuringTrainingError
SecondOrStepTimer = tf.compat.v1.train.SecondOrStepTimer
SessionRunArgs = tf.compat.v1.train.SessionRunArgs
SessionRunContext = tf.compat.v1.train.SessionRunContext
SessionRunHook = tf.compat.v1.train.SessionRunHook
SessionRunValues = tf.compat.v1.train.SessionRunValues

__all__ = [
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "FeedFnHook",
    "FinalOpsHook",
    "GlobalStepWaiterHook",
    "LoggingTensorHook",
    "LoopHook",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "ProfilerHook",
    "SecondOrStepTimer",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "adopt",
]
