"""The graph of a model beside its checkpoints: `graph.pbtxt`, and TensorBoard's graph page."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from typing import Any

import tensorflow as tf
from google.protobuf import text_format

from estimand.hooks.event_file import EventFile

_log = logging.getLogger("tensorflow")

# Which graphs this process has recorded where: training in turns with evaluating goes through
# the same graph many times.
_recorded: weakref.WeakKeyDictionary[tf.Graph, set[str]] = weakref.WeakKeyDictionary()


def record_graph(
    graph: tf.Graph, directory: str, event_file: EventFile, *, as_file: bool
) -> threading.Thread | None:
    """Record a graph, once per directory. Returns the thread that writes the file, if any."""
    path = os.path.join(directory, "graph.pbtxt")
    known = _recorded.setdefault(graph, set())
    if directory in known and (not as_file or tf.io.gfile.exists(path)):
        return None
    known.add(directory)
    graph_def = graph.as_graph_def(add_shapes=True)
    event_file.add_graph_def(graph_def)
    if not as_file:
        return None
    # Printing the text takes a second for a large model: the first step need not wait for it.
    thread = threading.Thread(target=_write_text, args=(graph_def, path), name="graph.pbtxt")
    thread.start()
    return thread


def _write_text(graph_def: Any, path: str) -> None:
    temporary = path + ".tmp"
    try:
        tf.io.gfile.makedirs(os.path.dirname(path))
        with tf.io.gfile.GFile(temporary, "w") as file:
            file.write(text_format.MessageToString(graph_def))
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except (OSError, tf.errors.OpError) as error:
        _log.warning("The graph could not be written to %s: %s", path, error)
