"""What files hold, and the spec that parses them."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import InputError


def test_spec_is_fixed_where_every_record_has_as_many_values(tmp_path: Path) -> None:
    rows = [
        {"one": 1, "two": [1.0, 2.0], "some": ["a"] * n, "rare": 1 if n else None, "none": []}
        for n in range(3)
    ]
    est.records.write(tmp_path / "a", rows)
    spec = est.records.parse_spec(tmp_path / "a")
    assert spec == {
        "none": tf.io.VarLenFeature(tf.string),
        "one": tf.io.FixedLenFeature([], tf.int64),
        "rare": tf.io.VarLenFeature(tf.int64),
        "some": tf.io.VarLenFeature(tf.string),
        "two": tf.io.FixedLenFeature([2], tf.float32),
    }
    records = list(tf.data.TFRecordDataset(str(tmp_path / "a")).as_numpy_iterator())
    parsed = tf.io.parse_example(records, spec)
    assert parsed["one"].numpy().tolist() == [1, 1, 1]
    assert parsed["some"].values.numpy().tolist() == [b"a", b"a", b"a"]


def test_sequence_spec_parses(tmp_path: Path) -> None:
    rows = [{"id": n, "vec": [[0.5, 1.5]] * n, "bag": [[1], [2, 3]]} for n in (1, 2)]
    est.records.write(tmp_path / "a", rows, sequence_keys=["vec", "bag"])
    found = est.records.schema(tmp_path / "a")
    records = list(tf.data.TFRecordDataset(str(tmp_path / "a")).as_numpy_iterator())
    context, lists, lengths = tf.io.parse_sequence_example(
        records, found.parse_spec(), found.sequence_spec()
    )
    assert context["id"].numpy().tolist() == [1, 2]
    assert lists["vec"].shape == (2, 2, 2)
    assert lengths["vec"].numpy().tolist() == [1, 2]
    assert lists["bag"].values.numpy().tolist() == [1, 2, 3, 1, 2, 3]
    with pytest.raises(InputError, match=r"holds tf.train.SequenceExample records"):
        est.records.parse_spec(tmp_path / "a")


def test_features_of_two_kinds_are_named(tmp_path: Path) -> None:
    est.records.write(tmp_path / "a", {"x": [1]})
    est.records.write(tmp_path / "b", {"x": ["one"]})
    with pytest.raises(InputError, match="'x' is bytes in some records and int64 in others"):
        est.records.parse_spec([tmp_path / "a", tmp_path / "b"])


def test_limit_is_told(tmp_path: Path) -> None:
    est.records.write(tmp_path / "a", {"x": range(5)})
    assert [est.records.schema(tmp_path / "a", limit=n).complete for n in (4, 5, None)] == [
        False, True, True,
    ]  # fmt: skip


def test_records_that_are_not_examples_are_named(tmp_path: Path) -> None:
    est.records.write(tmp_path / "a", [b"\xff\xff\xff"])
    with pytest.raises(InputError, match=r"record 0 \(3 bytes\) is neither a tf.train.Example"):
        est.records.parse_spec(tmp_path / "a")


def test_inspect_counts_sizes_and_first_records(tmp_path: Path) -> None:
    est.records.write(tmp_path / "a", {"x": ["", "a" * 10]}, compression="GZIP")
    seen = est.records.inspect(tmp_path / "a", first=1)
    sizes = [
        len(r) for r in tf.data.TFRecordDataset(str(tmp_path / "a"), "GZIP").as_numpy_iterator()
    ]
    [file] = seen.files
    assert (file.records, file.smallest, file.largest) == (2, min(sizes), max(sizes))
    assert (file.compression, file.data_bytes) == ("GZIP", sum(sizes))
    assert seen.first == [{"x": b""}]
    assert seen.schema.features["x"].longest == 10


def test_inspect_of_a_cut_file_says_where(tmp_path: Path) -> None:
    est.records.write(tmp_path / "a", {"x": range(100)})
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:-1])
    with pytest.raises(InputError, match=r"record 99 .* the file is cut"):
        est.records.inspect(tmp_path / "a")
