"""Which rows, in which order, make up which batch: the part that all file readers share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import InputError
from estimand.core.modes import ModeKeys
from estimand.inputs.permutation import current_order, draw_seed, row_at, shuffled

ROWS_OF_BATCH = "_estimand_rows_of_batch"
_BATCHES_PER_BLOCK = 8
_EPOCHS_IN_BLOCKS = 3  # since this version of the order


@dataclasses.dataclass(frozen=True)
class Order:
    """The reading order a user asked for; what was left open is decided by the mode.

    >>> order = Order(batch_size=2)
    >>> order.for_mode("train").shuffle, order.for_mode("eval").shuffle
    (True, False)
    >>> numbers = order.for_mode("eval").batches(lambda epoch: tf.data.Dataset.range(3).batch(3))
    >>> [batch.tolist() for batch in numbers.as_numpy_iterator()]
    [[0, 1], [2]]
    """

    batch_size: int = 128
    num_epochs: int | None = None
    shuffle: bool | None = None
    shuffle_buffer_size: int = 10_000
    seed: int | None = None
    drop_remainder: bool = False
    endless: bool = False  # settled by `for_mode`

    def __post_init__(self) -> None:
        _check_count("batch_size", self.batch_size, at_least=1)
        _check_count("shuffle_buffer_size", self.shuffle_buffer_size, at_least=1)
        if self.num_epochs is not None:
            _check_count("num_epochs", self.num_epochs, at_least=0, or_none=True)
        if self.shuffle not in (None, True, False):
            raise InputError(
                f"shuffle must be True, False or None (shuffle when training), "
                f"given: {self.shuffle!r}"
            )

    def for_mode(self, mode: str | None) -> Order:
        """The same order with nothing left open.

        Training reads for ever and shuffles; everything else reads once, in order.
        """
        training = mode == ModeKeys.TRAIN
        return dataclasses.replace(
            self,
            shuffle=training if self.shuffle is None else self.shuffle,
            num_epochs=1 if self.num_epochs is None and not training else self.num_epochs,
            endless=self.num_epochs is None and training,
        )

    def batches(self, blocks_of: OfEpoch) -> tf.data.Dataset:
        """Epochs of rows, which come in blocks, as batches.

        Epochs follow one another without a gap, as in `numpy_input_fn`: a batch may hold the
        end of one and the beginning of the next, but no row comes twice in an epoch. When
        shuffling for ever there must be a row, or it would be looked for for ever.
        """
        if self.shuffle:
            rows = self._shuffled_epochs(lambda epoch: blocks_of(epoch).unbatch())
            return lean(rows.batch(self.batch_size, self._only_full))
        # Cutting blocks anew costs less than taking them apart into rows.
        blocks = blocks_of(None).repeat(None if self.endless else self.num_epochs)
        return lean(blocks.rebatch(self.batch_size, self._only_full))

    def decoded(
        self,
        rows_of: OfEpoch,
        decode: Callable[[tf.data.Dataset, int], tf.data.Dataset],
        block_size: int,
    ) -> tf.data.Dataset:
        """The same for rows that come one by one and are decoded in blocks, which may lose rows.

        `decode` gets blocks and their size. Small batches are cut from larger blocks: decoding
        is for the most part a price per call.
        """
        # Not many batches: all that is read ahead becomes part of a saved position.
        batches = max(1, min(_BATCHES_PER_BLOCK, block_size // self.batch_size))
        size = self.batch_size * batches
        if not self.shuffle:
            blocks = rows_of(None).repeat(None if self.endless else self.num_epochs).batch(size)
        elif current_order() < _EPOCHS_IN_BLOCKS:
            blocks = self._shuffled_epochs(rows_of).batch(size)
        else:
            # What comes out of an epoch costs as much for a row as for a block.
            blocks = self._shuffled_epochs(rows_of, size)
        return lean(decode(blocks, size).rebatch(self.batch_size, self._only_full))

    @property
    def _only_full(self) -> bool:
        # Without an end there is no smaller last batch: models see the exact shape.
        return self.drop_remainder or self.endless

    def _shuffled_epochs(self, rows_of: OfEpoch, block: int | None = None) -> tf.data.Dataset:
        """Rows, or blocks of so many; every epoch in an order that follows from its number.

        Not `shuffle(...).repeat()`: what a shuffle of files has drawn is forgotten by a saved
        position once the last row of an epoch has been read into a later stage.
        """
        with tf.device("/cpu:0"):
            seed = draw_seed(self.seed)

        @tf.autograph.experimental.do_not_convert
        def epoch(number: tf.Tensor) -> tf.data.Dataset:
            rows = rows_of(Epoch(number, seed))
            own = tf.random.experimental.stateless_fold_in(seed, number)
            rows = shuffled(rows, self.shuffle_buffer_size, own)
            return rows if block is None else rows.batch(block)

        if self.endless:
            return tf.data.Dataset.counter().flat_map(epoch)
        return tf.data.Dataset.range(self.num_epochs).flat_map(epoch)


@dataclasses.dataclass(frozen=True)
class Epoch:
    """One epoch that is to be shuffled."""

    number: tf.Tensor
    seed: tf.Tensor

    def permutation(self, size: int) -> tf.Tensor:
        """The numbers from 0 to `size`, in the order of this epoch."""
        return row_at(self.number * size + tf.range(size, dtype=tf.int64), size, self.seed)


OfEpoch = Callable[[Epoch | None], tf.data.Dataset]  # None: in order


def batches_of_rows(dataset: tf.data.Dataset, rows: int) -> tf.data.Dataset:
    """Note on a Dataset that its batches, the last one apart, have so many rows.

    For one without a stage that makes the batches, where this could be seen.
    """
    setattr(dataset, ROWS_OF_BATCH, rows)
    return dataset


def lean(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Two batches ahead and no more.

    TensorFlow would append a prefetch of a size of its own choosing, all of which becomes part
    of a saved position. And where it has nothing to tune, it would time every row in every stage.
    """
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    if not tf_private.has_tunable_stage(dataset):
        options.autotune.enabled = False
    return dataset.prefetch(2).with_options(options)


def _check_count(name: str, value: Any, *, at_least: int, or_none: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        accepted = f"None or an integer of at least {at_least}" if or_none else None
        raise InputError(
            f"{name} must be {accepted or f'an integer of at least {at_least}'}, given: {value!r}"
        )
