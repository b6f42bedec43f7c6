"""What to do with rows that cannot be read: stop and say which, or skip and count them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import InputError


def check_on_error(where: str, on_error: Any) -> None:
    if on_error not in ("raise", "skip"):
        raise InputError(
            f"{where}: on_error must be 'raise' (stop at the first broken row and name it) or "
            f"'skip' (leave broken rows out and report how many), given: {on_error!r}."
        )


class SkipCounter:
    """Counts rows inside a pipeline. It is only added to there, so it never changes what is read.

    >>> counter = SkipCounter()
    >>> counter.add(10, 3)
    >>> counter.take(), counter.take()
    ((10, 3), (0, 0))
    """

    def __init__(self) -> None:
        # The input function may be called while a graph is built; the counter outlives that.
        with tf_private.eager_mode(), tf.init_scope(), tf.device("/cpu:0"):
            self._seen = tf.Variable(0, trainable=False, dtype=tf.int64, name="rows_seen")
            self._skipped = tf.Variable(0, trainable=False, dtype=tf.int64, name="rows_skipped")
        self._told = (0, 0)

    def add(self, seen: Any, skipped: Any) -> None:
        # Not reading the new value back is what lets a position be saved all the same.
        self._seen.assign_add(tf.cast(seen, tf.int64), read_value=False)
        self._skipped.assign_add(tf.cast(skipped, tf.int64), read_value=False)

    def take(self) -> tuple[int, int]:
        """(rows seen, rows skipped) since the last call."""
        with tf_private.eager_mode():
            now = int(self._seen.numpy()), int(self._skipped.numpy())
        new = now[0] - self._told[0], now[1] - self._told[1]
        self._told = now
        return new


def skipped_sentence(
    counter: SkipCounter | None, what: str, of: str, first: Callable[[], str | None]
) -> str | None:
    """One sentence on what was skipped since the last one; `first` finds the first of them."""
    if counter is None:
        return None
    seen, skipped = counter.take()
    if not skipped:
        return None
    place = first()
    return f"Skipped {skipped:,} of {seen:,} {what} of {of}" + (
        f": first {place}" if place else "."
    )


def keep_readable(
    blocks: tf.data.Dataset,
    decode: Callable[[tf.Tensor], Any],
    counter: SkipCounter,
    block_size: int,
) -> tf.data.Dataset:
    """Blocks of lines, or of (lines, more…), without those lines that `decode` fails on.

    A block is decoded as a whole to see whether it is good; only if not, line by line. What is
    kept are the lines: they are decoded once more when they are in their final batches, which
    is far cheaper than cutting decoded columns into rows.
    """
    from_tensors = tf.data.Dataset.from_tensors

    def readable_of(lines: tf.data.Dataset) -> tf.data.Dataset:
        # A decoded value goes on to the next stage: TensorFlow prunes what nothing depends on,
        # control dependencies included.
        decoded = lines.map(lambda *row: (row, tf.nest.flatten(decode(row[0]))[0]))
        return decoded.ignore_errors().map(lambda row, _: row)

    def readable(*block: tf.Tensor) -> tf.data.Dataset:
        whole = readable_of(from_tensors(block))
        lines = readable_of(tf.data.Dataset.from_tensor_slices(block)).batch(block_size)
        nothing = from_tensors(tuple(part[:0] for part in block))
        kept = whole.concatenate(lines).concatenate(nothing).take(1)
        return kept.map(lambda *row: (tf.size(block[0]), *row))

    def count(size: tf.Tensor, *row: tf.Tensor) -> Any:
        counter.add(size, size - tf.size(row[0]))
        return row if len(row) > 1 else row[0]

    plain = tf.autograph.experimental.do_not_convert
    return blocks.flat_map(plain(readable)).map(plain(count))
