"""What parts of a model expect of the data, noted while the model is built.

Heads know which labels they take, feature columns which values: the check of the first batch
asks for these notes.
"""

from __future__ import annotations

from typing import Any

_LABEL_RANGES = "estimand/label_ranges"
_COLUMNS = "estimand/feature_columns"


def expect_labels(low: float, high: float, head: str | None = None) -> None:
    """Note that labels, or those under the key `head`, lie between `low` and `high`."""
    _note(_LABEL_RANGES, (head, low, high))


def expect_columns(columns: Any) -> None:
    """Note feature columns that the model reads."""
    for column in columns:
        _note(_COLUMNS, column)


def label_ranges(graph: Any) -> list[tuple[str | None, float, float]]:
    return graph.get_collection(_LABEL_RANGES)


def columns(graph: Any) -> list[Any]:
    return graph.get_collection(_COLUMNS)


def _note(key: str, value: Any) -> None:
    import tensorflow as tf

    graph = tf.compat.v1.get_default_graph()
    if not tf.executing_eagerly() and value not in graph.get_collection_ref(key):
        graph.add_to_collection(key, value)
