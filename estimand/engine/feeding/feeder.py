"""One iterator over the input, in the form the traced step takes its batches."""

from __future__ import annotations

import contextlib
import functools
import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import CheckpointError, InputError
from estimand.engine.checkpoints.api import Entry, Wanted, read_tensors
from estimand.engine.feeding.batches import flatten_batch
from estimand.engine.feeding.block_slicing import in_blocks
from estimand.engine.feeding.fingerprint import Batches, Fingerprint, batches_of
from estimand.engine.feeding.source import BatchSource
from estimand.engine.feeding.supply import Supply, repeating

_log = logging.getLogger("tensorflow")

_KEY = "iterator"
_PREFETCH = 2
_MANY = 10**9
# tf.data's policies on state outside of the pipeline.
_IGNORE_EXTERNAL_STATE = 1
_FAIL_ON_EXTERNAL_STATE = 2
# Ops that TensorFlow calls stateful though no element depends on a state of theirs: a counter
# that is added to and never read, and Datasets made inside of functions.
_HARMLESS_STATE = re.compile(
    r"AssignAddVariableOp|Assert|(?!.*(Random|Generator|Shuffle)).*Dataset(V\d)?"
    r"|StatefulPartitionedCall|If|While|Case"  # whose bodies are looked at, too
    r"|DatasetToSingleElement"  # of a Dataset made inside of a function
)

Unpack = Callable[[Any], tuple[Any, Any]]


