"""parquet_input_fn and table_input_fn against pyarrow, in memory and as a stream."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from estimand.core.errors import InputError
from estimand.inputs import parquet_files, parquet_input_fn, table_input_fn
from tests.inputs.reading import batches, call, read_fault, skipped

IN_MEMORY, AS_A_STREAM = {"memory_limit": 2**29}, {"memory_limit": 0}
BOTH_WAYS = pytest.mark.parametrize("way", [IN_MEMORY, AS_A_STREAM], ids=["memory", "stream"])


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "_SLICE", 7)


def many_types(rows: int = 50) -> pa.Table:
    random = np.random.default_rng(0)
    day = datetime.date(2020, 2, 28)
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int32()),
            "f": pa.array(random.normal(size=rows), pa.float32()),
            "d": random.normal(size=rows),
            "u": pa.array(range(rows), pa.uint8()),
            "b": [i % 3 == 0 for i in range(rows)],
            "s": [None if i % 7 == 0 else f"ü{i}" for i in range(rows)],
            "y": pa.array([bytes([i, 0, 255]) for i in range(rows)]),
            "c": pa.array(["x", "y"] * (rows // 2)).dictionary_encode(),
            "day": [day + datetime.timedelta(i) for i in range(rows)],
            "at": [datetime.datetime(2020, 1, 1, 0, 0, i) for i in range(rows)],
            "money": pa.array([decimal.Decimal(i) / 4 for i in range(rows)], pa.decimal128(9, 2)),
            "v": pa.array([[i, 2.0 * i] for i in range(rows)], pa.list_(pa.float32(), 2)),
        }
    )


def expected(table: pa.Table) -> dict[str, list[Any]]:
    found = {name: table[name].to_pylist() for name in table.column_names}
    found["s"] = [(text or "").encode() for text in found["s"]]
    found["c"] = [text.encode() for text in found["c"]]
    found["day"] = [(day - datetime.date(1970, 1, 1)).days for day in found["day"]]
    found["at"] = [int(at.replace(tzinfo=datetime.UTC).timestamp() * 10**6) for at in found["at"]]
    found["money"] = [float(value) for value in found["money"]]
    return found


def columns(input_fn: Any, mode: str = "eval", count: int | None = None) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for features, labels in batches(call(input_fn, mode=mode), count):
        for name, values in {**features, **({} if labels is None else {"(label)": labels})}.items():
            found.setdefault(name, []).extend(values)
    return found


@BOTH_WAYS
def test_every_type_is_read_as_pyarrow_reads_it(tmp_path: Path, way: Any) -> None:
    table = many_types()
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=16)
    assert columns(parquet_input_fn(tmp_path / "t.parquet", 9, **way)) == expected(table)


@BOTH_WAYS
def test_types_are_kept(tmp_path: Path, way: Any) -> None:
    pq.write_table(many_types(), tmp_path / "t.parquet")
    given = call(parquet_input_fn(tmp_path / "t.parquet", 9, "b", **way))
    features, label = given.element_spec
    assert label == tf.TensorSpec([9], tf.bool)
    assert features["id"] == tf.TensorSpec([9], tf.int32)
    assert features["v"] == tf.TensorSpec([9, 2], tf.float32)
    assert features["day"].dtype == tf.int64 and features["money"].dtype == tf.float64


@BOTH_WAYS
def test_selected_columns_and_label(tmp_path: Path, way: Any) -> None:
    pq.write_table(many_types(), tmp_path / "t.parquet")
    read = parquet_input_fn(tmp_path / "t.parquet", 9, "b", select_columns=["b", "id"], **way)
    found = columns(read)
    assert set(found) == {"id", "(label)"}
    assert found["(label)"] == [i % 3 == 0 for i in found["id"]]


@pytest.fixture
def numbered(tmp_path: Path) -> str:
    for part in range(3):
        table = pa.table({"id": np.arange(40 * part, 40 * (part + 1))})
        pq.write_table(table, tmp_path / f"{part}.parquet", row_group_size=11)
    return str(tmp_path / "*.parquet")


@BOTH_WAYS
def test_training_shuffles_whole_epochs_and_evaluation_reads_in_order(
    numbered: str, way: Any
) -> None:
    read = parquet_input_fn(numbered, 12, **way)
    assert columns(read)["id"] == list(range(120))
    ids = columns(read, "train", 20)["id"]
    assert sorted(ids[:120]) == sorted(ids[120:]) == list(range(120))
    assert ids[:120] != ids[120:] and ids[:120] != list(range(120))


@BOTH_WAYS
def test_endless_in_order_and_without_a_smaller_last_batch(numbered: str, way: Any) -> None:
    read = parquet_input_fn(numbered, 50, shuffle=False, **way)
    assert columns(read, "train", 3)["id"] == [*range(120), *range(30)]
    read = parquet_input_fn(numbered, 50, drop_remainder=True, **way)
    assert columns(read)["id"] == list(range(100))


@BOTH_WAYS
@pytest.mark.parametrize("pipelines", [2, 20])
def test_shares_of_input_pipelines(numbered: str, way: Any, pipelines: int) -> None:
    ids = []
    for i in range(pipelines):
        context = tf.distribute.InputContext(pipelines, i, pipelines)
        given = call(parquet_input_fn(numbered, **way), mode="eval", input_context=context)
        ids += [n for features, _ in batches(given) for n in features["id"]]
    assert sorted(ids) == list(range(120))


# ------------------------------------------------------------------ missing values, broken files


@pytest.fixture
def with_holes(tmp_path: Path) -> Path:
    table = pa.table({"a": [1, 2, None, 4, None], "s": ["v", None, "x", "y", "z"]})
    pq.write_table(table, tmp_path / "h.parquet", row_group_size=2)
    return tmp_path / "h.parquet"


def fault_of(input_fn: Any) -> Exception:
    """In memory it shows when the input function is called, in a stream while reading."""
    try:
        given = call(input_fn, mode="eval")
    except InputError as error:
        return error
    return read_fault(given)


@BOTH_WAYS
def test_missing_number_is_named_with_row_and_column(with_holes: Path, way: Any) -> None:
    fault = fault_of(parquet_input_fn(with_holes, **way))
    assert isinstance(fault, InputError)
    assert "h.parquet, row 2 (counted from 0), column 'a': the value is missing" in str(fault)
    assert "column_defaults={'a': 0}" in str(fault) and "on_error='skip'" in str(fault)


@BOTH_WAYS
def test_rows_with_missing_numbers_are_skipped_and_counted(with_holes: Path, way: Any) -> None:
    given = call(parquet_input_fn(with_holes, on_error="skip", **way), mode="eval")
    assert batches(given) == [({"a": [1, 2, 4], "s": [b"v", b"", b"y"]}, None)]
    [said] = skipped(given)
    assert said.startswith(f"Skipped 2 of 5 rows of {with_holes}: first {with_holes}, row 2")
    assert skipped(given) == []


@BOTH_WAYS
def test_defaults_stand_for_missing_values(with_holes: Path, way: Any) -> None:
    read = parquet_input_fn(with_holes, column_defaults={"s": "none"}, numeric_default=-1, **way)
    assert columns(read) == {"a": [1, 2, -1, 4, -1], "s": [b"v", b"none", b"x", b"y", b"z"]}


def test_default_that_does_not_fit(with_holes: Path) -> None:
    fault = fault_of(parquet_input_fn(with_holes, column_defaults={"a": "none"}))
    assert "'none' cannot stand for missing values of column 'a', which is of type int64" in str(
        fault
    )


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Three row groups of four rows; the bytes of the second are gone."""
    path = tmp_path / "d.parquet"
    table = pa.table({"id": np.arange(12)})
    pq.write_table(table, path, row_group_size=4, compression="gzip", use_dictionary=False)
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    begin = chunk.data_page_offset
    content[begin : begin + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(content)
    return path


@BOTH_WAYS
def test_damaged_row_group_is_named(damaged: Path, way: Any) -> None:
    assert "d.parquet, row group 1 is damaged: " in str(fault_of(parquet_input_fn(damaged, **way)))


@BOTH_WAYS
def test_damaged_row_group_is_skipped_and_counted(damaged: Path, way: Any) -> None:
    given = call(parquet_input_fn(damaged, on_error="skip", **way), mode="eval")
    assert batches(given) == [({"id": [0, 1, 2, 3, 8, 9, 10, 11]}, None)]
    assert skipped(given)[0].startswith(f"Skipped 4 of 12 rows of {damaged}: first {damaged}, row")


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"PAR1 cut"])
def test_file_that_is_not_parquet(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"t.parquet is no Parquet file that can be read: "):
        parquet_input_fn(tmp_path / "t.parquet")(mode="eval")


