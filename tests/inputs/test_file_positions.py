"""Every reader of files goes on, after a crash, on the next batch it has not given yet."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from PIL import Image

from estimand.inputs import (
    csv_input_fn,
    image_folder_input_fn,
    parquet_input_fn,
    table_input_fn,
    text_input_fn,
)
from tests.integration.programs import (
    BATCH,
    IDS,
    CrashAt,
    Crashed,
    assert_every_epoch_is_whole,
    remembering,
    seen_by,
)

Make = Callable[[Path], Any]


def numbers_of(input_fn: Any, number: Callable[[Any], tf.Tensor]) -> Any:
    """The same input with the number of each row in place of its features."""

    def numbered(mode: str) -> tf.data.Dataset:
        return input_fn(mode).map(lambda features: number(features))

    return numbered


def text_parts(folder: Path, header: str, rows: list[str]) -> str:
    for part in range(4):
        lines = [header, *rows[part::4]] if header else rows[part::4]
        (folder / f"part{part}.txt").write_text("\n".join(lines))
    return str(folder / "part*.txt")


def csv(folder: Path) -> Any:
    files = text_parts(folder, "id,w", [f"{i},w{i}" for i in range(IDS)])
    return numbers_of(csv_input_fn(files, BATCH, shuffle_buffer_size=30), lambda f: f["id"])


def csv_with_skips(folder: Path) -> Any:
    rows = [row for i in range(IDS) for row in [f"{i},w{i}"] + ["no number,x"] * (i % 3)]
    files = text_parts(folder, "id,w", rows)
    read = csv_input_fn(files, BATCH, column_defaults={"id": int}, on_error="skip")
    return numbers_of(read, lambda f: f["id"])


def text(folder: Path) -> Any:
    files = text_parts(folder, "", [str(i) for i in range(IDS)])
    read = text_input_fn(files, BATCH, shuffle_buffer_size=30)
    return numbers_of(read, lambda f: tf.strings.to_number(f["text"], tf.int64))


def compressed_text(folder: Path) -> Any:
    import gzip

    (folder / "t.gz").write_bytes(gzip.compress("\n".join(map(str, range(IDS))).encode()))
    return numbers_of(
        text_input_fn(folder / "t.gz", BATCH),
        lambda f: tf.strings.to_number(f["text"], tf.int64),
    )


def table() -> pa.Table:
    return pa.table({"id": np.arange(IDS), "w": [f"w{i}" for i in range(IDS)]})


def in_memory(folder: Path) -> Any:
    return numbers_of(table_input_fn(table(), BATCH), lambda f: f["id"])


def parquet(folder: Path) -> Any:
    pq.write_table(table(), folder / "t.parquet", row_group_size=30)
    return numbers_of(parquet_input_fn(folder / "t.parquet", BATCH), lambda f: f["id"])


def parquet_as_a_stream(folder: Path) -> Any:
    pq.write_table(table(), folder / "t.parquet", row_group_size=30)
    read = parquet_input_fn(folder / "t.parquet", BATCH, shuffle_buffer_size=40, memory_limit=0)
    return numbers_of(read, lambda f: f["id"])


def images(folder: Path, **options: Any) -> Any:
    (folder / "a").mkdir()
    for i in range(IDS):
        Image.new("RGB", (2, 2), (i, 0, 0)).save(folder / "a" / f"{i}.png")
    read = image_folder_input_fn(folder, (2, 2), BATCH, label_mode=None, **options)
    return numbers_of(read, lambda f: tf.cast(f["image"][:, 0, 0, 0], tf.int64))


def images_with_skips(folder: Path) -> Any:
    read = images(folder, on_error="skip")
    (folder / "a" / "x.png").write_bytes(b"no image")
    return read


READERS = [
    csv,
    csv_with_skips,
    text,
    compressed_text,
    in_memory,
    parquet,
    parquet_as_a_stream,
    images,
    images_with_skips,
]


@pytest.mark.parametrize("make", READERS, ids=lambda make: make.__name__)
def test_shuffled_rows_go_on_where_the_saved_position_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, make: Make
) -> None:
    data, model = tmp_path / "data", tmp_path / "model"
    data.mkdir()
    input_fn = make(data)
    estimator = remembering(model, save_checkpoints_steps=5)
    with pytest.raises(Crashed):
        estimator.train(input_fn, max_steps=60, hooks=[CrashAt(13)])
    record = json.loads((model / "model.ckpt-10.run.json").read_text())
    assert record["input"]["kind"] == "iterator"  # and not by counting batches
    remembering(model).train(input_fn, max_steps=60)
    seen = seen_by(model)
    assert len(seen) == 60
    assert_every_epoch_is_whole(seen)
    assert (seen.ravel()[:IDS] != np.arange(IDS)).any()
    assert not [m for m in caplog.messages if "cannot be saved" in m or "by counting" in m]


@pytest.mark.parametrize("make", [csv, parquet_as_a_stream, images], ids=lambda m: m.__name__)
def test_resumed_run_reads_what_the_uninterrupted_one_reads(tmp_path: Path, make: Make) -> None:
    """Through the epochs that follow, whose orders were not drawn yet."""
    data = tmp_path / "data"
    data.mkdir()
    input_fn = make(data)
    options = {"tf_random_seed": 5, "save_checkpoints_steps": 5}
    remembering(tmp_path / "whole", **options).train(input_fn, max_steps=100)
    for at in (13, 67):
        with pytest.raises(Crashed):
            remembering(tmp_path / "crashed", **options).train(
                input_fn, max_steps=100, hooks=[CrashAt(at)]
            )
    remembering(tmp_path / "crashed", **options).train(input_fn, max_steps=100)
    assert (seen_by(tmp_path / "crashed") == seen_by(tmp_path / "whole")).all()


@pytest.mark.parametrize("kind", ["csv", "csv, skipping", "parquet"])
def test_rows_in_order_go_on_where_the_saved_position_says(tmp_path: Path, kind: str) -> None:
    if kind == "parquet":
        pq.write_table(table(), tmp_path / "t.parquet", row_group_size=30)
        read = parquet_input_fn(tmp_path / "t.parquet", BATCH, shuffle=False, memory_limit=0)
    else:
        files = text_parts(tmp_path, "id", [f"{i}" for i in range(IDS)])
        on_error = "skip" if "skipping" in kind else "raise"
        read = csv_input_fn(files, BATCH, shuffle=False, on_error=on_error)
    input_fn = numbers_of(read, lambda f: f["id"])
    with pytest.raises(Crashed):
        remembering(tmp_path / "m", save_checkpoints_steps=5).train(
            input_fn, max_steps=60, hooks=[CrashAt(33)]
        )
    remembering(tmp_path / "m").train(input_fn, max_steps=60)
    order = np.arange(IDS) if kind == "parquet" else np.arange(IDS).reshape(-1, 4).T.ravel()
    assert (seen_by(tmp_path / "m").ravel() == np.resize(order, 60 * BATCH)).all()


def test_augmentation_goes_on_as_in_the_uninterrupted_run(tmp_path: Path) -> None:
    """The brightness that was drawn for each image is what the model remembers."""
    data = tmp_path / "data"
    data.mkdir()
    input_fn = images(data, augment={"brightness": 0.5})
    options = {"tf_random_seed": 5, "save_checkpoints_steps": 5}
    remembering(tmp_path / "whole", **options).train(input_fn, max_steps=40)
    with pytest.raises(Crashed):
        remembering(tmp_path / "crashed", **options).train(
            input_fn, max_steps=40, hooks=[CrashAt(13)]
        )
    remembering(tmp_path / "crashed", **options).train(input_fn, max_steps=40)
    whole = seen_by(tmp_path / "whole")
    assert (seen_by(tmp_path / "crashed") == whole).all()
    assert (np.sort(whole.ravel()[:IDS]) != np.arange(IDS)).any()


def test_random_state_beside_a_counter_is_still_resumed_by_counting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, model = tmp_path / "data", tmp_path / "model"
    data.mkdir()
    read = csv_with_skips(data)

    def noisy(mode: str) -> tf.data.Dataset:
        noise = lambda ids: ids + tf.random.uniform([], 0, 1, tf.int64)  # noqa: E731
        return read(mode).map(noise)

    with pytest.raises(Crashed):
        remembering(model, save_checkpoints_steps=5).train(noisy, max_steps=20, hooks=[CrashAt(8)])
    assert [m for m in caplog.messages if "cannot be saved" in m]
    record = json.loads((model / "model.ckpt-5.run.json").read_text())
    assert record["input"]["kind"] == "count"
