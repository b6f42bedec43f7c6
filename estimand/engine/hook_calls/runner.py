"""Calls hooks in the order, and with the arguments, that a monitored v1 session would.

    begin (graph may still be changed) -> after_create_session -> for every step it looks at:
    before_run -> [the step, with all fetches, in one execution] -> after_run -> end

A hook without a `cadence` looks at every step. One that has a cadence is called only when it is
due.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from estimand.engine.hook_calls import fetching
from estimand.engine.hook_calls.cadence import Schedule
from estimand.engine.hook_calls.session import TracedSession, resolve_feeds
from estimand.engine.tracing.trace import Trace
from estimand.engine.tracing.variables import VariableStore

_train = tf.compat.v1.train
SessionRunArgs = _train.SessionRunArgs
ALSO = -1


class LoopBound:
    """Marks hooks made for these loops, which may also have

    - `bind(loop)`, called before `begin` with the running loop,
    - `stop_step`, a global step that training must not pass,
    - `check(loss, step)`, called with the loss at the end of every block.

    Only marked hooks are asked for these, so that a user's hook may use the names freely.
    """

    stop_step: int | None = None

    def bind(self, loop: Any) -> None:
        """Take the loop that is about to run."""

    def check(self, loss: float, step: int) -> None:
        """Look at the loss of the last step."""


@dataclass
class Look:
    """What the hooks that look at one step asked for."""

    contexts: list[tuple[Any, Any, bool]] = field(default_factory=list)
    plan: fetching.FetchPlan | None = None
    feeds: list[tf.Tensor] = field(default_factory=list)
    feed_values: list[tf.Tensor] = field(default_factory=list)


class HookRunner:
    """All hooks of one run."""

    def __init__(
        self,
        hooks: Sequence[Any],
        trace: Trace,
        session: TracedSession,
        clock: Callable[[], float] = time.monotonic,
        store: VariableStore | None = None,
    ) -> None:
        self.hooks = list(hooks)
        self._trace = trace
        self._session = session
        self._clock = clock
        self._store = store
        self._schedules: list[Schedule] = []
        self._plans: dict[Any, fetching.FetchPlan] = {}
        self.stop_requested = False
        self.graph_changed = False  # by a user's hook, which will do the same next time

    def begin(self) -> None:
        with contextlib.ExitStack() as stack:
            graph = stack.enter_context(self._trace.as_default())
            if self._store is not None:
                stack.enter_context(self._store.extending(self._trace.variables))
            variables = self._trace.variables.by_name
            for hook in self.hooks:
                before = len(graph.get_operations()), len(variables)
                hook.begin()
                # A variable may come without an operation: it is there for all graphs.
                added = (len(graph.get_operations()), len(variables)) != before
                self.graph_changed |= added and not isinstance(hook, LoopBound)

    def after_create_session(self, start_step: int) -> None:
        coordinator = _train.Coordinator()
        with self._trace.as_default():
            for hook in self.hooks:
                hook.after_create_session(self._session, coordinator)
        now = self._clock()
        self._schedules = [
            Schedule(getattr(hook, "cadence", None), start_step, now) for hook in self.hooks
        ]

    @property
    def bound(self) -> list[LoopBound]:
        return [h for h in self.hooks if isinstance(h, LoopBound)]

    def steps_to_next_look(self, step: int) -> int | None:
        now = self._clock()
        due = [s.due_in(step, now) for s in self._schedules]
        return min((d for d in due if d is not None), default=None)

    def before_run(self, step: int, within: int, also: Any = None) -> Look | None:
        """Ask the hooks that are due within this block; None if none is.

        `also` is fetched in any case, and found under the key `ALSO`.
        """
        now = self._clock()
        due = [
            hook
            for hook, schedule in zip(self.hooks, self._schedules, strict=True)
            if (d := schedule.due_in(step, now)) is not None and d <= within
        ]
        if not due and also is None:
            return None
        look = Look()
        fetches: dict[int, Any] = {}
        feed_dict: dict[Any, Any] = {}
        if also is not None:
            fetches[ALSO] = also
        with _default(self._trace.graph):  # hooks look up tensors here, too
            for hook in due:
                context = _train.SessionRunContext(SessionRunArgs(None), self._session)
                request = hook.before_run(context)
                if request is not None:
                    if not isinstance(request, SessionRunArgs):
                        request = SessionRunArgs(request)
                    fetches[len(look.contexts)] = request.fetches
                    _merge_feeds(feed_dict, request.feed_dict)
                self.stop_requested |= context.stop_requested
                look.contexts.append((hook, context, request is not None))
        look.feeds, look.feed_values = resolve_feeds(self._trace, feed_dict)
        look.plan = self._plan(fetches)
        return look

    def after_run(self, look: Look, fetched: dict[int, Any], step: int) -> None:
        with _default(self._trace.graph):
            for index, (hook, context, _) in enumerate(look.contexts):
                values = _train.SessionRunValues(
                    results=fetched.get(index), options=None, run_metadata=None
                )
                hook.after_run(context, values)
                self.stop_requested |= context.stop_requested
        now = self._clock()
        looked = {id(hook) for hook, _, _ in look.contexts}
        for hook, schedule in zip(self.hooks, self._schedules, strict=True):
            if id(hook) in looked:
                schedule.looked(step, now)

    def end(self) -> None:
        with self._trace.as_default():
            for hook in self.hooks:
                hook.end(self._session)

    def _plan(self, fetches: dict[int, Any]) -> fetching.FetchPlan:
        leaves = tf.nest.flatten(fetches)
        # Hooks ask for the same things again and again; resolving names is not free. Graph
        # elements live as long as the trace, so their identity is a safe key.
        key = (
            tuple(leaf if isinstance(leaf, str) else id(leaf) for leaf in leaves),
            tuple(fetches),
            *(_shape_of(f) for f in fetches.values()),
        )
        if key not in self._plans:
            self._plans[key] = fetching.plan(self._trace, fetches)
        return self._plans[key]


def _default(graph: tf.Graph) -> contextlib.AbstractContextManager[Any]:
    """The graph as default one, without what a function graph sets up to be built further.

    At every look this would cost more than the hooks themselves.
    """
    return tf.Graph.as_default(graph)


def _shape_of(structure: Any) -> Any:
    """A hashable picture of how a structure of fetches is nested."""
    if isinstance(structure, dict):
        return (type(structure), tuple((k, _shape_of(structure[k])) for k in structure))
    if isinstance(structure, (list, tuple)):
        return (type(structure), tuple(_shape_of(s) for s in structure))
    return None


def _merge_feeds(feed_dict: dict[Any, Any], more: dict[Any, Any] | None) -> None:
    named = {getattr(k, "name", k) for k in feed_dict}
    for key, value in (more or {}).items():
        if getattr(key, "name", key) in named:
            raise RuntimeError(
                f"Same tensor is fed by two hooks: {getattr(key, 'name', key)!r}. "
                "Remove one of the hooks, or let one of them feed another tensor."
            )
        feed_dict[key] = value
