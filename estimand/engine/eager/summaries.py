"""Summaries and named tensors of a model function that runs eagerly.

v1 summary functions record nothing in eager mode, and a tensor has no name there. While a model
function is run eagerly, both are kept for its step: summaries to be written when they are due,
named tensors for hooks that fetch by name.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from estimand.core.interpreter.swapping import Swap, swapped
from estimand.engine.running import faults
from estimand.engine.tracing.summaries import TensorSummary, collect_v2_summaries

_v1 = tf.compat.v1
_raw = tf.raw_ops


@dataclass
class StepSummaries:
    """What one eager step leaves to be looked at."""

    v1_summaries: dict[str, Callable[[], tf.Tensor]] = field(default_factory=dict)
    v2_summaries: list[TensorSummary] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)

    def serialized(self) -> Iterator[bytes]:
        """The v1 summaries, computed only now."""
        for tag, make in self.v1_summaries.items():
            try:
                yield make().numpy()
            except tf.errors.InvalidArgumentError as error:
                if "in summary histogram for" not in error.message:
                    raise
                what = "Nan" if "Nan in" in error.message else "Infinity"
                told = faults.unfit_for_histogram(tag, what)
                raise tf.errors.InvalidArgumentError(None, None, told) from error

    # Given tensors, not variables: those are others when it is written.
    def note_summary(
        self, make: Callable[[str], tf.Tensor], name: str, family: str | None
    ) -> tf.Tensor:
        tag = _scoped(name if family is None else f"{family}/{name}")
        tag = _unused(tag if family is None else f"{family}/{tag}", self.v1_summaries)
        self.v1_summaries[tag] = functools.partial(make, tag)
        return tf.constant(b"")  # model functions merge these, which is not needed here


@contextlib.contextmanager
def kept() -> Iterator[StepSummaries]:
    """Keep what the code inside summarises and names."""
    keeping = StepSummaries()
    swaps: list[Swap] = [
        (owner, name, functools.partial(_while_eager, make))
        for owner, name, make in _replacements(keeping)
    ]
    with collect_v2_summaries() as keeping.v2_summaries, swapped(swaps):
        yield keeping


def _while_eager(
    make: Callable[[Callable[..., Any]], Callable[..., Any]], original: Callable[..., Any]
) -> Callable[..., Any]:
    """Inside of a `tf.function` of the model's own the function stays what it is."""
    lent = make(original)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (lent if tf.executing_eagerly() else original)(*args, **kwargs)

    return call


def _replacements(keeping: StepSummaries) -> list[Swap]:
    def scalar(name, tensor, collections=None, family=None):
        tensor = tf.convert_to_tensor(tensor)

        def make(tag: str) -> tf.Tensor:
            return _raw.ScalarSummary(tags=tag, values=tensor)

        return keeping.note_summary(make, name, family)

    def histogram(name, values, collections=None, family=None):
        values = tf.convert_to_tensor(values)

        def make(tag: str) -> tf.Tensor:
            return _raw.HistogramSummary(tag=tag, values=values)

        return keeping.note_summary(make, name, family)

    def image(name, tensor, max_outputs=3, collections=None, family=None):
        tensor = tf.convert_to_tensor(tensor)

        def make(tag: str) -> tf.Tensor:
            def in_a_graph() -> tf.Tensor:  # the only place where this op can be made
                return _raw.ImageSummary(tag=tag, tensor=tensor, max_images=max_outputs)

            return tf.function(in_a_graph, autograph=False)()

        return keeping.note_summary(make, name, family)

    def audio(name, tensor, sample_rate, max_outputs=3, collections=None, family=None):
        tensor = tf.convert_to_tensor(tensor)

        def make(tag: str) -> tf.Tensor:
            rate = tf.cast(sample_rate, tf.float32)
            return _raw.AudioSummaryV2(
                tag=tag, tensor=tensor, sample_rate=rate, max_outputs=max_outputs
            )

        return keeping.note_summary(make, name, family)

    def text(name, tensor, collections=None):
        metadata = _v1.SummaryMetadata(
            plugin_data=_v1.SummaryMetadata.PluginData(plugin_name="text")
        )
        keeping.v2_summaries.append(TensorSummary(_scoped(name), tensor, metadata))
        return tf.constant(b"")

    def identity(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(input: Any, name: str | None = None) -> Any:
            value = original(input, name)
            if name is not None:
                keeping.named[_unused(_scoped(name), keeping.named)] = value
            return value

        return call

    lent = {"scalar": scalar, "histogram": histogram, "image": image, "audio": audio, "text": text}
    return [
        *((_v1.summary, name, lambda _, f=function: f) for name, function in lent.items()),
        (tf, "identity", identity),
        (_v1, "identity", identity),
    ]


def _scoped(name: str) -> str:
    with tf.name_scope(name) as scope:
        return scope.rstrip("/")


def _unused(name: str, used: dict[str, Any]) -> str:
    """As a graph makes names unique."""
    candidate, number = name, 0
    while candidate in used:
        number += 1
        candidate = f"{name}_{number}"
    return candidate
