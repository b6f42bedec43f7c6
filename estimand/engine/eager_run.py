"""Running a model function eagerly, step by step, so that it can be debugged.

Prints, breakpoints and exceptions happen at the user's own line, on real values. v1 code needs
help for that: its optimizers take the gradient of a tensor, which only a tape that watched the
whole function can give, and its metrics refuse to be called. Both are lent an eager form while
the function runs.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ModelFnError
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.core.swapping import Swap, swapped
from estimand.engine import eager_summaries
from estimand.engine.eager_summaries import Kept
from estimand.engine.engine_variable import EngineVariable
from estimand.engine.tracing import building_scopes
from estimand.engine.variables import TracedVariables, VariableStore

_v1 = tf.compat.v1
_active = threading.local()


@dataclass
class EagerTrace:
    """What saving and restoring need to know of a model that is run eagerly."""

    mode: str
    spec: EstimatorSpec
    variables: TracedVariables
    global_step: tf.Variable
    # Of variables made outside of the model function: what they held before this step.
    outside_values: dict[str, tf.Tensor] = field(default_factory=dict)
    kept: Kept = field(default_factory=Kept)

    def collection(self, name: str) -> list[Any]:
        return list(dict.fromkeys(self.variables.graph.get_collection(name)))


@dataclass
class _Step:
    """The model function call that is under way."""

    tape: tf.GradientTape
    variables: TracedVariables
    runner: EagerRunner
    next_step: tf.Tensor
    metric_calls: int = 0


@dataclass
class EagerRunner:
    """Calls a model function once per batch; variables and metrics live on between calls."""

    call_model_fn: Callable[[Any, Any, str], EstimatorSpec]
    create_global_step: Callable[[tf.Graph], tf.Variable]
    store: VariableStore
    mode: str
    seed: int | None = None
    _local: dict[str, EngineVariable] = field(default_factory=dict)
    _metrics: list[Any] = field(default_factory=list)
    _counters: set[int] = field(default_factory=set)  # ids of the variables of v1 metrics

    def run(self, features: Any, labels: Any) -> EagerTrace:
        """One step: whatever the model function does has been done when this returns."""
        with (
            tf_private.fresh_eager_scope() as graph,
            building_scopes(self.seed),
            self.store.tracing(graph, keep_local=self._local) as variables,
            tf.GradientTape(persistent=True) as tape,
            _v1_code_runs_eagerly(),
            eager_summaries.kept() as kept,
        ):
            global_step = self.create_global_step(graph)
            _active.step = _Step(tape, variables, self, global_step.read_value() + 1)
            try:
                spec = self.call_model_fn(features, labels, self.mode)
            finally:
                del _active.step
        made_inside = set(variables.by_name)
        self.store.adopt_foreign(variables)
        counters = {n for n, v in variables.by_name.items() if id(v) in self._counters}
        variables.metric_owned |= counters
        values = tf_private.first_read_values(graph)
        outside = {n: v for n, v in variables.by_name.items() if n not in made_inside}
        outside_values = {n: values[id(v)] for n, v in outside.items()}
        return EagerTrace(self.mode, spec, variables, global_step, outside_values, kept)

    def start_anew(self) -> None:
        """Forget metrics and local variables, as at the start of an evaluation."""
        self._local.clear()
        self._metrics.clear()


def minimize(optimizer: Any, loss: tf.Tensor, variables: Sequence[Any] | None) -> tf.Tensor:
    """`est.minimize` in eager mode: apply the gradients now, advance the global step."""
    step = getattr(_active, "step", None)
    if step is None:
        raise ModelFnError(
            "est.minimize was called eagerly, outside of a model function. Call it inside "
            "model_fn; to debug it step by step, set RunConfig(run_eagerly=True)."
        )
    if step.runner.mode != ModeKeys.TRAIN:  # built in all modes, run in training only
        return tf.constant(True)
    global_step = _v1.train.get_or_create_global_step()
    known = step.variables.keras_variables
    if variables is None:
        chosen = step.variables.graph.get_collection(_v1.GraphKeys.TRAINABLE_VARIABLES)
        seen = {id(v) for v in chosen}
        chosen += [v for v in step.tape.watched_variables() if id(v) not in seen]
        variables = [known.get(id(v), v) for v in chosen]
    plain = [v if isinstance(v, tf.Variable) else v.value for v in variables]
    if isinstance(optimizer, _v1.train.Optimizer):
        optimizer.minimize(loss, var_list=plain)
        return global_step.assign(step.next_step)
    loss = scaled_loss(optimizer, loss, variables)
    with step.tape.stop_recording():
        gradients = step.tape.gradient(loss, plain)
        pairs = [(g, v) for g, v in zip(gradients, variables, strict=True) if g is not None]
        optimizer.apply([g for g, _ in pairs], [v for _, v in pairs])
        return global_step.assign(step.next_step)


def scaled_loss(optimizer: Any, loss: tf.Tensor, variables: Sequence[Any]) -> tf.Tensor:
    """The loss as the optimizer wants it: one that unscales gradients has to scale it first."""
    if not hasattr(optimizer, "scale_loss"):
        return loss
    if hasattr(optimizer, "initial_scale") and not optimizer.built:
        optimizer.build(list(variables))  # only then it knows the scale it has arrived at
    return optimizer.scale_loss(loss)


@contextlib.contextmanager
def _v1_code_runs_eagerly() -> Iterator[None]:
    with swapped(_replacements()):
        yield


def _replacements() -> list[Swap]:
    metric_names = [n for n in dir(_v1.metrics) if not n.startswith("_")]
    metrics = [n for n in metric_names if callable(getattr(_v1.metrics, n))]
    return [
        (_v1.train.Optimizer, "compute_gradients", _tape_gradients),
        (_v1.train.Optimizer, "apply_gradients", _only_in_training),
        (tf, "group", _something_to_return),
        (_v1, "group", _something_to_return),
        (tf, "gradients", _tape_tf_gradients),
        (_v1, "gradients", _tape_tf_gradients),
        *((_v1.metrics, name, _eager_metric) for name in metrics),
        *((_v1.summary, name, _nothing_to_merge) for name in ("merge", "merge_all")),
    ]


def _something_to_return(original: Callable[..., Any]) -> Callable[..., Any]:
    """Done at once, these return None in eager mode; a train_op has to be something."""

    def call(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        return tf.constant(True) if result is None and tf.executing_eagerly() else result

    return call


def _only_in_training(original: Callable[..., Any]) -> Callable[..., Any]:
    """A model function may build its train_op in all modes; only training runs it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        step = getattr(_active, "step", None)
        if step is not None and step.runner.mode != ModeKeys.TRAIN:
            return tf.constant(True)
        return _something_to_return(original)(*args, **kwargs)

    return call


