"""What the ready-made hooks share: their loop, when they look, and how they find the step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError
from estimand.engine.hook_calls import fetching
from estimand.engine.hook_calls.cadence import Cadence
from estimand.engine.hook_calls.runner import LoopBound, RunningLoop

_train = tf.compat.v1.train
_CALLED_AT_STEPS = ("before_run", "after_run", "cadence")


class LoopHook(LoopBound, tf.compat.v1.train.SessionRunHook):
    """A hook that knows the loop it runs in and says when it looks.

    It also works where there is no such loop, in a v1 `MonitoredSession` or driven by hand: then
    it is called at every step and finds out by itself when it is due.
    """

    cadence: Any = None
    # The cadence as v1 code knows it: for subclasses that ask it, and where no loop keeps the time.
    _timer: Any = None
    _loop: Any = None
    _global_step_tensor: Any = None

    def bind(self, loop: RunningLoop) -> None:
        """Take the loop that is about to run; called before `begin`."""
        self._loop = loop

    def begin(self) -> None:
        graph = getattr(getattr(self._loop, "trace", None), "graph", None)
        if graph is not None and graph is not tf.compat.v1.get_default_graph():
            self._loop = None  # it is that of an earlier run; this one, an evaluation, has none
        if self._timer is not None:
            self._timer.reset()

    def _look_every(
        self,
        *,
        steps: int | None,
        secs: float | None,
        names: tuple[str, str],
        at_start: bool = True,
        aligned: bool = False,
    ) -> None:
        """Declare to look every so many steps, or seconds; `names` are those of the arguments."""
        _check_period(steps, secs, names)
        self._timer = _train.SecondOrStepTimer(every_secs=secs, every_steps=steps)
        self._look(Cadence(steps, secs, at_start, aligned=aligned and steps is not None))

    def _look(self, cadence: Cadence | str) -> None:
        """Declare when to look.

        A subclass that brings its own before_run or after_run was written to be called at every
        step, and one that names a cadence knows better: both are left alone.
        """
        for kind in type(self).__mro__:
            if kind.__module__.startswith("estimand.hooks."):
                break
            if any(name in vars(kind) for name in _CALLED_AT_STEPS):
                return
        self.cadence = cadence

    def _called_when_due(self, session: tf.compat.v1.Session) -> bool:
        """Whether somebody else keeps the time: every call is then a wanted one."""
        paced = self._loop is not None or getattr(session, "calls_hooks_when_due", False)
        return paced and isinstance(self.cadence, Cadence)

    @property
    def _run_eagerly(self) -> bool:
        """Whether the model runs step by step in Python: there is no graph to look into."""
        return self._loop is not None and self._loop.trace.runs_eagerly

    def _find_global_step(self) -> None:
        if self._loop is not None:
            self._global_step_tensor = self._loop.trace.global_step
            return
        self._global_step_tensor = _train.get_global_step()
        if self._global_step_tensor is None:
            name = type(self).__name__
            raise RuntimeError(
                f"Global step should be created to use {name}. Call "
                "tf.compat.v1.train.get_or_create_global_step() while building the graph."
            )

    def _step_now(self, session: tf.compat.v1.Session) -> int:
        """The global step after everything that has run so far."""
        if self._loop is not None:
            return int(self._loop.global_step())
        return int(session.run(self._global_step_tensor))

    def _resolve(self, element: Any) -> Any:
        """The graph element a user meant; the bare name of an op means its only output."""
        if self._run_eagerly:
            return element
        bound = self._loop is not None
        graph = self._loop.trace.graph if bound else tf.compat.v1.get_default_graph()
        if not isinstance(element, str):
            return _of_this_graph(element, graph)
        if ":" in element:
            return self._checked_name(element)
        try:
            outputs = graph.get_operation_by_name(element).outputs
        except KeyError:
            return self._checked_name(element)  # the name of a variable, or of nothing
        if not outputs:
            raise ConfigError(f"The op {element!r} has no output, so there is no value to look at.")
        if len(outputs) > 1:
            raise ConfigError(
                f"Name {element} is ambiguous, as this `Operation` has multiple outputs "
                f"({len(outputs)}). Write {element + ':0'!r} for the first."
            )
        return outputs[0]

    def _checked_name(self, name: str) -> str:
        if self._loop is not None:
            fetching.plan(self._loop.trace, name)  # says now, and well, if there is no such thing
        return name


def _check_period(steps: int | None, secs: float | None, names: tuple[str, str]) -> None:
    if steps is None and secs is None:
        raise ConfigError(
            "Either every_secs or every_steps should be provided. "
            f"Pass one of {names[0]}= and {names[1]}=."
        )
    if steps is not None and secs is not None:
        raise ConfigError(
            "Can not provide both every_secs and every_steps. "
            f"Got {names[0]}={steps} and {names[1]}={secs}; drop one."
        )
    if steps is not None and steps < 1:
        raise ConfigError(f"{names[0]} must be a positive number of steps, got {steps}.")
    if secs is not None and secs < 0:
        raise ConfigError(f"{names[1]} must be a number of seconds, got {secs}.")


def _of_this_graph(element: Any, graph: tf.Graph) -> Any:
    symbolic = isinstance(element, (tf.Tensor, tf.Operation)) and not hasattr(element, "numpy")
    if symbolic and element.graph is not graph:
        raise ConfigError(
            f"Passed {element} should have graph attribute that is equal to current graph {graph}. "
            "It was made by another call of model_fn: make the hook inside model_fn and return it "
            "in the EstimatorSpec, or give the tensor by its name."
        )
    return element
