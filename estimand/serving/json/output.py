"""Arrays to JSON, as TensorFlow Serving writes them: NaN and Infinity as such, floats short."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from estimand.serving.json.slots import JsonSlot, shape_text
from estimand.serving.status import invalid

_WRITABLE = frozenset(
    np.dtype(kind)
    for kind in (
        *(np.float32, np.float64, np.bool_),
        *(np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
    )
)


def predictions(slots: Sequence[JsonSlot], arrays: Sequence[np.ndarray]) -> bytes:
    """The answer to a request of rows."""
    if len(slots) == 1 and arrays[0].ndim:
        return dump("predictions", _writable(slots[0], arrays[0]))
    rows = _common_rows(slots, arrays)
    columns = [_writable(slot, array) for slot, array in zip(slots, arrays, strict=True)]
    names = [slot.alias for slot in slots]
    return dump(
        "predictions",
        [{k: column[row] for k, column in zip(names, columns, strict=True)} for row in range(rows)],
    )


def outputs(slots: Sequence[JsonSlot], arrays: Sequence[np.ndarray]) -> bytes:
    """The answer to a request of columns."""
    columns = [_writable(slot, array) for slot, array in zip(slots, arrays, strict=True)]
    if len(columns) == 1:
        return dump("outputs", columns[0])
    return dump("outputs", {s.alias: column for s, column in zip(slots, columns, strict=True)})


def dump(key: str, value: Any) -> bytes:
    """One object with one key.

    >>> dump("predictions", np.float32([0.1, np.nan]))
    b'{\\n    "predictions": [0.1, NaN]\\n}'
    """
    text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    # orjson writes null for NaN and Infinity; otherwise the word can only be in a string. Numbers
    # have not even its first letter, which is found sooner.
    if b"n" in text and b"null" in text and not _finite(value):
        text = json.dumps(_plain(value)).encode()
    return b'{\n    "%s": %s\n}' % (key.encode(), text)


def _common_rows(slots: Sequence[JsonSlot], arrays: Sequence[np.ndarray]) -> int:
    rows = -1
    for slot, array in zip(slots, arrays, strict=True):
        if not array.ndim:
            raise invalid(f"Tensor name: {slot.alias} has no shape information ")
        if rows not in (-1, len(array)):
            raise invalid(
                f"Tensor name: {slot.alias} has inconsistent batch size: {len(array)} expecting: "
                f"{rows}"
            )
        rows = len(array)
    return rows


def _writable(slot: JsonSlot, array: np.ndarray) -> Any:
    """What orjson writes as it should be."""
    if array.dtype.hasobject:
        return _strings(array.tolist(), slot.alias.endswith("_bytes"), slot.alias)
    if array.dtype not in _WRITABLE:
        raise invalid(
            f"Tensor name: {slot.alias} of type {slot.type_name} and shape "
            f"{shape_text(array)} cannot be written as JSON; ask for it over gRPC."
        )
    return np.ascontiguousarray(array) if array.ndim else array[()]


def _strings(value: Any, as_base64: bool, name: str) -> Any:
    if isinstance(value, list):
        return [_strings(inner, as_base64, name) for inner in value]
    if as_base64:
        return {"b64": base64.b64encode(value).decode()}
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise invalid(
            f"Tensor name: {name} has a string that is not UTF-8. Give the output a name that "
            "ends with _bytes, and it is answered in base64."
        ) from None


def _finite(value: Any) -> bool:
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind != "f" or bool(np.isfinite(value).all())
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, list):
        return all(map(_finite, value))
    return True


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.float32):
        return float(str(value))  # 0.1, and not 0.10000000149011612
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value
