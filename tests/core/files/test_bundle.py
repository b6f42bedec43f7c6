"""A checkpoint's index read without TensorFlow, against TensorFlow's own reader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.errors import CheckpointError
from estimand.core.files import bundle

MANY = {f"layer_{n}/kernel": np.full([3, n % 5], n, "float32") for n in range(2000)}
KINDS = {
    "text": np.array([b"a longer one", b""]),
    "flag": np.array(True),
    "half": tf.constant([1.0], tf.bfloat16),
    "double": np.float64(3),
    "complex": np.zeros([2], "complex64"),
    "global_step": np.int64(77),
    "négatif": np.int32(-5),
}


def save(prefix: Path, values: dict[str, object], slices: list[str] | None = None) -> str:
    names = [name.split("@")[0] for name in values]
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=slices or [""] * len(names),
        tensors=list(values.values()),
    )
    return str(prefix)


def test_names_shapes_and_types_are_those_of_tensorflow(tmp_path: Path) -> None:
    prefix = save(tmp_path / "model", {**MANY, **KINDS})
    theirs = tf.train.load_checkpoint(prefix)
    ours = bundle.read(prefix).tensors
    assert {k: list(one.shape) for k, one in ours.items()} == theirs.get_variable_to_shape_map()
    types = {name: dtype.name for name, dtype in theirs.get_variable_to_dtype_map().items()}
    assert {name: one.dtype for name, one in ours.items()} == types


def test_sizes_are_those_of_the_values(tmp_path: Path) -> None:
    tensors = bundle.read(save(tmp_path / "model", KINDS)).tensors
    sizes = {name: one.nbytes for name, one in tensors.items() if name != "text"}
    assert sizes == {name: np.asarray(KINDS[name]).nbytes for name in sizes}


def test_integers_are_read_from_the_data(tmp_path: Path) -> None:
    read = bundle.read(save(tmp_path / "model", {**MANY, **KINDS}))
    assert (read.integer("global_step"), read.integer("négatif")) == (77, -5)


def test_variable_saved_in_slices_is_one(tmp_path: Path) -> None:
    halves = {"w@0": np.zeros([2, 3], "float32"), "w@1": np.ones([2, 3], "float32")}
    prefix = save(tmp_path / "model", halves, ["4 3 0,2:0,3", "4 3 2,2:0,3"])
    (tensor,) = bundle.read(prefix).tensors.values()
    assert (tensor.name, tensor.shape, tensor.nbytes) == ("w", (4, 3), 48)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_index_is_an_error_or_read(tmp_path: Path, seed: int) -> None:
    prefix = save(tmp_path / "model", KINDS)
    index = Path(f"{prefix}.index")
    data, random = bytearray(index.read_bytes()), np.random.default_rng(seed)
    for place in random.integers(0, len(data), 8):
        data[place] = random.integers(256)
    index.write_bytes(data)
    try:
        bundle.read(prefix)
    except CheckpointError as error:
        assert f"{prefix}.index cannot be read" in str(error)


def test_missing_data_is_told(tmp_path: Path) -> None:
    read = bundle.read(save(tmp_path / "model", KINDS))
    Path(f"{tmp_path}/model.data-00000-of-00001").unlink()
    with pytest.raises(CheckpointError, match="damaged or missing"):
        read.integer("global_step")
