"""tf.Examples and sparse tensors: entries that belong to rows.

The entries of a request come one after the other, as its rows do, but nobody knows how many there
are. So each set of entries has a symbol of its own, and only tensors over the same entries fit
together: two features with as many entries each may have them in different requests.
"""

from __future__ import annotations

from estimand.serving.rows.nodes import Node, Rule, sizes_of
from estimand.serving.rows.sizes import ROWS, Size
from estimand.serving.rows.values import (
    MIXED,
    Places,
    Pointer,
    Value,
    numbers,
    plain,
)


def _entries(node: Node, *key: object, target: Size = ROWS) -> tuple[Size, Places] | None:
    """A new axis of entries, and where they are."""
    size = node.new_size("joined", *key)
    return None if size is None else (size, Places(target, size))


def _parse(node: Node, values: list[Value]) -> list[Value]:
    """ParseExample, of either version."""
    of_v2 = node.op == "ParseExampleV2"
    sparse = node.integer("num_sparse" if of_v2 else "Nsparse")
    dense = node.definition.attr["dense_shapes"].list.shape
    ragged = 2 * len(node.definition.attr["ragged_value_types"].list.type) if of_v2 else 0
    count = 3 * sparse + len(dense) + ragged
    serialized, *more = values
    if serialized.axes != (ROWS,) or not serialized.is_plain:
        return [MIXED] * count
    if not all(setting.is_invariant for setting in more):
        return [MIXED] * count
    places, contents, shapes = [], [], []
    for index in range(sparse):
        made = _entries(node, node.definition.name, index)
        longest = node.new_size("varying", node.definition.name, index)
        if made is None or longest is None:
            return [MIXED] * count
        places.append(Value((made[0], Size(2)), made[1]))
        contents.append(plain((made[0],)))
        shapes.append(numbers(ROWS, longest))
    rows = [_dense(sizes_of(shape)) for shape in dense]
    return [*places, *contents, *shapes, *rows, *[MIXED] * ragged]


def _dense(shape: tuple[Size, ...] | None) -> Value:
    return MIXED if shape is None else plain((ROWS, *shape))  # one of any length would be padded


def _where(node: Node, values: list[Value]) -> Value:
    """The places of what is true: entries again."""
    (value,) = values
    axes = value.axes
    if not axes or not value.is_plain or value.joined_axis() != 0:
        return MIXED
    made = _entries(node, "where", node.definition.input[0], target=axes[0])
    return MIXED if made is None else Value((made[0], Size(len(axes))), made[1])


def _gather_nd(node: Node, values: list[Value]) -> Value:
    table, places = values
    if not table.axes or not places.axes or not table.is_plain or places.is_mixed:
        return MIXED
    depth = places.axes[-1]
    if not depth.is_number or depth.number > len(table.axes) or table.is_padded:
        return MIXED
    axes = (*places.axes[:-1], *table.axes[depth.number :])
    if isinstance(places.content, Places):
        fits = table.axes[0].matches(places.content.target) and places.content.own_columns
        return plain(axes) if fits and depth.number else MIXED
    if not places.is_plain or not all(size.is_fixed for size in table.axes[: depth.number]):
        return MIXED
    return plain(axes)


def _reshape(node: Node, values: list[Value]) -> list[Value]:
    """SparseReshape from rows to the same rows."""
    places, had, wanted = values
    if not isinstance(places.content, Places) or not places.axes:
        return [MIXED] * 2
    if had.known is None or wanted.known is None or len(wanted.known) != 2:
        return [MIXED] * 2
    rest = had.known[1:]
    shape = wanted.known
    if shape[1] == Size(-1) and len(rest) == 1:
        shape = (shape[0], rest[0])
    if not had.known[0].matches(places.content.target) or shape[0] != had.known[0]:
        return [MIXED] * 2
    if shape[1:] != rest:  # in other columns than before
        return [MIXED] * 2
    return [places, numbers(*shape)]


def _fill_empty_rows(node: Node, values: list[Value]) -> list[Value]:
    places, contents, shape, default = values
    content = places.content
    if not isinstance(content, Places) or not places.axes or shape.known is None:
        return [MIXED] * 4
    if not shape.known[0].matches(content.target) or not default.is_invariant:
        return [MIXED] * 4
    if not contents.is_plain or contents.axes != places.axes[:1]:
        return [MIXED] * 4
    made = _entries(node, "filled", content.key, places.axes[0], target=content.target)
    if made is None:
        return [MIXED] * 4
    entries, _ = made
    filled = Places(content.target, entries, is_complete=True, own_columns=content.own_columns)
    return [
        Value((entries, places.axes[1]), filled),
        plain((entries,)),
        plain((content.target,)),
        Value(places.axes[:1], Pointer(entries)),
    ]