def test_files_whose_columns_differ(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [1.5]}), tmp_path / "2.parquet")
    with pytest.raises(InputError, match=r"2.parquet differs .*'a' is of type double there"):
        parquet_input_fn(str(tmp_path / "*.parquet"))(mode="eval")
    pq.write_table(pa.table({"b": [1]}), tmp_path / "2.parquet")
    with pytest.raises(InputError, match=r"'a' is missing there.*columns of .*2.parquet are: b"):
        parquet_input_fn(str(tmp_path / "*.parquet"))(mode="eval")


def test_column_of_a_type_that_is_no_tensor(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"a": [[1], [2, 3]], "m": [{"k": 1}, {"k": 2}]}), tmp_path / "t.parquet"
    )
    with pytest.raises(InputError, match=r"'a' is of type list<.*cast it to a fixed size list"):
        parquet_input_fn(tmp_path / "t.parquet")(mode="eval")
    with pytest.raises(InputError, match=r"'m' is of type struct<.*Leave it out"):
        parquet_input_fn(tmp_path / "t.parquet", select_columns=["m"])(mode="eval")


def test_no_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="there are no rows in"):
        parquet_input_fn(tmp_path / "t.parquet")(mode="eval")


def test_unknown_names_are_told_with_those_there_are(with_holes: Path) -> None:
    with pytest.raises(InputError, match=r"label_name names 'z', .*Its columns are: 'a', 's'"):
        parquet_input_fn(with_holes, label_name="z")(mode="eval")


