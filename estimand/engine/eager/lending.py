"""Forms of v1 functions that work eagerly, lent to a model function while it runs.

v1 optimizers take the gradient of a tensor, which only a tape that watched the whole function can
give; v1 metrics refuse to be called; what makes an op has none to return. And what v1 code writes
waits until something asks for it (`eager_writes`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.first_values import note_first_value
from estimand.core.interpreter.swapping import Swap, swapped
from estimand.engine.variables import eager_writes as eager_writes
from estimand.engine.variables.store import VariableStore
from estimand.engine.variables.traced_variables import TracedVariables

_v1 = tf.compat.v1
_active = threading.local()
# Python functions run inside of these, in program order, as they do in a graph.
_WITH_BODIES = (
    "case", "cond", "foldl", "foldr", "map_fn", "numpy_function", "py_func", "py_function",
    "scan", "switch_case", "while_loop",
)  # fmt: skip


@dataclass
class Metrics:
    """The v1 metrics of a run: each keeps its variables from step to step."""

    calls: list[Callable[..., Any]] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)  # by the number of the call and name
    counters: set[int] = field(default_factory=set)  # ids of their variables

    def clear(self) -> None:
        self.calls.clear()
        self.variables.clear()


@dataclass
class Step:
    """The model function call that is under way."""

    tape: tf.GradientTape
    variables: TracedVariables
    metrics: Metrics
    writes: eager_writes.Writes
    next_step: tf.Tensor
    metric_calls: int = 0


def step_under_way() -> Step | None:
    """The step whose model function is running eagerly in this thread."""
    return getattr(_active, "step", None)


@contextlib.contextmanager
def lent_to(step: Step) -> Iterator[None]:
    """Around the model function."""
    with swapped(_replacements(step)):
        _active.step = step
        try:
            yield
        finally:
            del _active.step


def _replacements(step: Step) -> list[Swap]:
    metric_names = [n for n in dir(_v1.metrics) if not n.startswith("_")]
    metrics = [n for n in metric_names if callable(getattr(_v1.metrics, n))]
    scatters = [n for n in dir(_v1) if n.startswith(("scatter_", "batch_scatter_"))]
    both = [
        ("gradients", _tape_tf_gradients),
        ("group", _group),
        ("no_op", _something_to_return),
        ("control_dependencies", _asking_for),
        *((name, _in_program_order) for name in _WITH_BODIES),
    ]
    return [
        (_v1.train.Optimizer, "compute_gradients", _tape_gradients),
        (_v1.train.Optimizer, "apply_gradients", _applied_later),
        tf_private.averages_start_from(step.writes.value_at_start),
        (_v1.train.ExponentialMovingAverage, "apply", _one_op_for_all),
        *tf_private.losses_are_collected(),
        *((_v1, name, _scattered_later) for name in scatters if hasattr(_v1, name)),
        *((module, name, make) for name, make in both for module in (tf, _v1)
          if hasattr(module, name)),
        *((_v1.metrics, name, _eager_metric) for name in metrics),
        *((_v1.summary, name, _nothing_to_merge) for name in ("merge", "merge_all")),
    ]  # fmt: skip


# What is written


def _group(original: Callable[..., Any]) -> Callable[..., Any]:
    def group(*inputs: Any, **kwargs: Any) -> Any:
        later = eager_writes.grouped(inputs)
        return _something_to_return(original)(*inputs, **kwargs) if later is None else later

    return group


def _something_to_return(original: Callable[..., Any]) -> Callable[..., Any]:
    """Done at once, these return None in eager mode; a train_op has to be something."""

    def call(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        return tf.constant(True) if result is None and tf.executing_eagerly() else result

    return call


def _asking_for(original: Callable[..., Any]) -> Callable[..., Any]:
    """What is made inside comes after. In training it is taken to be asked for itself."""

    def control_dependencies(control_inputs: Any) -> Any:
        writes = eager_writes.keeping()
        if writes is None or control_inputs is None:
            return original(control_inputs)
        if writes.training:
            eager_writes.ask_for(list(control_inputs))
        return contextlib.nullcontext()

    return control_dependencies


def _in_program_order(original: Callable[..., Any]) -> Callable[..., Any]:
    """Branches and bodies of loops: what they write is written where it stands."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if not tf.executing_eagerly():
            return original(*args, **kwargs)
        with eager_writes.at_once():
            return original(*args, **kwargs)

    return call


