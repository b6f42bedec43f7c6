"""What a hook may ask for, resolved against a traced graph.

A fetch is a tensor, an op, a variable, a sparse tensor, the name of one as a string, or any
nesting of these. Reads of a variable are kept apart: they are done before the step runs, so a
fetched global step is the value before its update, whatever order the executor would choose.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ModelFnError
from estimand.engine.tracing.trace import Trace
from estimand.engine.variables import by_graph_name
from estimand.engine.variables.placement import copies

Values = Sequence[Any]


def to_numpy(value: Any) -> Any:
    """An eager tensor as `Session.run` would have returned it."""
    if hasattr(value, "numpy"):
        return value.numpy()
    return value if isinstance(value, (bytes, np.generic)) else np.asarray(value)


@dataclass(frozen=True)
class FetchPlan:
    """Flat, duplicate-free fetches, and the way back to the structure that was asked for."""

    reads: tuple[tf.Variable, ...]
    graph_fetches: tuple[Any, ...]  # tensors and ops of the graph
    rebuild: Callable[[Values, Values], Any]

    @functools.cached_property
    def key(self) -> tuple[str, ...]:
        return (*(f"read {id(v)}" for v in self.reads), *(f.name for f in self.graph_fetches))


NOTHING = FetchPlan((), (), lambda reads, fetches: [])


class _Collector:
    """Assigns each distinct fetch a place in the flat lists."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.reads: list[tf.Variable] = []
        self.fetches: list[Any] = []
        self._places: dict[Any, tuple[str, int]] = {}
        # Filled on first need: which graph tensor is nothing but the value of which variable.
        self._variable_of_handle: dict[int, tf.Variable] | None = None

    def place(self, element: Any) -> tuple[str, int]:
        kind = "reads" if isinstance(element, tf.Variable) else "fetches"
        key = (kind, id(element) if kind == "reads" else element.name)
        if key not in self._places:
            target = self.reads if kind == "reads" else self.fetches
            self._places[key] = (kind, len(target))
            target.append(element)
        return self._places[key]

    def plain_read(self, tensor: tf.Tensor) -> tf.Variable | None:
        op = tensor.op
        if op.type == "Identity" and not op.control_inputs:
            op = op.inputs[0].op
        if op.type != "ReadVariableOp" or op.control_inputs:
            return None
        if self._variable_of_handle is None:
            by_handle = {id(copies(v)[0].handle): v for v in self.trace.variables.by_name.values()}
            self._variable_of_handle = {
                id(inner): by_handle[id(outer)]
                for outer, inner in self.trace.graph.captures  # type: ignore[attr-defined]
                if id(outer) in by_handle
            }
        return self._variable_of_handle.get(id(op.inputs[0]))


def plan(trace: Trace, structure: Any) -> FetchPlan:
    """Resolve a nested structure of fetches."""
    collector = _Collector(trace)
    leaves = tf.nest.flatten(structure)
    getters = [_leaf(collector, leaf) for leaf in leaves]

    pack = _packing(structure)

    def rebuild(read_values: Values, fetch_values: Values) -> Any:
        return pack(iter([get(read_values, fetch_values) for get in getters]))

    return FetchPlan(tuple(collector.reads), tuple(collector.fetches), rebuild)


def _packing(structure: Any) -> Callable[[Iterator[Any]], Any]:
    """What makes a structure of its leaves, as `tf.nest` does, which looks at it anew each time."""
    if type(structure) is dict:
        parts = {key: _packing(structure[key]) for key in sorted(structure)}

        def as_dict(leaves: Iterator[Any]) -> dict[Any, Any]:
            made = {key: pack(leaves) for key, pack in parts.items()}
            return {key: made[key] for key in structure}

        return as_dict
    if type(structure) in (list, tuple):
        packs, kind = [_packing(part) for part in structure], type(structure)
        return lambda leaves: kind([pack(leaves) for pack in packs])
    if not tf.nest.is_nested(structure):
        return next
    count = len(tf.nest.flatten(structure))
    return lambda leaves: tf.nest.pack_sequence_as(structure, [next(leaves) for _ in range(count)])


def _leaf(collector: _Collector, leaf: Any) -> Callable[[Values, Values], Any]:
    if leaf is None:
        return lambda reads, fetches: None
    if isinstance(leaf, tf.SparseTensor):
        parts = [_leaf(collector, t) for t in (leaf.indices, leaf.values, leaf.dense_shape)]
        return lambda r, f: tf.compat.v1.SparseTensorValue(*(p(r, f) for p in parts))
    if isinstance(leaf, tf.IndexedSlices):
        parts = [_leaf(collector, t) for t in (leaf.values, leaf.indices, leaf.dense_shape)]
        return lambda r, f: tf_private.IndexedSlicesValue(*(p(r, f) for p in parts))
    if isinstance(leaf, tf.RaggedTensor):
        flat = [_leaf(collector, t) for t in tf.nest.flatten(leaf, expand_composites=True)]
        return lambda r, f: tf.compat.v1.ragged.RaggedTensorValue(*(p(r, f) for p in flat))
    element = _element(collector.trace, leaf)
    if isinstance(element, tf.Operation):
        collector.place(element)
        return lambda reads, fetches: None
    variable = element if isinstance(element, tf.Variable) else collector.plain_read(element)
    kind, index = collector.place(element if variable is None else variable)
    if kind == "reads":
        return lambda reads, fetches: reads[index]
    return lambda reads, fetches: fetches[index]


def _element(trace: Trace, leaf: Any) -> Any:
    if isinstance(leaf, tf.Variable):
        return _assigned_value(trace, leaf)
    value = getattr(leaf, "value", None)  # a Keras variable wraps a TensorFlow one
    if isinstance(value, tf.Variable):
        return value
    if isinstance(leaf, (str, bytes)):
        name = leaf.decode() if isinstance(leaf, bytes) else leaf
        variable = by_graph_name.find(name, trace.variables.by_name)
        try:
            return trace.graph.as_graph_element(name, allow_tensor=True, allow_operation=True)
        except (KeyError, ValueError) as error:
            if variable is not None:
                return variable
            raise ModelFnError(
                f"There is no tensor or op named {name!r} in the {trace.mode!r} graph. "
                f"{_similar_names(trace, name)}"
            ) from error
    if isinstance(leaf, tf_private.BaseResourceVariable):
        return leaf
    try:
        element = trace.graph.as_graph_element(leaf, allow_tensor=True, allow_operation=True)
    except (TypeError, ValueError) as error:
        raise ModelFnError(
            f"Cannot fetch {leaf!r}: a fetch is a tensor, op or variable of the model, or its "
            "name as a string."
        ) from error
    return element


def _assigned_value(trace: Trace, variable: tf.Variable) -> Any:
    """What `v.assign(...)` returns stands for the value after that assignment; `v` for itself."""
    if not isinstance(getattr(variable, "op", None), tf.Operation):
        return variable
    if not hasattr(variable, "_estimand_value"):  # made once, or each fetch would add an op
        with trace.as_default():
            variable._estimand_value = variable.read_value()
    return variable._estimand_value


def _similar_names(trace: Trace, name: str) -> str:
    wanted = name.split(":")[0].rsplit("/", 1)[-1]
    similar = [op.name for op in trace.graph.get_operations() if wanted in op.name][:5]
    if similar:
        return f"Similar names: {', '.join(similar)}."
    return "Give the tensor a name in model_fn, e.g. tf.identity(x, name='my_tensor')."
