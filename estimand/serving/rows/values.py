"""What a tensor is, whoever is in the batch.

A value promises this: along its joined axis, the part of one request is the tensor that the
request alone would have got (padded along a varying axis). A value without such an axis is the same
for all, and is called invariant. MIXED promises nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from estimand.serving.rows.sizes import ONE, ROWS, UNKNOWN, Size

_MOST_KNOWN = 256  # numbers of a constant that are looked at


@dataclass(frozen=True)
class Pointer:
    """Content: each number is a place on an axis of this size, in the same request's part."""

    target: Size
    is_complete: bool = False  # each place of the target is pointed to, in ascending order


@dataclass(frozen=True)
class Places:
    """Content: rows of the places of entries; the first column is a pointer to an axis."""

    target: Size
    key: object  # equal for what was made from the same entries
    is_complete: bool = False
    own_columns: bool = True  # the others are what the request alone would have got


@dataclass(frozen=True)
class Handle:
    """Content: a variable or table. `shape` is that of a variable, if known."""

    shape: tuple[Size, ...] | None = None


@dataclass(frozen=True)
class ListOf:
    """Content: a list of tensors that are all like this one; None while there are none."""

    element: Value | None


Content = Pointer | Places | Handle | ListOf | None


@dataclass(frozen=True)
class Value:
    """`axes` is None where the rank is not known; then it has to be invariant.

    `known` are the numbers in it, if it is a vector or scalar of such as sizes are. `constant` is
    an array as it stands in the graph, as bytes so that values can be compared. `pad` is what fills
    up a varying axis.
    """

    axes: tuple[Size, ...] | None
    content: Content = None
    known: tuple[Size, ...] | None = None
    constant: tuple[str, tuple[int, ...], bytes] | None = None
    pad: float | None = None
    is_mixed: bool = False

    @property
    def rank(self) -> int | None:
        return None if self.axes is None else len(self.axes)

    @property
    def is_invariant(self) -> bool:
        if self.is_mixed or self.content is not None:
            return False
        axes_are = self.axes is None or all(size.is_fixed for size in self.axes)
        return axes_are and all(size.is_fixed for size in self.known or ())

    @property
    def is_plain(self) -> bool:
        """Numbers or texts, and nothing that depends on who else is there."""
        return not self.is_mixed and self.content is None and self._knows_only_fixed

    @property
    def _knows_only_fixed(self) -> bool:
        return all(size.is_fixed for size in self.known or ())

    @property
    def sizes(self) -> tuple[Size, ...] | None:
        """Its numbers, if it is used as a shape: also those that are only known to be fixed."""
        if self.known is not None or not self.is_invariant or self.axes is None:
            return self.known
        if self.axes == ():
            return (UNKNOWN,)
        if len(self.axes) == 1 and self.axes[0].is_number and self.axes[0].number <= _MOST_KNOWN:
            return (UNKNOWN,) * self.axes[0].number
        return None

    @property
    def is_padded(self) -> bool:
        return any(is_varying(size) for size in self.axes or ())

    def array(self) -> np.ndarray | None:
        if self.constant is None:
            return None
        kind, shape, data = self.constant
        return np.frombuffer(data, kind).reshape(shape)

    def integers(self) -> list[int] | None:
        """A constant's numbers, in one line."""
        array = self.array()
        if array is None or array.dtype.kind not in "iu":
            return None
        return [int(number) for number in array.ravel()]

    def integer(self) -> int | None:
        integers = self.integers()
        return integers[0] if integers is not None and len(integers) == 1 else None

    def joined_axis(self) -> int | None:
        """The only axis that is not fixed, if requests come one after the other along it."""
        moving = [i for i, size in enumerate(self.axes or ()) if not size.is_fixed]
        if len(moving) == 1 and self.axes is not None and self.axes[moving[0]].joined:
            return moving[0]
        return None


MIXED = Value(None, is_mixed=True)
INVARIANT = Value(None)


def is_varying(size: Size) -> bool:
    return not (size.is_fixed or size.joined or size.is_set)