def _nothing_to_merge(original: Callable[..., Any]) -> Callable[..., Any]:
    """v1 summaries are empty in eager mode, and so is what they are merged into."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return tf.constant(b"") if tf.executing_eagerly() else original(*args, **kwargs)

    return call


def _tape_gradients(original: Callable[..., Any]) -> Callable[..., Any]:
    def compute_gradients(
        self: Any, loss: Any, var_list: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        step = getattr(_active, "step", None)
        if callable(loss) or step is None:
            return original(self, loss, var_list, *args, **kwargs)
        if var_list is None:
            var_list = step.variables.graph.get_collection(_v1.GraphKeys.TRAINABLE_VARIABLES)
        variables = tf.nest.flatten(var_list)
        with step.tape.stop_recording():
            return list(zip(step.tape.gradient(loss, variables), variables, strict=True))

    return compute_gradients


def _tape_tf_gradients(original: Callable[..., Any]) -> Callable[..., Any]:
    def gradients(ys: Any, xs: Any, grad_ys: Any = None, *args: Any, **kwargs: Any) -> Any:
        step = getattr(_active, "step", None)
        if step is None or not tf.executing_eagerly():
            return original(ys, xs, grad_ys, *args, **kwargs)
        with step.tape.stop_recording():
            return step.tape.gradient(ys, tf.nest.flatten(xs), output_gradients=grad_ys)

    return gradients


def _eager_metric(original: Callable[..., Any]) -> Callable[..., Any]:
    """A v1 metric called eagerly: its graph is built once, and its update is run at each call."""

    def metric(*args: Any, **kwargs: Any) -> Any:
        step = getattr(_active, "step", None)
        if step is None or not tf.executing_eagerly():
            return original(*args, **kwargs)
        leaves = tf.nest.flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if tf.is_tensor(leaf)]
        number = step.metric_calls
        step.metric_calls += 1
        known = step.runner._metrics
        if number == len(known):
            known.append(_build_metric(original, args, kwargs, step))
        with step.tape.stop_recording():
            return known[number](tensors)

    return metric


def _build_metric(
    original: Callable[..., Any], args: Any, kwargs: Any, step: _Step
) -> Callable[[list[tf.Tensor]], tuple[tf.Tensor, tf.Tensor]]:
    leaves = tf.nest.flatten((args, kwargs))
    store = VariableStore()  # metric variables are local: nothing else shares them
    specs = [
        tf.TensorSpec([None] * leaf.shape.rank, leaf.dtype) for leaf in leaves if tf.is_tensor(leaf)
    ]
    built: dict[str, Any] = {}

    def build(*given: tf.Tensor) -> list[tf.Tensor]:
        inputs = iter(given)
        flat = [next(inputs) if tf.is_tensor(leaf) else leaf for leaf in leaves]
        new_args, new_kwargs = tf.nest.pack_sequence_as((args, kwargs), flat)
        with store.tracing(_v1.get_default_graph()) as variables:
            built["pair"] = original(*new_args, **new_kwargs)
            built["variables"] = variables
        return []

    wrapped = _v1.wrap_function(build, specs)
    value, update = built["pair"]
    inputs = wrapped.graph.inputs[: len(specs)]
    run_update = wrapped.prune(inputs, [update])
    read_value = wrapped.prune([], [value])
    keep = (built["variables"], store)
    step.runner._counters |= {id(v) for v in built["variables"].by_name.values()}

    def call(tensors: list[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        assert keep
        updated = run_update(*tensors)[0]
        return read_value()[0], updated

    return call
