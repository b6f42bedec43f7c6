"""The variable store: variables by name, shared between modes, lifted out of traces.

While a model function is traced, every variable it asks for passes through one creator. The
creator makes an eager variable under the name that v1 graph code would have given it
(`net/w`, `net/w/Adam`, `beta1_power`), or finds the one an earlier trace made. A name-based
checkpoint of these variables therefore reads exactly like one of `tf.estimator`.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ModelFnError
from estimand.core.first_values import note_first_value
from estimand.engine.variables import eager_writes as eager_writes
from estimand.engine.variables.engine_variable import EngineVariable, ValuelessVariable
from estimand.engine.variables.maker import VariableMaker
from estimand.engine.variables.requested_variable import RequestedVariable, unique
from estimand.engine.variables.traced_variables import TRACED, TracedVariables
from estimand.engine.variables.twins import twin_of

_Keys = tf.compat.v1.GraphKeys


class VariableStore:
    """Variables of one estimator in this process."""

    _numbers = itertools.count(1)

    def __init__(self, maker: VariableMaker | None = None, *, apart: bool = False) -> None:
        self.maker = maker or VariableMaker()
        # Whether variables made outside of the model function are another store's to change:
        # then this one has twins of them.
        self.apart = apart
        self._twins: dict[int, EngineVariable] = {}
        # Tables live in one space for the whole process: a prefix keeps estimators apart.
        self.owner = f"estimand_{next(self._numbers)}"
        self._shared: dict[str, EngineVariable] = {}
        self._foreign: dict[int, tuple[str, tf.Variable]] = {}
        self._keras_variables: dict[int, Any] = {}
        self._saved_models: dict[tuple[str, int], Any] = {}
        # Of a checkpoint, what a model that runs eagerly has not asked for yet, by name.
        self.expected: dict[str, tf.Variable] = {}
        # Where each variable's present value came from, as a checkpoint and a name in it (which
        # may be that of its average); absent = not from a checkpoint.
        self._loaded: dict[str, str] = {}
        # Trained, but not saved: then the values in memory are all there is of the model.
        self.only_in_memory = False
        # How often values may have changed: as long as this stays, they are what they were.
        self.changes = 0
        self._touched = False
        self._valueless: list[str] | None = None  # names, while shapes will do

    @contextlib.contextmanager
    def tracing(
        self,
        graph: tf.Graph,
        keep_local: dict[str, EngineVariable] | None = None,
        *,
        training: bool = False,
    ) -> Iterator[TracedVariables]:
        """Catch every variable created while `graph` is being built.

        Local variables belong to one trace; `keep_local` carries them over to the next one,
        for code that is run anew at every step.
        """
        traced = TracedVariables(
            graph,
            kept_local=keep_local,
            keras_variables=dict(self._keras_variables),
            asynchronous=self.maker.are_on_servers and training,
        )
        graph.add_to_collection(TRACED, traced)
        with self.extending(traced), tf_private.loading_saved_models(self._loader()):
            yield traced

    def _loader(self) -> Callable[[Callable[[], Any], str], Any]:
        """Loads each SavedModel that a model function asks for once, for all modes.

        Its variables are then like others that were made outside of the model function.
        """
        asked: collections.Counter[str] = collections.Counter()

        def load_once(load: Callable[[], Any], what: str) -> Any:
            asked[what] += 1
            key = (what, asked[what])
            if key not in self._saved_models:
                with tf.Graph().as_default(), tf_private.eager_mode():  # without our creators
                    self._saved_models[key] = load()
            return self._saved_models[key]

        return load_once

    @contextlib.contextmanager
    def extending(self, traced: TracedVariables) -> Iterator[None]:
        """Catch variables that are added to a trace, also afterwards (by hooks)."""

        def create(next_creator: Any, **kwargs: Any) -> tf.Variable:
            del next_creator
            return self._create(traced, RequestedVariable.of(kwargs))

        # The scope belongs to the graph that is current when it is entered, and Keras and v1
        # optimizers create some variables from the eager context around the trace.
        with contextlib.ExitStack() as stack:
            with tf.init_scope():
                stack.enter_context(tf.variable_creator_scope(create))
            stack.enter_context(tf.variable_creator_scope(create))
            yield

    def adopt_foreign(self, traced: TracedVariables, none_of_ours: Iterable[Any] = ()) -> None:
        """Take in variables that the traced code used but that were made outside of it.

        `none_of_ours` (those of metrics) stay as they are, whoever else may use them.
        """
        shared = {id(v) for v in none_of_ours}
        known = {id(v) for v in traced.by_name.values()} | traced.forgotten
        # A Keras layer made outside may have been built, that is, got its variables, inside an
        # earlier trace.
        built_earlier = {id(v): n for n, v in self._shared.items()}
        for variable in tf_private.variables_read_in(traced.graph):
            if id(variable) in known or getattr(variable, "none_of_the_model", False):
                continue
            name = built_earlier.get(id(variable))
            if name is None:
                name, _ = self._foreign.get(id(variable), (None, None))
            if name is None:
                taken = {n for n, _ in self._foreign.values()} | set(self._shared)
                name = unique(variable.name.split(":")[0], taken)
                self._foreign[id(variable)] = (name, variable)
            if self.apart and id(variable) not in shared:
                if id(variable) not in self._twins:
                    self._twins[id(variable)] = twin_of(variable)
                traced.twins.add(variable, self._twins[id(variable)])
            traced.by_name[name] = traced.tf2_style[name] = traced.twins.own(variable)

    def take_in(
        self,
        traced: TracedVariables,
        name: str,
        shape: tf.TensorShape,
        dtype: tf.DType,
        *,
        trainable: bool,
        is_local: bool,
    ) -> tuple[tf.Variable, bool]:
        """A variable of a graph that is imported, and whether it is new.

        The graph puts it into its collections, if it has any; `begin_with` says what it is first.
        """
        sizes = [size or 0 for size in shape.as_list()] if shape.rank else []
        known = shape.is_fully_defined()
        asked = RequestedVariable(
            name,
            keras_variable=None,
            of_keras=False,
            trainable=trainable,
            collections=[_Keys.LOCAL_VARIABLES if is_local else _Keys.GLOBAL_VARIABLES],
            arguments={
                "initial_value": lambda: tf.zeros(sizes, dtype),
                "shape": shape if shape.rank is not None else None,
                "dtype": dtype,
                "validate_shape": known,
            },
        )
        is_new = is_local or name not in self._shared
        return self._create(traced, asked, collect=False), is_new

    def begin_with(self, traced: TracedVariables, variable: Any, initial: tf.Tensor) -> None:
        """Let a variable that was taken in begin with what a tensor of the trace gives."""
        variable._estimand_initial_value = initial
        if not variable.is_local:
            traced.deferred.append((variable, initial))

    def _create(
        self, traced: TracedVariables, asked: RequestedVariable, *, collect: bool = True
    ) -> tf.Variable:
        name = unique(asked.name, traced.by_name)
        known = traced.kept_local if asked.is_local else self._shared
        variable = None if known is None else known.get(name)
        if variable is not None:
            asked.check_is(name, variable)
        else:
            variable = self._make(traced, name, asked)
            if known is not None:
                known[name] = variable
            if not asked.is_local and traced.kept_local is not None:
                self._continue_expected(name, variable)
        self._register(traced, name, asked, variable)
        if collect:
            self._collect(traced, asked, variable)
        return variable

    def _make(self, traced: TracedVariables, name: str, asked: RequestedVariable) -> Any:
        kwargs = asked.arguments
        if asked.keras_variable is not None and not asked.trainable:
            kwargs = self.maker.of_keras(asked.keras_variable, kwargs)
        kind = {"is_local": asked.is_local, "asynchronous": traced.asynchronous}
        beside = self.maker.beside(name, asked.shape, **kind)
        may_be_left_out = not (asked.is_local or asked.of_keras) and asked.is_large
        if self._valueless is not None and may_be_left_out:
            self._valueless.append(name)
            return _without_value(name, asked.trainable, kwargs)
        make = functools.partial(self.maker.make, **kind)
        return _make_variable(traced, name, asked.trainable, kwargs, make, beside)

    def _register(
        self, traced: TracedVariables, name: str, asked: RequestedVariable, variable: tf.Variable
    ) -> None:
        traced.by_name[name] = variable
        if asked.is_local:
            variable.is_local = True
            traced.local[name] = variable
        if asked.of_keras:
            variable.of_keras = True
            traced.tf2_style[name] = variable
        if asked.keras_variable is not None:
            traced.keras_variables[id(variable)] = asked.keras_variable
            if not asked.is_local:
                self._keras_variables[id(variable)] = asked.keras_variable

    def _collect(
        self, traced: TracedVariables, asked: RequestedVariable, variable: tf.Variable
    ) -> None:
        collections = asked.collections
        if asked.trainable and _Keys.TRAINABLE_VARIABLES not in collections:
            collections = [*collections, _Keys.TRAINABLE_VARIABLES]
        eager_run = traced.kept_local is not None
        if not (eager_run and tf_private.get_variable_is_creating()):
            for collection in collections:
                traced.graph.add_to_collection(collection, variable)

    @contextlib.contextmanager
    def shapes_will_do(self) -> Iterator[None]:
        """Inside, a trace is made that is not run: large variables that it makes have no values.

        They are forgotten again. Those of Keras layers have, since the layers keep them.
        """
        self._valueless = []
        try:
            yield
        finally:
            for name in self._valueless:
                del self._shared[name]
            self._valueless = None

    def expect(self, name: str, value: tf.Tensor) -> tf.Variable:
        """Hold what a checkpoint has under a name, until the model asks for that variable.

        One that a step makes only now and then (in a branch) is not there when a run continues.
        """
        variable = self._shared.get(name)
        if variable is not None:
            variable.assign(value)
            return variable
        with tf.init_scope():  # not through creators of variables: it is none of the model's yet
            held = tf_private.ResourceVariable(value, trainable=False, name=name)
        self.expected[name] = held
        return held

    def _continue_expected(self, name: str, variable: tf.Variable) -> None:
        held = self.expected.pop(name, None)
        if held is not None and held.shape == variable.shape and held.dtype == variable.dtype:
            # Not by its method, which would have it taken for a variable of the model.
            value = tf.raw_ops.ReadVariableOp(resource=held.handle, dtype=held.dtype)
            with eager_writes.at_once():
                variable.assign(value)
            note_first_value(variable)

    # What the values are, so that nothing is read from disk twice.

    def variables(self) -> list[tf.Variable]:
        """All of them, those made outside of the model function included."""
        return [*self._shared.values(), *(v for _, v in self._foreign.values())]

    def take_values_of(self, other: VariableStore, traced: TracedVariables) -> None:
        """Give the variables of a trace the values that those of the same names have elsewhere."""
        theirs = {**other._shared, **dict(other._foreign.values())}
        for name, variable in traced.saved().items():
            if name in theirs:
                variable.assign(theirs[name].read_value())
        self.mark_changed()

    def made_outside(self) -> set[int]:
        """Identities of those that were there before the model function: with values of theirs."""
        return {id(variable) for _, variable in self._foreign.values()}

    def values(self) -> dict[int, tf.Tensor]:
        """The present values, by identity of the variable; shares memory until an update."""
        return {id(v): v.read_value() for v in self._shared.values()}

    def not_from(self, origins: Mapping[str, str]) -> set[str]:
        """Which of the named variables do not yet hold the value of the given origin."""
        return {n for n, origin in origins.items() if self._loaded.get(n) != origin}

    def mark_loaded(self, origins: Mapping[str, str]) -> None:
        self._loaded.update(origins)
        self._touched, self.only_in_memory = True, False

    def mark_changed(self) -> None:
        """The values have moved on (training): they are no checkpoint's any more."""
        self._loaded.clear()
        self._touched = self.only_in_memory = True
        self.changes += 1

    @property
    def outlived_its_checkpoint(self) -> bool:
        """The values came from a checkpoint, or went into one."""
        return self._touched and not self.only_in_memory