def _cross(node: Node, values: list[Value]) -> list[Value]:
    """SparseCross: each row's entries with one another."""
    count = node.integer("N")
    kinds = len(node.definition.attr["sparse_types"].list.type)
    places, contents = values[:count], values[count : count + kinds]
    shapes = values[count + kinds : 2 * count + kinds]
    dense = values[2 * count + kinds :]
    keys: list[object] = []
    for where, what, shape in zip(places, contents, shapes, strict=True):
        if not isinstance(where.content, Places) or not where.axes or not what.is_plain:
            return [MIXED] * 3
        if where.content.target != ROWS or not where.content.own_columns:
            return [MIXED] * 3
        if what.axes != where.axes[:1] or not shape.known or shape.known[0] != ROWS:
            return [MIXED] * 3
        keys += [where.content.key, where.axes[0]]
    for column in dense:
        if (
            not column.is_plain
            or not column.axes
            or column.axes[0] != ROWS
            or column.joined_axis() != 0
        ):
            return [MIXED] * 3
        keys.append(column.axes)
    made = _entries(node, "crossed", node.definition.name, *keys)
    longest = node.new_size("varying", "crossed", node.definition.name)
    if made is None or longest is None:
        return [MIXED] * 3
    return [Value((made[0], Size(2)), made[1]), plain((made[0],)), numbers(ROWS, longest)]


def _to_dense(node: Node, values: list[Value]) -> Value:
    places, shape, contents, default = values
    content = places.content
    if not isinstance(content, Places) or not places.axes or shape.known is None:
        return MIXED
    if not shape.known[0].matches(content.target) or not content.own_columns:
        return MIXED
    if not contents.is_plain or contents.axes != places.axes[:1] or not default.is_invariant:
        return MIXED
    nothing = default.array()
    return plain(shape.known, None if nothing is None else float(nothing))


def _unique(node: Node, values: list[Value]) -> list[Value]:
    """Each value once, of all requests; and where it is. What looks it up again is right."""
    (value,) = values
    count = node.new_size("set", node.definition.name)
    if count is None or value.is_invariant or not value.is_plain or value.rank != 1:
        return [MIXED] * 2
    return [plain((count,)), Value(value.axes, Pointer(count))]


def _segments(node: Node, values: list[Value]) -> Value:
    """SegmentSum(data, segments) and SparseSegmentMean(data, places, segments), for rows."""
    data, *between, segments = values
    if not data.axes or not data.is_plain:
        return MIXED
    target = segments.content
    # Without an entry for each row, rows would be missing at the end.
    if not isinstance(target, Pointer) or not target.is_complete or not segments.axes:
        return MIXED
    axes = (*segments.axes, *data.axes[1:])
    if not between:
        entries = data if data.axes[0].matches(segments.axes[0]) else MIXED
    else:
        entries = _looked_up(data, between[0], axes)
        if between[0].axes != segments.axes:
            return MIXED
    if entries.is_mixed:
        return MIXED
    return plain((target.target, *data.axes[1:]))


def _looked_up(data: Value, places: Value, axes: tuple[Size, ...]) -> Value:
    assert data.axes is not None
    if isinstance(places.content, Pointer):
        return plain(axes) if data.axes[0].matches(places.content.target) else MIXED
    if not places.is_plain or not data.axes[0].is_fixed:
        return MIXED
    return plain(axes)


RULES: dict[str, Rule] = {
    "ParseExample": _parse,
    "ParseExampleV2": _parse,
    "Where": _where,
    "GatherNd": _gather_nd,
    "SparseReshape": _reshape,
    "SparseFillEmptyRows": _fill_empty_rows,
    "SparseCross": _cross,
    "SparseToDense": _to_dense,
    "Unique": _unique,
    "SegmentSum": _segments,
    "SegmentMean": _segments,
    "SegmentMax": _segments,
    "SegmentMin": _segments,
    "SparseSegmentSum": _segments,
    "SparseSegmentMean": _segments,
    "SparseSegmentSqrtN": _segments,
}