def plain(axes: Sequence[Size], pad: float | None = None) -> Value:
    """MIXED if more than one axis depends on the batch, but for varying ones."""
    own = [size for size in axes if size.joined or size.is_set]
    if len(own) > 1 or (not own and any(is_varying(size) for size in axes)):
        return MIXED
    return Value(tuple(axes), pad=pad)


def numbers(*sizes: Size, scalar: bool = False) -> Value:
    """A vector, or a scalar, of these."""
    axes = () if scalar else (Size(len(sizes)),)
    if all(size.is_number for size in sizes):
        return constant(np.array([size.number for size in sizes]).reshape(() if scalar else -1))
    return Value(axes, known=sizes)


def constant(array: np.ndarray) -> Value:
    axes = tuple(Size(size) for size in array.shape)
    if array.size > _MOST_KNOWN or array.dtype.kind not in "iufb":
        return Value(axes)
    known = None
    if array.dtype.kind in "iu" and array.ndim <= 1:
        known = tuple(Size(int(number)) for number in array.ravel())
    return Value(axes, known=known, constant=(array.dtype.str, array.shape, array.tobytes()))


def join(left: Value, right: Value) -> Value:
    """What is true of both: of what comes out of one branch or another, or of any turn."""
    if left == right:
        return left
    if left.is_mixed or right.is_mixed:
        return MIXED
    content = left.content
    if left.content != right.content:
        if not isinstance(left.content, ListOf) or not isinstance(right.content, ListOf):
            return MIXED
        content = ListOf(join_elements(left.content.element, right.content.element))
    axes = _join_sizes(left.axes, right.axes)
    if axes is None and not (left.is_invariant and right.is_invariant):
        return MIXED
    known = _join_sizes(left.known, right.known)
    if known is None and not (left._knows_only_fixed and right._knows_only_fixed):
        return MIXED
    pad = left.pad if left.pad == right.pad else None
    same = left.constant if left.constant == right.constant else None
    return Value(axes, content, known, same, pad)


def join_elements(left: Value | None, right: Value | None) -> Value | None:
    if left is None or right is None:
        return left or right
    return join(left, right)


def _join_sizes(
    left: tuple[Size, ...] | None, right: tuple[Size, ...] | None
) -> tuple[Size, ...] | None:
    if left is None or right is None or len(left) != len(right):
        return None
    sizes = []
    for ours, theirs in zip(left, right, strict=True):
        if ours == theirs:
            sizes.append(ours)
        elif ours.is_fixed and theirs.is_fixed:
            sizes.append(UNKNOWN)
        else:
            return None
    return tuple(sizes)


def broadcast(values: Sequence[Value]) -> Value:
    """Of an operation that works element by element."""
    if not all(value.is_plain for value in values):
        return MIXED
    ranks = [value.axes for value in values]
    if any(axes is None for axes in ranks):
        return INVARIANT if all(value.is_invariant for value in values) else MIXED
    known: list[tuple[Size, ...]] = [axes for axes in ranks if axes is not None]
    axes_of_all: list[Size] = []
    for place in range(1, 1 + max((len(axes) for axes in known), default=0)):
        sizes = [axes[-place] for axes in known if len(axes) >= place]
        size = _broadcast_sizes(sizes)
        if size is None:
            return MIXED
        axes_of_all.insert(0, size)
    return plain(axes_of_all)


def _broadcast_sizes(sizes: list[Size]) -> Size | None:
    """Those of one axis. Along a joined one all others have to be joined alike, or have one."""
    sizes = [size for size in sizes if size != ONE]
    moving = [size for size in sizes if not size.is_fixed]
    if moving:
        first = moving[0]
        # A batch has two rows or more: what differs by a fixed factor does not fit at run time,
        # and then nothing is joined.
        alike = all(size.joined == ROWS.joined for size in moving)
        if len(moving) < len(sizes) or not (alike or all(size.matches(first) for size in moving)):
            return None
        return first
    if not sizes:
        return ONE
    large = [size for size in sizes if size.is_number]
    if large:
        return large[0]
    return sizes[0] if all(size == sizes[0] for size in sizes) else UNKNOWN


def with_axes(value: Value, axes: Sequence[Size]) -> Value:
    """The same content elsewhere; what was known of its numbers is forgotten."""
    made = plain(axes)
    return made if made.is_mixed else replace(made, content=value.content)
