"""What a Dataset keeps to itself."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

# Every v1 way to an iterator (the `tf.compat.v1.data.make_*_iterator` functions, under whatever
# name they were imported, and the methods of v1 Datasets) ends in one of these two methods of
# `tf.compat.v1.data.Dataset`; replacing the public functions would miss earlier imports.
V1_ITERATOR_METHODS = ("_make_one_shot_iterator", "_make_initializable_iterator")

# Datasets that were made of variants, and of which Datasets these were.
_made_of: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def has_tunable_stage(dataset: tf.data.Dataset) -> bool:
    """Whether any stage of a pipeline leaves its parallelism to `tf.data.AUTOTUNE`.

    A Dataset knows its inputs, but has no public way to ask for them. When in doubt: yes.
    """
    stack = [dataset]
    while stack:
        stage = stack.pop()
        calls = getattr(stage, "_num_parallel_calls", None)
        if calls is not None and tf.get_static_value(calls) in (None, tf.data.AUTOTUNE):
            return True
        if type(stage).__name__ == "_VariantDataset":  # what it is made of cannot be seen
            return True
        stack.extend(stage._inputs())
    return False


def draws_in_parallel(dataset: tf.data.Dataset) -> bool:
    """Whether threads of a pipeline race for random numbers, so that no two runs read the same."""
    stack = [dataset]
    while stack:
        stage = stack.pop()
        if "Parallel" in type(stage).__name__ and any(map(_draws, _stateful(stage) or ())):
            return True
        stack.extend(stage._inputs())
    return False


def _draws(op_type: str) -> bool:
    return "Random" in op_type or op_type in ("Multinomial", "TruncatedNormal")


def stateful_op_types(dataset: tf.data.Dataset) -> set[str] | None:
    """The types of stateful ops in the functions of a pipeline, nested ones included.

    None if they cannot all be seen. Neither a Dataset's functions nor which types of ops are
    stateful can be asked for publicly; `raw_ops.DatasetToGraph` would copy the data as well.
    """
    kinds: set[str] = set()
    stack = [dataset]
    while stack:
        stage = stack.pop()
        types = _stateful(stage)
        if types is None:
            return None
        kinds |= types
        stack.extend(stage._inputs())
    return kinds


def _stateful(stage: tf.data.Dataset) -> set[str] | None:
    """Those in the functions of one stage."""
    if type(stage).__name__ == "_VariantDataset":
        return None
    kinds: set[str] = set()
    for function in stage._functions():
        graph = _graph_of(function).as_graph_def()
        inner = (node for body in graph.library.function for node in body.node_def)
        for node in (*graph.node, *inner):
            definition = op_def_registry.get(node.op)  # None: a call of a function seen here
            if definition is not None and definition.is_stateful:
                kinds.add(node.op)
    return kinds


def _graph_of(function: Any) -> tf.Graph:
    """What a stage does; those of TensorFlow 1 (`map_with_legacy_function`) keep a definition."""
    from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

    traced = function.function
    if hasattr(traced, "graph"):
        return traced.graph
    return function_def_to_graph(traced.definition)


def note_made_of(dataset: tf.data.Dataset, symbolic: tf.data.Dataset) -> tf.data.Dataset:
    """Remember which Dataset of a graph this one has been made of, which it cannot tell."""
    _made_of[dataset] = symbolic
    return dataset


def function_graphs(dataset: tf.data.Dataset) -> Iterator[tf.Graph]:
    """The graphs of a pipeline's functions, nested ones included, as far as they can be seen.

    Neither a Dataset's stages nor the functions that a graph refers to can be asked for publicly.
    """
    stages, graphs = [dataset], []
    while stages:
        stage = stages.pop()
        stage = _made_of.get(stage, stage)
        if type(stage).__name__ != "_VariantDataset":
            graphs += [_graph_of(function) for function in stage._functions()]
            stages.extend(stage._inputs())
    while graphs:
        graph = graphs.pop()
        yield graph
        inner = (getattr(function, "graph", None) for function in graph._functions.values())
        graphs += [body for body in inner if body is not None]


def comes_from_generator(dataset: tf.data.Dataset) -> bool:
    """Whether elements are made by Python code when they are asked for (`from_generator`)."""
    operations = (op for graph in function_graphs(dataset) for op in graph.get_operations())
    return any(op.type == "GeneratorDataset" for op in operations)


def rows_in_order(dataset: tf.data.Dataset) -> tuple[Any, int, bool] | None:
    """(tensors, batch size, drop remainder) of `from_tensor_slices(tensors).batch(size)`.

    None for any other pipeline. A Dataset has no public way to be asked what it is made of.
    """
    if type(dataset).__name__ not in ("_BatchDataset", "BatchDataset"):
        return None
    source = dataset._input_dataset
    if type(source).__name__ != "_TensorSliceDataset":
        return None
    size = tf.get_static_value(dataset._batch_size)
    drop = tf.get_static_value(dataset._drop_remainder)
    if size is None or drop is None:
        return None
    flat = source._tensors
    if not all(isinstance(t, tf.Tensor) and t.shape.rank for t in flat):
        return None
    leaves = tf.nest.flatten(dataset.element_spec)
    if len(leaves) != len(flat) or not all(isinstance(s, tf.TensorSpec) for s in leaves):
        return None  # sparse or ragged: its slices are packed in a way of their own
    return tf.nest.pack_sequence_as(dataset.element_spec, flat), int(size), bool(drop)


def prefetched(dataset: tf.data.Dataset) -> tf.data.Dataset | None:
    """What `dataset` prefetches; None where it is not a prefetch."""
    return dataset._input_dataset if type(dataset).__name__ == "_PrefetchDataset" else None


def full_batch_size(dataset: tf.data.Dataset) -> int | None:
    """The number of rows in every batch of a Dataset that never ends, if it ends in `batch`.

    Its element spec leaves the number open, for only the last batch could be a smaller one. None
    if that cannot be told; a Dataset has no public way to be asked what it is made of.
    """
    while type(dataset).__name__ in ("_PrefetchDataset", "_OptionsDataset"):
        dataset = dataset._input_dataset
    batched = type(dataset).__name__ in ("_BatchDataset", "_ParallelBatchDataset", "BatchDataset")
    if not batched or int(dataset.cardinality()) != tf.data.INFINITE_CARDINALITY:
        return None
    leaves = tf.nest.flatten(dataset.element_spec)
    if not all(isinstance(spec, tf.TensorSpec) for spec in leaves):
        return None  # the parts of a sparse or ragged tensor have lengths of their own
    size = tf.get_static_value(dataset._batch_size)
    return None if size is None else int(size)


def is_spec_of_none(spec: Any) -> bool:
    """Whether a Dataset's component is None. TensorFlow before 2.20 does not export the class."""
    return type(spec).__name__ == "NoneTensorSpec"
