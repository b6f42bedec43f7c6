"""Several tensors as one, and back."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimand.engine.distributed import packing

SPECS = {
    "rows of one width": ([None, 16], [None, 16], [4, 16], [128], [3], []),
    "rows of several": ([None, 16], [None, 16], [None, 8], [None, 24], [None, 32], [5, None]),
    "numbers of rows": ([None], [None], [None]),
    "nothing unknown": ([4, 16], [3], []),
    "of three dimensions": ([None, 3, 4], [None, 2]),
}
OTHERS = {
    "float32": (),
    "int64": (),
    "mixed": (([], tf.int64), ([None], tf.int32), ([2], tf.float64)),
}


@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("shapes", SPECS)
@pytest.mark.parametrize("length", [0, 5])
def test_all_come_out_as_they_went_in(shapes: str, others: str, length: int) -> None:
    random = np.random.default_rng(length)
    dtype = tf.int64 if others == "int64" else tf.float32
    specs = [tf.TensorSpec(shape, dtype) for shape in SPECS[shapes]]
    specs += [tf.TensorSpec(*other) for other in OTHERS[others]]

    def value(spec: tf.TensorSpec) -> np.ndarray:
        shape = [length if size is None else size for size in spec.shape]
        return (1e6 * random.normal(size=shape)).astype(spec.dtype.as_numpy_dtype)

    @tf.function(input_signature=specs, autograph=False)
    def there_and_back(*tensors: tf.Tensor) -> list[tf.Tensor]:
        return packing.apart(packing.joined(tensors), specs)

    given = [value(spec) for spec in specs]
    for one, other in zip(there_and_back(*given), given, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_rows_are_neither_copied_nor_reshaped() -> None:
    with tf.Graph().as_default():
        rows = [tf.compat.v1.placeholder(tf.float32, [None, 16]) for _ in range(3)]
        whole = packing.joined(rows)
        assert list(whole.op.inputs)[1:4] == rows
        found = packing.apart(whole, [tf.TensorSpec([None, 16])] * 3)
        assert {tensor.op.type for tensor in found} == {"SplitV"}
