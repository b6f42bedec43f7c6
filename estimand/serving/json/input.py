"""JSON bodies to arrays, with TensorFlow Serving's strictness and texts.

Bodies that are right take the short way through NumPy. Whatever NumPy refuses, or would take more
leniently than TensorFlow Serving, goes value by value through `values`, which either finds
the array after all or says what is wrong.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import orjson

from estimand.serving.json import lenient as json_lenient
from estimand.serving.json import values as json_values
from estimand.serving.json.slots import JsonSignature, JsonSlot
from estimand.serving.json.values import is_base64, show
from estimand.serving.status import invalid

_NUMBERS = frozenset({int, float, list})
_BOOLEANS = frozenset({bool, list})
_FLOAT32 = np.dtype(np.float32)
_MOST_PACKED = 4096  # values, so that the copies on the way stay small
_EXACT_INTEGERS = {_FLOAT32: 2**24 - 1, np.dtype(np.float64): 2**53 - 1}


def parse(body: bytes) -> dict[str, Any]:
    """The object in a body. NaN and Infinity are numbers; what follows the object is ignored."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = json_lenient.parse(body)
    if not isinstance(document, dict):
        raise invalid(f"JSON Value: {show(document)} Is not object")
    return document


def signature_name(document: Mapping[str, Any]) -> str:
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid(
            f"JSON Value: {show(document)} not formatted correctly. 'signature_name' key must be "
            "a string value."
        )
    return name


def predict_inputs(
    document: Mapping[str, Any], signature: JsonSignature, body: bytes
) -> tuple[list[np.ndarray], bool]:
    """The arrays in the order of the signature's inputs, and whether they came as rows."""
    plain = _is_plain(document, signature, body)
    if not signature.inputs:
        raise invalid(f"Failed to get input map for signature: {signature.name}")
    if "instances" in document:
        if "inputs" in document:
            raise invalid(
                f"JSON Value: {show(document)} Not formatted correctly expecting only one of "
                "'inputs' or 'instances' keys to exist "
            )
        return _from_rows(document, signature, plain), True
    if "inputs" in document:
        return _from_columns(document["inputs"], signature, plain), False
    raise invalid("Missing 'inputs' or 'instances' key")


def _is_plain(document: Mapping[str, Any], signature: JsonSignature, body: bytes) -> bool:
    """Whether a body has no string but names, and neither true nor false. It may have, if not."""
    # Most bodies have neither letter: to look for one takes a fraction of the time for a word.
    if (b"r" in body and b"true" in body) or (b"l" in body and b"false" in body):
        return False
    marks = body.count(b'"')
    if marks == 2:
        return True
    strings = len(document) + sum(isinstance(value, str) for value in document.values())
    rows, columns = document.get("instances"), document.get("inputs")
    if isinstance(rows, list) and rows and isinstance(rows[0], dict):
        strings += len(rows) * len(signature.inputs)
    elif isinstance(columns, dict):
        strings += len(columns)
    return marks <= 2 * strings


def _from_columns(value: Any, signature: JsonSignature, plain: bool) -> list[np.ndarray]:
    slots = list(signature.inputs.values())
    if not isinstance(value, dict) or is_base64(value):
        if len(slots) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple input tensors "
                "required as per tensorinfo_map"
            )
        return [_array(value, slots[0], plain)]
    for slot in slots:
        if slot.alias not in value:
            raise invalid(f"Missing named input: {slot.alias} in 'inputs' object.")
    return [_array(value[slot.alias], slot, plain) for slot in slots]


def _from_rows(
    document: Mapping[str, Any], signature: JsonSignature, plain: bool
) -> list[np.ndarray]:
    rows = document["instances"]
    if not isinstance(rows, list):
        raise invalid(f"JSON Value: {show(document)} Excepting 'instances' to be an list/array")
    if not rows:
        raise invalid(f"JSON Value: {show(document)} No values in 'instances' array")
    slots = list(signature.inputs.values())
    if not isinstance(rows[0], dict) and len(slots) > 1:
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple input tensors "
            "required as per tensorinfo_map"
        )
    if isinstance(rows[0], dict) and not is_base64(rows[0]):
        return _from_named_rows(rows, signature, plain)
    quick = _quickly(rows, slots[0], plain)
    return [json_values.stack(rows, slots[0]) if quick is None else quick]


