"""The base class of the v1 layers: one variable scope, filled at the first call, shared by all.

The rules that old code depends on, and where they are kept:

- variables are made by `get_variable` in the layer's own variable scope, so `reuse`, partitioners,
  custom getters and default initializers of enclosing scopes apply (`Layer.add_weight`);
- that scope is found at the first call and numbered by `variable_scope` itself: `dense`, `dense_1`
  (`Layer._settle_scope`);
- penalties go to REGULARIZATION_LOSSES once per variable, updates to UPDATE_OPS where somebody
  must run them (`Layer.add_loss`, `Layer.add_update`). Executing eagerly, outside of a model
  function, there are no collections: ask `layer.losses`; updates have happened already.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from estimand.compat.v1.layers import identifiers
from estimand.compat.v1.layers.errors import LayerError, LayerTypeError
from estimand.compat.v1.layers.input_spec import InputSpec, check_inputs
from estimand.compat.v1.layers.scopes import LayerScope, scope_name_of, snake_case
from estimand.compat.v1.layers.variables import get_or_create, parts
from estimand.engine.variables import eager_writes as eager_writes

v1 = tf.compat.v1


class Layer:
    """A callable with variables. Subclasses write `build` (once) and `call` (every time).

    Example:

        class Scale(layers.Layer):
            def build(self, input_shape):
                self.factor = self.add_weight("factor", [input_shape[-1]])

            def call(self, inputs):
                return inputs * self.factor

        Scale()(features)      # variable: scale/factor

    Args:
        trainable: whether the variables join the trainable ones.
        name: the name of the layer and, made unique, of its variable scope.
        dtype: of the variables; by default that of the first input.
        activity_regularizer: a callable from an output to a penalty.
    """

    def __init__(
        self, trainable: bool = True, name: Any = None, dtype: Any = None, **kwargs: Any
    ) -> None:
        scope = kwargs.pop("_scope", None)
        self._reuse = kwargs.pop("_reuse", None)
        self.activity_regularizer = identifiers.regularizer(
            kwargs.pop("activity_regularizer", None)
        )
        if kwargs:
            raise LayerTypeError(
                f"Keyword argument not understood by {type(self).__name__}: {next(iter(kwargs))!r}"
            )
        self.trainable = trainable
        self.stateful = False
        self.built = False
        self.input_spec: InputSpec | list[InputSpec] | None = None
        self._dtype = None if dtype is None else tf.as_dtype(dtype)
        self._base_name = scope_name_of(name) or snake_case(type(self).__name__)
        self._explicit_name = name if isinstance(name, str) else None
        self._variables: list[Any] = []
        self._losses: list[tuple[Any, Any]] = []
        self._updates: list[tuple[Any, Any]] = []
        self._scope: Any = None
        self._is_being_built = False
        if scope:
            with v1.variable_scope(scope) as captured:
                self._scope = captured

    # --- what subclasses write

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "build" in vars(cls):
            cls.build = _ending_built(cls.build)  # type: ignore[method-assign]

    def build(self, input_shape: Any) -> None:
        """Make the variables; called once, before the first `call`."""

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs; called every time."""
        return inputs

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """The shape of the outputs for inputs of this shape."""
        raise NotImplementedError(f"{type(self).__name__} does not tell its output shape.")

    # --- calling

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Build the variables if this is the first call, then run `call` in the layer's scope.

        A keyword `scope` chooses the variable scope of the first call; all other arguments go to
        `call`.
        """
        self._settle_scope(kwargs.pop("scope", None))
        if tf.executing_eagerly():
            self._losses = [entry for entry in self._losses if entry[1] is None]
        with self._in_scope() as scope:
            inputs = _as_tensors(inputs)
            check_inputs(self.input_spec, inputs, self.name)
            self._build_once(inputs)
            if "scope" in inspect.signature(self.call).parameters:
                kwargs["scope"] = scope
            outputs = self.call(inputs, *args, **kwargs)
            if outputs is None:
                raise LayerError(
                    "A layer's `call` method should return a Tensor or a list of Tensors, "
                    f"not None (layer: {self.name})."
                )
            self._penalize_activity(inputs, outputs)
        self._publish_updates()
        return outputs

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The same as calling the layer."""
        return self(inputs, *args, **kwargs)

    def _settle_scope(self, scope: Any) -> None:
        """Decide, once, which variable scope is the layer's own."""
        if self._scope is not None:
            return
        if self._reuse:
            # Reuse means the scope of exactly this name, not the next free number.
            opened = v1.variable_scope(self._base_name if scope is None else scope)
        else:
            opened = v1.variable_scope(scope, default_name=self._base_name)
        with opened as captured:
            self._scope = captured

    def _in_scope(self) -> LayerScope:
        return LayerScope(self._scope, reuse=True if self.built else self._reuse)

    def _build_once(self, inputs: Any) -> None:
        if self.built:
            return
        tensors = tf.nest.flatten(inputs)
        if self._dtype is None and tensors:
            self._dtype = tf.as_dtype(tensors[0].dtype)
        self.build(tf.nest.map_structure(lambda tensor: tensor.shape, inputs))
        self.built = True  # also where a subclass writes no `build`

    def _penalize_activity(self, inputs: Any, outputs: Any) -> None:
        if self.activity_regularizer is None:
            return
        with tf.name_scope("ActivityRegularizer"):
            for output in tf.nest.flatten(outputs):
                penalty = self.activity_regularizer(output)
                if penalty is not None:
                    penalty /= tf.cast(tf.shape(output)[0], penalty.dtype)
                    self.add_loss(penalty, inputs=inputs)

    def _publish_updates(self) -> None:
        # A layer may have been called in another graph before: its updates stay there.
        graph = v1.get_default_graph()
        if tf.executing_eagerly():
            self._updates = [entry for entry in self._updates if entry[0].graph is graph]
        published = v1.get_collection_ref(v1.GraphKeys.UPDATE_OPS)
        known = {id(update) for update in published}
        here = (update for update in self.updates if update.graph is graph)
        published.extend(update for update in here if id(update) not in known)

    # --- variables

    def add_weight(
        self,
        name: str,
        shape: Any,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: Any = None,
        use_resource: bool | None = None,
        synchronization: Any = tf.VariableSynchronization.AUTO,
        aggregation: Any = tf.compat.v1.VariableAggregation.NONE,
        partitioner: Any = None,
    ) -> Any:
        """Make the variable `<scope of the layer>/<name>`, or find it where the scope is reused."""
        on_read = synchronization == tf.VariableSynchronization.ON_READ
        if on_read and trainable:
            raise LayerError(
                "Synchronization value can be set to VariableSynchronization.ON_READ only for "
                f"non-trainable variables; {name!r} was given trainable=True."
            )
        wants_training = not on_read if trainable is None else bool(trainable)
        self._settle_scope(None)
        with self._in_scope():
            variable, is_new = get_or_create(
                name,
                shape=shape,
                dtype=tf.as_dtype(dtype or self._dtype or tf.float32),
                initializer=identifiers.initializer(initializer),
                trainable=wants_training and self.trainable,
                constraint=identifiers.constraint(constraint),
                use_resource=use_resource,
                synchronization=synchronization,
                aggregation=aggregation,
                partitioner=partitioner,
            )
            self._variables.extend(parts(variable))
            if is_new and regularizer is not None:
                self._penalize_weight(name, variable, identifiers.regularizer(regularizer))
        return variable

    def add_variable(self, *args: Any, **kwargs: Any) -> Any:
        """The older name of `add_weight`."""
        return self.add_weight(*args, **kwargs)

    def _penalize_weight(self, name: str, variable: Any, regularizer: Any) -> None:
        def penalty(part: Any) -> Any:
            with tf.name_scope(f"{name}/Regularizer"):
                return regularizer(part)

        for part in parts(variable):
            self.add_loss(lambda part=part: penalty(part))

    @property
    def variables(self) -> list[Any]:
        """All variables, the trainable ones first."""
        return self.trainable_variables + self.non_trainable_variables

    @property
    def trainable_variables(self) -> list[Any]:
        return [v for v in self._variables if self._is_trainable(v)]

    @property
    def non_trainable_variables(self) -> list[Any]:
        return [v for v in self._variables if not self._is_trainable(v)]

    weights = variables
    trainable_weights = trainable_variables
    non_trainable_weights = non_trainable_variables

    def _is_trainable(self, variable: Any) -> bool:
        # The variable itself knows best: a custom getter may have changed what we asked for.
        return self.trainable and bool(getattr(variable, "trainable", True))

    def count_params(self) -> int:
        """How many numbers the variables hold."""
        return sum(variable.shape.num_elements() for variable in self._variables)

    # --- losses and updates

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Add penalties (tensors, or callables that compute one). `inputs`: what they depend on."""
        for loss in tf.nest.flatten(losses):
            if not tf.executing_eagerly() or eager_writes.under_way() is not None:
                value = loss() if callable(loss) else loss
                if value is None:
                    continue
                value = tf.convert_to_tensor(value)
                v1.add_to_collection(v1.GraphKeys.REGULARIZATION_LOSSES, value)
                loss = loss if tf.executing_eagerly() else value
            # Executing eagerly a callable is kept, to be asked again when weights have changed.
            self._losses.append((loss, inputs))

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Add operations that somebody must run at each training step (by UPDATE_OPS)."""
        if tf.executing_eagerly():  # has happened already, or waits until it is asked for
            self._updates += [(later, inputs) for later in eager_writes.all_of(updates)]
            return
        for update in tf.nest.flatten(updates):
            update = update() if callable(update) else update
            operation = update if isinstance(update, tf.Operation) else update.op
            self._updates.append((operation, inputs))

    @property
    def losses(self) -> list[Any]:
        """The penalties of the weights and of the activities."""
        return _values(loss for loss, _ in self._losses)

    @property
    def updates(self) -> list[Any]:
        """The operations to run with a training step; none if the layer is frozen."""
        if not self.trainable and not self.stateful:
            return []
        return [update for update, _ in self._updates]

    def get_losses_for(self, inputs: Any) -> list[Any]:
        """The penalties that depend on `inputs`; those of the weights alone for `None`."""
        return _values(loss for loss, given in self._losses if given is inputs)

    def get_updates_for(self, inputs: Any) -> list[Any]:
        """The updates that depend on `inputs`; the unconditional ones for `None`."""
        if not self.updates:
            return []
        return [update for update, given in self._updates if given is inputs]

    # --- names

    @property
    def name(self) -> str:
        """The name given, else the last part of the variable scope (`dense_1`) once called."""
        if self._explicit_name:
            return self._explicit_name
        return self._scope.name.rsplit("/", 1)[-1] if self._scope else self._base_name

    @property
    def scope_name(self) -> str:
        """The full name of the variable scope, known after the first call."""
        if self._scope is None:
            raise LayerError(
                f'No name available for layer scope because the layer "{self.name}" has not been '
                "used yet. The scope name is determined the first time the layer instance is "
                "called. You must therefore call the layer before querying `scope_name`."
            )
        return self._scope.name

    @property
    def dtype(self) -> Any:
        """The dtype of the variables; `None` until the first call unless it was given."""
        return self._dtype

    def __repr__(self) -> str:
        return f"<{type(self).__name__} layer {self.name!r}>"


