"""What the canned optimizers share: names in checkpoints, hyperparameters, clipping, sparse sums.

`tf.estimator` trained its canned models with the optimizers of Keras 2. Those keep their state in
variables called `training/<optimizer>/<variable>/<slot>`, and their hyperparameters in variables,
too: `training/<optimizer>/learning_rate`. With a `MultiHead` of n heads it is `training_<n>/…`.
Keras 3 has neither the names nor quite the arithmetic, so the five optimizers that canned models
offer by name are written here, on TensorFlow's kernels.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import tensorflow as tf

from estimand.canned import v1_names
from estimand.core.errors import ConfigError, ModelFnError
from estimand.engine.minimize import minimize
from estimand.engine.tracing import sharing
from estimand.engine.variables.placement import own_copy
from estimand.heads.training import scope_in_checkpoints

# A number, a tensor, a function without arguments, or a schedule: a function of the step.
Hyper: TypeAlias = float | tf.Tensor | Callable[..., Any]
Gradients: TypeAlias = Sequence[tuple[tf.Tensor | tf.IndexedSlices, tf.Variable]]

_SCOPES = "estimand/optimizer_scopes"


class LegacyOptimizer:
    """An optimizer whose training continues that of `tf.estimator`, checkpoint for checkpoint.

    Subclasses say which slots there are and how one variable is updated; or they define
    `get_updates`, as optimizers of Keras 2 did, and do everything themselves.
    """

    # Whether `get_updates` is a subclass's own; then `iterations` is the global step.
    says_its_updates = False
    iterations: tf.Variable | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "get_updates" in vars(cls):
            cls.says_its_updates = True

    def __init__(
        self,
        name: str,
        hypers: Mapping[str, Hyper] | None = None,
        *,
        decay: float = 0.0,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
    ) -> None:
        self.name = name
        self._hypers = {**(hypers or {}), "decay": decay}
        self._clipnorm = clipnorm
        self._clipvalue = clipvalue
        self._global_clipnorm = global_clipnorm
        # Two optimizers in one model: the second may not count the global step, so it counts its
        # own updates in a variable `iter`.
        self.counts_own_updates = False

    # What subclasses give

    def slots(self) -> dict[str, float]:
        """The state kept for each variable, with the number it starts from."""
        return {}

    def update_dense(self, variable: tf.Variable, gradient: tf.Tensor, at: SimpleNamespace) -> Any:
        """Update a variable. `at` holds its `slots` and the hyperparameters of this step."""
        raise NotImplementedError

    def update_rows(
        self, variable: tf.Variable, gradient: tf.Tensor, rows: tf.Tensor, at: SimpleNamespace
    ) -> Any:
        """Update some rows of a variable; no row comes twice."""
        raise NotImplementedError

    # What the engine calls

    def make_train_op(
        self, loss: tf.Tensor, variables: Sequence[tf.Variable], global_step: tf.Variable
    ) -> tf.Operation:
        """An op that applies the gradients of `loss`; the global step is left to the caller."""
        gradients = sharing.summed(tf.gradients(loss, list(variables)))
        pairs = [(g, v) for g, v in zip(gradients, variables, strict=True) if g is not None]
        if not pairs:
            raise ModelFnError(
                f"{self.name}: the loss depends on none of the variables to train "
                f"({', '.join(v.name for v in variables[:5]) or 'there are none'})."
            )
        return self._apply(pairs, global_step)

    def apply(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Apply gradients now, in eager mode."""
        plain = [v if isinstance(v, tf.Variable) else v.value for v in variables]
        step = tf.compat.v1.train.get_or_create_global_step()
        self._apply(list(zip(gradients, plain, strict=True)), step)

    def get_updates(self, loss: tf.Tensor, params: Sequence[tf.Variable]) -> list[tf.Operation]:
        """As Keras 2 called it, for heads written for `tf.estimator`; advances the global step."""
        return [minimize(self, loss, params)]  # type: ignore[list-item]

    def get_config(self) -> dict[str, Any]:
        """As in Keras 2, as far as it is known here: the name and the hyperparameters."""
        return {"name": self.name, **self._hypers}

    def _apply(self, pairs: Gradients, global_step: tf.Variable) -> tf.Operation:
        with _scope_of_its_own(self.name) as scope:
            hypers = {n: _hyper_variable(scope, n, v) for n, v in self._hypers.items()}
            iterations = global_step
            if self.counts_own_updates:
                iterations = _variable(scope, "iter", lambda: tf.zeros([], tf.int64))
            v1_names.note_optimizer(type(self).__name__, scope, self._hypers, self.slots())
            at = {v.dtype: self._this_step(hypers, iterations, v.dtype) for _, v in pairs}
            updates = []
            for gradient, variable in self._clipped([(_summed(g), v) for g, v in pairs]):
                slots = self._slots(scope, variable)
                here = SimpleNamespace(**vars(at[variable.dtype]), slots=slots)
                # Every replica updates its own copy, with the gradients of all.
                mine = own_copy(variable)
                updates.append(self._constrained(mine, self._update(gradient, mine, here)))
            if self.counts_own_updates:
                with tf.control_dependencies(updates):
                    count = own_copy(iterations)
                    updates.append(count.assign_add(1, read_value=False))
            return tf.group(*[op for op in updates if op is not None])

    def _update(self, gradient: Any, variable: tf.Variable, at: SimpleNamespace) -> Any:
        if isinstance(gradient, tf.IndexedSlices):
            return self.update_rows(variable, gradient.values, gradient.indices, at)
        return self.update_dense(variable, gradient, at)

    def _slots(self, scope: str, variable: tf.Variable) -> SimpleNamespace:
        name, shape, dtype = variable.name.split(":")[0], variable.shape, variable.dtype
        made = {}
        for slot, start in self.slots().items():

            def initial(start: float = start) -> tf.Tensor:
                return tf.fill(shape, tf.cast(start, dtype))

            made[slot] = own_copy(_variable(scope, f"{name}/{slot}", initial))
        return SimpleNamespace(**made)

    def _this_step(
        self, hypers: Mapping[str, Any], iterations: tf.Variable, dtype: tf.DType
    ) -> SimpleNamespace:
        step = tf.cast(iterations.read_value(), dtype)
        at = {n: _value_at(v, step, dtype) for n, v in hypers.items()}
        rate = at.pop("learning_rate")
        # Whether the rate decays is settled when the model is built, as it was in Keras 2.
        if self._hypers["decay"] > 0.0:  # type: ignore[operator]
            rate = rate / (1.0 + tf.cast(self._hypers["decay"], dtype) * step)
        return SimpleNamespace(rate=rate, updates=step + 1.0, **at)

    def _clipped(self, pairs: Gradients) -> Gradients:
        gradients = [g for g, _ in pairs]
        if self._clipvalue is not None:
            limit = self._clipvalue
            gradients = [
                _on_values(g, lambda x: tf.clip_by_value(x, -limit, limit)) for g in gradients
            ]
        if self._clipnorm is not None:
            norm = self._clipnorm
            gradients = [_on_values(g, lambda x: tf.clip_by_norm(x, norm)) for g in gradients]
        if self._global_clipnorm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, self._global_clipnorm)
        return list(zip(gradients, [v for _, v in pairs], strict=True))

    @staticmethod
    def _constrained(variable: tf.Variable, update: Any) -> Any:
        if getattr(variable, "constraint", None) is None:
            return update
        with tf.control_dependencies([update]):
            return variable.assign(variable.constraint(variable.read_value()), read_value=False)

    def __getattr__(self, name: str) -> Any:
        """`optimizer.learning_rate` and the like: what was given for it."""
        hypers = self.__dict__.get("_hypers", {})
        if name in hypers:
            return hypers[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(learning_rate={self._hypers.get('learning_rate')!r})"


def momentum_in_range(momentum: Hyper) -> bool:
    """Whether momentum is to be kept at all; refuses what cannot be one."""
    if not isinstance(momentum, (int, float)):
        return True
    if not 0 <= momentum <= 1:
        raise ConfigError(f"`momentum` must be between [0, 1]. Received: momentum={momentum}.")
    return momentum > 0


def decay_and_add(
    slot: tf.Variable, decay: tf.Tensor, rows: tf.Tensor, values: tf.Tensor
) -> tf.Tensor:
    """What the slot holds after decaying as a whole and gaining `values` in some rows."""
    decayed = slot.assign(slot.read_value() * decay, read_value=False)
    with tf.control_dependencies([decayed]):
        added = tf.raw_ops.ResourceScatterAdd(resource=slot.handle, indices=rows, updates=values)
    with tf.control_dependencies([added]):
        return slot.read_value()


@contextlib.contextmanager
def _scope_of_its_own(name: str) -> Iterator[str]:
    """The prefix of this optimizer's variables; the second of one name in a model gets `_1`."""
    graph = tf.compat.v1.get_default_graph()
    taken = graph.get_collection(_SCOPES)
    outer = scope_in_checkpoints.get()
    scope, count = f"{outer}/{name}/", 0
    while scope in taken:
        count += 1
        scope = f"{outer}/{name}_{count}/"
    graph.add_to_collection(_SCOPES, scope)
    with tf.compat.v1.name_scope(scope):
        yield scope


def _variable(scope: str, name: str, initial: Any) -> tf.Variable:
    # Ops go by the same scope, so it is entered anew: its end in "/" means exactly this name.
    with tf.compat.v1.name_scope(scope):
        return tf.Variable(
            initial,
            name=name,
            trainable=False,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )


def _hyper_variable(scope: str, name: str, value: Hyper) -> Any:
    if callable(value) or tf.is_tensor(value):
        return value
    return _variable(scope, name, lambda: tf.constant(value, tf.float32))


def _value_at(value: Any, step: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    if isinstance(value, tf.Variable):
        value = value.read_value()
    elif callable(value):
        value = value(step) if _takes_the_step(value) else value()
    return tf.cast(value, dtype)


def _takes_the_step(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.default is p.empty and p.kind is not p.VAR_KEYWORD for p in parameters)


def _summed(gradient: Any) -> Any:
    """A sparse gradient in which no row comes twice: only so can it be clipped, or squared."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, positions = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, positions, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def _on_values(gradient: Any, function: Callable[[tf.Tensor], tf.Tensor]) -> Any:
    if not isinstance(gradient, tf.IndexedSlices):
        return function(gradient)
    values = function(gradient.values)
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
