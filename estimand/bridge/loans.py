"""Whose variables a Keras model holds, while model functions run on it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

# A model may be in the hands of one estimator at a time; making a trace takes a moment.
_busy = threading.Condition()
_graph_in_charge: tf.Graph | None = None
_callers = 0


class Loan:
    """The variables given to one model; replicas of one trace, each in its thread, share them."""

    def __init__(self) -> None:
        self._holders = 0
        self._return = contextlib.ExitStack()

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """Wait for all other traces; further replicas of this one may come in."""
        global _graph_in_charge, _callers
        graph = tf.compat.v1.get_default_graph()
        with _busy:
            _busy.wait_for(lambda: _graph_in_charge in (None, graph))
            _graph_in_charge, _callers = graph, _callers + 1
        try:
            yield
        finally:
            with _busy:
                _callers -= 1
                if _callers == 0:
                    _graph_in_charge = None
                    _busy.notify_all()

    @contextlib.contextmanager
    def holding(self, lend: Callable[[], contextlib.AbstractContextManager[Any]]) -> Iterator[None]:
        """Lent to every replica, and given back, all at once, when the last one is done."""
        self._holders += 1
        try:
            self._return.enter_context(lend())
            yield
        finally:
            self._holders -= 1
            if self._holders == 0:
                self._return.close()
