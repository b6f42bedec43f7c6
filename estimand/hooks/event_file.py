"""The event file of a directory, in the form that hooks know."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.engine.events import EventWriter


class EventFile:
    """Answers like a v1 `FileWriter`, but opens its file with the first event.

    It shares the file with everything else that records into the directory.
    """

    def __init__(self, directory: str) -> None:
        self._events = EventWriter.get(directory)

    def add_summary(self, summary: tf.compat.v1.Summary, global_step: int) -> None:
        self._events.summary(summary, global_step)

    def add_session_log(self, session_log: tf.compat.v1.SessionLog, global_step: int) -> None:
        self._events.session_log(session_log.status, global_step, session_log.checkpoint_path)

    def add_graph_def(self, graph_def: tf.compat.v1.GraphDef, global_step: int = 0) -> None:
        self._events.graph(graph_def, global_step)

    def get_logdir(self) -> str:
        return self._events.directory

    def flush(self) -> None:
        self._events.flush()

    def close(self) -> None:
        self._events.close()

    def __getattr__(self, name: str) -> Any:
        # add_event, add_graph and the rest of what user code may know of a FileWriter.
        return getattr(self._events.file_writer, name)
