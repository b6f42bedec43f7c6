"""Input functions that read by queues and counters: their graph is run by a session.

`tf.train.batch`, `string_input_producer` and readers need threads that fill queues, and
`limit_epochs` counts in a variable. None of it can be mapped over a Dataset, so it runs as it
did, in a session of its own, and what it gives becomes the elements of a Dataset.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from estimand.inputs.sources import note_source
from estimand.inputs.watched_batches import WatchedBatches

_v1 = tf.compat.v1
_start_queue_runners = inspect.unwrap(
    _v1.train.start_queue_runners
)  # without its deprecation notice

_QUEUES = re.compile(r".*Queue(V2)?|.*Reader(V2)?|Barrier|.*Stage")


def needs_session(graph: tf.Graph) -> bool:
    """Whether a graph has queues or local variables, which hold what is read next."""
    kept = (_v1.GraphKeys.QUEUE_RUNNERS, _v1.GraphKeys.LOCAL_VARIABLES)
    return any(graph.get_collection(key) for key in kept) or any(
        _QUEUES.fullmatch(op.type) for op in graph.get_operations()
    )


def dataset_from_session(
    build: Callable[[], Any], where: str
) -> tuple[tf.data.Dataset, Any, tf.Graph]:
    """A Dataset of what a session reads, the structure of an element, and the graph it runs.

    `build` is called once, in a new graph, and returns a structure of tensors; `where` is the
    input function's name in messages.
    """
    graph = tf.Graph()
    with graph.as_default():
        result = build()
        start = tf.group(
            _v1.global_variables_initializer(),
            _v1.local_variables_initializer(),
            _v1.tables_initializer(),
        )
    structure = tf.nest.map_structure(tf.type_spec_from_value, result)
    flat = tf.nest.flatten(result, expand_composites=True)
    watched = WatchedBatches(where)
    note_source(watched)
    dataset = tf.data.Dataset.from_generator(
        lambda: watched.watch(_elements(graph, start, flat)),
        output_signature=tuple(tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in flat),
    )
    return dataset.map(_packing(structure)), structure, graph


def _elements(graph: tf.Graph, start: Any, flat: list[tf.Tensor]) -> Iterator[tuple[Any, ...]]:
    """What the session gives, until a queue or a counter says that there is no more."""
    session = _v1.Session(graph=graph)
    coordinator = tf.train.Coordinator()
    threads: list[Any] = []
    try:
        session.run(start)
        with graph.as_default():
            threads = _start_queue_runners(sess=session, coord=coordinator)
        while True:
            try:
                values = session.run(flat)
            except tf.errors.OutOfRangeError:
                return
            yield tuple(values)
    finally:
        coordinator.request_stop()
        session.close()  # a thread that waits at a full queue gives up
        coordinator.join(threads, stop_grace_period_secs=10, ignore_live_threads=True)


def _packing(structure: Any) -> Callable[..., tuple[Any, ...]]:
    @tf.autograph.experimental.do_not_convert
    def packed(*parts: tf.Tensor) -> tuple[Any, ...]:
        whole = tf.nest.pack_sequence_as(structure, parts, expand_composites=True)
        return tuple(tf.nest.flatten(whole))

    return packed
