"""What the workers of a cluster with parameter servers are fed with.

The input function is called in the chief, as ever. The pipeline that it describes is sent to the
workers as a graph and runs there, each worker reading its own share.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import InputError
from estimand.engine.distributed.inputs import share_of
from estimand.engine.distributed.parameter_servers import Servers
from estimand.engine.feeding.batches import flatten_batch
from estimand.engine.feeding.feeder import Feeder, lean
from estimand.engine.feeding.source import BatchSource
from estimand.inputs.call import name_of, takes_input_context
from estimand.inputs.contract import ModelInput
from estimand.inputs.remote_pipelines import pipelines_run_elsewhere

_IGNORE_EXTERNAL_STATE = 1
_PYTHON = {"PyFunc", "EagerPyFunc", "PyFuncStateless"}


def shares(
    call: Callable[[tf.distribute.InputContext], ModelInput],
    input_fn: Callable[..., Any],
    workers: int,
) -> list[ModelInput]:
    """For each worker its part of the input."""
    contexts = [
        tf.distribute.InputContext(
            num_input_pipelines=workers, input_pipeline_id=number, num_replicas_in_sync=1
        )
        for number in range(workers)
    ]
    with pipelines_run_elsewhere():
        if takes_input_context(input_fn):
            return [call(context) for context in contexts]
        whole = call(contexts[0])
    return [share_of(whole, workers, number) for number in range(workers)]


@dataclass(frozen=True)
class WorkersTable:
    """A lookup table of the model function, of which each worker gets a copy."""

    in_graph: tf.Tensor  # what stands for its handle in the traced graph
    keys: tf.Tensor
    values: tf.Tensor

    def copied(self) -> tf.Tensor:
        """The handle of a copy, on the worker where this is called."""
        handle = tf.raw_ops.AnonymousHashTable(
            key_dtype=self.keys.dtype, value_dtype=self.values.dtype
        )
        tf.raw_ops.LookupTableImportV2(table_handle=handle, keys=self.keys, values=self.values)
        return handle


class WorkersInput(BatchSource):
    """One iterator on each worker; in the training loop it stands where a Feeder does."""

    def __init__(
        self,
        shares: Sequence[ModelInput],
        servers: Servers,
        input_fn: Callable[..., Any],
        tables: Sequence[WorkersTable] = (),
        prepare_worker: Callable[[], Any] = lambda: None,
    ) -> None:
        self.tables = [table.in_graph for table in tables]
        self.unpack = shares[0].unpack
        self._shares = shares
        pipelines = [lean(share.dataset) for share in shares]
        sizes = [int(p.cardinality().numpy()) for p in pipelines]
        self.endless = all(s == tf.data.INFINITE_CARDINALITY for s in sizes)
        super().__init__(sum(sizes) if all(s >= 0 for s in sizes) else None)
        self.spec = (
            tf.data.IteratorSpec(pipelines[0].element_spec),
            tf.TensorSpec([], tf.float64),
            [tf.TensorSpec([], tf.resource) for _ in tables],
        )
        graphs = [as_graph(p, input_fn) for p in pipelines]
        nothing = as_graph(pipelines[0].take(0), input_fn)

        def start(number: int) -> Callable[[], Any]:
            """One that nobody had named reads a share once more, if the shares have no end."""
            share = number % len(graphs)
            graph = graphs[share] if self.endless or share == number else nothing
            return functools.partial(
                _start, number, graph, pipelines[share].element_spec, tables, prepare_worker
            )

        self.iterators = tf_private.on_each_worker(servers.coordinator, start)

    @functools.cached_property
    def _own(self) -> Feeder:
        share = self._shares[0]
        return Feeder(share.dataset, share.unpack, keep_alive=share)

    def next_batch(self) -> list[tf.Tensor]:
        """A batch for what is computed in the chief itself."""
        return self._own.next_batch()

    def flatten(self, element: Any) -> list[tf.Tensor]:
        return flatten_batch(*self.unpack(element))


def _start(
    number: int,
    graph: tf.Tensor,
    element_spec: Any,
    tables: Sequence[WorkersTable],
    prepare_worker: Callable[[], Any],
) -> tuple[Any, tf.Tensor, list[tf.Tensor]]:
    """Called on a worker, and again whenever it has been restarted."""
    prepare_worker()
    variant = tf.raw_ops.DatasetFromGraph(graph_def=graph)
    dataset = tf.data.experimental.from_variant(variant, element_spec)
    return iter(dataset), tf.constant(number, tf.float64), [table.copied() for table in tables]


def as_graph(dataset: tf.data.Dataset, input_fn: Callable[..., Any]) -> tf.Tensor:
    graphs = tf_private.function_graphs(dataset)
    python = sorted({op.type for graph in graphs for op in graph.get_operations()} & _PYTHON)
    if python:
        raise InputError(
            f"input_fn {name_of(input_fn)} runs Python code in its pipeline ({', '.join(python)}: "
            "a generator, tf.py_function or tf.numpy_function). With parameter servers the "
            "pipeline runs on the workers, which do not have that code. Write it with TensorFlow "
            "operations, or write the data to files and read those."
        )
    try:
        return tf.raw_ops.DatasetToGraphV2(
            input_dataset=tf.data.experimental.to_variant(dataset),
            external_state_policy=_IGNORE_EXTERNAL_STATE,
            strip_device_assignment=True,
        )
    except tf.errors.OpError as error:
        raise InputError(
            f"The pipeline of input_fn {name_of(input_fn)} cannot be sent to the workers: "
            f"{error.message.splitlines()[0][:300]}"
        ) from error
