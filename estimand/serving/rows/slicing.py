"""Parts of tensors: along the axis of the requests, all or nothing."""

from __future__ import annotations

from estimand.serving.rows.nodes import Node
from estimand.serving.rows.sizes import ONE, UNKNOWN, Size
from estimand.serving.rows.values import MIXED, Places, Pointer, Value, numbers, plain


def gather_known(table: Value, places: Value) -> Value | None:
    """Sizes picked out of a shape; None if it is something else."""
    wanted = places.integers()
    if table.known is None or table.rank != 1 or wanted is None or (places.rank or 0) > 1:
        return None
    if not all(-len(table.known) <= place < len(table.known) for place in wanted):
        return MIXED
    return numbers(*(table.known[place] for place in wanted), scalar=places.axes == ())


def slice_(node: Node, values: list[Value]) -> Value:
    value, begin, size = values
    begins, sizes = begin.integers(), size.known
    if value.axes is None or value.is_mixed or sizes is None:
        return MIXED
    if value.known is not None and value.rank == 1:
        return _slice_known(value.known, begins, size.integers())
    if not value.is_plain or len(sizes) != len(value.axes) or not begin.is_invariant:
        return MIXED
    axes = []
    for place, (had, wanted) in enumerate(zip(value.axes, sizes, strict=True)):
        starts = None if begins is None else begins[place]
        if not had.is_fixed:
            if starts != 0 or not (wanted == Size(-1) or wanted.matches(had)):
                return MIXED
            axes.append(had)
        elif not wanted.is_fixed:
            return MIXED
        elif wanted == Size(-1):
            is_known = had.is_number and starts is not None
            axes.append(Size(had.number - (starts or 0)) if is_known else UNKNOWN)
        else:
            axes.append(wanted)
    return plain(axes)


def _slice_known(
    known: tuple[Size, ...], begins: list[int] | None, sizes: list[int] | None
) -> Value:
    if begins is None or sizes is None or len(begins) != 1 or len(sizes) != 1:
        return MIXED
    ends = len(known) if sizes[0] == -1 else begins[0] + sizes[0]
    return numbers(*known[begins[0] : ends])


def strided_slice(node: Node, values: list[Value]) -> Value:
    value, begin, end, strides = values
    if value.axes is None or value.is_mixed:
        return MIXED
    if not all(bound.is_invariant or bound.known is not None for bound in (begin, end, strides)):
        return MIXED
    if value.known is not None and value.rank == 1:
        return _strided_known(node, value.known, begin, end, strides)
    picked = _pick_column(node, value, begin, end)
    if picked is not None:
        return picked
    if not value.is_plain or strides.rank != 1:
        return MIXED
    return _strided(node, value.axes, begin, end, strides)


def _bit(node: Node, name: str, place: int) -> bool:
    return bool(node.integer(name) >> place & 1)


def _strided_known(
    node: Node, known: tuple[Size, ...], begin: Value, end: Value, strides: Value
) -> Value:
    first, last, step = begin.integer(), end.integer(), strides.integer()
    if step is None or _bit(node, "new_axis_mask", 0) or _bit(node, "ellipsis_mask", 0):
        return MIXED
    if _bit(node, "shrink_axis_mask", 0):
        if first is None or not -len(known) <= first < len(known):
            return MIXED
        return numbers(known[first], scalar=True)
    if _bit(node, "begin_mask", 0):
        first = None
    elif first is None:
        return MIXED
    if _bit(node, "end_mask", 0):
        last = None
    elif last is None:
        return MIXED
    return numbers(*known[first:last:step])


def _pick_column(node: Node, value: Value, begin: Value, end: Value) -> Value | None:
    """`places[:, i]`; None if it is something else."""
    if not isinstance(value.content, Places) or value.axes is None or len(value.axes) != 2:
        return None
    column = begin.integers()
    masks = [node.integer(f"{name}_mask") for name in ("begin", "end", "shrink_axis")]
    others = node.integer("ellipsis_mask") or node.integer("new_axis_mask")
    if column is None or len(column) != 2 or masks[2] != 2 or others:
        return MIXED
    if not (masks[0] & 1 and masks[1] & 1):
        return MIXED
    places = value.content
    if column[1] == 0:
        return Value(value.axes[:1], Pointer(places.target, places.is_complete))
    return plain(value.axes[:1]) if places.own_columns and column[1] > 0 else MIXED


def _strided(node: Node, axes: tuple[Size, ...], begin: Value, end: Value, strides: Value) -> Value:
    count = len(strides.known or ())
    steps = strides.integers()
    if steps is None or not count:
        return MIXED
    sizes: list[Size] = []
    left = list(axes)
    for place in range(count):
        if _bit(node, "ellipsis_mask", place):
            rest = count - place - 1
            still_new = sum(_bit(node, "new_axis_mask", i) for i in range(place + 1, count))
            keep = max(0, len(left) - (rest - still_new))
            sizes += left[:keep]
            del left[:keep]
        elif _bit(node, "new_axis_mask", place):
            sizes.append(ONE)
        else:
            if not left:
                return MIXED
            size = _sliced(node, left.pop(0), place, begin, end, steps[place])
            if size is None:
                return MIXED
            sizes += size
    return plain([*sizes, *left])


def _sliced(
    node: Node, size: Size, place: int, begin: Value, end: Value, step: int
) -> list[Size] | None:
    """The axis that remains; none of it if one place is picked; None if requests get mixed."""
    if _bit(node, "shrink_axis_mask", place):
        return [] if size.is_fixed else None
    from_start = _bit(node, "begin_mask", place) or _number(begin, place) == Size(0)
    last = _number(end, place)
    to_end = _bit(node, "end_mask", place) or (last is not None and last.matches(size))
    if from_start and to_end and step == 1:
        return [size]
    if not size.is_fixed:
        return None
    ends = [_number(bound, place) for bound in (begin, end)]
    if not all(bound is None or bound.is_fixed for bound in ends):
        return None
    return [_length(node, size, place, ends, step)]


def _number(value: Value, place: int) -> Size | None:
    return value.known[place] if value.known is not None and place < len(value.known) else None


def _length(node: Node, size: Size, place: int, ends: list[Size | None], step: int) -> Size:
    masks = (_bit(node, "begin_mask", place), _bit(node, "end_mask", place))
    numbers_ = [None if masked else bound for masked, bound in zip(masks, ends, strict=True)]
    if not size.is_number or any(
        (bound is None and not masked) or (bound is not None and not bound.is_number)
        for masked, bound in zip(masks, numbers_, strict=True)
    ):
        return UNKNOWN
    first, last = (None if bound is None else bound.number for bound in numbers_)
    return Size(len(range(size.number)[first:last:step]))
