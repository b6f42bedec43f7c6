"""JSON values to arrays one by one: exact about types, and able to say what is wrong."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from estimand.serving.json.slots import JsonSignature, JsonSlot, shape_text
from estimand.serving.status import StatusError, invalid

# What integers a JSON number may hold. Narrow types take any 32-bit number, and wrap around.
_INT32 = (-(2**31), 2**31 - 1)
RANGES = {
    np.dtype(np.int32): _INT32,
    np.dtype(np.int16): _INT32,
    np.dtype(np.int8): _INT32,
    np.dtype(np.uint8): _INT32,
    np.dtype(np.int64): (-(2**63), 2**63 - 1),
    np.dtype(np.uint32): (0, 2**32 - 1),
    np.dtype(np.uint64): (0, 2**64 - 1),
}
_FLOATS = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
CONVERTIBLE = frozenset({*RANGES, *_FLOATS, np.dtype(np.bool_), np.dtype(np.object_)})
_SHOWN = 256
_ENCODER = json.JSONEncoder()
_MAX_DIMENSIONS = 63  # one less than NumPy has, for rows are stacked


def is_base64(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def show(value: Any) -> str:
    """A value for a message, cut short. No more of it is written than is shown."""
    text = ""
    try:
        for part in _ENCODER.iterencode(_shortened(value)):
            text += part
            if len(text) > _SHOWN:
                return text[:_SHOWN] + "..."
    except RecursionError:
        return "(nested too deeply)"
    return text


def _shortened(value: Any) -> Any:
    return value[: _SHOWN + 1] if isinstance(value, str) else value


def array(value: Any, slot: JsonSlot) -> np.ndarray:
    """The array of a value or of nested lists, all of the same length at the same depth."""
    shape = _shape(value)
    if len(shape) > _MAX_DIMENSIONS:
        raise invalid(f"Encountered list at unexpected level: {len(shape)}; too deep for a tensor")
    _check_type(value, slot)
    flat = list(_leaves(value, shape, 0, slot))
    if slot.kind is not None and slot.kind.hasobject:
        strings: Any = np.empty(len(flat), np.object_)
        strings[:] = flat
        return strings.reshape(shape)
    if slot.kind in RANGES and slot.kind.itemsize < 8:
        return np.array(flat, np.int64).astype(slot.kind).reshape(shape)
    return np.array(flat, slot.kind).reshape(shape)


def stack(rows: list[Any], slot: JsonSlot, key: str = "") -> np.ndarray:
    """One array of as many rows as there are values, which must all have the same shape."""
    arrays: list[np.ndarray] = []
    where = f" key: {key}" if key else ""
    for index, row in enumerate(rows):
        if isinstance(row, dict) and not is_base64(row) and not key:
            raise invalid(f"Expecting value/list but got object at item {index} of input list")
        try:
            row_array = array(row, slot)
            if arrays and row_array.size != arrays[0].size:
                raise invalid(f"Expecting tensor size: {arrays[0].size} but got: {row_array.size}")
            if arrays and row_array.shape != arrays[0].shape:
                raise invalid(
                    f"Expecting shape {shape_text(arrays[0])} but got: {shape_text(row_array)}"
                )
        except StatusError as error:
            raise invalid(
                f"Failed to process element: {index}{where} of 'instances' list. Error: "
                f"{error.name}: {error.text}"
            ) from None
        arrays.append(row_array)
    return np.stack(arrays)


def refuse_named_rows(rows: list[Any], signature: JsonSignature) -> None:
    """Raises what is wrong with the first row whose keys are not the signature's inputs."""
    for index, row in enumerate(rows):
        if not isinstance(row, dict) or is_base64(row):
            raise invalid(f"Expecting object but got list at item {index} of input list")
        for name in row:
            if name not in signature.inputs:
                raise invalid(
                    f"Failed to process element: {index} key: {name} of 'instances' list. Error: "
                    f"INVALID_ARGUMENT: JSON object: does not have named input: {name}"
                )
        if row.keys() != signature.inputs.keys():
            raise invalid(
                f"Failed to process element: {index} of 'instances' list. JSON object: "
                f"{show(row)} keys must be equal to: {','.join(signature.inputs)}"
            )


def _shape(value: Any) -> tuple[int, ...]:
    sizes = []
    while isinstance(value, list):
        sizes.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(sizes)


def _check_type(value: Any, slot: JsonSlot) -> None:
    if slot.kind not in CONVERTIBLE:
        raise StatusError.of(
            "UNIMPLEMENTED",
            f"Conversion of JSON Value: {show(value)} to type: {slot.type_name}",
        )


def _leaves(value: Any, shape: tuple[int, ...], level: int, slot: JsonSlot) -> Iterator[Any]:
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid(
                f"JSON Value: {show(value)} found at incorrect level: {level + 1} in the JSON "
                f"DOM. Expected at level: {len(shape)}"
            )
        yield _leaf(value, slot)
        return
    if level >= len(shape):
        raise invalid(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise invalid(
            f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: "
            f"{shape[level]}"
        )
    for inner in value:
        yield from _leaves(inner, shape, level + 1, slot)


def _leaf(value: Any, slot: JsonSlot) -> Any:
    kind = slot.kind
    assert kind is not None
    if kind.hasobject:
        if isinstance(value, dict):
            return decode_base64(value)
        if isinstance(value, str):
            return value.encode("utf-8", "surrogatepass")
    elif kind.kind == "b":
        if isinstance(value, bool):
            return value
    elif isinstance(value, bool):
        pass
    elif kind in _FLOATS:
        if isinstance(value, int | float):
            return _decimal(value, kind)
    elif isinstance(value, int) and RANGES[kind][0] <= value <= RANGES[kind][1]:
        return value
    raise invalid(
        f"JSON Value: {show(value)} Type: {json_type(value)} is not of expected type: "
        f"{slot.type_name}"
    )


def _decimal(value: int | float, kind: np.dtype) -> float:
    if isinstance(value, int):
        exact = abs(value) <= (2**24 - 1 if kind.itemsize == 4 else 2**53 - 1)
    else:
        exact = not np.isfinite(value) or abs(value) <= float(np.finfo(kind).max)
    if not exact:
        raise invalid(
            f"Cannot convert JSON value: {show(value)} to {_FLOATS[kind]} without loss of "
            "precision."
        )
    return float(value)


def decode_base64(value: Any) -> bytes:
    if not is_base64(value):
        raise invalid(f"JSON Value: {show(value)} not formatted correctly for base64 data")
    text = value["b64"]
    try:
        # Padding may be left out.
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise invalid("Unable to base64 decode") from None


def json_type(value: Any) -> str:
    """
    >>> json_type([1])
    'Array'
    """
    if value is None or isinstance(value, bool):
        return {None: "Null", True: "True", False: "False"}[value]
    kinds = {dict: "Object", list: "Array", str: "String", int: "Number", float: "Number"}
    return kinds[type(value)]
