"""Graphs made at random, of operations that mix rows and of others that do not.

Sizes are few and small, so that what only fits by chance does fit now and then.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import tensorflow as tf

Pool = list[tf.Tensor]
_MOST_AXES = 4


class Maker:
    """Tensors made of those that are there already."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.width = self._size()
        self.depth = self._random.choice([1, 2, None])

    def signature(self) -> tuple[tf.TensorSpec, ...]:
        return (
            tf.TensorSpec([None, self.width], tf.float32, "x"),
            tf.TensorSpec([None, self.depth, 2], tf.float32, "y"),
            tf.TensorSpec([None], tf.int32, "i"),
        )

    def outputs(self, count: int, *inputs: tf.Tensor) -> list[tf.Tensor]:
        pool = [*inputs, tf.constant([[1.0, 2.0]]), tf.constant(2.0)]
        first = len(pool)
        while len(pool) < first + count:
            make = self._random.choice(_MAKERS)
            try:
                made = make(self, pool)
            except (ValueError, TypeError, IndexError, tf.errors.OpError):
                continue  # these do not fit
            if made.shape.rank is not None and made.shape.rank <= _MOST_AXES:
                pool.append(made)
        return [tf.identity(one) for one in pool[first:] if one.shape.rank]

    # ------------------------------------------------------------ choices

    def _size(self) -> int:
        return self._random.choice([1, 2, 3])

    def _number(self, pool: Pool, rank: int = 0) -> tf.Tensor:
        return self._pick([t for t in pool if t.dtype == tf.float32 and t.shape.rank >= rank])

    def _integers(self, pool: Pool) -> tf.Tensor:
        return self._pick([t for t in pool if t.dtype == tf.int32])

    def _pick(self, found: Pool) -> tf.Tensor:
        """Often an input or what was made just now: what is far from both fits nothing."""
        some = self._random.choice([found[:2], found[-3:], found])
        return self._random.choice(some)

    def _like(self, pool: Pool, one: tf.Tensor) -> tf.Tensor:
        found = [t for t in pool if t.dtype == one.dtype and t.shape.rank == one.shape.rank]
        return self._random.choice(found)

    def _axis(self, one: tf.Tensor, more: int = 0) -> int:
        rank = one.shape.rank + more
        return self._random.randrange(-rank, rank)

    def _chance(self, part: float = 0.5) -> bool:
        return self._random.random() < part

    def _constant(self, *shape: int) -> tf.Tensor:
        numbers = np.random.default_rng(self._random.randrange(10**6))
        return tf.constant(numbers.integers(-2, 3, size=shape).astype(np.float32))

    # ------------------------------------------------------------ tensors

    def _element_by_element(self, pool: Pool) -> tf.Tensor:
        combine = self._random.choice([tf.add, tf.multiply, tf.maximum])
        return combine(self._number(pool), self._number(pool))

    def _with_constant(self, pool: Pool) -> tf.Tensor:
        one = self._number(pool, 1)
        rank = self._random.randrange(one.shape.rank + 1)
        return one + self._constant(*(self._size() for _ in range(rank)))

    def _one(self, pool: Pool) -> tf.Tensor:
        functions = [tf.nn.relu, tf.tanh, tf.zeros_like, tf.ones_like, tf.square]
        return self._random.choice(functions)(self._number(pool))

    def _along_axis(self, pool: Pool) -> tf.Tensor:
        one = self._number(pool, 1)
        functions = [
            lambda axis: tf.reduce_sum(one, axis, keepdims=self._chance()),
            lambda axis: tf.reduce_max(one, axis, keepdims=self._chance()),
            lambda axis: tf.reduce_mean(one, axis),
            lambda axis: tf.nn.softmax(one, axis),
            lambda axis: tf.cumsum(one, axis),
            lambda axis: tf.sort(one, axis),
            lambda axis: tf.reverse(one, [axis]),
            lambda axis: tf.argmax(one, axis, tf.int32),
            lambda axis: tf.squeeze(one, axis),
            lambda axis: self._random.choice(tf.split(one, 2, axis)),
            lambda axis: self._random.choice(tf.unstack(one, axis=axis)),
        ]
        return self._random.choice(functions)(self._axis(one))

    def _several(self, pool: Pool) -> tf.Tensor:
        one = self._number(pool, 1)
        other = self._like(pool, one)
        if self._chance():
            return tf.concat([one, other], self._axis(one))
        return tf.stack([one, other], self._axis(one, 1))

    def _transposed(self, pool: Pool) -> tf.Tensor:
        one = self._number(pool, 2)
        return tf.transpose(one, self._random.sample(range(one.shape.rank), one.shape.rank))

    def _expanded(self, pool: Pool) -> tf.Tensor:
        one = self._number(pool)
        return tf.expand_dims(one, self._axis(one, 1))

    def _sliced(self, pool: Pool) -> tf.Tensor:
        one = self._number(pool, 1)
        whole = slice(None)
        choices = [whole, whole, slice(0, 1), slice(1, None), slice(None, None, -1), 0, -1]
        choices += [slice(None, 2), tf.newaxis, slice(None, tf.shape(self._number(pool, 1))[0])]
        return one[tuple(self._random.choice(choices) for _ in range(one.shape.rank))]

    def _reshaped(self, pool: Pool) -> tf.Tensor:
        one = self._number(pool)
        shape = tf.shape(self._number(pool, 1) if self._chance(0.3) else one)
        choices: list = [1, 2, 3, 4, 6, -1]
        for place in range(shape.shape[0]):
            choices += [shape[place], shape[place], tf.reduce_prod(shape[: place + 1])]
        sizes = [self._random.choice(choices) for _ in range(self._random.randrange(1, 4))]
        return tf.reshape(one, shape if self._chance(0.2) else tf.stack(sizes))

    def _product(self, pool: Pool) -> tf.Tensor:
        one = self._number(pool, 2)
        other = self._number(pool, 2)
        if self._chance():
            other = self._constant(one.shape[-1] or 2, self._size())
        return tf.matmul(one, other, transpose_a=self._chance(0.3), transpose_b=self._chance(0.3))

    def _einsum(self, pool: Pool) -> tf.Tensor:
        one, other = self._number(pool, 2), self._number(pool, 2)
        left = self._random.sample("abcd", one.shape.rank)
        right = self._random.sample("abcd", other.shape.rank)
        letters = sorted({*left, *right})
        result = self._random.sample(letters, self._random.randrange(1, len(letters) + 1))
        return tf.einsum(f"{''.join(left)},{''.join(right)}->{''.join(result)}", one, other)

    def _repeated(self, pool: Pool) -> tf.Tensor:
        one = self._number(pool, 1)
        rows = tf.shape(self._number(pool, 1))[0]
        times = [self._random.choice([1, 1, 2, rows]) for _ in range(one.shape.rank)]
        return tf.tile(one, tf.stack(times))

    def _filled(self, pool: Pool) -> tf.Tensor:
        shape = tf.shape(self._number(pool, 1))
        return tf.zeros(shape) if self._chance() else tf.fill([shape[0], self._size()], 1.5)

    def _spread(self, pool: Pool) -> tf.Tensor:
        return tf.broadcast_to(self._number(pool), tf.shape(self._number(pool, 1)))

    def _counted(self, pool: Pool) -> tf.Tensor:
        one = self._number(pool, 1)
        numbers = [tf.shape(one)[0], tf.shape(one)[-1], tf.size(one), tf.range(tf.shape(one)[0])]
        found = self._random.choice(numbers)
        return tf.cast(found, tf.float32) if self._chance() else found

    def _gathered(self, pool: Pool) -> tf.Tensor:
        one, places = self._number(pool, 1), self._integers(pool)
        if self._chance():
            places = tf.clip_by_value(places, 0, 1)
        batch_dims = int(self._chance(0.3))
        return tf.gather(one, places, axis=max(self._axis(one), batch_dims), batch_dims=batch_dims)

    def _looked_up(self, pool: Pool) -> tf.Tensor:
        places = tf.clip_by_value(self._integers(pool), 0, 3)
        if self._chance():
            return tf.one_hot(places, self._size(), axis=self._random.choice([-1, 0]))
        return tf.gather(self._constant(4, self._size()), places)

    def _true_ones(self, pool: Pool) -> tf.Tensor:
        one, other = self._number(pool, 1), self._number(pool, 1)
        places = tf.where(other > 0.0)
        if self._chance(0.3):
            return tf.cast(places, tf.int32)
        return tf.gather_nd(one, places) if self._chance() else tf.boolean_mask(one, other > 0.0)

    def _once(self, pool: Pool) -> tf.Tensor:
        values, places = tf.unique(self._integers(pool))
        looked_up = tf.gather(tf.cast(values, tf.float32) * 2.0, places)
        return self._random.choice([looked_up, tf.cast(values, tf.float32), places])

    def _segments(self, pool: Pool) -> tf.Tensor:
        if self._chance(0.3):
            return tf.math.segment_sum(self._number(pool, 1), self._integers(pool))
        entries = tf.sparse.from_dense(tf.cast(self._number(pool, 2), tf.int64) % 4)
        filled, empty = tf.sparse.fill_empty_rows(entries, 0)
        found = [
            lambda: tf.nn.embedding_lookup_sparse(self._constant(4, 2), filled, None),
            lambda: tf.math.segment_sum(tf.cast(filled.values, tf.float32), filled.indices[:, 0]),
            lambda: tf.math.segment_sum(tf.cast(entries.values, tf.float32), entries.indices[:, 0]),
            lambda: tf.cast(empty, tf.float32),
            lambda: tf.cast(tf.sparse.to_dense(filled), tf.float32),
        ]
        return self._random.choice(found)()

    def _selected(self, pool: Pool) -> tf.Tensor:
        return tf.where(self._number(pool) > 0.0, self._number(pool), self._number(pool))

    def _branched(self, pool: Pool) -> tf.Tensor:
        one, other = self._number(pool), self._number(pool, 1)
        choices = [tf.reduce_max(other) > 1.0, tf.shape(other)[0] > 2, tf.shape(other)[-1] > 1]
        return tf.cond(self._random.choice(choices), lambda: one * 2.0, lambda: one + 1.0)

    def _looped(self, pool: Pool) -> tf.Tensor:
        one, other = self._number(pool), self._number(pool, 1)
        turns = self._random.choice([3, tf.shape(other)[0], tf.shape(other)[-1]])
        with_other = self._chance()

        def turn(i: tf.Tensor, now: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return i + 1, (now + other if with_other else now * 0.5 + 1.0)

        shapes = [tf.TensorShape([]), one.shape]
        found = tf.while_loop(lambda i, _: i < turns, turn, [0, one], shape_invariants=shapes)
        return found[1]

    def _scanned(self, pool: Pool) -> tf.Tensor:
        one = self._number(pool, 2)
        order = list(range(one.shape.rank))
        if self._chance(0.6):
            order[:2] = order[1::-1]
        return tf.scan(lambda state, now: state * 0.5 + now, tf.transpose(one, order))

    def _padded(self, pool: Pool) -> tf.Tensor:
        one = self._number(pool, 1)
        pairs = [[int(self._chance(0.2)), int(self._chance(0.2))] for _ in range(one.shape.rank)]
        return tf.pad(one, pairs)

    def _whole_numbers(self, pool: Pool) -> tf.Tensor:
        if self._chance():
            return tf.cast(self._number(pool), tf.int32)
        return tf.add(self._integers(pool), self._integers(pool))

    def _called(self, pool: Pool) -> tf.Tensor:
        first = self._chance()

        def inner(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
            return one + other if first else tf.reshape(one, tf.shape(other))

        return tf.function(inner, autograph=False)(self._number(pool), self._number(pool))


_MAKERS: list[Callable[[Maker, Pool], tf.Tensor]] = [
    Maker._element_by_element,
    Maker._with_constant,
    Maker._one,
    Maker._along_axis,
    Maker._several,
    Maker._transposed,
    Maker._expanded,
    Maker._sliced,
    Maker._reshaped,
    Maker._reshaped,
    Maker._product,
    Maker._einsum,
    Maker._repeated,
    Maker._filled,
    Maker._spread,
    Maker._counted,
    Maker._gathered,
    Maker._looked_up,
    Maker._true_ones,
    Maker._once,
    Maker._segments,
    Maker._selected,
    Maker._branched,
    Maker._looped,
    Maker._scanned,
    Maker._padded,
    Maker._whole_numbers,
    Maker._called,
]
