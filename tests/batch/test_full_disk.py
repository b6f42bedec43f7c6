"""A batch job whose disk is full, and that goes on when there is room again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import BatchError

pytestmark = [pytest.mark.slow, pytest.mark.full]
FILES, ROWS = 4, 20_000  # some 800 KB of answers for each


def remount(folder: Path, *options: str) -> bool:
    command = ["mount", *options, "-t", "tmpfs", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if not remount(folder, "-o", "size=2000k"):
        pytest.skip("needs the right to mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def export(tmp_path: Path) -> str:
    model = tf.Module()
    spec = tf.TensorSpec([None, 8], tf.float32, name="x")
    model.twice = tf.function(lambda x: {"y": 2 * x}, input_signature=[spec])
    tf.saved_model.save(model, str(tmp_path / "export"), {"serving_default": model.twice})
    return str(tmp_path / "export")


def test_the_same_call_goes_on_when_there_is_room(
    small_disk: Path, tmp_path: Path, export: str
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    values = np.random.default_rng(0).normal(size=(FILES, ROWS * 8)).astype(np.float32)
    for number, rows in enumerate(values):
        column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows), 8)
        parquet.write_table(pyarrow.table({"x": column}), tmp_path / f"{number}.parquet")
    job = (export, str(tmp_path / "*.parquet"), str(small_disk / "answers"))
    with pytest.raises(BatchError, match=r"No space left on device(\n|.)*what is finished is kept"):
        est.batch.predict(*job)
    assert remount(small_disk, "-o", "remount,size=100m")
    done = est.batch.predict(*job)
    assert (done.rows, done.errors) == (FILES * ROWS, 0)
    assert 0 < done.done_before < FILES
    for path, rows in zip(done.files, values, strict=True):
        answers = parquet.read_table(path).column("y").combine_chunks().flatten()
        np.testing.assert_array_equal(answers.to_numpy(), 2 * rows)
