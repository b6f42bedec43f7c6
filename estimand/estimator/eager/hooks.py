"""Hooks around steps that run in Python, with `RunConfig(run_eagerly=True)`.

What they fetch can be a variable, a tensor by the name that `tf.identity(tensor, name=...)` gave
it, or, for a hook that the model function made, a tensor of the model function. Each call of it
makes new ones: those of the first call are called, and find the tensors of the newest step.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimand import hooks as ready_made
from estimand.core import tf_private
from estimand.core.errors import ModelFnError
from estimand.engine.eager import writes as eager_writes
from estimand.engine.eager.run import EagerTrace
from estimand.engine.eager.writes import Later
from estimand.engine.hook_calls.cadence import Schedule
from estimand.hooks.adopt import adopt

_train = tf.compat.v1.train


class EagerSession(tf_private.SessionInterface):
    """What hooks get as a session: it reads variables, and tensors of the last step."""

    calls_hooks_when_due = True

    def __init__(self, trace: EagerTrace) -> None:
        self.trace = trace
        # As they were made: `begin` may put more into them.
        self._first_tensors = _tensors_of_hooks(trace)
        self._newest: dict[int, Any] = {}

    @property
    def graph(self) -> tf.Graph:
        return self.trace.variables.graph

    def move_on_to(self, trace: EagerTrace) -> None:
        """Take note of a step that has been run."""
        self.trace = trace
        first, now = self._first_tensors, _tensors_of_hooks(trace)
        if len(first) == len(now):
            self._newest = {id(a): b for a, b in zip(first, now, strict=True)}

    def run(self, fetches: Any, feed_dict: Any = None, *args: Any, **kwargs: Any) -> Any:
        """The values now."""
        del feed_dict, args, kwargs
        return tf.nest.map_structure(self._value, fetches)

    def run_with_step(self, fetches: Any) -> Any:
        """The values as fetched together with the last step: variables before it changed them."""
        return tf.nest.map_structure(self._value_in_step, fetches)

    def _value_in_step(self, fetch: Any) -> Any:
        fetch = self._found(fetch)
        if isinstance(fetch, Later):
            fetch()
            return None
        names = {id(v): n for n, v in self.trace.variables.by_name.items()}
        plain = fetch if isinstance(fetch, tf.Variable) else getattr(fetch, "value", None)
        name = names.get(id(plain))
        return self._value(fetch) if name is None else self.trace.value_before(name).numpy()

    def _found(self, fetch: Any) -> Any:
        if isinstance(fetch, str):
            known = {**self.trace.variables.by_name, **self.trace.kept.named}
            fetch = known.get(fetch.split(":")[0], fetch)
        return self._newest.get(id(fetch), fetch)

    def _value(self, fetch: Any) -> Any:
        fetch = self._found(fetch)
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


class EagerHooks:
    """All hooks of one run, called in the order in which a traced run calls them."""

    def __init__(self, hooks: Sequence[Any], session: EagerSession) -> None:
        self.hooks = [adopt(hook) for hook in hooks]
        self.session = session
        self.stop_requested = False
        self._schedules: list[Schedule] = []

    def begin(self, loop: Any = None) -> None:
        with self._as_default():
            for hook in self.hooks:
                if loop is not None and isinstance(hook, ready_made.LoopHook):
                    hook.bind(loop)
                hook.begin()

    def after_create_session(self, step: int) -> None:
        coordinator, now = _train.Coordinator(), time.monotonic()
        with self._as_default():
            for hook in self.hooks:
                hook.after_create_session(self.session, coordinator)
        self._schedules = [Schedule(getattr(h, "cadence", None), step, now) for h in self.hooks]

    def before_run(self, step: int) -> list[tuple[Any, Schedule, Any, Any]]:
        """Ask the hooks that look at the next step what they want to see of it."""
        now, looks = time.monotonic(), []
        with self._as_default():
            for hook, schedule in zip(self.hooks, self._schedules, strict=True):
                if schedule.due_in(step, now) == 1:
                    context = _train.SessionRunContext(_train.SessionRunArgs(None), self.session)
                    looks.append((hook, schedule, context, hook.before_run(context)))
                    self.stop_requested |= context.stop_requested
        return looks

    def after_run(self, looks: Sequence[tuple[Any, Schedule, Any, Any]], step: int) -> None:
        with self._as_default():
            fetches = [getattr(request, "fetches", request) for *_, request in looks]
            results = [self.session.run_with_step(wanted) for wanted in fetches]
            for (hook, schedule, context, _), seen in zip(looks, results, strict=True):
                hook.after_run(context, _train.SessionRunValues(seen, None, None))
                schedule.looked(step, time.monotonic())
                self.stop_requested |= context.stop_requested

    def end(self) -> None:
        with self._as_default():
            for hook in self.hooks:
                hook.end(self.session)

    @contextlib.contextmanager
    def _as_default(self) -> Iterator[None]:
        """Eager mode, in which `tf.compat.v1.train.get_global_step()` finds the model's."""
        with self.session.graph.as_default(), tf_private.eager_mode():
            yield


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
        for one in value:
            yield from _tensors_in(one)
    elif eager_writes.later_of(value) is not None or (
        tf.is_tensor(value) and not isinstance(value, tf.Variable)
    ):
        yield value