# ------------------------------------------------------------------ tables in memory

COLUMNS = {"a": [1, 2, 3], "s": ["x", "y", "z"], "label": [0, 1, 0]}


@pytest.mark.parametrize(
    "make", [pa.table, pl.DataFrame, lambda data: pl.DataFrame(data).lazy(), pd.DataFrame, dict]
)
def test_tables_of_all_kinds(make: Any) -> None:
    read = table_input_fn(make(COLUMNS), 2, "label")
    assert batches(call(read, mode="eval")) == [
        ({"a": [1, 2], "s": [b"x", b"y"]}, [0, 1]),
        ({"a": [3], "s": [b"z"]}, [0]),
    ]


def test_index_of_a_data_frame_is_no_column() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]}).iloc[[2, 0]]
    [(features, _)] = batches(call(table_input_fn(frame), mode="eval"))
    assert {name: list(values) for name, values in features.items()} == {"a": [3, 1]}


def test_missing_value_of_a_table() -> None:
    table = pl.DataFrame({"a": [1, None]})
    with pytest.raises(InputError, match="table_input_fn: row 1, column 'a': the value is missing"):
        table_input_fn(table)(mode="eval")
    given = call(table_input_fn(table, on_error="skip"), mode="eval")
    assert skipped(given) == ["Skipped 1 of 2 rows of the table: first row 1, column 'a': "
                              "the value is missing."]  # fmt: skip


def test_something_that_is_no_table() -> None:
    with pytest.raises(InputError, match=r"a table must be a pyarrow Table, .*given: int"):
        table_input_fn(3)


def test_flipped_bit_is_told_where_the_writer_left_checksums(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"n": list(range(5000))})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    read = parquet_input_fn(path, memory_limit=0)
    with pytest.raises(InputError, match=r"a.parquet, row group 0 is damaged: .*checksum"):
        read(mode="eval")
