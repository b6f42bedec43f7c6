"""The live model of one estimator in this process: its variables, and one trace per mode.

A trace is made once for each kind of batch and kept: evaluating or predicting again on an
unchanged checkpoint neither rebuilds nor restores anything.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ModelBusyError
from estimand.engine.distribution import Distribution
from estimand.engine.interrupts import Interrupts
from estimand.engine.saving.model_saver import ModelSaver
from estimand.engine.tracing.trace import CallModelFn, Trace, trace_model
from estimand.engine.variables.placement import copies
from estimand.engine.variables.store import VariableStore

# Each differing batch structure or static shape makes a trace of its own; more than a few
# mean that shapes vary without bound, and old ones are dropped.
_MOST_TRACES_PER_MODE = 4
_Program = TypeVar("_Program")


class LiveModel:
    """Variables and traces, shared by training, evaluation and prediction.

    Who changes the values first parts from those that read them (`part_from_readers`): an
    evaluation or prediction under way goes on with variables of its own. While the model is
    trained, only the training thread touches it; others read with a model that stands `apart`.
    """

    def __init__(
        self,
        call_model_fn: CallModelFn,
        create_global_step: Callable[[tf.Graph], tf.Variable],
        distribution: Distribution | None = None,
        *,
        apart: bool = False,
    ) -> None:
        self._call_model_fn = call_model_fn
        self._create_global_step = create_global_step
        self.distribution = distribution or Distribution()
        self.store = VariableStore(self.distribution.variable_maker(), apart=apart)
        # Held while a call of train, evaluate or predict begins, until it is known to be there.
        self.lock = threading.RLock()
        self._trained_by: int | None = None
        # Of the training that is running on these variables, None while none is: what takes its
        # checkpoints, and whether it was told to end.
        self.saver: ModelSaver | None = None
        self.interrupts: Interrupts | None = None
        self._traces: dict[str, collections.OrderedDict[str, Trace]] = {}
        self._programs: dict[tuple[int, str], Any] = {}

    # Who changes the values, and who reads them

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """Inside, the values are this thread's to change."""
        with self.lock:
            if self._trained_by is not None:
                raise ModelBusyError(
                    "This estimator is being trained already, by another call of train in this "
                    "process. Let that call return first, or train another Estimator with a "
                    "model_dir of its own."
                )
            self.part_from_readers()
            self._trained_by = threading.get_ident()
        try:
            yield
        finally:
            with self.lock:
                self._trained_by = None

    @property
    def is_trained(self) -> bool:
        """Whether a training is under way."""
        return self._trained_by is not None

    @property
    def is_trained_here(self) -> bool:
        """Whether that is so in this very thread, which then runs a hook or listener."""
        return self._trained_by == threading.get_ident()

    def part_from_readers(self) -> None:
        """Values are about to change: evaluations and predictions under way keep theirs."""
        for trace in [t for traces in self._traces.values() for t in traces.values()]:
            self._part_from(trace)

    @contextlib.contextmanager
    def let_write(self, trace: Trace) -> Iterator[Callable[[], None]]:
        """What an evaluation or prediction under way writes to variables, it writes for itself.

        tf.estimator's did so in sessions of their own. Replicas, beside which nobody may use the
        variables, write to those of the model; afterwards these are given their values back.
        Gives what is to be called before a hook writes, which the graph does not tell beforehand.
        """
        before: list[tuple[Any, tf.Tensor]] = []

        @functools.cache  # once is enough
        def about_to_write() -> None:
            if trace.distribution.is_strategy:
                every = map(copies, trace.variables.saved().values())
                before.extend((v, v.read_value()) for v in itertools.chain.from_iterable(every))
            else:
                with self.lock:
                    self._part_from(trace)

        if trace.writes_while_reading:
            about_to_write()
        try:
            yield about_to_write
        finally:
            for variable, value in before:
                variable.assign(value)

    def _part_from(self, trace: Trace) -> None:
        if not trace.usage.is_open:
            return
        if trace.distribution.is_strategy:
            raise ModelBusyError(
                "An evaluation on several replicas is under way, and uses the variables that are "
                "to change now. Let it end before evaluating or training anything else with "
                "this estimator, or use another Estimator of the same model_dir."
            )
        with trace.usage.between_computations():
            trace.keep_values()
        self.drop(trace)

    # Traces

    def seed_input(self, mode: str, seed: int) -> None:
        """Seed what `input_fn` will build; once a mode is traced, without compiling it anew."""
        if self._traces.get(mode):
            tf_private.seed_keeping_kernels(seed)
        else:
            tf.random.set_seed(seed)

    def trace(
        self,
        mode: str,
        element_spec: tuple[Any, Any],
        seed: int | None,
        *,
        distributed: bool = False,
    ) -> Trace:
        """The trace for batches of this kind, made now if there is none yet.

        A `distributed` one takes a batch for each replica of this process.
        """
        traces = self._traces.setdefault(mode, collections.OrderedDict())
        key = repr(element_spec)
        if key not in traces:
            if seed is not None:
                tf.random.set_seed(seed)
            traces[key] = trace_model(
                self._call_model_fn,
                mode,
                element_spec,
                self.store,
                seed=seed,
                create_global_step=self._create_global_step,
                distribution=self.distribution.of_traces if distributed else None,
            )
            if len(traces) > _MOST_TRACES_PER_MODE:
                _, dropped = traces.popitem(last=False)
                self._part_from(dropped)
                self._programs = {k: p for k, p in self._programs.items() if k[0] != id(dropped)}
        traces.move_to_end(key)
        return traces[key]

    def program(self, trace: Trace, kind: str, make: Callable[[], _Program]) -> _Program:
        """Compiled functions of a trace, made once as long as it is kept; one type for a `kind`."""
        if not any(trace is kept for traces in self._traces.values() for kept in traces.values()):
            return make()
        key = (id(trace), kind)
        if key not in self._programs:
            self._programs[key] = make()
        return self._programs[key]

    def graphs(self) -> list[tf.Graph]:
        """Those of the traces there are."""
        return [trace.graph for traces in self._traces.values() for trace in traces.values()]

    def drop(self, trace: Trace) -> None:
        """Let the next call build this mode anew: hooks have added to the graph."""
        for traces in self._traces.values():
            for key in [k for k, t in traces.items() if t is trace]:
                del traces[key]
        self._programs = {k: p for k, p in self._programs.items() if k[0] != id(trace)}

    def forget_if(self, wanted: bool) -> None:
        if wanted:
            self.forget()

    def forget(self) -> None:
        """Start over: the next trace makes new variables with new initial values."""
        self.part_from_readers()
        self.store = VariableStore(self.distribution.variable_maker(), apart=self.store.apart)
        self._traces.clear()
        self._programs.clear()
