"""What a hook sees as its session: `run` over the traced functions, no Session underneath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.hook_calls import fetching
from estimand.engine.tracing.trace import Trace
from estimand.inputs.legacy.v1_iterators import feed_iterators


class TracedSession(tf_private.SessionInterface):
    """Runs parts of one traced graph on the live variables.

    `next_batch` gives the values of one batch, for fetches that need input: as with a v1
    session, such a run consumes a batch. `on_run` is called before ops are run, which may
    change variables; `about_to_write` before ops that do change what is saved.
    """

    calls_hooks_when_due = True  # says whoever runs it: the hooks need not keep the time

    def __init__(
        self,
        trace: Trace,
        next_batch: Callable[[], list[tf.Tensor]] | None = None,
        about_to_write: Callable[[], None] | None = None,
    ):
        self.trace = trace
        self._about_to_write = about_to_write
        self.next_batch = next_batch
        self.on_run: Callable[[], None] = lambda: None
        self.raw_session = self
        self._plans: dict[Any, fetching.FetchPlan] = {}

    @property
    def graph(self) -> tf.Graph:
        return self.trace.graph

    @property
    def sess_str(self) -> str:
        return ""

    def should_stop(self) -> bool:
        return False

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        del options, run_metadata
        fetches = feed_iterators(fetches, feed_dict or {})
        with tf_private.eager_mode():
            fetch_plan = self._planned(fetches)
            with self.trace.usage:
                own = self.trace.variables.twins.own
                read_values = [fetching.to_numpy(own(v)) for v in fetch_plan.reads]
                values = self._run_graph(fetch_plan.graph_fetches, feed_dict or {})
            return fetch_plan.rebuild(read_values, values)

    def plan(self, fetches: dict[int, Any]) -> fetching.FetchPlan:
        """What hooks fetch, by their numbers, resolved against the graph.

        They ask for the same things again and again, and resolving names is not free. Graph
        elements live as long as the trace, so their identity is a safe key.
        """
        key = (
            tuple(f if isinstance(f, str) else id(f) for f in tf.nest.flatten(fetches)),
            tuple(fetches),
            *(_shape_of(f) for f in fetches.values()),
        )
        if key not in self._plans:
            self._plans[key] = self._planned(fetches)
        return self._plans[key]

    def _planned(self, fetches: Any) -> fetching.FetchPlan:
        made = fetching.plan(self.trace, fetches)
        if self._about_to_write is not None and self.trace.writes_to_saved(made.graph_fetches):
            self._about_to_write()
        return made

    def feeds(self, feed_dict: dict[Any, Any]) -> tuple[list[Any], list[tf.Tensor]]:
        """Graph tensors to be fed, and their values."""
        return resolve_feeds(self.trace, feed_dict)

    def _run_graph(self, graph_fetches: tuple[Any, ...], feed_dict: dict[Any, Any]) -> list[Any]:
        if not graph_fetches:
            return []
        self.on_run()
        feeds, values = resolve_feeds(self.trace, feed_dict)
        fed = {f.name for f in feeds}
        if self.trace.needs_input(graph_fetches):
            missing = [t for t in self.trace.inputs if t.name not in fed]
            if missing and self.next_batch is not None:
                batch = self.next_batch()
                for tensor, value in zip(self.trace.inputs, batch, strict=True):
                    if tensor.name not in fed:
                        feeds.append(tensor)
                        values.append(value)
        if self.trace.draws is not None:
            self.trace.draws.run_between()
        results = iter(self.trace.prune(graph_fetches, feeds)(*values))
        return [
            None if isinstance(f, tf.Operation) else fetching.to_numpy(next(results))
            for f in graph_fetches
        ]


def _shape_of(structure: Any) -> Any:
    """A hashable picture of how a structure of fetches is nested."""
    if isinstance(structure, dict):
        return (type(structure), tuple((k, _shape_of(structure[k])) for k in structure))
    if isinstance(structure, (list, tuple)):
        return (type(structure), tuple(_shape_of(s) for s in structure))
    return None


def resolve_feeds(trace: Trace, feed_dict: dict[Any, Any]) -> tuple[list[Any], list[tf.Tensor]]:
    """Graph tensors to be fed, and their values as eager tensors."""
    feeds, values = [], []
    for key, value in feed_dict.items():
        if isinstance(key, (tf.SparseTensor, tf.RaggedTensor)):
            parts = tf.nest.flatten(key, expand_composites=True)
            given = list(value) if not tf.is_tensor(value) else tf.nest.flatten(value, True)
        else:
            parts, given = [key], [value]
        for part, fed in zip(parts, given, strict=True):
            tensor = trace.graph.as_graph_element(part, allow_operation=False)
            feeds.append(tensor)
            array = fed if tf.is_tensor(fed) else np.asarray(fed)
            values.append(tf.convert_to_tensor(array, dtype=tensor.dtype))
    return feeds, values
