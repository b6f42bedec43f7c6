"""Running a model function eagerly, step by step, so that it can be debugged.

Prints, breakpoints and exceptions happen at the user's own line, on real values. v1 code needs
help for that (`lending`); what it writes is written when it is asked for (`eager_writes`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ModelFnError
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.core.tf_private import kerases
from estimand.engine.distribution import Distribution, Stop
from estimand.engine.eager import summaries as eager_summaries
from estimand.engine.eager.lending import Metrics, Step, lent_to, step_under_way
from estimand.engine.eager.summaries import StepSummaries
from estimand.engine.tracing import random_bodies, randomness
from estimand.engine.tracing.trace import building_scopes
from estimand.engine.variables import eager_writes as eager_writes
from estimand.engine.variables import effects
from estimand.engine.variables.engine_variable import EngineVariable
from estimand.engine.variables.store import VariableStore
from estimand.engine.variables.traced_variables import TracedVariables

_v1 = tf.compat.v1


@dataclass
class EagerTrace:
    """One call of a model function that runs eagerly; answers as a traced one does."""

    runs_eagerly: ClassVar[bool] = True
    # It never runs beside others.
    distribution: ClassVar[Distribution] = Distribution()
    has_remote_variables: ClassVar[bool] = False

    mode: str
    spec: EstimatorSpec
    variables: TracedVariables
    global_step: tf.Variable
    # Of variables made outside of the model function: what they held before this step.
    outside_values: dict[str, tf.Tensor] = field(default_factory=dict)
    kept: StepSummaries = field(default_factory=StepSummaries)
    # Of all others, by their identity.
    at_start: dict[int, tf.Tensor] = field(default_factory=dict)
    draws: randomness.Draws | None = None
    stop: Stop = field(default_factory=Stop)

    @property
    def graph(self) -> tf.Graph:
        """Holds its collections, and no ops."""
        return self.variables.graph

    @contextlib.contextmanager
    def as_default(self) -> Iterator[tf.Graph]:
        """Eager mode, in which `tf.compat.v1.train.get_global_step()` finds the model's."""
        with self.graph.as_default(), tf_private.eager_mode():
            yield self.graph

    at_a_look = as_default

    def step_now(self) -> int:
        return int(self.global_step.numpy())

    def value_before(self, name: str) -> tf.Tensor:
        """What a variable held before this step."""
        outside = self.outside_values.get(name)
        variable = self.variables.by_name[name]
        return eager_writes.value_before(variable, self.at_start) if outside is None else outside

    def collection(self, name: str) -> list[Any]:
        return list(dict.fromkeys(self.graph.get_collection(name)))


@dataclass
class EagerRunner:
    """Calls a model function once per batch; variables and metrics live on between calls."""

    call_model_fn: Callable[[Any, Any, str], EstimatorSpec]
    create_global_step: Callable[[tf.Graph], tf.Variable]
    store: VariableStore
    mode: str
    seed: int | None = None
    _local: dict[str, EngineVariable] = field(default_factory=dict)
    _metrics: Metrics = field(default_factory=Metrics)
    # What steps have made so far: a step does not ask for all of it (in a branch not taken).
    _made: dict[str, tf.Variable] = field(default_factory=dict)
    draws: randomness.Draws = field(default_factory=randomness.Draws)

    def run(self, features: Any, labels: Any) -> EagerTrace:
        """One step: whatever the model function does has been done when this returns."""
        training = self.mode == ModeKeys.TRAIN
        at_start = self.store.values() if training else {}
        with (
            tf_private.fresh_eager_scope() as graph,
            building_scopes(self.seed),
            self.store.tracing(graph, keep_local=self._local) as variables,
            tf.GradientTape(persistent=True) as tape,
            eager_writes.kept_until_asked_for(training, at_start) as writes,
            eager_summaries.kept() as kept,
            self._random_numbers(graph),
        ):
            global_step = self.create_global_step(graph)
            next_step = global_step.read_value() + 1
            with lent_to(Step(tape, variables, self._metrics, writes, next_step)):
                spec = self.call_model_fn(features, labels, self.mode)
                if training:
                    with tape.stop_recording():
                        eager_writes.ask_for(spec.train_op)
                    self._tell_unwired(graph)
        made_inside = set(variables.by_name)
        self.store.adopt_foreign(variables)
        counters = self._metrics.counters
        variables.metric_owned |= {n for n, v in variables.by_name.items() if id(v) in counters}
        values = tf_private.first_read_values(graph)
        outside = {n: v for n, v in variables.by_name.items() if n not in made_inside}
        outside_values = {n: values[id(v)] for n, v in outside.items()}
        if training:
            variables.by_name = {**self.store.expected, **self._made, **variables.by_name}
            self._made = variables.saved()
        return EagerTrace(
            self.mode, spec, variables, global_step, outside_values, kept, at_start, self.draws
        )

    def _tell_unwired(self, graph: tf.Graph) -> None:
        if not self._made:  # the first step
            updates = graph.get_collection(_v1.GraphKeys.UPDATE_OPS)
            effects.tell_unwired([u for u in eager_writes.all_of(updates) if not u.done])

    @contextlib.contextmanager
    def _random_numbers(self, graph: tf.Graph) -> Iterator[None]:
        """In training, those of a step depend on how many were run before, as in a trace."""
        if self.mode != ModeKeys.TRAIN or self.seed is None:
            yield
            return
        with tf_private.seeds_of_step(self.seed), random_bodies.keyed_by(self.draws, graph, 0):
            yield

    def start_anew(self) -> None:
        """Forget metrics and local variables, as at the start of an evaluation."""
        self._local.clear()
        self._metrics.clear()

    def go_on_with(self, local: Mapping[str, EngineVariable]) -> None:
        """Local variables of an interrupted run, those of metrics too, keep their values."""
        self._local.update(local)


