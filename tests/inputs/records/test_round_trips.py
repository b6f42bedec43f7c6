"""What is written is what `tf.train.Example` and `tf.io.parse_example` read."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import estimand as est
from estimand.inputs.records import columns, crc32c, encoding

INT64 = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(width=32)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
VALUES = {"int": INT64, "float": FLOAT, "text": TEXT, "bytes": st.binary(max_size=300)}


def column_of(kind: str) -> st.SearchStrategy[list[Any]]:
    single = st.none() | VALUES[kind]
    several = st.none() | st.lists(VALUES[kind], min_size=0, max_size=5)
    return st.lists(single, min_size=6, max_size=6) | st.lists(several, min_size=6, max_size=6)


TABLES = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    st.sampled_from(sorted(VALUES)).flatmap(column_of),
    min_size=1,
    max_size=6,
)


def example(path: str) -> list[tf.train.Example]:
    data = tf.data.TFRecordDataset(path).as_numpy_iterator()
    return [tf.train.Example.FromString(record) for record in data]


def plain(feature: tf.train.Feature) -> list[Any]:
    kind = feature.WhichOneof("kind")
    return [] if kind is None else list(getattr(feature, kind).value)


def as_list(value: Any) -> list[Any]:
    values = value if isinstance(value, list) else [value]
    return [v.encode() if isinstance(v, str) else v for v in values]


def same(given: list[Any], wanted: list[Any]) -> bool:
    def alike(a: Any, b: Any) -> bool:
        both_nan = isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)
        return both_nan or (a == b and type(a) is type(b))

    return len(given) == len(wanted) and all(map(alike, given, wanted))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=TABLES)
def test_columns_of_any_values_are_read_by_tensorflow(tmp_path: Path, table: dict) -> None:
    path = str(tmp_path / "a.tfrecord")
    assert est.records.write(path, table).records == 6
    read = example(path)
    assert len(read) == 6
    for number, message in enumerate(read):
        wanted = {name: v[number] for name, v in table.items() if v[number] is not None}
        assert set(message.features.feature) == set(wanted)
        for name, value in wanted.items():
            assert same(plain(message.features.feature[name]), as_list(value))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=TABLES)
def test_rows_and_columns_give_the_same_file(tmp_path: Path, table: dict) -> None:
    by_column, by_row = tmp_path / "columns", tmp_path / "rows"
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    est.records.write(by_column, table)
    est.records.write(by_row, rows)
    assert by_column.read_bytes() == by_row.read_bytes()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.lists(st.lists(INT64, max_size=3), max_size=4), min_size=3, max_size=3),
    words=st.lists(st.lists(TEXT, max_size=4), min_size=3, max_size=3),
)
def test_sequence_examples_are_read_by_tensorflow(tmp_path: Path, steps: list, words: list) -> None:
    path = str(tmp_path / "s.tfrecord")
    table = {"id": [1, 2, 3], "steps": steps, "words": words}
    est.records.write(path, table, sequence_keys=["steps", "words"])
    data = tf.data.TFRecordDataset(path).as_numpy_iterator()
    for number, record in enumerate(data):
        message = tf.train.SequenceExample.FromString(record)
        lists = message.feature_lists.feature_list
        assert plain(message.context.feature["id"]) == [number + 1]
        assert [plain(f) for f in lists["steps"].feature] == steps[number]
        assert [plain(f) for f in lists["words"].feature] == [[w.encode()] for w in words[number]]


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 3_000_000])
def test_values_around_every_length_of_a_varint(tmp_path: Path, size: int) -> None:
    path = str(tmp_path / "a")
    value = os.urandom(size)
    est.records.write(path, [{"x": value, "n": size}])
    [message] = example(path)
    assert message.features.feature["x"].bytes_list.value[0] == value
    assert message.features.feature["n"].int64_list.value[0] == size


def test_arrays_parse_to_the_same_numbers(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    table = {
        "f32": random.normal(size=(100, 3)).astype(np.float32),
        "f64": random.normal(size=100),
        "i8": random.integers(-128, 128, 100).astype(np.int8),
        "u32": random.integers(0, 2**32, (100, 2), dtype=np.uint32),
        "flag": random.random(100) < 0.5,
        "word": random.choice(["a", "bc", ""], 100),
        "code": random.choice([b"x", b"yz"], 100),
    }
    est.records.write(tmp_path / "a", table)
    records = list(tf.data.TFRecordDataset(str(tmp_path / "a")).as_numpy_iterator())
    parsed = tf.io.parse_example(records, est.records.parse_spec(tmp_path / "a"))
    for name, wanted in table.items():
        if wanted.dtype.kind == "U":
            wanted = np.char.encode(wanted)
        dtype = np.float32 if wanted.dtype.kind == "f" else wanted.dtype
        assert np.array_equal(parsed[name].numpy().astype(dtype), wanted.astype(dtype)), name


def test_no_rows_make_an_empty_file_that_reads_as_none(tmp_path: Path) -> None:
    assert est.records.write(tmp_path / "a", []).records == 0
    assert list(est.records.read(tmp_path / "a")) == []


def test_examples_and_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    message = tf.train.Example()
    message.features.feature["x"].int64_list.value.append(3)
    est.records.write(tmp_path / "a", [message, b"anything", b""])
    data = list(tf.data.TFRecordDataset(str(tmp_path / "a")).as_numpy_iterator())
    assert data == [message.SerializeToString(), b"anything", b""]
    assert list(est.records.read_raw(tmp_path / "a")) == data


def test_many_records_of_all_short_lengths(tmp_path: Path) -> None:
    records = [bytes([n % 256]) * (n % 50) for n in range(3000)]
    (tmp_path / "a").write_bytes(encoding.frame_serialized(records).tobytes())
    assert list(tf.data.TFRecordDataset(str(tmp_path / "a")).as_numpy_iterator()) == records
    assert list(est.records.read_raw(tmp_path / "a")) == records


def test_crc() -> None:
    lengths = np.array([0, 1, 300, 2**40 + 7])
    expected = [crc32c.checksum(int(n).to_bytes(8, "little")) for n in lengths]
    assert crc32c.checksums_of_lengths(lengths).tolist() == expected
    assert crc32c.checksum(b"123456789") == 0xE3069283  # the check value of CRC-32C
    assert crc32c.checksum(bytes(32)) == 0x8A9136AA  # from RFC 3720
    assert crc32c.checksum(b"\xff" * 32) == 0x62A8AB43


def test_a_part_of_a_column_has_the_rows_of_the_part() -> None:
    column = columns.encode([10, None, 12, 13, None, 15])
    part = column.part(1, 6, 2)
    assert part.rows is not None
    assert part.rows.tolist() == [1, 2]
