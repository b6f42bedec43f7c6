"""The graph of a model beside its checkpoints: `graph.pbtxt`, and TensorBoard's graph page."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from pathlib import Path

import tensorflow as tf

from estimand.core.files.atomic_files import replacing
from estimand.engine.events import EventWriter

_log = logging.getLogger("tensorflow")

# Which graphs this process has recorded where: training in turns with evaluating goes through
# the same graph many times.
_recorded: weakref.WeakKeyDictionary[tf.Graph, set[str]] = weakref.WeakKeyDictionary()


def record_graph(
    graph: tf.Graph, directory: str, events: EventWriter, *, as_file: bool
) -> threading.Thread | None:
    """Record a graph, once per directory. Returns the thread that writes the file, if any."""
    path = os.path.join(directory, "graph.pbtxt")
    known = _recorded.setdefault(graph, set())
    if directory in known and (not as_file or tf.io.gfile.exists(path)):
        return None
    known.add(directory)
    graph_def = graph.as_graph_def(add_shapes=True)
    events.graph(graph_def, 0)
    if not as_file:
        return None
    tf.io.gfile.makedirs(directory)  # not later: who removes it meanwhile means it
    # Printing the text takes a second for a large model: the first step need not wait for it.
    thread = threading.Thread(target=_write_text, args=(graph_def, path), name="graph.pbtxt")
    thread.start()
    return thread


def _write_text(graph_def: tf.compat.v1.GraphDef, path: str) -> None:
    try:
        with replacing(path) as temporary:
            Path(temporary).write_text(
                str(graph_def)
            )  # text_format prints in Python, for ten times as long
    except OSError as error:
        _log.warning("The graph could not be written to %s: %s", path, error)
