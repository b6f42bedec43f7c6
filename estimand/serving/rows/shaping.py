"""Operations that ask for shapes, make them, and put elements elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from estimand.serving.rows.nodes import Node, Rule
from estimand.serving.rows.reshaping import reshape
from estimand.serving.rows.sizes import ONE, UNKNOWN, Size, product
from estimand.serving.rows.slicing import gather_known, slice_, strided_slice
from estimand.serving.rows.values import (
    INVARIANT,
    MIXED,
    Places,
    Pointer,
    Value,
    numbers,
    plain,
    with_axes,
)


def one_axis(value: Value, rank: int | None) -> int | None:
    """A constant number of an axis, counted from the front."""
    axis = value.integer()
    if axis is None or rank is None or not -rank <= axis < rank:
        return None
    return axis % rank


def _shape(node: Node, values: list[Value]) -> list[Value]:
    shapes = []
    for value in values:
        if value.axes is None:
            shapes.append(MIXED if value.is_mixed else INVARIANT)
        else:
            shapes.append(numbers(*value.axes))
    return shapes


def _size(node: Node, values: list[Value]) -> Value:
    (value,) = values
    return MIXED if value.axes is None else numbers(product(value.axes), scalar=True)


def _rank(node: Node, values: list[Value]) -> Value:
    (value,) = values
    return MIXED if value.rank is None else numbers(Size(value.rank), scalar=True)


def _like(node: Node, values: list[Value]) -> Value:
    (value,) = values
    if value.axes is None:
        return MIXED
    return plain(value.axes, pad=float(node.op == "OnesLike"))


def _fill(node: Node, values: list[Value]) -> Value:
    shape, value = values
    if shape.sizes is None or not value.is_invariant:
        return MIXED
    array = value.array()
    return plain(shape.sizes, pad=None if array is None else float(array))


def _broadcast_to(node: Node, values: list[Value]) -> Value:
    value, shape = values
    if shape.sizes is None or value.axes is None or not value.is_plain:
        return MIXED
    padded = (*[ONE] * (len(shape.sizes) - len(value.axes)), *value.axes)
    if len(padded) != len(shape.sizes):
        return MIXED
    for had, wanted in zip(padded, shape.sizes, strict=True):
        if had != ONE and not had.matches(wanted) and not (had.is_fixed and wanted.is_fixed):
            return MIXED
    return plain(shape.sizes)


def _range(node: Node, values: list[Value]) -> Value:
    start, limit, delta = values
    steps = (start.integer(), delta.integer())
    if limit.known is not None and steps == (0, 1) and limit.known[0].joined:
        return Value(limit.known, Pointer(limit.known[0], is_complete=True))
    if not all(value.is_invariant for value in values):
        return MIXED
    return Value((limit.known[0],)) if limit.known and steps == (0, 1) else Value((UNKNOWN,))


def _pack(node: Node, values: list[Value]) -> Value:
    if all(value.sizes is not None and value.axes == () for value in values):
        return numbers(*(value.sizes[0] for value in values if value.sizes))
    rank = values[0].rank
    if rank is None or not all(value.is_plain for value in values):
        return MIXED
    axes = _common_axes(values, None)
    axis = node.integer("axis")
    if axes is None or not -rank - 1 <= axis <= rank:
        return MIXED
    return plain(_inserted(axes, axis % (rank + 1), Size(len(values))))


def _inserted(axes: Sequence[Size], place: int, *more: Size) -> tuple[Size, ...]:
    return (*axes[:place], *more, *axes[place:])


def _common_axes(values: list[Value], but: int | None) -> tuple[Size, ...] | None:
    """Those that all have, but for one; what depends on the batch must be the same."""
    common: list[Size] = []
    ranks = {value.rank for value in values}
    if len(ranks) != 1 or None in ranks:
        return None
    for place, sizes in enumerate(zip(*(value.axes or () for value in values), strict=True)):
        if all(size == sizes[0] for size in sizes):
            common.append(sizes[0])
        elif place == but or all(size.is_fixed for size in sizes):
            common.append(next((size for size in sizes if size.is_number), UNKNOWN))
        else:
            return None
    return tuple(common)


def _concat(node: Node, values: list[Value]) -> Value:
    if node.op == "Concat":
        values = [*values[1:], values[0]]
    *parts, where = values
    axis = one_axis(where, parts[0].rank)
    if axis == 0 and all(part.sizes is not None and part.rank == 1 for part in parts):
        return numbers(*(size for part in parts for size in part.sizes or ()))
    if axis is None or not all(part.is_plain for part in parts):
        return MIXED
    axes = _common_axes(parts, axis)
    along = [part.axes[axis] for part in parts if part.axes]
    if axes is None or not all(size.is_fixed for size in along):
        return MIXED
    size = UNKNOWN
    if all(length.is_number for length in along):
        size = Size(sum(length.number for length in along))
    return plain((*axes[:axis], size, *axes[axis + 1 :]))


def _unpack(node: Node, values: list[Value]) -> list[Value]:
    (value,) = values
    count, rank = node.integer("num"), value.rank
    if value.known is not None and rank == 1:
        return [numbers(size, scalar=True) for size in value.known]
    axis = node.integer("axis")
    if rank is None or value.axes is None or not value.is_plain or not -rank <= axis < rank:
        return [MIXED] * count
    axis %= rank
    if not value.axes[axis].is_fixed:
        return [MIXED] * count
    return [plain((*value.axes[:axis], *value.axes[axis + 1 :]))] * count


def _split(node: Node, values: list[Value]) -> list[Value]:
    value, where = (values[1], values[0]) if node.op == "Split" else (values[0], values[2])
    count = node.integer("num_split")
    axis = one_axis(where, value.rank)
    invariant = node.op == "Split" or values[1].is_invariant
    if axis is None or value.axes is None or not value.is_plain or not invariant:
        return [MIXED] * count
    size = value.axes[axis]
    if not size.is_fixed:
        return [MIXED] * count
    part = (size.divided_by(Size(count)) if node.op == "Split" else None) or UNKNOWN
    return [plain((*value.axes[:axis], part, *value.axes[axis + 1 :]))] * count


def _expand_dims(node: Node, values: list[Value]) -> Value:
    value, where = values
    axis = one_axis(where, None if value.rank is None else value.rank + 1)
    if axis is None or value.axes is None or value.is_mixed:
        return MIXED
    if value.known is not None and value.axes == ():
        return numbers(*value.known)
    if value.content is not None or not value.is_plain:
        return MIXED
    return plain(_inserted(value.axes, axis, ONE), value.pad)


def _squeeze(node: Node, values: list[Value]) -> Value:
    (value,) = values
    dims, axes = node.integers("squeeze_dims"), value.axes
    if axes is None or not dims:
        return MIXED
    dropped = {dim % len(axes) for dim in dims}
    if not all(axes[dim].is_fixed for dim in dropped):
        return MIXED
    if value.known is not None and len(value.known) == 1:
        return numbers(*value.known, scalar=True)
    if not value.is_plain:
        return MIXED
    return plain([size for i, size in enumerate(axes) if i not in dropped], value.pad)


def _transpose(node: Node, values: list[Value]) -> Value:
    value, order = values
    places = order.integers()
    if value.axes is None or not value.is_plain or places is None:
        return MIXED
    if sorted(places) != list(range(len(value.axes))):
        return MIXED
    return plain([value.axes[place] for place in places], value.pad)


def _tile(node: Node, values: list[Value]) -> Value:
    value, times = values
    if value.axes is None or not value.is_plain or times.sizes is None:
        return MIXED
    if len(times.sizes) != len(value.axes):
        return MIXED
    axes = []
    for size, count in zip(value.axes, times.sizes, strict=True):
        if count != ONE and not (size.is_fixed and (count.is_fixed or count.joined)):
            return MIXED
        axes.append(size * count)
    if any(count.joined for count in times.sizes) and not value.is_invariant:
        return MIXED
    return plain(axes)


def _reverse(node: Node, values: list[Value]) -> Value:
    value, where = values
    axes, reversed_ = value.axes, where.integers()
    if axes is None or not value.is_plain or reversed_ is None or value.is_padded:
        return MIXED
    return plain(axes) if all(axes[axis].is_fixed for axis in reversed_) else MIXED


def _pad(node: Node, values: list[Value]) -> Value:
    value, paddings = values[:2]
    pairs = paddings.integers()
    if value.axes is None or not value.is_plain or pairs is None or value.is_padded:
        return MIXED
    if len(pairs) != 2 * len(value.axes) or not all(more.is_invariant for more in values[2:]):
        return MIXED
    axes = []
    for size, before, after in zip(value.axes, pairs[::2], pairs[1::2], strict=True):
        if (before or after) and not size.is_fixed:
            return MIXED
        larger = Size(size.number + before + after) if size.is_number else UNKNOWN
        axes.append(larger if before or after else size)
    return plain(axes)


def _gather(node: Node, values: list[Value]) -> Value:
    table, places = values[:2]
    axis = 0
    if node.op == "GatherV2":
        chosen_axis = one_axis(values[2], table.rank)
        if chosen_axis is None:
            return MIXED
        axis = chosen_axis
    batch_dims = node.integer("batch_dims")
    known = gather_known(table, places)
    if known is not None:
        return known
    if table.axes is None or places.axes is None or table.is_mixed or places.is_mixed:
        return MIXED
    if batch_dims:
        return _gather_by_row(table, places, axis, batch_dims)
    axes = (*table.axes[:axis], *places.axes, *table.axes[axis + 1 :])
    if isinstance(places.content, Pointer):
        if axis or not table.axes[0].matches(places.content.target) or table.known:
            return MIXED
        return _taken(table, places, axes)
    if not places.is_plain or not table.is_plain or not table.axes[axis].is_fixed:
        return MIXED
    return plain(axes)


def _taken(table: Value, places: Value, axes: tuple[Size, ...]) -> Value:
    """What pointers point to: of the same request, so that it stays with it."""
    made = with_axes(table, axes)
    if isinstance(table.content, Places) and not made.is_mixed:
        key = ("taken", table.content.key, places.axes)
        return replace(made, content=replace(table.content, key=key, is_complete=False))
    if isinstance(table.content, Pointer) and not made.is_mixed:
        return replace(made, content=replace(table.content, is_complete=False))
    return made if table.content is None else MIXED


def _gather_by_row(table: Value, places: Value, axis: int, batch_dims: int) -> Value:
    assert table.axes is not None and places.axes is not None
    shared = table.axes[:batch_dims]
    if batch_dims < 0 or axis < batch_dims or batch_dims > len(places.axes):
        return MIXED
    if not all(ours.matches(theirs) for ours, theirs in zip(shared, places.axes, strict=False)):
        return MIXED
    if not (table.is_plain and places.is_plain and table.axes[axis].is_fixed):
        return MIXED
    rest = (*table.axes[batch_dims:axis], *places.axes[batch_dims:], *table.axes[axis + 1 :])
    return plain((*shared, *rest))


RULES: dict[str, Rule] = {
    "Shape": _shape,
    "ShapeN": _shape,
    "Size": _size,
    "Rank": _rank,
    "ZerosLike": _like,
    "OnesLike": _like,
    "Fill": _fill,
    "BroadcastTo": _broadcast_to,
    "Range": _range,
    "Pack": _pack,
    "Concat": _concat,
    "ConcatV2": _concat,
    "Unpack": _unpack,
    "Split": _split,
    "SplitV": _split,
    "ExpandDims": _expand_dims,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Tile": _tile,
    "ReverseV2": _reverse,
    "Pad": _pad,
    "PadV2": _pad,
    "MirrorPad": _pad,
    "GatherV2": _gather,
    "Gather": _gather,
    "Reshape": reshape,
    "StridedSlice": strided_slice,
    "Slice": slice_,
}
