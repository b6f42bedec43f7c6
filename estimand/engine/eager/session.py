"""What hooks get as a session where the model function runs in Python at every step.

What they fetch can be a variable, a tensor by the name that `tf.identity(tensor, name=...)` gave
it, or, for a hook that the model function made, a tensor of the model function. Each call of it
makes new ones: those of the first call are called, and find the tensors of the newest step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ModelFnError
from estimand.engine.eager.run import EagerTrace
from estimand.engine.hook_calls.fetching import FetchPlan
from estimand.engine.variables import eager_writes as eager_writes
from estimand.engine.variables.eager_writes import Later


class EagerSession(tf_private.SessionInterface):
    """Reads variables, and tensors of the last step."""

    calls_hooks_when_due = True

    def __init__(self, trace: EagerTrace) -> None:
        self.trace = trace
        # As they were made: `begin` may put more into them.
        self._first_loss = trace.spec.loss
        self._first_tensors = _tensors_of_hooks(trace)
        self._newest: dict[int, Any] = {}

    @property
    def graph(self) -> tf.Graph:
        return self.trace.graph

    def move_on_to(self, trace: EagerTrace) -> None:
        """Take note of a step that has been run."""
        self.trace = trace
        self._newest = {id(self._first_loss): trace.spec.loss}
        first, now = self._first_tensors, _tensors_of_hooks(trace)
        if len(first) == len(now):
            self._newest |= {id(a): b for a, b in zip(first, now, strict=True)}

    def run(self, fetches: Any, feed_dict: Any = None, *args: Any, **kwargs: Any) -> Any:
        """The values now."""
        del feed_dict, args, kwargs
        return tf.nest.map_structure(self._value, fetches)

    def plan(self, fetches: dict[int, Any]) -> FetchPlan:
        """What hooks fetch with the next step; found when it has been run."""
        return FetchPlan(
            (),
            tuple(tf.nest.flatten(fetches)),
            lambda reads, values: tf.nest.pack_sequence_as(fetches, list(values)),
        )

    def feeds(self, feed_dict: dict[Any, Any]) -> tuple[list[Any], list[tf.Tensor]]:
        """None: there is no graph whose tensors could be given other values."""
        del feed_dict
        return [], []

    def fetched_with_step(self, fetch: Any) -> Any:
        """A value as fetched together with the last step: of a variable, that before the step."""
        fetch = self._resolved(fetch)
        if isinstance(fetch, Later):
            fetch()
            return None
        names = {id(v): n for n, v in self.trace.variables.by_name.items()}
        plain = fetch if isinstance(fetch, tf.Variable) else getattr(fetch, "value", None)
        name = names.get(id(plain))
        return self._value(fetch) if name is None else self.trace.value_before(name).numpy()

    def _resolved(self, fetch: Any) -> Any:
        if isinstance(fetch, str):
            known = {**self.trace.variables.by_name, **self.trace.kept.named}
            fetch = known.get(fetch.split(":")[0], fetch)
        return self._newest.get(id(fetch), fetch)

    def _value(self, fetch: Any) -> Any:
        fetch = self._resolved(fetch)
        if fetch is None or isinstance(fetch, tf.Operation):
            return None
        if isinstance(fetch, Later):
            raise ModelFnError(
                f"A hook runs {fetch!r} between steps, but with RunConfig(run_eagerly=True) there "
                "is no graph to run it in. Return it in before_run, to have it run with the step, "
                "let train_op depend on it, or leave the hook out while debugging."
            )
        if hasattr(fetch, "numpy"):
            return fetch.numpy()
        raise ModelFnError(
            f"A hook fetches {fetch!r}, but with RunConfig(run_eagerly=True) there is no graph to "
            "fetch tensors from: only variables, and tensors that model_fn names with "
            "tf.identity(tensor, name=...), can be read. Name it so, print the value inside "
            "model_fn, or leave the hook out while debugging."
        )


def _tensors_of_hooks(trace: EagerTrace) -> list[Any]:
    spec = trace.spec
    kinds = (
        spec.training_chief_hooks,
        spec.training_hooks,
        spec.evaluation_hooks,
        spec.prediction_hooks,
    )
    return [t for hooks in kinds for hook in hooks or () for t in _tensors_in(vars(hook))]


def _tensors_in(value: Any) -> Iterator[Any]:
    """Tensors, and ops that stand for something to be run."""
    if isinstance(value, dict):
        value = list(value.values())  # keys may be made from a tensor's value
    if isinstance(value, (list, tuple)):
        for element in value:
            yield from _tensors_in(element)
    elif eager_writes.later_of(value) is not None or (
        tf.is_tensor(value) and not isinstance(value, tf.Variable)
    ):
        yield value