def _from_named_rows(rows: list[Any], signature: JsonSignature, plain: bool) -> list[np.ndarray]:
    names = signature.inputs.keys()
    for row in rows:
        if not isinstance(row, dict) or row.keys() != names:
            json_values.refuse_named_rows(rows, signature)
    arrays = []
    for name, slot in signature.inputs.items():
        column = [row[name] for row in rows]
        quick = _quickly(column, slot, plain)
        arrays.append(json_values.stack(column, slot, name) if quick is None else quick)
    return arrays


def _array(value: Any, slot: JsonSlot, plain: bool) -> np.ndarray:
    quick = _quickly(value, slot, plain)
    return json_values.array(value, slot) if quick is None else quick


def _quickly(value: Any, slot: JsonSlot, plain: bool) -> np.ndarray | None:
    """The array, if it is one beyond doubt."""
    kind = slot.kind
    if plain and kind == _FLOAT32 and (packed := _packed(value)) is not None:
        return packed
    if kind is None or kind not in json_values.CONVERTIBLE or kind.hasobject:
        return None
    # NumPy takes true for 1 among numbers, and makes all values as large as the longest string.
    if not plain and not _types_within(value, _BOOLEANS if kind.kind == "b" else _NUMBERS):
        return None
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        return None
    given = array.dtype.kind
    if kind.kind == "f":
        if given == "f":
            return _as_floats(array, kind)
        if given == "i" and np.abs(array).max(initial=0) <= _EXACT_INTEGERS[kind]:
            return array.astype(kind)
    elif kind.kind in "iu":
        if given == "i" and _fits(array, json_values.RANGES[kind]):
            return array.astype(kind)
    elif given == kind.kind:
        return array
    return None


def _packed(rows: Any) -> np.ndarray | None:
    """Rows of floats as an array that cannot be written to. For a few values this takes a third of
    the time of NumPy, which looks at all of them first. None if they are anything else, or too
    large.

    >>> _packed([[0.5, 2], [3, 4]])
    array([[0.5, 2. ],
           [3. , 4. ]], dtype=float32)
    """
    if type(rows) is not list or not rows or type(rows[0]) is not list:
        return None
    values, width = rows[0], len(rows[0])
    if len(rows) > 1:
        if any(type(row) is not list or len(row) != width for row in rows):
            return None
        values = list(chain.from_iterable(rows))
    # Among floats NumPy takes all integers, too; if all are integers, it depends.
    if not 0 < len(values) <= _MOST_PACKED or type(values[0]) is not float:
        return None
    try:
        content = struct.pack(f"={len(values)}f", *values)  # natively, it would take any number
    except (struct.error, OverflowError):
        return None
    return np.ndarray((len(rows), width), _FLOAT32, content)


def _types_within(value: Any, allowed: frozenset[type]) -> bool:
    """Whether nested lists hold nothing else. Looks at each value once."""
    level = [value]
    while level:
        types = set(map(type, level))
        if not types <= allowed:
            return False
        if list not in types:
            return True
        level = list(chain.from_iterable(item for item in level if type(item) is list))
    return True


def _as_floats(array: np.ndarray, kind: np.dtype) -> np.ndarray | None:
    if kind.itemsize == 8:
        return array
    narrow = array.astype(kind)
    # The sum of finite squares is finite, but for large ones; looking at each takes longer.
    total = np.vdot(narrow, narrow)
    if not math.isfinite(total) and np.isinf(narrow).any() and not np.isinf(array).any():
        return None
    return narrow


def _fits(array: np.ndarray, limits: tuple[int, int]) -> bool:
    if not array.size:
        return True
    return limits[0] <= int(array.min()) and int(array.max()) <= limits[1]
