"""From a model function to one traced graph per mode.

The model function is called once, in graph-building mode, against the element spec of its
input. What it returns is symbolic; `Trace.prune` cuts out of the graph exactly what is wanted
(the training step, a metric's value, whatever a hook fetches) as a callable function, the way a
v1 `Session.run` would.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.interpreter import garbage
from estimand.core.interpreter.swapping import alone
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.core.tf_private.non_slot_variables import non_slot_variables_of_any_graph
from estimand.engine.distribution import Distribution, Stop
from estimand.engine.feeding.batches import flatten_batch, pack_batch
from estimand.engine.metrics import MetricSet
from estimand.engine.rewriting.inlining import GraphCopy
from estimand.engine.tracing import keras2_methods, random_bodies, randomness, summaries
from estimand.engine.tracing.imported_graphs import ImportedGraphs
from estimand.engine.tracing.inner_sessions import InnerSessions
from estimand.engine.tracing.model_fn_results import checked_spec
from estimand.engine.tracing.usage import Usage
from estimand.engine.variables import by_graph_name, effects, one_part
from estimand.engine.variables.placement import copies
from estimand.engine.variables.store import VariableStore
from estimand.engine.variables.traced_variables import TracedVariables
from estimand.engine.variables.twins import twin_of

CallModelFn = Callable[[Any, Any, str], EstimatorSpec]


@dataclass
class Trace:
    """A model function built for one mode and one kind of batch."""

    runs_eagerly: ClassVar[bool] = False

    mode: str
    graph: tf.Graph
    wrapped: Any
    spec: EstimatorSpec
    inputs: list[tf.Tensor]
    variables: TracedVariables
    global_step: tf.Variable
    distribution: Distribution
    stop: Stop
    has_remote_variables: bool = False  # the variables are on another device than that of functions
    owner: str = ""  # of tables, queues and the like
    step_effects: list[tf.Operation] = field(default_factory=list)
    tensor_summaries: list[summaries.TensorSummary] = field(default_factory=list)
    summary_op: tf.Tensor | None = None
    tables_ready: bool = False
    initialized: bool = False
    data_checked: bool = False
    kept: list[Any] = field(default_factory=list)
    metrics: MetricSet | None = None
    draws: randomness.Draws | None = None  # where there are random ops
    usage: Usage = field(default_factory=Usage)
    # Grows when the trace gets variables of its own: what was cut out before uses the old ones.
    binding: int = 0
    _copy: GraphCopy | None = None
    _pruned: dict[tuple[str, ...], Any] = field(default_factory=dict)

    def prune(
        self, fetches: Sequence[tf.Tensor | tf.Operation], feeds: Sequence[tf.Tensor] = ()
    ) -> Callable[..., list[tf.Tensor]]:
        """A function from `feeds` to the tensors among `fetches`, running the ops among them."""
        key = (*(f.name for f in feeds), "->", *(f.name for f in fetches))
        if key not in self._pruned:
            self._pruned[key] = self.wrapped.prune(list(feeds), list(fetches))
        function = self._pruned[key]
        tensors = [i for i, f in enumerate(fetches) if not isinstance(f, tf.Operation)]

        def call(*values: tf.Tensor) -> list[tf.Tensor]:
            results = function(*values)
            return [results[i] for i in tensors]

        return call

    def place(
        self,
        fetches: Sequence[tf.Tensor | tf.Operation],
        feeds: Sequence[tf.Tensor],
        values: Sequence[tf.Tensor],
        rewrite: Callable[[Any], Any] | None = None,
    ) -> list[tf.Tensor]:
        """Copy what `fetches` need into the function being built; its tensors among them.

        Ops among `fetches` run too: automatic control dependencies see to that.
        """
        placed = self._graph_copy().place(fetches, feeds, values, rewrite)
        tensors = []
        for original, copy in zip(fetches, placed, strict=True):
            if not isinstance(copy, tf.Operation):
                copy.set_shape(original.shape)  # what user code told by set_shape is in no op
                tensors.append(copy)
        return tensors

    def part(
        self, fetches: Iterable[tf.Tensor | tf.Operation], shapes: Sequence[tf.TensorShape]
    ) -> Any | None:
        """What `place` would copy for batches of these shapes; None: they do not fit the model."""
        batch = {tensor.name: shape for tensor, shape in zip(self.inputs, shapes, strict=True)}
        wanted = [f.name for f in fetches if f.name not in batch]
        part, fits = self._graph_copy().part(wanted, batch)
        return part if fits else None

    def _graph_copy(self) -> GraphCopy:
        if self._copy is None or self._copy.size != len(self.graph.get_operations()):
            self._copy = GraphCopy(self.graph)
        return self._copy

    def keep_values(self) -> None:
        """Go on with the present values, whatever others do to the variables from now on.

        Local variables belong to this trace anyway.
        """
        variables, used = self.variables, {id(outer) for outer, _ in self.graph.captures}  # type: ignore[attr-defined]
        for name, variable in variables.saved().items():
            captured = any(id(copy.handle) in used for copy in copies(variable))
            if captured or variable is self.global_step:
                twin = variables.by_name[name] = twin_of(variable)
                variables.twins.add(variable, twin)
                if name in variables.tf2_style:
                    variables.tf2_style[name] = twin
        variables.twins.bind(self.graph)
        self.global_step = variables.twins.own(self.global_step)
        self._copy = None
        self._pruned.clear()
        self.binding += 1

    @functools.cached_property
    def writes_while_reading(self) -> bool:
        """Whether evaluating or predicting with it changes variables that training goes on with."""
        if self.metrics is not None:
            results = [self.spec.loss, *self.metrics.updates()]
        else:
            results = tf.nest.flatten(self.spec.predictions)
        return self.writes_to_saved(results)

    def writes_to_saved(self, fetches: Sequence[tf.Tensor | tf.Operation]) -> bool:
        """Whether computing `fetches` changes variables that are saved."""
        run = effects.ancestors(getattr(f, "op", f) for f in fetches)
        writes = effects.writes_to(self.graph, self.variables.saved().values())
        return any(op.name in run for op in writes)

    def step_now(self) -> int:
        """The global step; `numpy()` takes four times as long, and it is asked for often."""
        step = copies(self.global_step)[0]
        return int(tf.raw_ops.ReadVariableOp(resource=step.handle, dtype=step.dtype))

    def needs_input(self, fetches: Sequence[tf.Tensor | tf.Operation]) -> bool:
        """Whether computing `fetches` needs a batch."""
        needed = effects.ancestors(getattr(f, "op", f) for f in fetches)
        return any(t.op.name in needed for t in self.inputs)

    @contextlib.contextmanager
    def as_default(self) -> Iterator[tf.Graph]:
        """Make this graph the default one, for hooks that look things up or add ops.

        What they add is built, and kept, as the model function's own ops were.
        """
        graph = self.graph
        size = len(graph.get_operations())
        with (
            building_for_any_executor(self.distribution, self.has_remote_variables),
            tf_private.kept_resources() as kept,
            graph.as_default(),
        ):
            yield graph
        self.kept += kept
        effects.name_resources(graph, self.owner, after=size)

    def at_a_look(self) -> contextlib.AbstractContextManager[tf.Graph]:
        """The graph as default one, without what a function graph sets up to be built further.

        At every look this would cost more than the hooks themselves.
        """
        return tf.Graph.as_default(self.graph)

    def collection(self, name: str) -> list[Any]:
        return list(dict.fromkeys(self.graph.get_collection(name)))


def trace_model(
    call_model_fn: CallModelFn,
    mode: str,
    element_spec: tuple[Any, Any],
    store: VariableStore,
    *,
    seed: int | None,
    create_global_step: Callable[[tf.Graph], tf.Variable],
    distribution: Distribution | None = None,
) -> Trace:
    """Call the model function, once for each replica, and capture everything it builds."""
    distribution = distribution or Distribution()
    training = mode == ModeKeys.TRAIN
    # Workers that do not wait for each other share nothing but the global step.
    counts_draws = training and not store.maker.are_on_servers
    call = _ModelCall(
        call_model_fn,
        mode,
        element_spec,
        store,
        seed,
        create_global_step,
        distribution,
        stop=distribution.stop() if training else Stop(),
        draws=randomness.Draws() if counts_draws else None,
    )
    signature = call.signature()
    has_remote_variables = store.maker.are_remote
    with (
        garbage.left_alone(),
        building_scopes(seed),
        building_for_any_executor(distribution, has_remote_variables),
    ):
        wrapped = tf.compat.v1.wrap_function(call.build, signature)
    graph = wrapped.graph
    trace = Trace(
        mode=mode,
        graph=graph,
        wrapped=wrapped,
        inputs=list(graph.inputs[: len(signature)]),
        distribution=distribution,
        stop=call.stop,
        draws=call.draws,
        has_remote_variables=has_remote_variables,
        owner=store.owner,
        **call.left_behind,
    )
    trace.variables.twins.bind(graph)
    effects.name_resources(graph, store.owner)
    _finish(trace)
    return trace


@dataclass(frozen=True)
class _ModelCall:
    """A model function, and the graph that it is called in.

    Attributes:
      left_behind: after `build`, the fields of a Trace that the call has made.
    """

    call_model_fn: CallModelFn
    mode: str
    element_spec: tuple[Any, Any]
    store: VariableStore
    seed: int | None
    create_global_step: Callable[[tf.Graph], tf.Variable]
    distribution: Distribution
    stop: Stop
    draws: randomness.Draws | None
    left_behind: dict[str, Any] = field(default_factory=dict)

    def signature(self) -> list[tf.TensorSpec]:
        """The tensors of a batch for each replica, one after the other."""
        specs = flatten_batch(*self.element_spec) * self.distribution.replicas
        return [
            tf.TensorSpec(spec.shape, spec.dtype, name=f"estimand_input_{number}")
            for number, spec in enumerate(specs)
        ]

    def build(self, *flat_inputs: tf.Tensor) -> list[tf.Tensor]:
        graph = tf.compat.v1.get_default_graph()
        tf_private.order_control_flow_bodies(graph)
        tf_private.tell_tensors_apart(graph)
        tf_private.collect_only_table_ops_of(graph)
        if self.seed is not None:
            tf.compat.v1.set_random_seed(self.seed)
        training = self.mode == ModeKeys.TRAIN
        with (
            self.distribution.entered(),
            self.store.tracing(graph, training=training) as variables,
            summaries.collect_v2_summaries() as tensor_summaries,
            tf_private.kept_resources() as kept,
            ImportedGraphs(self.store, variables, self.distribution.replicas).importing(),
            InnerSessions(variables).opened(),
            _keyed(self.draws, graph, self.distribution.team.number),
        ):
            by_graph_name.let_find(graph, variables.by_name)
            global_step = self.create_global_step(graph)
            replica = functools.partial(self._replica, flat_inputs, variables)
            spec, metrics = self.distribution.call(replica, self.stop)
            self.store.adopt_foreign(variables, metrics.variables() if metrics is not None else ())
            if metrics is not None:
                metrics.own(variables)
            self.left_behind.update(
                spec=spec,
                variables=variables,
                global_step=global_step,
                tensor_summaries=tensor_summaries,
                kept=kept,
                metrics=metrics,
                summary_op=summaries.merged_summary(graph, spec) if training else None,
            )
        return []

    def _replica(
        self, flat_inputs: Sequence[tf.Tensor], variables: TracedVariables, number: int
    ) -> tuple[EstimatorSpec, MetricSet | None]:
        """The model function on the batch of replica `number`."""
        size = len(flat_inputs) // self.distribution.replicas
        mine = flat_inputs[number * size : (number + 1) * size]
        features, labels = pack_batch(self.element_spec, mine)
        with self.store.maker.partitioning(), one_part.found_whole(variables.by_name):
            spec = checked_spec(self.call_model_fn(features, labels, self.mode), self.mode)
        return spec, MetricSet.of(spec, variables) if self.mode == ModeKeys.EVAL else None


def _keyed(draws: randomness.Draws | None, graph: tf.Graph, worker: int) -> Any:
    if draws is None:
        return contextlib.nullcontext()
    return random_bodies.keyed_by(draws, graph, worker)


@contextlib.contextmanager
def building_for_any_executor(
    distribution: Distribution, has_remote_variables: bool
) -> Iterator[None]:
    """Functions and control flow that run as they are, whichever executor is chosen."""
    with contextlib.ExitStack() as stack:
        if not has_remote_variables:
            stack.enter_context(tf_private.calls_as_they_are())
        if not (distribution.is_strategy or has_remote_variables):
            # The single-threaded one knows one device only.
            stack.enter_context(tf_private.single_threaded_tracing())
        yield


@contextlib.contextmanager
def building_scopes(seed: int | None) -> Iterator[None]:
    """What holds while a model function runs, traced or eager."""
    # Keras draws the seeds of unseeded initializers from Python's generator: make them follow
    # tf_random_seed, and leave the user's own stream where it was.
    with alone():
        state = random.getstate()
        if seed is not None:
            random.seed(seed)
        try:
            with (
                tf_private.fresh_keras_names(),
                tf_private.keras_takes_tensors_as_rates(),
                tf_private.short_sequences_without_loop(),
                tf_private.v1_summaries_stay_v1(),
                tf_private.like_a_v1_graph(),
                keras2_methods.lent(),
                non_slot_variables_of_any_graph(),
            ):
                yield
        finally:
            random.setstate(state)


def _finish(trace: Trace) -> None:
    """What must hold of the graph before anything is cut out of it."""
    graph, variables = trace.graph, trace.variables
    trace.distribution.finish(graph)
    writes = effects.order_program_effects(graph, variables.tf2_style.values())
    if trace.mode == ModeKeys.TRAIN:
        trace.step_effects = writes
        train_op = trace.spec.train_op
        needed = effects.ancestors([getattr(train_op, "op", train_op), *writes])
        effects.warn_about_unwired_updates(graph, needed)
        others = [v for v in variables.by_name.values() if v is not trace.global_step]
        effects.order_overwriting(graph, others, needed)
        randomness.warn_about_uncovered_ops(needed.values())
        worker = trace.distribution.team.number
        randomness.key_random_ops(graph, trace.draws or trace.global_step, worker)
        if trace.draws is not None and not trace.draws.in_use:
            trace.draws = None  # nothing to count for
