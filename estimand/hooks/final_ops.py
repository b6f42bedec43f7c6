"""Values computed when everything has run."""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf

from estimand.engine.hook_calls.cadence import NEVER
from estimand.hooks.base import LoopHook

_log = logging.getLogger("tensorflow")


class FinalOpsHook(LoopHook):
    """Computes tensors or runs ops once, at the end; the values are in `final_ops_values`.

    >>> from estimand.hooks import FinalOpsHook
    >>> hook = FinalOpsHook({"weights": "net/w"})
    >>> hook.final_ops_values is None  # until a run has ended
    True

    Args:
      final_ops: a tensor, op, variable or name, or any nesting of them.
      final_ops_feed_dict: values to feed meanwhile.
    """

    def __init__(self, final_ops: Any, final_ops_feed_dict: dict[Any, Any] | None = None) -> None:
        self._final_ops = final_ops
        self._final_ops_feed_dict = final_ops_feed_dict
        self._final_ops_values: Any = None
        self._look(NEVER)

    @property
    def final_ops_values(self) -> Any:
        """What was computed, in the structure of `final_ops`; None before the end."""
        return self._final_ops_values

    def end(self, session: tf.compat.v1.Session) -> None:
        if self._final_ops is None:
            return
        try:
            self._final_ops_values = session.run(
                self._final_ops, feed_dict=self._final_ops_feed_dict
            )
        except (tf.errors.OutOfRangeError, StopIteration):
            _log.warning(
                "FinalOpsHook: an OutOfRangeError or StopIteration was raised while computing %s. "
                "They depend on the input, which is used up; final ops should read variables only "
                "(of a metric pair, take the value, not the update op).",
                self._final_ops,
            )
            raise
