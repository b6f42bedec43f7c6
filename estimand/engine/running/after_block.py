"""What hooks fetch of the last step of a block, made of what the block has given anyway.

Most looks are at the loss, a summary of it, and the number of the step. For these no step has to be
run by itself: to start one costs as much as ten of a small model, and compiled ones even more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.engine.hook_calls.fetching import FetchPlan, to_numpy
from estimand.engine.running import gates
from estimand.engine.running.compiled import SINGLE_THREAD, Compiled
from estimand.engine.tracing.trace import Trace
from estimand.engine.variables import effects

Fetch = Callable[[tf.Tensor, int], Any]


class AfterBlock:
    """Of the result of a block's last step, and the global step after it, to what is fetched."""

    def __init__(self, trace: Trace, result: tf.Tensor, targets: gates.Targets) -> None:
        self._trace, self._result, self._targets = trace, result, targets
        self._possible: dict[Any, bool] = {}
        self._compiled: dict[Any, Compiled] = {}

    def fetch(self, plan: FetchPlan) -> Fetch | None:
        """What makes the fetches; None: it takes the step itself."""
        if plan.key not in self._possible:
            self._possible[plan.key] = self._suffices_for(plan)
        if not self._possible[plan.key]:
            return None
        return lambda result, step: self._made_of(plan, result, step)

    def _suffices_for(self, plan: FetchPlan) -> bool:
        if any(variable is not self._trace.global_step for variable in plan.reads):
            return False
        if plan.reads and not self._counts_by_one():
            return False
        return _follow_from(self._result, plan.graph_fetches)

    def _counts_by_one(self) -> bool:
        """Whether each step moves the global step by one, whatever it computes."""
        writers = effects.writes_to(self._trace.graph, [self._trace.global_step])
        if [op.type for op in writers] != ["AssignAddVariableOp"]:
            return False
        in_step = any(op.name == writers[0].name for op in gates.needed(self._targets))
        return in_step and tf.get_static_value(writers[0].inputs[1]) == 1

    def _made_of(self, plan: FetchPlan, result: tf.Tensor, step: int) -> Any:
        kind = self._trace.global_step.dtype.as_numpy_dtype
        reads = [kind(step - 1) for _ in plan.reads]  # the value before the update
        values: Sequence[tf.Tensor] = [result] * len(plan.graph_fetches)
        if any(fetch is not self._result for fetch in plan.graph_fetches):
            values = self._function(plan, result)(result)
        return plan.rebuild(reads, [to_numpy(value) for value in values])

    def _function(self, plan: FetchPlan, result: tf.Tensor) -> Compiled:
        def build(value: tf.Tensor) -> list[tf.Tensor]:
            return self._trace.place(plan.graph_fetches, [self._result], [value])

        key = (plan.key, self._trace.binding)
        if key not in self._compiled:
            self._compiled[key] = Compiled(build, SINGLE_THREAD, result)
        return self._compiled[key]


def _follow_from(tensor: tf.Tensor, fetches: Sequence[tf.Tensor | tf.Operation]) -> bool:
    """Whether everything can be computed from the value of one tensor of the graph."""
    if any(isinstance(fetch, tf.Operation) for fetch in fetches):
        return False
    left, seen = list(fetches), set[str]()
    while left:
        element = left.pop()
        if element is tensor or element.name in seen:
            continue
        seen.add(element.name)
        op = element if isinstance(element, tf.Operation) else element.op
        if op.type.startswith("Placeholder") or op.op_def is None or op.op_def.is_stateful:
            return False  # part of the batch, a variable, or something that happens
        left += [*op.inputs, *op.control_inputs]
    return True
