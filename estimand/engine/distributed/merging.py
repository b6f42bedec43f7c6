"""What the replicas' calls of the model function returned, as one answer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ModelFnError
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.engine.distributed import replicas
from estimand.engine.distributed.stopping import StopVote
from estimand.engine.distribution import OneReplica, Stop
from estimand.engine.metrics import MetricSet
from estimand.engine.tracing import sharing
from estimand.engine.variables.engine_variable import EngineVariable


def call_and_merge(
    strategy: tf.distribute.Strategy, one_replica: OneReplica, stop: Stop
) -> tuple[EstimatorSpec, MetricSet | None]:
    """Call `one_replica` for each replica of this process, in the graph being built."""
    in_step: list[tf.Operation] = []

    def call(number: int) -> tuple[EstimatorSpec, MetricSet | None, tf.Tensor | None]:
        spec, metrics = one_replica(number)
        loss = spec.loss
        if spec.mode == ModeKeys.TRAIN and strategy.num_replicas_in_sync > 1:
            loss, votes = _of_all(loss, stop)
            if isinstance(stop, StopVote) and number == 0:
                in_step.append(stop.see(votes))
        return spec, metrics, loss

    with _outsiders_told(strategy):
        results = replicas.for_each(strategy, call)
    specs = [spec for spec, _, _ in results]
    _check_alike(specs)
    merged = _merged(specs, results[0][2], in_step)
    metrics = [m for _, m, _ in results if m is not None]
    return merged, MetricSet.of_replicas(metrics) if metrics else None


@contextlib.contextmanager
def _outsiders_told(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Name the variables that `strategy` did not make, where that is what it stumbles over."""
    graph = tf.compat.v1.get_default_graph()
    try:
        yield
    except (AssertionError, AttributeError, TypeError, ValueError) as error:
        outside = [
            variable.name.split(":")[0]
            for variable in tf_private.variables_read_in(graph)
            if variable.trainable
            and not isinstance(variable, EngineVariable | tf.distribute.DistributedValues)
        ]
        if not outside:
            raise
        raise ModelFnError(
            f"{', '.join(map(repr, outside))} cannot be trained under "
            f"{type(strategy).__name__}: made outside of model_fn, it has no copy for each "
            "replica. Make the layer or variable inside of model_fn, or inside of "
            f"`with strategy.scope():` ({type(error).__name__}: {str(error)[:200]})."
        ) from error


def _of_all(loss: tf.Tensor, stop: Stop) -> tuple[tf.Tensor, tf.Tensor | None]:
    """The loss over the batches of all replicas, in all processes; and who wants to stop."""
    context = tf.distribute.get_replica_context()
    reduction = sharing.loss_reduction()
    if not isinstance(stop, StopVote):
        return context.all_reduce(reduction, loss), None
    shared = loss / sharing.replicas_in_sync() if reduction == tf.distribute.ReduceOp.MEAN else loss
    pair = tf.stack([shared, tf.cast(stop.vote(), loss.dtype)])
    total = context.all_reduce(tf.distribute.ReduceOp.SUM, pair)
    return total[0], total[1]


def _merged(
    specs: Sequence[EstimatorSpec], loss: tf.Tensor | None, in_step: Sequence[tf.Operation]
) -> EstimatorSpec:
    """What cannot be joined (hooks, a Scaffold) is that of the first replica."""
    first = specs[0]
    changes: dict[str, Any] = {"predictions": _joined([s.predictions for s in specs]), "loss": loss}
    if first.mode == ModeKeys.TRAIN:
        train_ops = [s.train_op for s in specs]
        changes["train_op"] = tf.group(*train_ops, *in_step, name="train_all_replicas")
    return first._replace(**changes)


def _check_alike(specs: Sequence[EstimatorSpec]) -> None:
    """A model function that gives each replica something else cannot be merged."""
    first = specs[0]
    for index, spec in enumerate(specs[1:], start=1):
        for name in ("predictions", "eval_metric_ops"):
            ours, theirs = getattr(first, name), getattr(spec, name)
            if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() != theirs.keys():
                raise ModelFnError(
                    f"model_fn returned {name} {sorted(ours)} for replica 0 but {sorted(theirs)} "
                    f"for replica {index}. It must build the same model for every replica."
                )


def _joined(values: Sequence[Any]) -> Any:
    """Predictions of all replicas, one batch after the other."""
    if values[0] is None or len(values) == 1:
        return values[0]

    def join(*parts: Any) -> Any:
        tensors = all(isinstance(p, tf.Tensor) and p.shape.rank for p in parts)
        return tf.concat(parts, axis=0) if tensors else parts[0]

    if isinstance(values[0], dict):
        return {key: join(*(v[key] for v in values)) for key in values[0]}
    return join(*values)
