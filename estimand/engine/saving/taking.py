"""Taking the checkpoints of a run: what happens around each, and who is told."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.engine import time_spent
from estimand.engine.checkpoints.graph_file import record_graph
from estimand.engine.events import EventWriter
from estimand.engine.hook_calls.cadence import Schedule
from estimand.engine.saving.save_policy import SavePolicy

_log = logging.getLogger("tensorflow")
_CHECKPOINT = tf.compat.v1.SessionLog.CHECKPOINT

Write = Callable[[Any, int, bool], Any]


class CheckpointTaker:
    """Takes checkpoints when its policy says so, and tells listeners and the event file.

    Files are written in the background, unless there are listeners, who may want to read them; one
    with an attribute `reads_files = False` says that it does not.

    Args:
      policy: when.
      path: the beginning of the files' names.
      write: `write(session, step, synchronous)` saves the model as it is.
      listeners: `CheckpointSaverListener`s, told before and after each checkpoint.
      save_graph_def: write `graph.pbtxt` as well.
    """

    takes_any = True

    def __init__(
        self,
        policy: SavePolicy,
        path: str,
        write: Write,
        listeners: Sequence[tf.compat.v1.train.CheckpointSaverListener] = (),
        *,
        save_graph_def: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.policy = policy
        self.path = path
        self.listeners = list(listeners)
        self._write = write
        self._save_graph_def = save_graph_def
        self._clock = clock
        self._schedule: Schedule | None = None
        # The step of the last one, and how many steps there had been that did not move it.
        self._taken_at: tuple[int, int] | None = None
        self._graph_writing: threading.Thread | None = None

    @property
    def _events(self) -> EventWriter:
        return EventWriter.get(os.path.dirname(self.path))

    def begin(self) -> None:
        """Hooks begin: listeners do so, too."""
        self._taken_at = self._schedule = None
        for listener in self.listeners:
            listener.begin()

    def record_graph(self, graph: tf.Graph) -> None:
        """Put the graph beside the checkpoints."""
        directory = os.path.dirname(self.path)
        self._graph_writing = record_graph(
            graph, directory, self._events, as_file=self._save_graph_def
        )

    def due_in(self, step: int) -> int | None:
        """In how many steps the next one is due; None: not before some time has passed."""
        return None if self._schedule is None else self._schedule.due_in(step, self._clock())

    def is_due(self, step: int) -> bool:
        """Whether to take one now."""
        if self._schedule is None or self.has(step):
            return False
        return self._schedule.is_due(step, self._clock())

    def has(self, step: int) -> bool:
        """Whether the last one stands there."""
        return self._taken_at is not None and self._taken_at[0] == step

    def misses(self, motionless: int) -> bool:
        """Whether there was training since the last one that did not move the global step."""
        return self._taken_at is not None and self._taken_at[1] != motionless

    @time_spent.on(time_spent.CHECKPOINTS)
    def take(self, session: tf.compat.v1.Session, step: int, motionless: int = 0) -> bool:
        """Take one; True if a listener wants training to stop."""
        now = self._clock()
        if self._schedule is None:
            self._schedule = self.policy.schedule(step, now)
        else:
            self._schedule.looked(step, now)
        self._taken_at = step, motionless
        for listener in self.listeners:
            listener.before_save(session, step)
        _log.info("Saving checkpoints for %d into %s.", step, self.path)
        read = any(getattr(listener, "reads_files", True) for listener in self.listeners)
        self._write(session, step, read)
        self._events.session_log(_CHECKPOINT, step, self.path)
        stop = False
        for listener in self.listeners:
            if listener.after_save(session, step):
                _log.info("%s asks to stop training.", type(listener).__name__)
                stop = True
        return stop

    @time_spent.on(time_spent.CHECKPOINTS)
    def end(self, session: tf.compat.v1.Session, step: int) -> None:
        """After the last one."""
        for listener in self.listeners:
            listener.end(session, step)
        self._events.flush()
        if self._graph_writing is not None:
            self._graph_writing.join()
            self._graph_writing = None


class NoCheckpoints:
    """In place of a `CheckpointTaker` where none are taken, or where a hook takes them."""

    takes_any = False

    def begin(self) -> None: ...

    def record_graph(self, graph: tf.Graph) -> None: ...

    def due_in(self, step: int) -> None: ...

    def is_due(self, step: int) -> bool:
        return False

    def has(self, step: int) -> bool:
        return True  # as far as anybody here has to care

    def misses(self, motionless: int) -> bool:
        return False

    def take(self, session: tf.compat.v1.Session, step: int, motionless: int = 0) -> bool:
        return False

    def end(self, session: tf.compat.v1.Session, step: int) -> None: ...
