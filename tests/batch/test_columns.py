"""Whole columns give what rows give, or leave it to the rows."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from estimand.batch.chunks import Rows
from estimand.batch.columns import inputs_of_table
from estimand.export.loaded.arrays import TensorInfo
from estimand.export.loaded.rows import inputs_of_rows
from estimand.inputs.memory.tables import as_numbers


class Asked:
    name = "asked"

    def __init__(self, **inputs: tuple[str, tuple[int | None, ...]]) -> None:
        self.inputs = {n: TensorInfo(n, dtype, shape, n) for n, (dtype, shape) in inputs.items()}


EXAMPLES = Asked(examples=("string", (None,)))
SPEC = {
    "age": tf.io.FixedLenFeature([], tf.float32, 7.0),
    "hours": tf.io.FixedLenFeature([], tf.int64, 3),
    "word": tf.io.FixedLenFeature([], tf.string, "none"),
    "pair": tf.io.FixedLenFeature([2], tf.float32, [0.0, 0.0]),
    "tags": tf.io.VarLenFeature(tf.string),
}
SCHEMA: dict[str, dict[str, Any]] = {
    "age": {"dtype": "float32", "default": 7.0},
    "hours": {"dtype": "int64", "default": 3},
    "word": {"dtype": "string", "default": "none"},
    "pair": {"dtype": "float32", "default": 0.0},
    "tags": {"dtype": "string"},
}


def parsed(inputs: dict[str, Any]) -> dict[str, Any]:
    found = tf.io.parse_example(list(inputs["examples"]), SPEC)
    tags = found.pop("tags")
    dense = {name: value.numpy().tolist() for name, value in found.items()}
    return {**dense, "tags": tf.sparse.to_dense(tags, b"").numpy().tolist()}


@pytest.mark.parametrize(
    "columns",
    [
        {"age": [1.5, 2.5], "hours": [1, -2], "word": ["a", "bé"], "pair": [[1.0, 2.0]] * 2},
        {"age": [1, 2], "hours": [True, False]},
        {"age": [None, 2.0], "hours": [5, None], "word": [None, "a"], "id": [1, 2]},
        {"word": ["", "a"], "tags": [["x", "y"], ["z", ""]]},
        {"age": [float("nan"), float("inf")], "tags": [["x"], None]},
        {"hours": pa.array([datetime.date(1970, 1, 3), None])},
        {"word": pa.array(["b", "a"]).dictionary_encode()},
        {"word": [b"\xff", b"a"]},
    ],
)
def test_examples_are_those_of_rows(columns: dict[str, Any]) -> None:
    table = as_numbers(pa.table(columns))
    found = inputs_of_table(EXAMPLES, table, SCHEMA)  # type: ignore[arg-type]
    given = table.to_pylist()
    rows = inputs_of_rows(EXAMPLES, given, SCHEMA, names_are_known=True)  # type: ignore[arg-type]
    assert found is not None
    np.testing.assert_equal(parsed(found), parsed(rows))


@pytest.mark.parametrize(
    "columns",
    [
        {"age": ["1.5", "2"]},
        {"hours": [1.0, 2.0]},
        {"tags": [["x"], ["y", "z"]]},
        {"unknown": [1, 2]},
    ],
)
def test_doubtful_columns_are_left_to_the_rows(columns: dict[str, Any]) -> None:
    assert inputs_of_table(EXAMPLES, pa.table(columns), SCHEMA) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("info", "column", "wanted"),
    [
        (("float32", (None,)), [1.0, 2.0], [1.0, 2.0]),
        (("float32", (None, 1)), [1, 2], [[1], [2]]),
        (("float32", (None, 2)), [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]),
        (("int64", (None, 1, 2)), [[[1, 2]], [[3, 4]]], [[[1, 2]], [[3, 4]]]),
        (("string", (None,)), ["a", "é"], [b"a", "é".encode()]),
        (("string", (None, 1)), ["a", "b"], [[b"a"], [b"b"]]),
        (("bool", (None,)), [True, False], [True, False]),
        (("float32", (None,)), [1.0, None], None),
        (("float32", (None,)), ["1", "2"], None),
        (("string", (None,)), [1, 2], None),
        (("float32", (None, None)), [[1.0], [2.0, 3.0]], None),
    ],
)
def test_inputs_are_arrays_of_columns(info: Any, column: list[Any], wanted: Any) -> None:
    asked = Asked(x=info, y=("int64", (None,)))
    table = pa.table({"x": column, "y": [1, 2]})
    found = inputs_of_table(asked, table, {})  # type: ignore[arg-type]
    assert (None if found is None else found["x"].tolist()) == wanted


ROWS: list[list[dict[str, Any]]] = [
    [{"age": 1, "word": "a"}, {"age": 2.5}],
    [{"age": "1.5"}, {"age": " 2 "}],
    [{"hours": 1.0, "id": 3}, {"hours": 2, "id": "x"}],
    [{"hours": True}, {"hours": 7}],
    [{"word": ""}, {"word": {"b64": "/w=="}}],
    [{"tags": ["a", "b"]}, {"tags": []}, {}],
    [{"tags": "a"}, {"tags": ["b", "c"]}],
    [{"pair": [1, 2]}, {"pair": [3.5, 4]}, {"pair": None}],
    [{"age": "NaN"}, {"age": float("inf")}],
    [{"hours": 2**62}, {"hours": -(2**62)}],
    [{"age": 2**60 + 1}, {"age": 0.1}],
]


@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_rows_as_columns_are_the_same_rows(rows: list[dict[str, Any]]) -> None:
    found = Rows(rows, range(len(rows))).inputs(EXAMPLES, SCHEMA)  # type: ignore[arg-type]
    wanted = inputs_of_rows(EXAMPLES, rows, SCHEMA, names_are_known=True)  # type: ignore[arg-type]
    np.testing.assert_equal(parsed(found), parsed(wanted))
