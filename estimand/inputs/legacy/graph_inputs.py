"""Input functions that return tensors: their graph becomes a function mapped over a Dataset.

`tf.estimator` built such a function's graph once and evaluated it at every step. Here the graph
is built once too, with placeholders where a v1 iterator gives its element; what the function
does after that is mapped over the iterator's Dataset, whose position can then be saved.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import InputError
from estimand.inputs.legacy.fed_placeholders import FedByHooks, FedPlaceholders
from estimand.inputs.legacy.session_inputs import dataset_from_session, needs_session
from estimand.inputs.legacy.v1_iterators import (
    EagerCall,
    GraphCall,
    NeedsGraph,
    TracedIterator,
    watch,
)
from estimand.inputs.structure import clean_parts

# What TensorFlow says where a graph-only API (placeholder, queue, Tensor.name) is used eagerly.
_GRAPH_ONLY = re.compile(r"eager (execution|mode)|executing eagerly")

# Stateful operations whose state does not move from one element to the next.
_STEADY_OPS = re.compile(r"LookupTable.*|.*HashTable.*|Assert")

# Iterators that belong to no single Dataset.
_FOREIGN_ITERATORS = ("Iterator", "IteratorV2", "IteratorFromStringHandleV2")


@dataclasses.dataclass(frozen=True)
class GraphInput:
    """Outcome of `dataset_from_graph`; `structure` is None for a Dataset the function returned."""

    dataset: tf.data.Dataset
    structure: tuple[Any, ...] | None
    endless: bool
    resumable: bool
    keep_alive: tuple[Any, ...]
    fed: FedByHooks | None = None


@dataclasses.dataclass
class _Trace:
    """What one call of the input function left behind in its graph."""

    function: Any
    where: str
    result: Any  # a Dataset, or the tensors of (features,) or (features, labels)
    iterators: list[TracedIterator]  # those whose get_next() was called
    datasets: list[tf.data.Dataset]  # of these iterators, or the result itself
    variants: list[tf.Tensor]
    table_initializers: list[tf.Operation]
    by_session: bool  # only a session can run what it built

    @property
    def placeholders(self) -> list[tf.Tensor]:
        return [tensor for iterator in self.iterators for tensor in iterator.placeholders or ()]


def call_eagerly(call: Callable[[], Any]) -> tuple[Any, bool]:
    """(result, False), or (None, True) where the function can only be called in a graph."""
    with watch(EagerCall()), tf.variable_creator_scope(_make_variable):
        try:
            return call(), False
        except NeedsGraph:
            return None, True
        except Exception as error:
            if not _GRAPH_ONLY.search(str(error)):
                raise
            return None, True


def _make_variable(create: Callable[..., Any], **settings: Any) -> Any:
    """A variable of an input function, which begins with a value that is known by now.

    None that is local: `limit_epochs` counts in one, which only a session moves as it did.
    """
    if tf.compat.v1.GraphKeys.LOCAL_VARIABLES in (settings.get("collections") or ()):
        raise NeedsGraph
    first = settings.get("initial_value")
    known = tf.get_static_value(first) if tf.is_tensor(first) else None
    return create(**settings if known is None else {**settings, "initial_value": known})


def dataset_from_graph(call: Callable[[], Any], where: str) -> GraphInput:
    """Call the input function in graph-building mode and turn its graph into a Dataset."""
    try:
        trace = _trace(call, where)
    except NeedsGraph:
        return _read_by_session(call, where)
    if trace.by_session:
        return _read_by_session(call, where)
    if trace.table_initializers:
        _prune(trace, [], trace.table_initializers)()
    fed = _unfed_placeholders(trace.variants, trace.function.inputs)
    datasets = _fed_later(trace, fed) if fed and trace.iterators else _materialise(trace)
    keep_alive = (trace.function,)
    if isinstance(trace.result, tf.data.Dataset):
        return GraphInput(datasets[0], None, False, True, keep_alive)
    source = _zip(datasets)
    structure = tf.nest.map_structure(tf.type_spec_from_value, trace.result)
    if _is_untouched(trace):
        return GraphInput(source, structure, False, not fed, keep_alive)
    fetches = tf.nest.flatten(trace.result, expand_composites=True)
    if not datasets and _unfed_placeholders(fetches, trace.function.inputs):
        return _fed_at_each_step(call, where, len(structure))
    function = _prune(trace, trace.placeholders, fetches)
    dataset = source.map(_inlined(function, structure))
    steady = _is_steady(function) and not fed
    return GraphInput(dataset, structure, not datasets, steady, keep_alive)


def _fed_at_each_step(call: Callable[[], Any], where: str, parts: int) -> GraphInput:
    """Placeholders, for hooks to feed: the graph of the model is where they look for them."""

    def build() -> tuple[Any, ...]:
        return tf.nest.map_structure(_as_tensor, clean_parts(call(), where))

    numbers = tf.data.Dataset.counter()  # something to read at each step
    dataset = tf.data.Dataset.zip((numbers,) * parts)
    structure = dataset.element_spec
    return GraphInput(dataset, structure, True, False, (), FedByHooks(build))


def _read_by_session(call: Callable[[], Any], where: str) -> GraphInput:
    def build() -> Any:
        return tf.nest.map_structure(_as_tensor, clean_parts(call(), where))

    dataset, structure, graph = dataset_from_session(build, where)
    return GraphInput(dataset, structure, False, False, (graph,))


def _trace(call: Callable[[], Any], where: str) -> _Trace:
    kept: dict[str, Any] = {}

    def build() -> list[Any]:
        graph_call = GraphCall(tf.compat.v1.get_default_graph())
        with watch(graph_call), tf.variable_creator_scope(_make_variable):
            result = call()
        iterators = [
            iterator for iterator in graph_call.iterators if iterator.placeholders is not None
        ]
        if isinstance(result, tf.data.Dataset):
            datasets = [result]
        else:
            datasets = [iterator.dataset for iterator in iterators]
            result = tf.nest.map_structure(_as_tensor, clean_parts(result, where))
        kept.update(
            result=result,
            iterators=iterators,
            datasets=datasets,
            variants=[tf.data.experimental.to_variant(dataset) for dataset in datasets],
            table_initializers=_collected(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS),
            by_session=not datasets and needs_session(tf.compat.v1.get_default_graph()),
        )
        _check_no_foreign_sources(where)
        return []

    # wrap_function is the public way to a function graph with collections of its own.
    return _Trace(function=tf.compat.v1.wrap_function(build, []), where=where, **kept)


def _as_tensor(leaf: Any) -> Any:
    """An array as a tensor of this graph; so too an eager tensor from outside."""
    if not tf.is_tensor(leaf):
        return tf.convert_to_tensor(leaf)
    return tf.nest.map_structure(
        lambda part: part if tf.is_symbolic_tensor(part) else tf.identity(part),
        leaf,
        expand_composites=True,
    )


def _is_untouched(trace: _Trace) -> bool:
    """Whether the function returns what get_next() gave: then there is nothing to map."""
    specs = tf.nest.flatten([iterator.element_spec for iterator in trace.iterators])
    if not specs or any(tf_private.is_spec_of_none(spec) for spec in specs):
        return False
    returned = tf.nest.flatten(trace.result, expand_composites=True)
    return [id(tensor) for tensor in returned] == [id(tensor) for tensor in trace.placeholders]


def _check_no_foreign_sources(where: str) -> None:
    operations = tf.compat.v1.get_default_graph().get_operations()
    if any(op.type in _FOREIGN_ITERATORS for op in operations):
        raise InputError(
            f"{where} uses Iterator.from_structure or from_string_handle, whose Dataset is chosen "
            "later, in a session. Choose it in input_fn and return the Dataset."
        )


def _collected(key: str) -> list[Any]:
    return list(tf.compat.v1.get_collection(key))


def _materialise(trace: _Trace) -> list[tf.data.Dataset]:
    """The symbolic Datasets of the graph as eager ones."""
    if not trace.variants:
        return []
    values = _prune(trace, [], trace.variants)()
    return [
        tf_private.note_made_of(
            tf.data.experimental.from_variant(value, dataset.element_spec), dataset
        )
        for value, dataset in zip(values, trace.datasets, strict=True)
    ]


def _fed_later(trace: _Trace, placeholders: list[tf.Tensor]) -> list[tf.data.Dataset]:
    """The same, where a hook has yet to feed what they are made of."""
    fed = FedPlaceholders(placeholders, trace.where)
    for iterator in trace.iterators:
        iterator.feed = fed.feed
    make = [_prune(trace, placeholders, [variant]) for variant in trace.variants]
    return [
        fed.dataset(make_variant, dataset.element_spec)
        for make_variant, dataset in zip(make, trace.datasets, strict=True)
    ]


def _zip(datasets: Sequence[tf.data.Dataset]) -> tf.data.Dataset:
    if not datasets:
        return tf.data.Dataset.counter()
    return datasets[0] if len(datasets) == 1 else tf.data.Dataset.zip(tuple(datasets))


def _prune(trace: _Trace, feeds: list[tf.Tensor], fetches: list[Any]) -> Any:
    unfed = _unfed_placeholders(fetches, [*feeds, *trace.function.inputs])
    if unfed:
        raise InputError(
            f"{trace.where}: what it returns depends on the placeholder {unfed[0].op.name!r}, and "
            "nobody feeds it. Put the value itself in its place: "
            "`tf.data.Dataset.from_tensor_slices(array)`."
        )
    return trace.function.prune(feeds, fetches)


def _unfed_placeholders(fetches: Iterable[Any], fed: Iterable[tf.Tensor]) -> list[tf.Tensor]:
    tensors = []
    known = {tensor.op.name for tensor in fed}
    pending = [fetch if isinstance(fetch, tf.Operation) else fetch.op for fetch in fetches]
    seen = set()
    while pending:
        op = pending.pop()
        if op.name in seen or op.name in known:
            continue
        seen.add(op.name)
        if op.type == "Placeholder":
            tensors.append(op.outputs[0])
        pending.extend([*op.control_inputs, *(tensor.op for tensor in op.inputs)])
    return tensors


def _inlined(function: Any, structure: Any) -> Callable[..., tuple[Any, ...]]:
    """`function` for Dataset.map: its operations, not a call of it.

    A call counts as stateful as soon as anything inside is, a table lookup for instance, and a
    Dataset with stateful functions refuses to save its position.
    """
    graph_def = function.graph.as_graph_def()
    inputs = [tensor.name for tensor in function.inputs]
    outputs = [tensor.name for tensor in function.outputs]
    specs = tf.nest.flatten(structure, expand_composites=True)
    feeds = len(inputs) - len(function.captured_inputs)

    @tf.autograph.experimental.do_not_convert
    def apply(*element: Any) -> tuple[Any, ...]:
        values = tf.nest.flatten(element, expand_composites=True) if feeds else []
        given = [value for value in values if value is not None]
        captured = [tf.identity(tensor) for tensor in function.captured_inputs]
        results = tf.graph_util.import_graph_def(
            graph_def,
            input_map=dict(zip(inputs, [*given, *captured], strict=True)),
            return_elements=outputs,
        )
        for tensor, spec in zip(results, specs, strict=True):
            tensor.set_shape(spec.shape)  # a graph_def forgets what set_shape() told
        packed = tf.nest.pack_sequence_as(structure, results, expand_composites=True)
        return tuple(tf.nest.flatten(packed))

    return apply


def _is_steady(function: Any) -> bool:
    return not any(
        op.op_def is not None and op.op_def.is_stateful and not _STEADY_OPS.fullmatch(op.type)
        for op in function.graph.get_operations()
    )
