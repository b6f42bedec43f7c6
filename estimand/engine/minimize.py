"""One way to make a train_op, for v1 and Keras optimizers alike."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ModelFnError
from estimand.core.tf_private import kerases
from estimand.engine.eager import run as eager_run
from estimand.engine.tracing import sharing
from estimand.engine.tracing.keras2_methods import applied
from estimand.engine.variables.placement import current_replica, own_copy
from estimand.engine.variables.traced_variables import TracedVariables, is_traced, traced_variables

_NEXT_STEP = "estimand/next_step"


def minimize(
    optimizer: Any,
    loss: tf.Tensor,
    variables: Sequence[Any] | None = None,
    *,
    loss_reduction: str = sharing.MEAN,
) -> tf.Operation | tf.Tensor:
    """A train_op that applies the gradients of `loss` and advances the global step.

    `variables` are TensorFlow or Keras variables; by default all trainable ones of the model.
    Several of these in one model function, joined by `tf.group`, advance it once.

    `loss_reduction` says what `loss` is over the batch, "mean" or "sum": under a strategy of
    `tf.distribute`, gradients of replicas are averaged or added up accordingly.

    Args:
      optimizer: a Keras or v1 optimizer, or the name of a Keras one.
      loss: a scalar tensor.
      variables: what to train; None: all trainable variables of the model.
      loss_reduction: what `loss` is over the batch, "mean" or "sum".

    >>> import estimand as est, tensorflow as tf
    >>> def model_fn(features, labels, mode):
    ...     import keras
    ...     logits = keras.layers.Dense(1)(features["x"])
    ...     loss = tf.reduce_mean(tf.square(logits - labels))
    ...     train_op = est.minimize(keras.optimizers.Adam(0.01), loss)
    ...     return est.EstimatorSpec(mode, loss=loss, train_op=train_op)
    """
    if isinstance(optimizer, str):
        import keras

        optimizer = keras.optimizers.get(optimizer)
    if tf.executing_eagerly():
        return eager_run.minimize(optimizer, loss, variables)
    step = tf.compat.v1.train.get_or_create_global_step()
    graph = tf.compat.v1.get_default_graph()
    # A head may be used in a graph of TensorFlow's own, too: there nothing is traced.
    traced = traced_variables(graph) if is_traced(graph) else None
    chosen = _all_trainable(traced) if variables is None else [_plain(v) for v in variables]
    known = {} if traced is None else traced.keras_variables
    keras_variables = {**known, **{id(_plain(v)): v for v in variables or ()}}
    with sharing.shared(loss, loss_reduction) as share:
        return _train_op(optimizer, share, chosen, keras_variables, traced, step)


def _train_op(
    optimizer: Any,
    loss: tf.Tensor,
    chosen: list[tf.Variable],
    keras_variables: dict[int, Any],
    traced: TracedVariables | None,
    step: tf.Variable,
) -> tf.Operation | tf.Tensor:
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return _advance(step, [optimizer.minimize(loss, var_list=chosen)])
    keras = kerases.of(optimizer)
    if keras is None and callable(getattr(optimizer, "apply", None)):
        keras = kerases.KERAS3  # whose face it has
    says = keras is None and hasattr(optimizer, "get_updates")
    if getattr(optimizer, "says_its_updates", says):
        with contextlib.suppress(AttributeError):  # in Keras 3 it cannot be set
            optimizer.iterations = step
        return optimizer.get_updates(loss, chosen)[0]
    if hasattr(optimizer, "make_train_op"):  # an optimizer of ours, such as the canned ones
        return _advance(step, [optimizer.make_train_op(loss, chosen, step)])
    if traced is None:
        raise ModelFnError(
            f"est.minimize got {optimizer!r} outside of a model function. There, use an optimizer "
            "of tf.compat.v1.train."
        )
    if keras is None:
        raise ModelFnError(
            f"est.minimize got {optimizer!r} as optimizer. Pass a Keras optimizer such as "
            "keras.optimizers.Adam(1e-3), or a tf.compat.v1.train one."
        )
    return _keras_train_op(keras, optimizer, loss, chosen, keras_variables, traced, step)


def _keras_train_op(
    keras: kerases.Keras,
    optimizer: Any,
    loss: tf.Tensor,
    chosen: list[tf.Variable],
    keras_variables: dict[int, Any],
    traced: TracedVariables,
    step: tf.Variable,
) -> tf.Operation:
    everything = [keras_variables.get(id(v), v) for v in chosen]
    scaled = eager_run.scaled_loss(optimizer, loss, everything)
    gradients = keras.gradients(optimizer, scaled, chosen)
    gradients = sharing.summed(gradients)
    keras.join_strategy(optimizer)
    pairs = eager_run.trained_pairs(gradients, chosen)
    # Keras reads and writes in program order, also where it updates a v1 variable.
    names = {id(v): n for n, v in traced.by_name.items()}
    traced.tf2_style.update({names[id(v)]: v for _, v in pairs if id(v) in names})
    targets = [keras_variables.get(id(v), v) for _, v in pairs]
    keras.build(optimizer, targets)
    updates = applied(lambda: keras.apply(optimizer, [g for g, _ in pairs], targets))
    eager_run.summarise_learning_rate(optimizer)
    return _advance(step, updates)


def _advance(step: tf.Variable, updates: Sequence[Any]) -> tf.Operation:
    """After `updates`, one step further than at the start of this step.

    Not an increment: several optimizers in one model function still make one step.
    """
    graph = tf.compat.v1.get_default_graph()
    if is_traced(graph) and traced_variables(graph).asynchronous:
        return tf.group(*updates, _counted(graph, step))
    next_step = f"{_NEXT_STEP}/{current_replica()}"
    if not graph.get_collection(next_step):
        with tf.control_dependencies(None):
            graph.add_to_collection(next_step, step.read_value() + 1)
    with tf.control_dependencies(updates):
        return own_copy(step).assign(graph.get_collection(next_step)[0], read_value=False)


def _counted(graph: tf.Graph, step: tf.Variable) -> tf.Operation:
    """One op for the whole model function: what others count meanwhile must not be lost."""
    if not graph.get_collection(_NEXT_STEP):
        with tf.control_dependencies(None):
            graph.add_to_collection(_NEXT_STEP, step.assign_add(1, read_value=False))
    return graph.get_collection(_NEXT_STEP)[0]


def _plain(variable: Any) -> tf.Variable:
    """The TensorFlow variable inside a Keras one."""
    return variable if isinstance(variable, tf.Variable) else variable.value


def _all_trainable(traced: TracedVariables | None) -> list[tf.Variable]:
    """What v1 code calls trainable, and what was built outside of the model function."""
    trainable = tf.compat.v1.trainable_variables()
    if traced is None:
        return trainable
    known = {id(v) for v in trainable}
    used = tf_private.variables_read_in(traced.graph)
    return trainable + [v for v in used if v.trainable and id(v) not in known]