def _applied_later(original: Callable[..., Any]) -> Callable[..., Any]:
    """An optimizer's slots are made now, its updates when they are asked for.

    A model function may build its train_op in all modes; only training runs it.
    """

    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        writes = eager_writes.under_way()
        if writes is None:
            return original(self, grads_and_vars, *args, **kwargs)
        if not writes.training:
            return tf.constant(True)
        pairs = list(grads_and_vars)
        trained = [variable for gradient, variable in pairs if gradient is not None]

        def apply() -> Any:
            return original(self, pairs, *args, **kwargs)

        if writes.depth_at_once or not trained:  # TensorFlow says what is wrong with the latter
            return _something_to_return(apply)()
        with tf.init_scope():
            self._create_slots(trained)
        return writes.keep(apply, self.get_name())

    return apply_gradients


def _scattered_later(original: Callable[..., Any]) -> Callable[..., Any]:
    """`tf.compat.v1.scatter_add(variable, ...)` and its kin, which go past its methods."""

    def scatter(ref: Any, *args: Any, **kwargs: Any) -> Any:
        writes = eager_writes.keeping()
        if writes is None or not hasattr(ref, "of_keras"):  # none of ours
            return original(ref, *args, **kwargs)
        later = writes.keep(lambda: original(ref, *args, **kwargs), f"{ref.name}/scatter")
        return tf_private.read_after(ref, later)

    return scatter


def _one_op_for_all(original: Callable[..., Any]) -> Callable[..., Any]:
    """Several writes behind one op, of which TensorFlow returns nothing in eager mode."""

    def call(*args: Any, **kwargs: Any) -> Any:
        writes = eager_writes.keeping()
        if writes is None:
            return _something_to_return(original)(*args, **kwargs)
        first = len(writes.laters)
        original(*args, **kwargs)
        return eager_writes.grouped(writes.laters[first:]) or tf.constant(True)

    return call


def _nothing_to_merge(original: Callable[..., Any]) -> Callable[..., Any]:
    """v1 summaries are empty in eager mode, and so is what they are merged into."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return tf.constant(b"") if tf.executing_eagerly() else original(*args, **kwargs)

    return call


# Gradients


def _tape_gradients(original: Callable[..., Any]) -> Callable[..., Any]:
    def compute_gradients(
        self: Any, loss: Any, var_list: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        step = step_under_way()
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
        step = step_under_way()
        if step is None or not tf.executing_eagerly():
            return original(ys, xs, grad_ys, *args, **kwargs)
        with step.tape.stop_recording():
            return step.tape.gradient(ys, tf.nest.flatten(xs), output_gradients=grad_ys)

    return gradients


# Metrics


def _eager_metric(original: Callable[..., Any]) -> Callable[..., Any]:
    """A v1 metric called eagerly: its graph is built once, and its update is run at each call."""

    def metric(*args: Any, **kwargs: Any) -> Any:
        step = step_under_way()
        if step is None or not tf.executing_eagerly():
            return original(*args, **kwargs)
        leaves = tf.nest.flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if tf.is_tensor(leaf)]
        number = step.metric_calls
        step.metric_calls += 1
        known = step.metrics.calls
        if number == len(known):
            known.append(_build_metric(original, args, kwargs, step))
        step.variables.local.update(step.metrics.variables)
        with step.tape.stop_recording():
            return known[number](tensors)

    return metric


def _build_metric(
    original: Callable[..., Any], args: Any, kwargs: Any, step: Step
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
    step.metrics.counters |= {id(v) for v in built["variables"].by_name.values()}
    _start_metric(built["variables"].by_name, step)

    def call(tensors: list[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        assert keep
        updated = run_update(*tensors)[0]
        return read_value()[0], updated

    return call


def _start_metric(variables: Mapping[str, Any], step: Step) -> None:
    """At its first value, or at the one that an interrupted run had come to."""
    for name, variable in variables.items():
        key = f"metrics/{len(step.metrics.calls)}/{name}"
        note_first_value(variable)
        held = (step.variables.kept_local or {}).pop(key, None)
        if held is not None:
            with eager_writes.at_once():
                variable.assign(held.read_value())
        step.metrics.variables[key] = variable