def minimize(optimizer: Any, loss: tf.Tensor, variables: Sequence[Any] | None) -> Any:
    """`est.minimize` in eager mode."""
    step = step_under_way()
    if step is None:
        raise ModelFnError(
            "est.minimize was called eagerly, outside of a model function. Call it inside "
            "model_fn; to debug it step by step, set RunConfig(run_eagerly=True)."
        )
    if not step.writes.training:  # built in all modes, run in training only
        return tf.constant(True)
    known = step.variables.keras_variables
    if variables is None:
        chosen = step.variables.graph.get_collection(_v1.GraphKeys.TRAINABLE_VARIABLES)
        seen = {id(v) for v in chosen}
        chosen += [v for v in step.tape.watched_variables() if id(v) not in seen]
        variables = [known.get(id(v), v) for v in chosen]
    plain = [v if isinstance(v, tf.Variable) else v.value for v in variables]
    updates = []
    if isinstance(optimizer, _v1.train.Optimizer):
        updates = [optimizer.minimize(loss, var_list=plain)]
    else:
        loss = scaled_loss(optimizer, loss, variables)
        with step.tape.stop_recording(), eager_writes.at_once():
            gradients = step.tape.gradient(loss, plain)
            pairs = trained_pairs(gradients, variables)
            keras = kerases.of(optimizer) or kerases.KERAS3  # whose face others have
            targets = [v for _, v in pairs]
            if not getattr(optimizer, "built", True):  # in no scope of its own, as in a trace
                keras.build(optimizer, targets)
            keras.apply(optimizer, [g for g, _ in pairs], targets)
            summarise_learning_rate(optimizer)
    global_step = _v1.train.get_or_create_global_step()
    advanced = global_step.assign(step.next_step, read_value=False)
    return eager_writes.grouped([*updates, advanced]) or tf.constant(True)


def trained_pairs(gradients: Sequence[Any], variables: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The variables that a loss depends on, with their gradients; there has to be one."""
    pairs = [(g, v) for g, v in zip(gradients, variables, strict=True) if g is not None]
    if not pairs:
        raise ModelFnError(
            "est.minimize: the loss depends on none of the trainable variables "
            f"({', '.join(v.name for v in variables[:5]) or 'there are none'}). Compute it from "
            "what layers or variables of this model_fn give; tf.argmax, tf.round, comparisons and "
            "integers let no gradient through."
        )
    return pairs


def summarise_learning_rate(optimizer: Any) -> None:
    rate = getattr(optimizer, "learning_rate", None)
    if rate is not None and not callable(rate):
        _v1.summary.scalar("learning_rate", tf.convert_to_tensor(rate))


def scaled_loss(optimizer: Any, loss: tf.Tensor, variables: Sequence[Any]) -> tf.Tensor:
    """The loss as the optimizer wants it: one that unscales gradients has to scale it first."""
    if not hasattr(optimizer, "scale_loss"):
        return loss
    if hasattr(optimizer, "initial_scale") and not optimizer.built:
        optimizer.build(list(variables))  # only then it knows the scale it has arrived at
    return optimizer.scale_loss(loss)
