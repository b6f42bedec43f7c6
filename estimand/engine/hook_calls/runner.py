"""Calls hooks in the order, and with the arguments, that a monitored v1 session would.

    begin (graph may still be changed) -> after_create_session -> for every step it looks at:
    before_run -> [the step, with all fetches, in one execution] -> after_run -> end

A hook without a `cadence` looks at every step. One that has a cadence is called only when it is
due.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import tensorflow as tf

from estimand.engine import time_spent
from estimand.engine.hook_calls.cadence import Schedule
from estimand.engine.hook_calls.fetching import FetchPlan
from estimand.engine.tracing.built_model import BuiltModel
from estimand.engine.variables.store import VariableStore

_train = tf.compat.v1.train
# Found once: these modules look up their names anew each time.
SessionRunArgs = _train.SessionRunArgs
_SessionRunContext, _SessionRunValues = _train.SessionRunContext, _train.SessionRunValues
_NOTHING = SessionRunArgs(None)
ALSO = -1


_BeforeRun = TypeVar("_BeforeRun", bound=Callable[..., Any])


def asks_the_same_earlier(before_run: _BeforeRun) -> _BeforeRun:
    """Marks a `before_run` that may as well be called some steps earlier.

    It looks at nothing that steps change, and does nothing that is to happen just before one.
    """
    before_run.asks_the_same_earlier = True  # type: ignore[attr-defined]
    return before_run


class RunningLoop(Protocol):
    """What hooks made for these loops may ask of the one they run in."""

    motionless_steps: int

    @property
    def trace(self) -> BuiltModel: ...

    @property
    def hooks(self) -> list[Any]: ...

    @property
    def saves_by_itself(self) -> bool:
        """Whether no hook takes the checkpoints."""

    def global_step(self) -> int: ...

    def save_checkpoint(self, step: int, **options: Any) -> str: ...

    def save_now(self) -> None:
        """Take a checkpoint out of turn, unless this step has one."""

    def request_stop(self, reason: str) -> None: ...


class LoopBound:
    """Marks hooks made for these loops, which may also have

    - `bind(loop)`, called before `begin` with the running loop,
    - `stop_step`, a global step that training must not pass,
    - `check(loss, step)`, called with the loss at the end of every block,
    - `failed(error)`, called when the run ends by an error, which comes to no `end`.

    Only marked hooks are asked for these, so that a user's hook may use the names freely.
    """

    stop_step: int | None = None

    def bind(self, loop: RunningLoop) -> None:
        """Take the loop that is about to run."""

    def check(self, loss: float, step: int) -> None:
        """Look at the loss of the last step."""

    def failed(self, error: BaseException) -> None:
        """Leave things in order."""


class HookSession(Protocol):
    """What hooks get as their session, and what resolves the things they ask for."""

    @property
    def trace(self) -> BuiltModel: ...

    @property
    def graph(self) -> tf.Graph: ...

    def run(self, fetches: Any, feed_dict: Any = None) -> Any: ...

    def plan(self, fetches: dict[int, Any]) -> FetchPlan: ...

    def feeds(self, feed_dict: dict[Any, Any]) -> tuple[list[Any], list[tf.Tensor]]: ...


@dataclass
class Look:
    """What the hooks that look at one step asked for."""

    contexts: list[tuple[Any, Any, bool]] = field(default_factory=list)
    plan: FetchPlan | None = None
    feeds: list[tf.Tensor] = field(default_factory=list)
    feed_values: list[tf.Tensor] = field(default_factory=list)

    @property
    def asks_for_nothing(self) -> bool:
        """Whether the hooks only waited for this moment."""
        plan = self.plan
        return not (self.feeds or (plan is not None and (plan.reads or plan.graph_fetches)))


class HookRunner:
    """All hooks of one run."""

    def __init__(
        self,
        hooks: Sequence[Any],
        session: HookSession,
        clock: Callable[[], float] = time.monotonic,
        store: VariableStore | None = None,
    ) -> None:
        self.hooks = list(hooks)
        self.session = session
        self._clock = clock
        self._store = store
        self._schedules: list[Schedule] = []
        self.stop_requested = False
        self.graph_changed = False  # by a user's hook, which will do the same next time

    @contextlib.contextmanager
    def extending(self) -> Iterator[tf.Graph]:
        """Inside, the graph may still be changed."""
        with contextlib.ExitStack() as stack:
            trace = self.session.trace
            graph = stack.enter_context(trace.as_default())
            if self._store is not None:
                stack.enter_context(self._store.extending(trace.variables))
            yield graph

    def begin(self) -> None:
        if not self.hooks:  # as in most evaluations; entering a graph takes longer than a batch
            return
        variables = self.session.trace.variables.by_name
        with self.extending() as graph:
            for hook in self.hooks:
                before = len(graph.get_operations()), len(variables)
                hook.begin()
                # A variable may come without an operation: it is there for all graphs.
                added = (len(graph.get_operations()), len(variables)) != before
                self.graph_changed |= added and not isinstance(hook, LoopBound)

    def after_create_session(self, start_step: int) -> None:
        if self.hooks:
            coordinator = _train.Coordinator()
            with self.session.trace.as_default():
                for hook in self.hooks:
                    hook.after_create_session(self.session, coordinator)
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

    def may_ask_earlier(self, step: int, within: int) -> bool:
        """Whether the hooks that are due within this block would ask for the same before it."""
        return all(_asks_the_same_earlier(hook) for hook in self._due(step, within))

    def _due(self, step: int, within: int) -> list[Any]:
        now = self._clock()
        return [
            hook
            for hook, schedule in zip(self.hooks, self._schedules, strict=True)
            if (d := schedule.due_in(step, now)) is not None and d <= within
        ]

    @time_spent.on(time_spent.LOOKS)
    def before_run(self, step: int, within: int, also: Any = None) -> Look | None:
        """Ask the hooks that are due within this block; None if none is.

        `also` is fetched in any case, and found under the key `ALSO`.
        """
        due = self._due(step, within)
        if not due and also is None:
            return None
        look = Look()
        fetches: dict[int, Any] = {}
        feed_dict: dict[Any, Any] = {}
        if also is not None:
            fetches[ALSO] = also
        with self.session.trace.at_a_look():  # hooks look up tensors here, too
            for hook in due:
                context = _SessionRunContext(_NOTHING, self.session)
                request = hook.before_run(context)
                if request is not None:
                    if not isinstance(request, SessionRunArgs):
                        request = SessionRunArgs(request)
                    fetches[len(look.contexts)] = request.fetches
                    _merge_feeds(feed_dict, request.feed_dict)
                self.stop_requested |= context.stop_requested
                look.contexts.append((hook, context, request is not None))
        look.feeds, look.feed_values = self.session.feeds(feed_dict)
        look.plan = self.session.plan(fetches)
        return look

    @time_spent.on(time_spent.LOOKS)
    def after_run(self, look: Look, fetched: dict[int, Any], step: int) -> None:
        with self.session.trace.at_a_look():
            for index, (hook, context, _) in enumerate(look.contexts):
                values = _SessionRunValues(
                    results=fetched.get(index), options=None, run_metadata=None
                )
                hook.after_run(context, values)
                self.stop_requested |= context.stop_requested
        now = self._clock()
        looked = {id(hook) for hook, _, _ in look.contexts}
        for hook, schedule in zip(self.hooks, self._schedules, strict=True):
            if id(hook) in looked:
                schedule.looked(step, now)

    @time_spent.on(time_spent.LOOKS)
    def end(self) -> None:
        if not self.hooks:
            return
        with self.session.trace.as_default():
            for hook in self.hooks:
                hook.end(self.session)

    def failed(self, error: BaseException) -> None:
        """Tell the hooks that can hear of it."""
        for hook in self.bound:
            hook.failed(error)


def _asks_the_same_earlier(hook: Any) -> bool:
    """Also a hook that asks for nothing at all: its class has left `before_run` as it was."""
    if "before_run" in getattr(hook, "__dict__", ()):  # its own, whatever its class has
        return False
    before_run = getattr(type(hook), "before_run", None)
    asks_nothing = before_run is _train.SessionRunHook.before_run
    return asks_nothing or getattr(before_run, "asks_the_same_earlier", False)


def _merge_feeds(feed_dict: dict[Any, Any], more: dict[Any, Any] | None) -> None:
    named = {getattr(k, "name", k) for k in feed_dict}
    for key, value in (more or {}).items():
        if getattr(key, "name", key) in named:
            raise RuntimeError(
                f"Same tensor is fed by two hooks: {getattr(key, 'name', key)!r}. "
                "Remove one of the hooks, or let one of them feed another tensor."
            )
        feed_dict[key] = value
