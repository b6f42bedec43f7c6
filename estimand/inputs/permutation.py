"""A shuffled order that is computed row by row: nothing to fill, to hold or to save."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator

import tensorflow as tf

# How few rows are put into an order: since 2 by sorting random numbers, epoch by epoch. Before, and
# still where there are many, each row's place was computed by itself, which for a thousand rows
# takes twenty times as long. Since 3 an epoch of lines comes in blocks (`Order.decoded`), and since
# 4 rows in memory are counted by another stage (`endless_numbers`): the rows and their order are
# those of 2, a saved position is another.
CURRENT_ORDER = 4
_SORTED_ROWS = 2**13
_PHILOX = 1
_MOST = 2**62  # that anybody counts to
_order: contextvars.ContextVar[int] = contextvars.ContextVar("order", default=CURRENT_ORDER)


@contextlib.contextmanager
def in_order(version: int) -> Iterator[None]:
    """Input functions that are called inside read in the order of a version, as a run began."""
    before = _order.set(version)
    try:
        yield
    finally:
        _order.reset(before)


def current_order() -> int:
    """The version of the order in which an input function is called."""
    return _order.get()


def endless_numbers() -> Callable[[], tf.data.Dataset]:
    """What gives 0, 1, 2, … in the version of the order in which an input function is called.

    `Dataset.counter` traces a function to add one with, for which a short training waits.
    """
    if _order.get() < 4:
        return tf.data.Dataset.counter
    endless = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
    return lambda: tf.data.Dataset.range(_MOST).apply(endless)


def draw_seed(seed: int | None = None) -> tf.Tensor:
    """The seed of an order: the given one, or one drawn here, which `tf.random.set_seed` fixes."""
    if seed is not None:
        return tf.constant([seed, 0], tf.int64)
    return tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int64)


def row_at(positions: tf.Tensor, rows: int, seed: tf.Tensor | None) -> tf.Tensor:
    """The row that stands at each position, counted over all epochs; without a seed, in order.

    Every epoch is a permutation of its own.

    >>> order = row_at(tf.range(6, dtype=tf.int64), 3, tf.constant([1, 2], tf.int64))
    >>> sorted(order[:3].numpy().tolist()), sorted(order[3:].numpy().tolist())
    ([0, 1, 2], [0, 1, 2])
    """
    row = positions % rows
    if seed is None:
        return row
    flat = tf.reshape(row, [-1])
    epoch = tf.reshape(positions // rows, [-1, 1])
    seeds = tf.concat([tf.tile(seed[tf.newaxis], [tf.size(flat), 1]), epoch], axis=1)
    last = tf.constant(rows - 1, tf.int64)
    shuffled = tf.raw_ops.RandomIndexShuffle(index=flat, seed=seeds, max_index=last, rounds=8)
    return tf.reshape(shuffled, tf.shape(row))


def rows_in_order(rows: int, seed: tf.Tensor | None) -> Callable[[tf.Tensor], tf.Tensor]:
    """The same as a function of positions that follow one another, for many of them at once.

    >>> order = rows_in_order(3, tf.constant([1, 2], tf.int64))(tf.range(6, dtype=tf.int64))
    >>> sorted(order[:3].numpy().tolist()), sorted(order[3:].numpy().tolist())
    ([0, 1, 2], [0, 1, 2])
    """
    if seed is None or rows > _SORTED_ROWS or _order.get() < 2:
        return functools.partial(row_at, rows=rows, seed=seed)
    return functools.partial(_sorted_rows_at, rows=rows, seed=seed)


def _sorted_rows_at(positions: tf.Tensor, rows: int, seed: tf.Tensor) -> tf.Tensor:
    flat = tf.reshape(positions, [-1])
    first = flat[0] // rows
    epochs = flat[-1] // rows - first + 1
    # A generator's numbers can be had from any place on: so many for each epoch, two at a time.
    pairs = -(-rows // 2)
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
    begin = tf.cast(tf.stack([first * pairs, 0]), tf.uint64)
    numbers = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=tf.stack([epochs, 2 * pairs]),
        key=key,
        counter=counter + begin,
        alg=_PHILOX,
        dtype=tf.int64,
    )
    order = tf.math.top_k(numbers[:, :rows], rows).indices
    row = tf.gather(tf.reshape(order, [-1]), flat - first * rows)
    return tf.reshape(tf.cast(row, tf.int64), tf.shape(positions))


def shuffled(rows: tf.data.Dataset, buffer_size: int, seed: tf.Tensor) -> tf.data.Dataset:
    """Rows shuffled within a buffer, by a seed of two numbers that may be computed.

    Inside a function `Dataset.shuffle` counts as having a state of its own, and then the
    position of the pipeline could not be saved.
    """
    variant = tf.raw_ops.ShuffleDataset(
        input_dataset=tf.data.experimental.to_variant(rows),
        buffer_size=buffer_size,
        seed=seed[0],
        seed2=seed[1],
        output_types=[spec.dtype for spec in tf.nest.flatten(rows.element_spec)],
        output_shapes=[spec.shape for spec in tf.nest.flatten(rows.element_spec)],
        reshuffle_each_iteration=False,
    )
    return tf.data.experimental.from_variant(variant, rows.element_spec)
