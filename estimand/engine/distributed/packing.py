"""Several tensors as one, and back.

Rows of tables, of one width, lie below each other as they are, and are taken apart without being
copied; whatever is a multiple of that width lies there, too, and the rest flat behind it. The whole
has the type of most: every op less counts, since a step has hundreds of them.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

TYPES = (tf.float32, tf.int32, tf.int64, tf.float64)
_WORDS = (tf.float32, tf.int32)  # of tensors that differ in type: as the first that is there
_NUMBER = {4: tf.int32, 8: tf.int64}  # as a type of so many bytes


@dataclass(frozen=True)
class _Layout:
    """Where each of the tensors lies, by its place among them; those of unknown length first."""

    word: tf.DType
    width: int  # of the rows
    rows: tuple[int, ...]
    flat: tuple[int, ...]
    unknown: frozenset[int]  # whose length is sent along

    @property
    def heading(self) -> int:
        """How many words the lengths take, with what fills up their last row."""
        return math.ceil(len(self.unknown) / self.width) * self.width


def _layout(specs: Sequence[tf.TensorSpec]) -> _Layout:
    types = {spec.dtype for spec in specs}
    word = types.pop() if len(types) == 1 else next((w for w in _WORDS if w in types), tf.int32)
    unknown = frozenset(i for i, s in enumerate(specs) if not s.shape.is_fully_defined())
    widths = collections.Counter(_width(specs[i]) for i in unknown if specs[i].dtype == word)
    width = max((w for w in widths if w > 1), key=lambda w: widths[w], default=1)
    order = sorted(range(len(specs)), key=lambda i: i not in unknown)
    of_word = [i for i in order if specs[i].dtype == word]
    rows = tuple(i for i in of_word if width > 1 and _is_rows(specs[i], width))
    return _Layout(
        word=word,
        width=width,
        rows=rows,
        flat=tuple(i for i in order if i not in rows),
        unknown=unknown,
    )


def _width(spec: tf.TensorSpec) -> int:
    """Of the rows of something whose number of rows is not known; 1: it has none."""
    return spec.shape[1] if spec.shape.rank == 2 and spec.shape[0] is None else 1


def _is_rows(spec: tf.TensorSpec, width: int) -> bool:
    if spec.shape.is_fully_defined():
        return spec.shape.num_elements() % width == 0
    return _width(spec) % width == 0


def joined(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """All of `tensors`, one after the other."""
    layout = _layout(tensors)
    words = [_as_words(t, layout.word) for t in tensors]
    parts = [_as_rows(words[i], layout.width) for i in layout.rows]
    flat = [_as_flat(words[i]) for i in layout.flat]
    if layout.unknown:
        heading = _heading(layout, words)
        parts.insert(0, heading if layout.width == 1 else _as_rows(heading, layout.width))
    if layout.width == 1:
        return tf.concat([*map(_as_flat, parts), *flat], 0)
    if flat:
        missing = -tf.add_n([tf.size(part) for part in flat]) % layout.width
        filled = tf.concat([*flat, tf.zeros([missing], layout.word)], 0)
        parts.append(tf.reshape(filled, [-1, layout.width]))
    return tf.concat(parts, 0)


def apart(whole: tf.Tensor, specs: Sequence[tf.TensorSpec]) -> list[tf.Tensor]:
    """What `joined` was given, tensors of these shapes and types."""
    layout = _layout(specs)
    heading = layout.heading // layout.width
    lengths = _lengths(whole[:heading], layout) if layout.unknown else None
    sizes = [s.shape.num_elements() or 0 for s in specs]
    sizes = [size * s.dtype.size // layout.word.size for size, s in zip(sizes, specs, strict=True)]
    found: dict[int, tf.Tensor] = {}
    known = [i for i in (*layout.rows, *layout.flat) if i not in layout.unknown]
    count = sum(i in layout.unknown for i in layout.rows)
    if layout.width == 1:
        of_parts = _counts([heading], lengths, [sizes[i] for i in known], rest=False)
        pieces = tf.split(whole, of_parts, num=1 + len(specs) if heading else len(specs))
        found = dict(zip(layout.flat, pieces[bool(heading) :], strict=True))
    else:
        in_rows = None if lengths is None else lengths[:count] // layout.width
        fixed = [sizes[i] // layout.width for i in layout.rows if i in known]
        of_parts = _counts([heading], in_rows, fixed, rest=bool(layout.flat))
        number = bool(heading) + len(layout.rows) + bool(layout.flat)
        pieces = tf.split(whole, of_parts, num=number)[bool(heading) :]
        found = dict(zip(layout.rows, pieces, strict=False))
        if layout.flat:
            more = None if lengths is None else lengths[count:]
            more = more if len(layout.unknown) > count else None
            of_flat = _counts([], more, [sizes[i] for i in layout.flat if i in known], rest=True)
            flat = tf.split(tf.reshape(pieces[-1], [-1]), of_flat, num=len(layout.flat) + 1)
            found |= dict(zip(layout.flat, flat, strict=False))
    return [_from_words(found[i], spec) for i, spec in enumerate(specs)]


def _counts(
    first: list[int], unknown: tf.Tensor | None, known: list[int], *, rest: bool
) -> tf.Tensor:
    """How long the pieces are; the last may be whatever is left."""
    first = [number for number in first if number]
    known = [*known, *([-1] if rest else [])]
    if unknown is None:
        return tf.constant([*first, *known], tf.int32)
    return tf.concat([tf.constant(first, tf.int32), unknown, tf.constant(known, tf.int32)], 0)


def _heading(layout: _Layout, words: Sequence[tf.Tensor]) -> tf.Tensor:
    order = [i for i in (*layout.rows, *layout.flat) if i in layout.unknown]
    number = _NUMBER[layout.word.size]
    lengths = tf.stack([tf.size(words[i], number) for i in order])
    missing = layout.heading - len(order)
    if missing:
        lengths = tf.concat([lengths, tf.zeros([missing], number)], 0)
    return lengths if layout.word == number else tf.bitcast(lengths, layout.word)


def _lengths(heading: tf.Tensor, layout: _Layout) -> tf.Tensor:
    number = _NUMBER[layout.word.size]
    words = _as_flat(heading)[: len(layout.unknown)]
    lengths = words if layout.word == number else tf.bitcast(words, number)
    return tf.cast(lengths, tf.int32)


def _as_rows(words: tf.Tensor, width: int) -> tf.Tensor:
    there = words.shape.rank == 2 and words.shape[1] == width
    return words if there else tf.reshape(words, [-1, width])


def _as_flat(words: tf.Tensor) -> tf.Tensor:
    return words if words.shape.rank == 1 else tf.reshape(words, [-1])


def _as_words(tensor: tf.Tensor, word: tf.DType) -> tf.Tensor:
    if tensor.dtype == word:
        return tensor
    return tf.reshape(tf.bitcast(tf.reshape(tensor, [-1]), word), [-1])


def _from_words(words: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    if spec.dtype != words.dtype:
        if spec.dtype.size > words.dtype.size:
            words = tf.reshape(words, [-1, spec.dtype.size // words.dtype.size])
        words = tf.bitcast(words, spec.dtype)
    same_width = words.shape.rank == spec.shape.rank and words.shape[1:] == spec.shape[1:]
    if same_width and spec.shape.rank and spec.shape[0] is None:
        return words
    return tf.reshape(words, [-1 if size is None else size for size in spec.shape])