def _ending_built(build: Callable[..., None]) -> Callable[..., None]:
    """A `build` that may be called by hand, `layer.build([None, 8])`, in place of the first call.

    Within a `build` that calls the one of its base class, the layer is not built yet.
    """

    @functools.wraps(build)
    def building(self: Any, input_shape: Any) -> None:
        if self._is_being_built:
            build(self, input_shape)
            return
        self._dtype = self._dtype or tf.float32
        self._is_being_built = True
        try:
            build(self, input_shape)
        finally:
            self._is_being_built = False
        self.built = True

    return building


def run_layer(
    layer_class: Callable[..., Layer],
    inputs: Any,
    name: Any,
    reuse: Any,
    training: Any = None,
    **arguments: Any,
) -> Any:
    """What the functions do: a layer in the scope `name` (or the next free one), called once."""
    layer = layer_class(name=name, _scope=name, _reuse=reuse, **arguments)
    return layer(inputs) if training is None else layer(inputs, training=training)


def _as_tensors(inputs: Any) -> Any:
    """Arrays become tensors, each its own; a nested list of plain numbers becomes one tensor."""
    leaves = tf.nest.flatten(inputs)
    if leaves and all(isinstance(leaf, bool | int | float) for leaf in leaves):
        return tf.convert_to_tensor(inputs)
    return tf.nest.map_structure(
        lambda leaf: leaf if tf.is_tensor(leaf) else tf.convert_to_tensor(leaf), inputs
    )


def _values(losses: Iterable[Any]) -> list[Any]:
    values = [loss() if callable(loss) else loss for loss in losses]
    return [value for value in values if value is not None]
