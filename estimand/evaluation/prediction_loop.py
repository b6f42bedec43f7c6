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
            values = self._compiled[key](*supply.values, *counts)
        arrays = [v.numpy() for v in values]
        if not self.joinable:
            feeder.took()
            return [tuple(arrays)], False
        count = len(self.tensors)
        results = _taken_apart(arrays[:count], arrays[count:])
        feeder.took(len(results))
        return results, len(results) < supply.steps

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
            return self._step(supply.draw(given, first), counted)

        return run

    def _many(self, feeder: Feeder, supply: Supply, counted: bool) -> Any:
        def write(index: tf.Tensor, batch: list[tf.Tensor], arrays: Any) -> Any:
            values = self._step(batch, counted)
            return tuple(a.write(index, v) for a, v in zip(arrays, values, strict=True))

        def run(*args: Any) -> Any:
            *given, first, batches = args

            def take(index: tf.Tensor, arrays: Any) -> Any:
                return index + 1, write(index, supply.draw(given, first + index), arrays)

            def take_if_there(index: tf.Tensor, alive: tf.Tensor, arrays: Any) -> Any:
                maybe = given[0].get_next_as_optional()
                return tf.cond(
                    maybe.has_value(),
                    lambda: (
                        index + 1,
                        True,
                        write(index, feeder.flatten(maybe.get_value()), arrays),
                    ),
                    lambda: (index, False, arrays),
                )

            start = tf.constant(0)
            if counted or supply.by_number:
                _, arrays = tf.while_loop(
                    lambda index, _: index < batches,
                    take,
                    (start, self._empty_arrays(batches)),
                    parallel_iterations=1,
                )
            else:
                _, _, arrays = tf.while_loop(
                    lambda index, alive, _: tf.logical_and(alive, index < batches),
                    take_if_there,
                    (start, tf.constant(True), self._empty_arrays()),
                    parallel_iterations=1,
                )
            joined = [
                _joined(array, tensor) for array, tensor in zip(arrays, self.tensors, strict=True)
            ]
            return [lengths for _, lengths in joined], [values for values, _ in joined]

        return run

    def _empty_arrays(self, size: tf.Tensor | None = None) -> tuple[tf.TensorArray, ...]:
        """For each prediction, one that holds `size` batches, or as many as come."""
        return tuple(
            tf.TensorArray(
                t.dtype,
                0 if size is None else size,
                dynamic_size=size is None,
                infer_shape=False,
                element_shape=_shape_of_batch(t),
            )
            for t in self.tensors
        )


def _shape_of_batch(tensor: tf.Tensor) -> tf.TensorShape:
    return tf.TensorShape([None]).concatenate(tensor.shape[1:])


def _joined(array: tf.TensorArray, tensor: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The batches of `tensor` one after the other, and how many rows each has.

    TensorFlow's own `concat` counts them, too, but keeps that to itself; to count them in each
    turn of the loop would cost as much as a small model.
    """
    shape = _shape_of_batch(tensor)
    joined = tf.raw_ops.TensorListConcatV2(
        input_handle=array.flow,
        element_dtype=tensor.dtype,
        element_shape=[-1 if n is None else n for n in shape.as_list()],
        leading_dims=tf.zeros([0], tf.int64),
    )
    return joined.tensor, joined.lengths


def _taken_apart(
    lengths: Sequence[np.ndarray], arrays: Sequence[np.ndarray]
) -> list[tuple[np.ndarray, ...]]:
    """Batches out of arrays in which they lie one after the other."""
    columns = []
    for counts, array in zip(lengths, arrays, strict=True):
        ends = np.cumsum(counts).tolist()
        columns.append([array[b:e] for b, e in zip([0, *ends], ends)])  # noqa: B905 - one more
    return list(zip(*columns, strict=True))


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
