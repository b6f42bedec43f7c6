"""Prediction: many batches per call, yielded one row or one batch at a time.

One call per batch is slower than a v1 session. So batches are taken in groups that grow from
one: the first result comes at once, a long input runs at full speed. Each batch still goes
through the model by itself, so models whose rows depend on each other stay right.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import SpecError
from estimand.core.names import did_you_mean
from estimand.engine.feeding.feeder import Feeder
from estimand.engine.feeding.supply import Supply
from estimand.engine.hook_calls.runner import ALSO, HookRunner
from estimand.engine.hook_calls.session import TracedSession
from estimand.engine.running.compiled import PLAIN, SINGLE_THREAD, Compiled
from estimand.engine.running.program import StepProgram, rewrite_for
from estimand.engine.tracing.built_model import BuiltModel
from estimand.engine.tracing.trace import Trace
from estimand.hooks.adopt import adopt

_log = logging.getLogger("tensorflow")

_MOST_BATCHES_PER_CALL = 256
_MOST_BYTES_PER_CALL = 8 * 2**20

Batch = Any  # an array, or a dict of arrays


def selected_predictions(trace: BuiltModel, predict_keys: Any) -> Any:
    """The predictions to compute: a tensor, or the dict restricted to `predict_keys`."""
    predictions = trace.spec.predictions
    if not predict_keys:
        return predictions
    if not isinstance(predictions, dict):
        raise SpecError(
            "predict_keys argument is not valid in case of non-dict predictions. "
            f"model_fn returned {predictions!r}; leave predict_keys out."
        )
    chosen = {k: v for k, v in predictions.items() if k in predict_keys}
    if not chosen:
        wanted = predict_keys if isinstance(predict_keys, str) else next(iter(predict_keys), "")
        raise SpecError(
            f"Expected to run at least one output from {predictions.keys()}, "
            f"provided {predict_keys}.{did_you_mean(wanted, predictions)}"
        )
    return chosen


class PredictProgram:
    """Compiled prediction of one trace and one choice of keys."""

    def __init__(self, trace: Trace, predictions: Any, block_mode: str) -> None:
        self._trace = trace
        self.block_mode = block_mode
        self.keys = list(predictions) if isinstance(predictions, dict) else None
        tensors = list(predictions.values()) if self.keys is not None else [predictions]
        # A prediction that is one of the inputs must become a tensor of its own to be fetched.
        inputs = {id(t) for t in trace.inputs}
        with trace.as_default():
            self.tensors = [tf.identity(t) if id(t) in inputs else t for t in tensors]
        # Only arrays that differ in nothing but their first dimension can be joined.
        self.joinable = all(
            t.shape.rank is not None and t.shape.rank > 0 and t.shape[1:].is_fully_defined()
            for t in self.tensors
        )
        self._compiled: dict[tuple[bool, str, str, int], Compiled] = {}

    def run(self, feeder: Feeder, batches: int) -> tuple[list[tuple[np.ndarray, ...]], bool]:
        """Predict up to `batches` batches; these, and whether the input has ended."""
        counted = feeder.remaining is not None
        if counted:
            batches = min(batches, feeder.remaining or 0)
            if batches == 0:
                return [], True
        supply = feeder.supply(batches)
        counts = tf.constant(supply.first), tf.constant(supply.steps)
        with self._trace.usage:
            # The layout has the labels, too, that are dropped here.
            key = (counted, feeder.layout, supply.form, self._trace.binding)
            if key not in self._compiled:
                build = (self._many if self.joinable else self._one)(feeder, supply, counted)
                mode = self._mode(counted)
                self._compiled[key] = Compiled(build, mode, *supply.signature, *counts)
            sizes, *values = self._compiled[key](*supply.values, *counts)
        arrays = [v.numpy() for v in values]
        if not self.joinable:
            feeder.took()
            return [tuple(arrays)], False
        rows = sizes.numpy()
        ends = np.cumsum(rows, axis=0)
        feeder.took(len(rows))
        results = [
            tuple(a[e - s : e] for a, e, s in zip(arrays, end, size, strict=True))
            for end, size in zip(ends, rows, strict=True)
        ]
        return results, len(rows) < supply.steps

    def _mode(self, counted: bool) -> str:
        # The single-threaded executor cannot wait for an optional element.
        waits = self.joinable and not counted
        return PLAIN if waits and self.block_mode == SINGLE_THREAD else self.block_mode

    def _step(self, batch: Sequence[tf.Tensor], counted: bool) -> list[tf.Tensor]:
        rewrite = rewrite_for(self._mode(counted))
        return self._trace.place(self.tensors, self._trace.inputs, batch, rewrite)

    def _one(self, feeder: Feeder, supply: Supply, counted: bool) -> Any:
        def run(*args: Any) -> Any:
            *given, first, _ = args
            return tf.constant(1), self._step(supply.draw(given, first), counted)

        return run

    def _many(self, feeder: Feeder, supply: Supply, counted: bool) -> Any:
        def write(index: tf.Tensor, batch: list[tf.Tensor], sizes: Any, arrays: Any) -> Any:
            values = self._step(batch, counted)
            written = tuple(a.write(index, v) for a, v in zip(arrays, values, strict=True))
            rows = tf.stack([tf.shape(v)[0] for v in values])
            return index + 1, True, sizes.write(index, rows), written

        def run(*args: Any) -> Any:
            *given, first, batches = args

            def body(index: tf.Tensor, alive: Any, sizes: Any, arrays: Any) -> Any:
                if counted or supply.by_number:
                    return write(index, supply.draw(given, first + index), sizes, arrays)
                maybe = given[0].get_next_as_optional()
                return tf.cond(
                    maybe.has_value(),
                    lambda: write(index, feeder.flatten(maybe.get_value()), sizes, arrays),
                    lambda: (index, False, sizes, arrays),
                )

            _, _, sizes, arrays = tf.while_loop(
                lambda i, alive, *_: tf.logical_and(alive, i < batches),
                body,
                (tf.constant(0), tf.constant(True), *self._empty_arrays()),
                parallel_iterations=1,
            )
            return sizes.stack(), [a.concat() for a in arrays]

        return run

    def _empty_arrays(self) -> tuple[Any, tuple[Any, ...]]:
        arrays = tuple(
            tf.TensorArray(
                t.dtype,
                0,
                dynamic_size=True,
                infer_shape=False,
                element_shape=tf.TensorShape([None]).concatenate(t.shape[1:]),
            )
            for t in self.tensors
        )
        sizes = tf.TensorArray(tf.int32, 0, dynamic_size=True, element_shape=[len(arrays)])
        return sizes, arrays


def predict_batches(
    program: PredictProgram, feeder: Feeder, *, in_groups: bool = True
) -> Iterator[tuple[np.ndarray, ...]]:
    """All batches of the input, in growing groups, or each when it is asked for."""
    group = 1
    while True:
        try:
            results, ended = program.run(feeder, group)
        except tf.errors.OutOfRangeError:
            return
        yield from results
        if ended:
            return
        if not (in_groups and program.joinable):
            continue
        bytes_per_batch = max(1, sum(a.nbytes for a in results[0]))
        limit = min(_MOST_BATCHES_PER_CALL, max(1, _MOST_BYTES_PER_CALL // bytes_per_batch))
        group = min(group * 4, limit)


def predict_with_hooks(
    trace: Trace,
    program: PredictProgram,
    feeder: Feeder,
    hooks: Sequence[Any],
    about_to_write: Callable[[], None],
) -> Iterator[tuple[np.ndarray, ...]]:
    """One batch at a time, with hooks around each."""
    session = TracedSession(trace, feeder.next_batch, about_to_write)
    runner = HookRunner([adopt(h) for h in hooks], session)
    steps = StepProgram(trace, [], program.tensors[0], block_mode=program.block_mode)
    runner.begin()
    runner.after_create_session(0)
    done = 0
    while not runner.stop_requested:
        look = runner.before_run(done, 1, also=program.tensors)
        assert look is not None and look.plan is not None
        try:
            fetched = steps.step(feeder, look.plan, look.feeds, look.feed_values).fetched
        except tf.errors.OutOfRangeError:
            break
        done += 1
        runner.after_run(look, fetched, done)
        yield tuple(fetched[ALSO])
    runner.end()


def as_batches(
    program: PredictProgram, batches: Iterator[tuple[np.ndarray, ...]]
) -> Iterator[Batch]:
    for arrays in batches:
        yield arrays[0] if program.keys is None else dict(zip(program.keys, arrays, strict=True))


def as_rows(program: PredictProgram, batches: Iterator[tuple[np.ndarray, ...]]) -> Iterator[Any]:
    """One row at a time."""
    keys = program.keys
    for arrays in batches:
        if keys is None:
            yield from arrays[0]
            continue
        _check_lengths(keys, arrays)
        for row in zip(*arrays, strict=True):
            yield dict(zip(keys, row))  # noqa: B905 - the hottest line; lengths are equal


def _check_lengths(keys: Sequence[Any], arrays: Sequence[np.ndarray]) -> None:
    lengths = [a.shape[0] if a.ndim else None for a in arrays]
    for key, length in zip(keys, lengths, strict=True):
        if length is None or length != lengths[0]:
            shapes = {k: a.shape for k, a in zip(keys, arrays, strict=True)}
            raise SpecError(
                f"Batch length of predictions should be same. {key} has different batch length "
                f"than others. Shapes: {shapes}. Pass yield_single_examples=False to get whole "
                "batches, or predict_keys to leave some out."
            )
