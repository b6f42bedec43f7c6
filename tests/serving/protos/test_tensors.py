"""TensorProto to NumPy and back, against TensorFlow's own conversions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2

from estimand.serving.protos import tensors

ARRAYS = {
    "float32": np.float32([[1.5, np.nan], [-np.inf, 0]]),
    "float64": np.float64([0.1, 1e300]),
    "float16": np.float16([0.5, 65504]),
    "bfloat16": np.array([0.5, 3e38], ml_dtypes.bfloat16),
    "int8": np.int8([-128, 127]),
    "int16": np.int16([[-1], [2]]),
    "int32": np.int32([-(2**31), 2**31 - 1]),
    "int64": np.int64([-(2**63), 2**63 - 1]),
    "uint8": np.uint8([0, 255]),
    "uint16": np.uint16([65535]),
    "uint32": np.uint32([2**32 - 1]),
    "uint64": np.uint64([2**64 - 1]),
    "bool": np.array([[True, False]]),
    "complex64": np.complex64([1 + 2j, -3j]),
    "complex128": np.complex128([[1 + 2j]]),
    "string": np.array([b"", b"\x00\xff"], object),
    "scalar": np.float32(3.0),
    "no rows": np.zeros([0, 3], np.float32),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_decoding_what_tensorflow_encoded(name: str) -> None:
    array = np.asarray(ARRAYS[name])
    decoded = tensors.decode(tf.make_tensor_proto(array))
    np.testing.assert_array_equal(decoded, array)
    assert decoded.dtype == array.dtype
    assert decoded.shape == array.shape


@pytest.mark.parametrize("as_content", [False, True])
@pytest.mark.parametrize("name", ARRAYS)
def test_tensorflow_decodes_what_was_encoded(name: str, as_content: bool) -> None:
    array = np.asarray(ARRAYS[name])
    proto = tensors.to_proto(array, as_content)
    np.testing.assert_array_equal(tf.make_ndarray(proto), array)
    assert bool(proto.tensor_content) == (as_content and name not in ("string", "no rows"))


def test_typed_values_are_written_as_protobuf_writes_them() -> None:
    array = np.float32([[1, 2, 3]])
    proto = tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, float_val=array.ravel().tolist())
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    assert tensors.encode(array) == proto.SerializeToString()


def test_the_last_value_is_repeated_and_what_is_too_much_is_left_out() -> None:
    proto = tensor_pb2.TensorProto(dtype=types_pb2.DT_INT64, int64_val=[1, 2])
    proto.tensor_shape.dim.add(size=4)
    assert tensors.decode(proto).tolist() == [1, 2, 2, 2]
    proto.tensor_shape.dim[0].size = 1
    assert tensors.decode(proto).tolist() == [1]
    del proto.int64_val[:]
    assert tensors.decode(proto).tolist() == [0]


@pytest.mark.parametrize("sizes", [[-1], [2**40], [2**62, 2**62]])
def test_impossible_shapes_are_refused(sizes: list[int]) -> None:
    proto = tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, float_val=[1.0])
    for size in sizes:
        proto.tensor_shape.dim.add(size=size)
    with pytest.raises(ValueError):
        tensors.decode(proto)


def test_a_type_without_values_is_refused() -> None:
    with pytest.raises(ValueError, match="resource"):
        tensors.decode(tensor_pb2.TensorProto(dtype=types_pb2.DT_RESOURCE))