def _without_value(name: str, trainable: bool, kwargs: dict[str, Any]) -> ValuelessVariable:
    with tf.init_scope(), tf.compat.v1.name_scope(None):
        return ValuelessVariable(
            name=name, trainable=trainable, shape=kwargs["shape"], dtype=kwargs["dtype"]
        )


def _make_variable(
    traced: TracedVariables,
    name: str,
    trainable: bool,
    kwargs: dict[str, Any],
    make: Callable[..., Any],
    beside: contextlib.AbstractContextManager[Any],
) -> Any:
    initial = kwargs.get("initial_value")
    with tf.init_scope():
        with beside:
            value, symbolic = _initial_value(traced, name, initial, kwargs.get("dtype"))
        with tf.compat.v1.name_scope(None):
            variable = make(
                initial_value=value,
                trainable=trainable,
                name=name,
                dtype=kwargs.get("dtype"),
                constraint=kwargs.get("constraint"),
                synchronization=kwargs.get("synchronization") or tf.VariableSynchronization.AUTO,
                aggregation=kwargs.get("aggregation") or tf.VariableAggregation.NONE,
                shape=kwargs.get("shape") if kwargs.get("validate_shape") is False else None,
            )
    variable._estimand_initial_value = initial if callable(initial) else value
    if traced.kept_local is not None:
        note_first_value(variable)
    if symbolic is not None:
        variable._estimand_initial_value = symbolic
        traced.deferred.append((variable, symbolic))
    return variable


def _initial_value(
    traced: TracedVariables, name: str, initial: Any, dtype: Any
) -> tuple[Any, tf.Tensor | None]:
    """The initial value now, or zeros and the graph tensor that will give it after the trace."""
    value = initial
    if callable(initial):
        try:
            with tf_private.seeds_of_variables():
                value = initial()
        except (TypeError, ValueError, RuntimeError, NotImplementedError):
            # The initializer uses tensors of the graph being built: evaluate it there, later.
            with traced.graph.as_default():
                value = initial()
    if not (tf.is_tensor(value) and not hasattr(value, "numpy")):
        return value, None
    static = tf.get_static_value(value)
    if static is not None:
        return static, None
    if not value.shape.is_fully_defined():
        raise ModelFnError(
            f"The initial value of variable {name!r} has the unknown shape {value.shape}. "
            "Give it a static shape, e.g. with tf.ensure_shape or get_variable(shape=...)."
        )
    return tf.zeros(value.shape, dtype or value.dtype), value
