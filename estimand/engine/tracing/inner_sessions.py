"""Sessions that a model function opens on the graph it is building.

`tf.saved_model.loader.load(session, …)` imports a graph and restores its variables at once. As in
tf.estimator the values are those of this session only: the training has a session of its own, and
fills variables by their initializers, a checkpoint or a Scaffold.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.rewriting.inlining import GraphCopy
from estimand.engine.variables import by_graph_name
from estimand.engine.variables.placement import copies
from estimand.engine.variables.traced_variables import TracedVariables


@dataclass
class InnerSessions:
    """The sessions on one graph while it is traced."""

    traced: TracedVariables
    # By session and variable, as identities: what the session has made of it.
    _values: dict[int, dict[int, tf.Tensor]] = field(default_factory=dict)

    def opened(self) -> contextlib.AbstractContextManager[None]:
        return tf_private.sessions_on(self.traced.graph, self.run)

    def run(self, session: Any, fetches: Any, feed_dict: Any = None) -> Any:
        """What `session.run` gives, computed with the session's own values of variables."""
        graph = self.traced.graph
        flat = [self._element(fetch) for fetch in tf.nest.flatten(fetches)]
        feeds = [graph.as_graph_element(key, allow_operation=False) for key in feed_dict or {}]
        given = list((feed_dict or {}).values())
        with tf.init_scope(), tf_private.eager_mode(), self._own_values(session):
            values = [tf.convert_to_tensor(v, t.dtype) for v, t in zip(given, feeds, strict=True)]
            results = self._call(flat, feeds, values)
        return tf.nest.pack_sequence_as(fetches, results)

    def _element(self, fetch: Any) -> Any:
        if isinstance(fetch, tf.Variable):
            return fetch
        element = self.traced.graph.as_graph_element(fetch)
        if getattr(element, "dtype", None) == tf.resource:
            return self._variable(element)
        return element

    def _variable(self, handle: tf.Tensor) -> Any:
        found = by_graph_name.find(handle.name, self.traced.by_name)
        return handle if found is None else found

    def _call(self, fetches: list[Any], feeds: list[Any], values: list[tf.Tensor]) -> list[Any]:
        in_graph = [f for f in fetches if not isinstance(f, tf.Variable)]
        tensors = [f for f in in_graph if not isinstance(f, tf.Operation)]
        found: dict[str, Any] = {}
        if in_graph:
            copy = GraphCopy(self.traced.graph)

            def placed(*values: tf.Tensor) -> list[tf.Tensor]:
                made = copy.place(in_graph, feeds, values)
                return [one for one in made if not isinstance(one, tf.Operation)]

            results = tf.function(placed, autograph=False)(*values)
            found = {t.name: r.numpy() for t, r in zip(tensors, results, strict=True)}
        return [_read(f) if isinstance(f, tf.Variable) else found.get(f.name) for f in fetches]

    @contextlib.contextmanager
    def _own_values(self, session: Any) -> Iterator[None]:
        """Inside, variables have the values of the session; they get back what they had."""
        variables = [c for v in self.traced.by_name.values() for c in copies(v)]
        own = self._values.setdefault(id(session), {})
        before = [v.read_value() for v in variables]
        try:
            for variable in variables:
                if id(variable) in own:
                    variable.assign(own[id(variable)])
            yield
            own.update({id(v): v.read_value() for v in variables})
        finally:
            for variable, value in zip(variables, before, strict=True):
                variable.assign(value)


def _read(variable: tf.Variable) -> Any:
    return copies(variable)[0].numpy()
