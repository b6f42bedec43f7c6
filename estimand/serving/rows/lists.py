"""Lists of tensors, in which loops keep what each of their turns has made."""

from __future__ import annotations

from estimand.serving.rows.nodes import Node, Rule
from estimand.serving.rows.sizes import UNKNOWN
from estimand.serving.rows.values import MIXED, ListOf, Value, join_elements, plain


def _list(element: Value | None) -> Value:
    return MIXED if element is not None and element.is_mixed else Value((), ListOf(element))


def _reserve(node: Node, values: list[Value]) -> Value:
    _, count = values
    return _list(None) if count.is_invariant else MIXED


def _empty(node: Node, values: list[Value]) -> Value:
    return _list(None)


def _from_tensor(node: Node, values: list[Value]) -> Value:
    value = values[0]
    if not value.axes or not value.is_plain or value.is_padded or not value.axes[0].is_fixed:
        return MIXED
    return _list(plain(value.axes[1:]))


def _get(node: Node, values: list[Value]) -> Value:
    content, place = values[0].content, values[1]
    if not isinstance(content, ListOf) or not place.is_invariant:
        return MIXED
    return content.element or MIXED


def _set(node: Node, values: list[Value]) -> Value:
    handle, place, element = values
    if not isinstance(handle.content, ListOf) or not place.is_invariant or not element.is_plain:
        return MIXED
    return _list(join_elements(handle.content.element, element))


def _push(node: Node, values: list[Value]) -> Value:
    handle, element = values
    if not isinstance(handle.content, ListOf) or not element.is_plain:
        return MIXED
    return _list(join_elements(handle.content.element, element))


def _stack(node: Node, values: list[Value]) -> Value:
    content = values[0].content
    element = content.element if isinstance(content, ListOf) else None
    if element is None or element.axes is None or not element.is_plain or element.is_padded:
        return MIXED
    return plain((UNKNOWN, *element.axes))


def _length(node: Node, values: list[Value]) -> Value:
    return Value((), known=(UNKNOWN,)) if isinstance(values[0].content, ListOf) else MIXED


RULES: dict[str, Rule] = {
    "TensorListReserve": _reserve,
    "EmptyTensorList": _empty,
    "TensorListFromTensor": _from_tensor,
    "TensorListGetItem": _get,
    "TensorListSetItem": _set,
    "TensorListPushBack": _push,
    "TensorListStack": _stack,
    "TensorListLength": _length,
}
