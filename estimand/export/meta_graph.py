"""`model.ckpt-N.meta`: the graph of a training run, as `import_meta_graph` wants to read it.

It holds the model under the names that a v1 graph of it has: the ops of model_fn, the variables
with what saves and restores them, and in the place of the input `IteratorGetNext`, an iterator
that nobody has filled and whose tensors may be fed.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.tracing.trace import Trace
from estimand.export import flat_graph
from estimand.export.flat_graph import FlatGraph

_Keys = tf.compat.v1.GraphKeys


def meta_graph(trace: Trace, *, keep_max: int = 5, keep_hours: float = 10000.0) -> bytes:
    """The graph of a traced model as the contents of a `.meta` file.

    Args:
        trace: the model, as it is trained.
        keep_max, keep_hours: how many checkpoints a Saver made of it is to keep.
    """
    flat = flat_graph.flatten(trace, inputs=_iterators)
    graph = flat.graph
    with graph.as_default():
        _collect_losses_and_train_op(trace, graph)
        if not _is_taken(graph, "init"):
            tf.compat.v1.global_variables_initializer()
        saver = tf.compat.v1.train.Saver(
            _by_checkpoint_name(flat),
            sharded=True,
            allow_empty=True,
            max_to_keep=keep_max,
            keep_checkpoint_every_n_hours=keep_hours,
            save_relative_paths=True,
        )
        if not flat.saved:  # such a saver has no definition to be written
            return _message(graph, None)
        return _message(graph, saver.as_saver_def())


def _message(graph: tf.Graph, saver_def: Any) -> bytes:
    message = tf.compat.v1.train.export_meta_graph(
        graph_def=graph.as_graph_def(add_shapes=True),
        graph=graph,
        saver_def=saver_def,
        collection_list=[key for key in graph.get_all_collection_keys() if isinstance(key, str)],
    )
    return bytes(message.SerializeToString(deterministic=True))


def _iterators(trace: Trace) -> dict[str, tf.Tensor]:
    """By the name of an input of the trace, what stands for it: one iterator for each replica."""
    size = len(trace.inputs) // trace.distribution.replicas
    inputs: dict[str, tf.Tensor] = {}
    for start in range(0, len(trace.inputs), size or 1):
        batch = trace.inputs[start : start + size]
        kinds = {
            "output_types": [tensor.dtype for tensor in batch],
            "output_shapes": [tensor.shape for tensor in batch],
        }
        iterator = tf.raw_ops.IteratorV2(shared_name="", container="", **kinds, name="IteratorV2")
        values = tf.raw_ops.IteratorGetNext(iterator=iterator, **kinds, name="IteratorGetNext")
        inputs |= {old.op.name: new for old, new in zip(batch, values, strict=True)}
    return inputs


def _by_checkpoint_name(flat: FlatGraph) -> dict[str, Any]:
    """The variables as a Saver takes them, those in parts with the place of each part."""
    whole: dict[str, Any] = {}
    for saved, variable in flat.saved.values():
        if saved.slice_spec:
            tf_private.save_like(variable, saved.variable, saved.name)
            whole.setdefault(saved.name, []).append(variable)
        else:
            whole[saved.name] = variable
    return whole


def _collect_losses_and_train_op(trace: Trace, graph: tf.Graph) -> None:
    name = getattr(trace.spec.train_op, "name", None)
    if name is not None and not graph.get_collection(_Keys.TRAIN_OP):
        graph.add_to_collection(_Keys.TRAIN_OP, graph.as_graph_element(name))


def _is_taken(graph: tf.Graph, name: str) -> bool:
    try:
        graph.get_operation_by_name(name)
    except KeyError:
        return False
    return True
