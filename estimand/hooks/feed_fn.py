"""Feeding tensors of the graph at every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.hooks.base import LoopHook

_train = tf.compat.v1.train


class FeedFnHook(LoopHook):
    """Calls a function before every step and feeds what it returns.

    It has to see every step, so it keeps training from running many steps at once.

    >>> from estimand.hooks import FeedFnHook
    >>> hook = FeedFnHook(lambda: {"dropout_rate:0": 0.5})
    >>> hook.before_run(None).feed_dict
    {'dropout_rate:0': 0.5}

    Args:
      feed_fn: takes nothing, returns a dict from tensor, or its name, to value.
    """

    def __init__(self, feed_fn: Callable[[], dict[Any, Any]]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> Any:
        return _train.SessionRunArgs(fetches=None, feed_dict=self.feed_fn())
