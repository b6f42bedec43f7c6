"""What a model function wants to see in TensorBoard: v1 summaries merged, v2 ones caught."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core.interpreter.swapping import swapped
from estimand.core.spec import EstimatorSpec
from estimand.engine.variables.placement import current_replica

_Keys = tf.compat.v1.GraphKeys


@dataclass(frozen=True)
class TensorSummary:
    """One `tf.summary.*` (v2) call of the model function."""

    tag: str
    tensor: tf.Tensor
    metadata: Any


def merged_summary(graph: tf.Graph, spec: EstimatorSpec) -> tf.Tensor | None:
    """All v1 summaries of a graph in one tensor, that of the loss among them."""
    summaries = graph.get_collection(_Keys.SUMMARIES)
    if not any(getattr(s, "op", s).name == "loss" for s in summaries):
        tf.compat.v1.summary.scalar("loss", spec.loss)
    graph.add_to_collection(_Keys.LOSSES, spec.loss)
    custom = spec.scaffold.summary_op if spec.scaffold is not None else None
    if isinstance(custom, tf.Tensor):
        return custom
    return tf.compat.v1.summary.merge_all()


@contextlib.contextmanager
def collect_v2_summaries() -> Iterator[list[TensorSummary]]:
    """Catch `tf.summary.scalar(...)` and its kin where the user set no writer of their own.

    They all end in `tf.summary.write` (TensorBoard's functions find it under `tf.compat.v2`).
    The tensors are kept and fetched with the step when summaries are due, so they land in the
    same event file at the same cadence as v1 ones.
    """
    collected: list[TensorSummary] = []

    def catching(original: Callable[..., Any]) -> Callable[..., Any]:
        def write(tag: str, tensor: Any, step: Any = None, metadata: Any = None, name: Any = None):
            if current_replica() > 0:  # one line in TensorBoard is enough
                return tf.constant(True)
            recording = tf.get_static_value(tf.summary.should_record_summaries())
            if recording is None or recording:  # the user made a writer the default one
                return original(tag, tensor, step=step, metadata=metadata, name=name)
            value = tensor() if callable(tensor) else tf.convert_to_tensor(tensor)
            collected.append(TensorSummary(tag, value, metadata))
            return tf.constant(True)

        return write

    modules = (tf.summary, tf.compat.v2.summary)
    with swapped((module, "write", catching) for module in modules):
        yield collected
