"""TensorProto to NumPy and back.

Decoding follows TensorFlow's rules: `tensor_content`, or typed fields of which the last value is
repeated up to the shape. Encoding writes typed fields, as clients of TensorFlow Serving expect
(`response.outputs["y"].float_val`), in the wire format itself where that saves the time per value.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import ml_dtypes
import numpy as np
from tensorflow.core.framework import tensor_pb2, types_pb2

from estimand.core.files import varints

# Numbers of TensorProto's fields.
_FLOAT, _DOUBLE, _SCOMPLEX, _BOOL, _DCOMPLEX = 5, 6, 9, 11, 12
# A value repeated up to a shape costs the sender nothing: bound what it may cost us.
MAX_REPEATED_BYTES = 256 * 2**20

_KINDS: dict[int, tuple[Any, str]] = {
    types_pb2.DT_FLOAT: (np.float32, "float_val"),
    types_pb2.DT_DOUBLE: (np.float64, "double_val"),
    types_pb2.DT_INT32: (np.int32, "int_val"),
    types_pb2.DT_UINT8: (np.uint8, "int_val"),
    types_pb2.DT_INT16: (np.int16, "int_val"),
    types_pb2.DT_INT8: (np.int8, "int_val"),
    types_pb2.DT_UINT16: (np.uint16, "int_val"),
    types_pb2.DT_STRING: (np.object_, "string_val"),
    types_pb2.DT_COMPLEX64: (np.complex64, "scomplex_val"),
    types_pb2.DT_INT64: (np.int64, "int64_val"),
    types_pb2.DT_BOOL: (np.bool_, "bool_val"),
    types_pb2.DT_COMPLEX128: (np.complex128, "dcomplex_val"),
    types_pb2.DT_HALF: (np.float16, "half_val"),
    types_pb2.DT_BFLOAT16: (ml_dtypes.bfloat16, "half_val"),
    types_pb2.DT_UINT32: (np.uint32, "uint32_val"),
    types_pb2.DT_UINT64: (np.uint64, "uint64_val"),
}
KINDS = {number: (np.dtype(kind), field) for number, (kind, field) in _KINDS.items()}
NUMBER_OF = {kind: number for number, (kind, _) in KINDS.items()}
# As TensorFlow writes them in messages.
NAME_OF = {
    number: types_pb2.DataType.Name(number).removeprefix("DT_").lower()
    for number in types_pb2.DataType.values()
}
_RAW = {
    np.dtype(np.float32): _FLOAT,
    np.dtype(np.float64): _DOUBLE,
    np.dtype(np.complex64): _SCOMPLEX,
    np.dtype(np.complex128): _DCOMPLEX,
    np.dtype(np.bool_): _BOOL,
}


def decode(proto: Any) -> np.ndarray:
    """The array; ValueError if the message is no tensor.

    >>> decode(tensor_pb2.TensorProto(dtype=1, float_val=[2.0])).item()
    2.0
    """
    kind_and_field = KINDS.get(proto.dtype)
    if kind_and_field is None:
        raise ValueError(f"no tensor of type {NAME_OF.get(proto.dtype, proto.dtype)}")
    kind, field = kind_and_field
    shape = [dim.size for dim in proto.tensor_shape.dim]
    if proto.tensor_shape.unknown_rank or (shape and min(shape) < 0):
        raise ValueError("the shape is not fully known")
    if len(shape) > 254:
        raise ValueError("too many dimensions")
    content = proto.tensor_content
    if content:
        if kind.hasobject:
            raise ValueError("tensor_content of strings is not supported")
        return np.frombuffer(content, kind).reshape(shape)
    return _from_values(getattr(proto, field), kind, shape)


def _from_values(values: Any, kind: np.dtype, shape: list[int]) -> np.ndarray:
    size = math.prod(shape)
    if kind.kind == "c":
        array = np.fromiter(values, kind.char.lower(), len(values))
        array = array[: len(array) // 2 * 2].view(kind)
    elif kind.itemsize == 2 and kind.kind in "fV":  # half_val holds the bits
        array = np.fromiter(values, np.int64, len(values)).astype(np.uint16).view(kind)
    elif kind.hasobject:
        array = np.empty(len(values), np.object_)
        array[:] = list(values)
    elif kind.itemsize < 4 and kind.kind in "iu":  # int_val wraps around, as TensorFlow's
        array = np.fromiter(values, np.int64, len(values)).astype(kind)
    else:
        array = np.fromiter(values, kind, len(values))
    if len(array) < size:
        if size * kind.itemsize > MAX_REPEATED_BYTES:
            raise ValueError("the shape is much larger than the values")
        last = array[-1] if len(array) else (b"" if kind.hasobject else kind.type(0))
        whole = np.full(size, last, kind)
        whole[: len(array)] = array
        array = whole
    return array[:size].reshape(shape)


def encode(array: np.ndarray, as_content: bool = False) -> bytes:
    """A serialized TensorProto.

    >>> tensor_pb2.TensorProto.FromString(encode(np.float32([[1, 2]]))).float_val[:]
    [1.0, 2.0]
    """
    if array.dtype not in _RAW or as_content:
        return _encode_any(array, as_content)
    return head(array.dtype, array.shape) + array.tobytes()


def is_raw(array: np.ndarray) -> bool:
    """Whether its values go into their typed field as they are in memory."""
    return array.dtype in _RAW


@functools.lru_cache(4096)
def head(kind: np.dtype, shape: tuple[int, ...]) -> bytes:
    """All that comes before the values."""
    # A size of 0 is the default of its field, which is not written.
    sizes = (length_delimited(0x12, b"\x08" + varints.encode(n) if n else b"") for n in shape)
    start = b"\x08" + varints.encode(NUMBER_OF[kind]) + length_delimited(0x12, b"".join(sizes))
    count = math.prod(shape) * kind.itemsize
    return start + varints.encode(_RAW[kind] << 3 | 2) + varints.encode(count) if count else start


def to_proto(array: np.ndarray, as_content: bool = False) -> Any:
    return tensor_pb2.TensorProto.FromString(encode(array, as_content))


def _encode_any(array: np.ndarray, as_content: bool) -> bytes:
    number = types_pb2.DT_STRING if array.dtype.kind in "OSU" else NUMBER_OF.get(array.dtype)
    if number is None:
        raise TypeError(f"A tensor of type {array.dtype} cannot be sent.")
    proto = tensor_pb2.TensorProto(dtype=number)
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    if as_content and number != types_pb2.DT_STRING:
        proto.tensor_content = array.tobytes()
        return proto.SerializeToString()
    field = KINDS[number][1]
    if field == "half_val":
        array = np.ascontiguousarray(array).view(np.uint16)
    elif array.dtype.kind == "c":
        array = np.ascontiguousarray(array).reshape(-1).view(array.dtype.char.lower())
    elif array.dtype.kind == "U":
        array = np.char.encode(array, "utf-8")
    getattr(proto, field).extend(array.ravel().tolist())
    return proto.SerializeToString()


def length_delimited(tag: int, content: bytes) -> bytes:
    return varints.encode(tag) + varints.encode(len(content)) + content
