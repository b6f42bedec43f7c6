"""What legacy input functions meet instead of TensorFlow's v1 iterators while we call them."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from estimand.core import old_code, tf_private
from estimand.core.errors import InputError


class NeedsGraph(BaseException):
    """Stops an eager call at a v1 iterator. Not an Exception: user code must not swallow it."""


class TracedIterator:
    """A v1 iterator whose `get_next()` is a set of placeholders for one element."""

    def __init__(self, dataset: tf.data.Dataset) -> None:
        self.dataset = dataset
        self.element_spec = dataset.element_spec
        self.placeholders: list[tf.Tensor] | None = None
        # Takes a feed_dict, where the Dataset is made of placeholders that a hook is to feed.
        self.feed: Callable[[dict[Any, Any]], None] | None = None
        self._initializer: tf.Operation | None = None

    def get_next(self, name: str | None = None) -> Any:
        if self.placeholders is not None:
            raise InputError(
                "get_next() was called twice on one iterator in input_fn: each call takes another "
                "batch, so features and labels would come from different ones. Call it once: "
                "`features, labels = iterator.get_next()`."
            )
        specs = tf.nest.flatten(self.element_spec, expand_composites=True)
        self.placeholders = [tf.compat.v1.placeholder(s.dtype, s.shape, name) for s in specs]
        return tf.nest.pack_sequence_as(
            self.element_spec, self.placeholders, expand_composites=True
        )

    @property
    def initializer(self) -> tf.Operation:
        """Nothing to run: the Dataset is iterated from its beginning, or from where it was.

        A session that is given it looks for what it has to feed: see `feed_iterators`.
        """
        if self._initializer is None:
            self._initializer = tf.no_op()
            self._initializer._estimand_iterator = self
        return self._initializer

    @property
    def _iterator_resource(self) -> tf.Tensor:
        # `make_saveable_from_iterator` asks for it; the position is saved without its help.
        return tf.compat.v1.placeholder(tf.resource, [])

    output_types = property(lambda self: tf.compat.v1.data.get_output_types(self))
    output_shapes = property(lambda self: tf.compat.v1.data.get_output_shapes(self))
    output_classes = property(lambda self: tf.compat.v1.data.get_output_classes(self))


def feed_iterators(fetches: Any, feed_dict: dict[Any, Any]) -> Any:
    """The fetches without initializers of iterators, which are given what is fed."""

    def without(fetch: Any) -> Any:
        iterator = getattr(fetch, "_estimand_iterator", None)
        if iterator is None:
            return fetch
        if iterator.feed is not None:
            iterator.feed(feed_dict)
        return None

    return tf.nest.map_structure(without, fetches)


class EagerCall:
    """While input_fn is called eagerly: a v1 iterator means that it must be called in a graph."""

    def make_iterator(self, dataset: tf.data.Dataset) -> TracedIterator:
        raise NeedsGraph

    def forbids_iteration(self) -> bool:
        return False

    def hold(self, data: Any) -> Any:
        return data


class GraphCall:
    """While input_fn is called in a graph: remembers the iterators it makes."""

    def __init__(self, graph: tf.Graph) -> None:
        self._graph = graph
        self.iterators: list[TracedIterator] = []

    def make_iterator(self, dataset: tf.data.Dataset) -> TracedIterator:
        self.iterators.append(TracedIterator(dataset))
        return self.iterators[-1]

    def forbids_iteration(self) -> bool:
        # TensorFlow allows `for x in dataset` in any function graph, where it never ends.
        return tf.compat.v1.get_default_graph() is self._graph

    def hold(self, data: Any) -> Any:
        """Arrays as eager tensors, which the graph refers to instead of copying them into itself.

        As constants, 200 MB of data took half a minute and 5 GB of memory.
        """

        def outside_the_graph(leaf: Any) -> Any:
            if tf.is_tensor(leaf) or not hasattr(leaf, "__array__"):
                return leaf
            with tf_private.eager_mode():
                return tf.convert_to_tensor(leaf)

        return tf.nest.map_structure(outside_the_graph, data)


_watcher: contextvars.ContextVar[EagerCall | GraphCall | None] = contextvars.ContextVar(
    "estimand_input_fn_watcher", default=None
)
_lock = threading.Lock()
_watching = 0


def in_input_fn_of_old_code() -> bool:
    """Whether an input function is being called, in a program written for tf.estimator.

    What it calls in turn is to give tensors, as there, not a Dataset.
    """
    return old_code.expected and _watcher.get() is not None


@contextlib.contextmanager
def watch(watcher: EagerCall | GraphCall) -> Iterator[None]:
    """Send v1 iterators made by this thread to `watcher`; other threads see no difference."""
    token = _watcher.set(watcher)
    _change_watching(+1)
    try:
        yield
    finally:
        _change_watching(-1)
        _watcher.reset(token)


def _change_watching(by: int) -> None:
    """Put the replacements in place for the first watcher, take them away with the last."""
    global _watching
    with _lock:
        before, _watching = _watching, _watching + by
        if before == 0:
            for owner, name, replace in _replacements():
                _originals.append((owner, name, inspect.getattr_static(owner, name)))
                setattr(owner, name, replace(getattr(owner, name)))
        elif _watching == 0:
            while _originals:
                setattr(*_originals.pop())


_originals: list[tuple[type, str, Any]] = []


def _replacements() -> list[tuple[type, str, Callable[[Callable[..., Any]], Any]]]:
    return [
        *((tf.compat.v1.data.Dataset, n, _make_iterator) for n in tf_private.V1_ITERATOR_METHODS),
        (tf.data.Dataset, "__iter__", _iterate),
        (tf.data.Dataset, "from_tensors", _hold),
        (tf.data.Dataset, "from_tensor_slices", _hold),
    ]


def _make_iterator(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def make_iterator(self: tf.data.Dataset, *args: Any, **kwargs: Any) -> Any:
        watcher = _watcher.get()
        return original(self, *args, **kwargs) if watcher is None else watcher.make_iterator(self)

    return make_iterator


def _iterate(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def iterate(self: tf.data.Dataset) -> Any:
        watcher = _watcher.get()
        if watcher is not None and watcher.forbids_iteration():
            raise RuntimeError(
                "A Dataset can be iterated in Python only in eager mode, and input_fn is being "
                "called in graph mode. Return the Dataset itself from input_fn."
            )
        return original(self)

    return iterate


def _hold(original: Callable[..., Any]) -> Any:
    @functools.wraps(original)
    def from_data(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        watcher = _watcher.get()
        return original(tensors if watcher is None else watcher.hold(tensors), *args, **kwargs)

    return staticmethod(from_data)
