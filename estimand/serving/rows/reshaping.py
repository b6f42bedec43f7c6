"""Reshape: the only operation that may cut rows elsewhere than between requests."""

from __future__ import annotations

from dataclasses import replace

from estimand.serving.rows.nodes import Node
from estimand.serving.rows.sizes import ONE, UNKNOWN, Size, product
from estimand.serving.rows.values import MIXED, Places, Pointer, Value, is_varying, plain

_FREE = Size(-1)


def reshape(node: Node, values: list[Value]) -> Value:
    value, shape = values
    wanted = shape.sizes
    if wanted is None or value.axes is None or value.is_mixed:
        return MIXED
    if value.known is not None and wanted in ((_FREE,), (Size(len(value.known)),)):
        return replace(value, axes=(Size(len(value.known)),))
    if isinstance(value.content, Places):
        return _places(value, value.content, wanted)
    if not value.is_plain or any(is_varying(size) for size in (*value.axes, *wanted)):
        return MIXED
    if wanted.count(_FREE) > 1:
        return MIXED
    if value.is_invariant:
        return _of_invariant(value, wanted)
    axes = _axes(value.axes, wanted)
    return MIXED if axes is None else plain(axes)


def _of_invariant(value: Value, wanted: tuple[Size, ...]) -> Value:
    if not all(size.is_fixed for size in wanted):
        return MIXED
    if _FREE not in wanted or value.axes is None:
        return Value(wanted)
    rest = product(tuple(size for size in wanted if size != _FREE))
    free = product(value.axes).divided_by(rest) or UNKNOWN
    return Value(tuple(free if size == _FREE else size for size in wanted))


def _axes(had: tuple[Size, ...], wanted: tuple[Size, ...]) -> tuple[Size, ...] | None:
    """The elements of a request must come one after the other, before and after.

    So its axis is the first, but for those of size 1; and it has a whole number of places on it.
    """
    had, wanted_first = _without_leading_ones(had), _without_leading_ones(wanted)
    ones = wanted[: len(wanted) - len(wanted_first)]
    if not wanted_first or not had or had[0].is_fixed:
        return None
    symbol = had[0].others[0]
    first, *rest = wanted_first
    share = _share(had)
    if first == _FREE:
        if not all(size.is_fixed for size in rest):
            return None
        count = share.divided_by(product(tuple(rest)))
        return None if count is None else (*ones, Size.of(symbol) * count, *rest)
    if first.others != (symbol,) or not all(size.is_fixed for size in rest):
        return None
    if _FREE in rest:
        others = tuple(size for size in rest if size != _FREE)
        free = share.divided_by(_share((first, *others))) or UNKNOWN
        rest = [free if size == _FREE else size for size in rest]
    return (*ones, first, *rest)


def _without_leading_ones(axes: tuple[Size, ...]) -> tuple[Size, ...]:
    while len(axes) > 1 and axes[0] == ONE:
        axes = axes[1:]
    return axes


def _share(axes: tuple[Size, ...]) -> Size:
    """How many elements there are for each place of the symbol that the first axis has."""
    whole = product(axes)
    others = set(whole.others)
    return Size(whole.number, tuple(symbol for symbol in whole.symbols if symbol not in others))


def _places(value: Value, places: Places, wanted: tuple[Size, ...]) -> Value:
    """A column of places becomes a vector of pointers."""
    assert value.axes is not None
    if len(value.axes) == 2 and value.axes[1] == ONE and wanted == (_FREE,):
        return Value(value.axes[:1], Pointer(places.target, places.is_complete))
    return MIXED
