"""A model whose answers NumPy can compute, and rows for it in every format."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1
FEATURES = {
    "x": tf.io.FixedLenFeature([], tf.float32),
    "word": tf.io.FixedLenFeature([], tf.string, default_value="none"),
}


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    """y = 3 x + 1, and how long the word is. A negative x is more than it can bear."""
    w = v1.get_variable("w", initializer=3.0)
    with tf.control_dependencies([tf.debugging.assert_non_negative(features["x"], "x is below 0")]):
        y = features["x"] * w + 1.0
    if mode == est.ModeKeys.PREDICT:
        said = tf.strings.join(["<", features["word"], ">"])
        both = tf.stack([y, -y], axis=1)
        return est.EstimatorSpec(mode, predictions={"y": y, "said": said, "both": both})
    loss = tf.reduce_sum(y) * 0.0
    train_op = v1.train.get_or_create_global_step().assign_add(1)
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(({"x": [1.0], "word": ["a"]}, [1.0]))


def parsing() -> Any:
    return est.export.build_parsing_serving_input_receiver_fn(FEATURES)()


def raw() -> Any:
    specs = {"x": tf.TensorSpec([None]), "word": tf.TensorSpec([None], tf.string)}
    return est.export.build_raw_serving_input_receiver_fn(specs)()


@pytest.fixture(scope="session")
def exports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    config = est.RunConfig(progress=False, log_step_count_steps=None)
    estimator = est.Estimator(model_fn, tmp_path_factory.mktemp("model"), config)
    estimator.train(input_fn)
    bases = {name: tmp_path_factory.mktemp(name) for name in ("parsing", "raw")}
    estimator.export_saved_model(bases["parsing"], parsing)
    estimator.export_saved_model(bases["raw"], raw)
    return {name: str(base) for name, base in bases.items()}


def rows_of(numbers: range) -> list[dict[str, Any]]:
    return [{"id": i, "x": float(i), "word": f"w{i % 7}"} for i in numbers]


def expected(row: dict[str, Any]) -> dict[str, Any]:
    y = 3.0 * row["x"] + 1.0
    return {"id": row["id"], "y": y, "said": f"<{row['word']}>", "both": [y, -y]}


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=40)
    else:
        est.records.write(path, rows)
    return path


def read_answers(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a file of answers, by readers that are not ours."""
    path = Path(path)
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return pq.read_table(path).to_pylist()
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return [_typed(row) for row in csv.DictReader(file)]
    return [_example(record) for record in tf.data.TFRecordDataset(str(path))]


def _typed(row: dict[str, str]) -> dict[str, Any]:
    numbers = {name: json.loads(row[name]) for name in ("id", "y", "both")}
    return {**row, **numbers}


def _example(record: Any) -> dict[str, Any]:
    spec = {
        "id": tf.io.VarLenFeature(tf.int64),
        "id_text": tf.io.VarLenFeature(tf.string),
        "y": tf.io.FixedLenFeature([], tf.float32),
        "said": tf.io.FixedLenFeature([], tf.string),
        "both": tf.io.FixedLenFeature([2], tf.float32),
    }
    found = tf.io.parse_single_example(record, spec)
    return {
        "id": int(found["id"].values[0]),
        "y": float(found["y"]),
        "said": found["said"].numpy().decode(),
        "both": found["both"].numpy().tolist(),
    }


def assert_right(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """These answers, in this order, and no other."""
    assert [int(row["id"]) for row in found] == [row["id"] for row in wanted]
    assert [row["said"] for row in found] == [expected(row)["said"] for row in wanted]
    for name in ("y", "both"):
        np.testing.assert_allclose(
            [row[name] for row in found], [expected(row)[name] for row in wanted], rtol=1e-6
        )
