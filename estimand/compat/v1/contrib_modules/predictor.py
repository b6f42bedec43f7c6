"""`tf.contrib.predictor`: a function that answers from memory.

Of a SavedModel it is the model with its variables loaded once; of an Estimator, an export of it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


class Predictor:
    """A graph, a session that holds its variables, and the names of what goes in and comes out.

    It works with graphs as the default and eagerly alike, because the graph is its own.
    """

    def __init__(self, graph: tf.Graph, session: Any, feeds: dict[str, Any], fetches: Any) -> None:
        self._graph = graph
        self._session = session
        self._feed_tensors = {k: graph.as_graph_element(name) for k, name in feeds.items()}
        self._fetch_tensors = {k: graph.as_graph_element(name) for k, name in fetches.items()}

    @property
    def graph(self) -> tf.Graph:
        return self._graph

    @property
    def session(self) -> Any:
        return self._session

    @property
    def feed_tensors(self) -> dict[str, Any]:
        return self._feed_tensors

    @property
    def fetch_tensors(self) -> dict[str, Any]:
        return self._fetch_tensors

    def __call__(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        unknown = sorted(set(input_dict) - set(self._feed_tensors))
        if unknown:
            raise ValueError(
                f"Got unexpected keys in input_dict: {unknown}\n"
                f"expected: {sorted(self._feed_tensors)}"
            )
        fed = {self._feed_tensors[name]: value for name, value in input_dict.items()}
        return self._session.run(self._fetch_tensors, feed_dict=fed)

    def __repr__(self) -> str:
        return f"<Predictor of {sorted(self._feed_tensors)} to {sorted(self._fetch_tensors)}>"


def from_saved_model(
    export_dir: str,
    signature_def_key: str | None = None,
    signature_def: Any = None,
    input_names: dict[str, str] | None = None,
    output_names: dict[str, str] | None = None,
    tags: Any = None,
    graph: tf.Graph | None = None,
    config: Any = None,
) -> Predictor:
    """A function from a dict of inputs to a dict of outputs, both NumPy arrays.

    What it takes and gives says a signature, by its key (the default one) or itself, or
    `input_names` and `output_names`, which map keys to the names of tensors.
    """
    given = [signature_def_key, signature_def, input_names or output_names]
    if sum(value is not None for value in given) > 1:
        raise ValueError(
            "You must specify at most one of signature_def_key OR signature_def OR "
            "(input_names AND output_names). Leave out the others."
        )
    tags = tags.split(",") if isinstance(tags, str) else tags or [tf.saved_model.SERVING]
    graph = graph or tf.Graph()
    with graph.as_default():
        session = v1.Session(graph=graph, config=config)
        path = tf.compat.as_str_any(export_dir)
        loaded = v1.saved_model.loader.load(session, list(tags), path)
    if input_names and output_names:
        return Predictor(graph, session, input_names, output_names)
    signature = signature_def or _signature(loaded, signature_def_key, path)
    feeds = {key: info.name for key, info in signature.inputs.items()}
    fetches = {key: info.name for key, info in signature.outputs.items()}
    return Predictor(graph, session, feeds, fetches)


def _signature(loaded: Any, key: str | None, path: str) -> Any:
    key = key or tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if key not in loaded.signature_def:
        raise ValueError(
            f"The SavedModel in {path} has no signature {key!r}. It has "
            f"{sorted(loaded.signature_def)}: name one with signature_def_key=."
        )
    return loaded.signature_def[key]


def from_estimator(
    estimator: Any,
    serving_input_receiver_fn: Callable[[], Any],
    output_key: str | None = None,
    graph: tf.Graph | None = None,
    config: Any = None,
) -> Predictor:
    """The same for an Estimator's latest checkpoint."""
    export = estimator.export_saved_model(tempfile.mkdtemp(), serving_input_receiver_fn)
    return from_saved_model(export, output_key, graph=graph, config=config)
