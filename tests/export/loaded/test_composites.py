"""Sparse and ragged inputs: exported, loaded, shown, and fed from files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

import estimand as est
from estimand.cli.main import main
from estimand.core.errors import InputError
from estimand.export.loaded.arrays import TensorInfo
from estimand.export.loaded.composites import fed_arrays, joined_values, rows_of
from tests.export.conftest import run_config, v1

WEIGHTS = np.array([1.0, 2.0, 3.0, 4.0, 5.0], np.float32)
IDS, NUMBERS = [[1, 2], [], [3]], [[1.0], [2.0, 3.0], []]
SUMS = {"ids": [WEIGHTS[row].sum() for row in IDS], "numbers": [sum(row) for row in NUMBERS]}


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    weights = v1.get_variable("w", initializer=WEIGHTS)
    ids = features["ids"]
    chosen = tf.SparseTensor(ids.indices, tf.gather(weights, ids.values), ids.dense_shape)
    sums = {
        "ids": tf.sparse.reduce_sum(chosen, 1),
        "numbers": tf.reduce_sum(features["numbers"], 1),
    }
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions=sums)
    step = v1.train.get_global_step()
    return est.EstimatorSpec(mode, loss=tf.constant(0.0), train_op=step.assign_add(1))


def input_fn() -> tf.data.Dataset:
    features = {"ids": tf.ragged.constant(IDS, tf.int64).to_sparse()}
    features["numbers"] = tf.ragged.constant(NUMBERS)
    return tf.data.Dataset.from_tensors((features, [0.0] * 3))


def receiver_fn() -> Any:
    features = {
        "ids": v1.sparse_placeholder(tf.int64, [None, None], name="ids"),
        "numbers": v1.ragged.placeholder(tf.float32, 1, value_shape=[], name="numbers"),
    }
    return est.export.ServingInputReceiver(features, features)


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("composites")
    estimator = est.Estimator(model_fn, folder / "model", run_config()).train(input_fn)
    return estimator.export_saved_model(folder / "export", receiver_fn).decode()


@pytest.mark.parametrize(
    ("ids", "numbers"),
    [
        (IDS, NUMBERS),
        (tf.ragged.constant(IDS, tf.int64).to_sparse(), tf.ragged.constant(NUMBERS)),
        (
            ([[0, 0], [0, 1], [2, 0]], [1, 2, 3], [3, 2]),
            v1.ragged.RaggedTensorValue(np.float32([1, 2, 3]), np.array([0, 1, 3, 3])),
        ),
    ],
    ids=["lists", "tensors", "parts"],
)
def test_whatever_tells_rows_of_different_lengths_is_taken(
    export: str, ids: Any, numbers: Any
) -> None:
    with est.load_model(export) as model:
        answer = model(ids=ids, numbers=numbers)
    assert {name: value.tolist() for name, value in answer.items()} == SUMS


def test_dense_arrays_are_taken_with_all_their_values(export: str) -> None:
    with est.load_model(export) as model:
        answer = model(ids=np.array([[0, 4]]), numbers=np.array([[0.5, 0.25]]))
    assert answer["ids"].tolist() == [6.0] and answer["numbers"].tolist() == [0.75]


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ({"ids": [1], "numbers": [[1.0]]}, r"'ids' is sparse and takes int64 of shape \[\?, \?\]"),
        ({"ids": [["a"]], "numbers": [[1.0]]}, "a list of rows, each a list of as many values"),
        ({"ids": [[1]], "numbers": 7}, r"a tf\.RaggedTensor, or a list of rows.*Given: 7"),
        ({"ids": [[1], []], "numbers": [[1.0]]}, r"\(ids: 2, numbers: 1\)"),
        ({"ids": ([[0]], [1], [2]), "numbers": [[1.0]]}, r"\[\?, \?\], but was given \[2\]"),
        ({"ids": ([[0, 0]], [1, 2], [1, 2]), "numbers": [[1.0]]}, "1 indices for 2 values"),
    ],
)
def test_what_does_not_fit_is_named(export: str, inputs: dict[str, Any], text: str) -> None:
    with est.load_model(export) as model, pytest.raises(InputError, match=text):
        model(inputs)


def test_two_ragged_dimensions_and_one_that_is_not() -> None:
    parts = ("v:0", "outer:0", "inner:0")
    info = TensorInfo("x", "float32", (None, None, None, 2), "v:0", "ragged", parts)
    arrays = fed_arrays(info, [[[[1, 2]], []], [[[3, 4], [5, 6]]]])
    assert [array.tolist() for array in arrays] == [
        [[1, 2], [3, 4], [5, 6]],
        [0, 2, 3],
        [0, 1, 1, 3],
    ]
    (value,) = joined_values([info], arrays)
    assert value.to_list() == [[[[1, 2]], []], [[[3, 4], [5, 6]]]]
    assert [len(row) for row in rows_of(value)] == [2, 1]


def test_show_names_all_tensors_of_an_input(export: str) -> None:
    result = CliRunner().invoke(main, ["show", export])
    for text in ("sparse int64", "ids/indices:0", "ragged float32", "numbers/row_splits_0:0"):
        assert text in result.output
    facts = json.loads(CliRunner().invoke(main, ["show", export, "--json"]).stdout)
    ids = facts["graphs"][0]["signatures"]["serving_default"]["inputs"]["ids"]
    assert ids["parts"] == ["ids/indices:0", "ids/values:0", "ids/shape:0"]


def example(ids: list[int], numbers: list[float]) -> bytes:
    feature = {
        "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=ids)),
        "numbers": tf.train.Feature(float_list=tf.train.FloatList(value=numbers)),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.jsonl.gz", "a.tfrecord", "a.tfrecord.gz"])
def test_predict_reads_rows_of_different_lengths(export: str, tmp_path: Path, name: str) -> None:
    path, rows = tmp_path / name, list(zip(IDS, NUMBERS, strict=True))
    if "tfrecord" in name:
        compression = "GZIP" if name.endswith("gz") else ""
        with tf.io.TFRecordWriter(str(path), compression) as writer:
            for row in rows:
                writer.write(example(*row))
    elif "csv" in name:
        path.write_text('ids,numbers\n"[1, 2]",1\n,"[2, 3]"\n3,\n')
    else:
        text = "\n".join(json.dumps({"ids": i, "numbers": n}) for i, n in rows)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    result = CliRunner().invoke(main, ["predict", export, "--input", str(path)])
    assert result.exit_code == 0, result.output
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert {name: [row[name] for row in answers] for name in SUMS} == SUMS


def test_what_is_no_number_is_written_as_a_word_and_read_again(export: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    words = [["NaN"], ["Infinity"], ["-Infinity"], [0.5]]
    path.write_text("\n".join(json.dumps({"ids": [], "numbers": row}) for row in words))
    result = CliRunner().invoke(main, ["predict", export, "--input", str(path)])
    assert result.exit_code == 0, result.output

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    answers = [json.loads(line, parse_constant=refuse) for line in result.stdout.splitlines()]
    assert [row["numbers"] for row in answers] == ["NaN", "Infinity", "-Infinity", 0.5]


def test_a_damaged_compressed_file_is_named(export: str, tmp_path: Path) -> None:
    for name in ("a.csv.gz", "a.tfrecord.gz"):
        (tmp_path / name).write_bytes(b"nothing that was compressed")
        result = CliRunner().invoke(main, ["predict", export, "--input", str(tmp_path / name)])
        assert result.exit_code == 1
        assert name in result.output and "damaged" in result.output