class Feeder(BatchSource):
    """Gives batches to a traced function, and knows how many were given.

    `with_labels=False` drops the labels, as prediction does. With several `replicas` what is
    given at once, and counted, are as many batches of the input, one for each.
    """

    # Whether its iterator stands where the training does; by what such a position is known.
    has_position = True
    kind = "iterator"

    def __init__(
        self,
        dataset: tf.data.Dataset,
        unpack: Unpack,
        *,
        with_labels: bool = True,
        keep_alive: Any = None,
        replicas: int = 1,
        ahead: bool = True,
    ) -> None:
        length = int(dataset.cardinality().numpy())
        # Unknown (-2) and endless (-1) both mean: no limit to plan with.
        super().__init__(
            length // replicas if length >= 0 else None,
            replicas=replicas,
            left_over=length % replicas if length > 0 else 0,
        )
        self._ahead = ahead
        self._unpack = unpack
        self._keep_alive = keep_alive  # what the pipeline uses but does not own
        self._with_labels = with_labels
        self._given = dataset
        self._open(dataset)
        self.may_end_unexpectedly = length == tf.data.UNKNOWN_CARDINALITY
        # Functions compiled for one input run on another of the same layout.
        layout = dataset.element_spec
        self.layout = f"{layout!r} -> {unpack(layout)!r}"
        # The rows of every batch, where that is certain.
        self.batch_size = tf_private.full_batch_size(dataset)

    def flatten(self, element: Any) -> list[tf.Tensor]:
        features, labels = self._unpack(element)
        return flatten_batch(features, labels if self._with_labels else None)

    def _open(self, dataset: tf.data.Dataset) -> None:
        self.dataset = self._pipeline(dataset)
        self.iterator = iter(self.dataset)
        self.handle = _handle(self.iterator)

    def _pipeline(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """What is iterated over."""
        return lean(dataset, self._ahead)

    def supply(self, steps: int) -> Supply:
        """Batches for the next `steps` steps or fewer, which are counted by who takes them."""
        return Supply("iterator", [self.iterator], [self.handle], self._draw, steps, waits=True)

    def _draw(self, given: Sequence[Any], number: tf.Tensor) -> list[tf.Tensor]:
        del number  # whichever comes next
        return self.draw(given[0])

    def draw(self, iterator: Any) -> list[tf.Tensor]:
        """A batch for each replica, in the function being built around `iterator`."""
        batches = [self.flatten(iterator.get_next()) for _ in range(self.replicas)]
        return [tensor for batch in batches for tensor in batch]

    def next_batch(self) -> list[tf.Tensor]:
        """One batch for each replica, taken eagerly. Raises OutOfRangeError at the end."""
        batches = self.draw(self.iterator)
        self.took()
        return batches

    def in_hand(self) -> Supply:
        """For one step, taken now: several functions may draw the same batch from it."""
        return repeating(self.next_batch(), 1)

    def on_trial(self, batch: Sequence[tf.Tensor]) -> Supply:
        """Batches like `batch`, none of which is taken away from the training."""
        return repeating(batch, _MANY)

    def next_batches(self) -> list[list[tf.Tensor]]:
        """Batches for as many replicas as there still are some for; none at the end."""
        batches: list[list[tf.Tensor]] = []
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while len(batches) < self.replicas:
                batches.append(self.flatten(self.iterator.get_next()))
        self.took(bool(batches))
        return batches

    def position(self, external_state_policy: int) -> list[Entry] | None:
        """What to save, to go on from here; None: between epochs, where the next order is lost."""
        state = tf.raw_ops.SerializeIterator(
            resource_handle=self.handle, external_state_policy=external_state_policy
        )
        if self._shuffles_to_keep and tf_private.shuffles_kept(state) < self._shuffles_to_keep:
            return None
        return [Entry(_KEY, state)]

    @functools.cached_property
    def _shuffles_to_keep(self) -> int:
        return tf_private.shuffles_to_keep(self._given)

    def pass_over(self, batches: int) -> None:
        """Go to where so many batches have been given, from the start."""
        if batches:  # the function that takes them has to be built
            _take(self.iterator, tf.constant(batches * self.replicas, tf.int64))
        self.stands_after(batches)

    def go_to(self, prefix: str, batches: int, *, try_out: bool) -> None:
        """Go to a position that was saved after so many batches.

        `try_out`: see first whether elements that fit come from it.
        """
        state = read_tensors(prefix, [Wanted(_KEY, tf.variant, None)])[0]
        tf.raw_ops.DeserializeIterator(resource_handle=self.handle, serialized=state)
        if try_out:
            with contextlib.suppress(tf.errors.OutOfRangeError):
                self.iterator.get_next()
            tf.raw_ops.DeserializeIterator(resource_handle=self.handle, serialized=state)
        self.stands_after(batches)


def lean(dataset: tf.data.Dataset, ahead: bool = True) -> tf.data.Dataset:
    """The same pipeline without what costs time or memory and gives nothing here.

    TensorFlow appends an autotuned prefetch, which may hold hundreds of batches, all of them to
    be saved with the position: a small one of our own does as well. And its autotuner, where
    there is no parallel stage to tune, doubles the cost of rows flowing through a pipeline.
    Not `ahead`: nothing is taken from it before it is asked for.
    """
    dataset = in_blocks(dataset) if ahead else dataset
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    if dataset.options().autotune.enabled is None and not tf_private.has_tunable_stage(dataset):
        options.autotune.enabled = False
    # A second prefetch gives nothing: each hand-over between threads costs time.
    if ahead and "Prefetch" not in type(dataset).__name__:
        dataset = dataset.prefetch(_PREFETCH)
    return dataset.with_options(options)


class InputPosition:
    """Where the input pipeline stands, saved beside a checkpoint.

    A pipeline of TensorFlow ops saves itself, shuffle buffers included. One that runs Python
    code (`from_generator`, `py_function`) cannot: then the number of batches taken is kept, and
    a resumed run skips as many. What the input, `dataset`, can be recognized by is noted as well.
    """

    def __init__(self, feeder: Feeder, dataset: tf.data.Dataset, *, resumable: bool) -> None:
        self._feeder = feeder
        self._dataset = dataset
        self._savable = resumable
        self._policy = _FAIL_ON_EXTERNAL_STATE

    def take(self) -> tuple[list[Entry], dict[str, Any]]:
        """The position now: what to write into a file of its own, and what to note of it."""
        record = {"kind": "count", **self._place()}
        if self._savable:
            try:
                entries = self._serialize()
                if entries is not None:
                    return entries, {**record, "kind": self._feeder.kind}
            except tf.errors.OpError as error:
                self._savable = False
                self._tell_that_it_counts(_reason(error))
        return [], record

    def _tell_that_it_counts(self, reason: str) -> None:
        if tf_private.draws_in_parallel(self._dataset):
            _log.warning(
                "The position of the input pipeline cannot be saved (%s), and it draws random "
                "numbers in parallel: in which order its threads come is chance, so no other run "
                "reads the same batches, resumed or with the same seed. Use tf.random.stateless_*, "
                "with a seed from Dataset.random or a counter, or leave out num_parallel_calls.",
                reason,
            )
            return
        _log.warning(
            "The position of the input pipeline cannot be saved (%s). A resumed run will skip the "
            "batches already seen by counting them, which reads them again. Pipelines of "
            "TensorFlow ops only (no generator, no py_function, tf.random.stateless_* instead of "
            "tf.random.*) resume at once.",
            reason,
        )

    def _place(self) -> dict[str, Any]:
        """The place in batches and, for an input with batches of another size, in rows."""
        batches, sizes = self._feeder.batches * self._feeder.replicas, self._sizes
        return {
            "batches": batches,
            "rows": None if sizes is None else sizes.rows_of(batches),
            "pipeline": self._fingerprint.as_json(),
        }

    @functools.cached_property
    def _fingerprint(self) -> Fingerprint:
        return Fingerprint.of(self._dataset)

    @functools.cached_property
    def _sizes(self) -> Batches | None:
        return batches_of(self._dataset)

    def _serialize(self) -> list[Entry] | None:
        try:
            return self._feeder.position(self._policy)
        except tf.errors.FailedPreconditionError:
            if self._policy == _IGNORE_EXTERNAL_STATE or not _only_counts(self._feeder.dataset):
                raise
            self._policy = _IGNORE_EXTERNAL_STATE
            return self._serialize()

    @staticmethod
    def restore(feeder: Feeder, prefix: str, batches: int, *, try_out: bool = False) -> None:
        """Go to a position, saved after so many `batches`; InputError where it does not fit."""
        try:
            feeder.go_to(prefix, batches, try_out=try_out)
        except (tf.errors.OpError, CheckpointError) as error:
            raise InputError(
                "The saved position of the input pipeline does not fit this input_fn "
                f"({str(error).splitlines()[0][:200]})."
            ) from error


def _only_counts(dataset: tf.data.Dataset) -> bool:
    """Whether all that a pipeline changes outside of itself are counters."""
    stateful = tf_private.stateful_op_types(dataset)
    return stateful is not None and all(map(_HARMLESS_STATE.fullmatch, stateful))


def _reason(error: tf.errors.OpError) -> str:
    """What TensorFlow says of the pipeline, without where in TensorFlow it says so."""
    return error.message.splitlines()[0].rpartition("}} ")[2].partition(" [Op:")[0][:200]


@tf.function(autograph=False)
def _take(iterator: Any, count: tf.Tensor) -> tf.Tensor:
    def take(number: tf.Tensor) -> tuple[tf.Tensor]:
        taken = tf.nest.flatten(iterator.get_next(), expand_composites=True)
        with tf.control_dependencies(taken):
            return (number + 1,)

    start = tf.zeros([], tf.int64)
    return tf.while_loop(lambda number: number < count, take, (start,), parallel_iterations=1)[0]


def _handle(iterator: Any) -> tf.Tensor:
    return tf.nest.flatten(iterator, expand_composites=True)[0]
