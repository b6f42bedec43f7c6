"""Damage of every sort is found, and named by record and byte."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import estimand as est
from estimand.core.errors import InputError
from estimand.inputs.records import framing, verifying

COUNT = 3000


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Enough records that they are walked side by side, and in several buffers."""
    random = np.random.default_rng(0)
    file = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(file) as writer:
        for _ in range(COUNT):
            writer.write(random.bytes(int(random.integers(0, 600))))
    return file


def starts(path: str) -> list[int]:
    sizes = [len(r) + 16 for r in tf.data.TFRecordDataset(path).as_numpy_iterator()]
    return np.cumsum([0, *sizes]).tolist()


def change(path: str, offset: int, bit: int = 0) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ (1 << bit)]))


def only(path: str, **arguments: str) -> est.records.FileReport:
    [report] = est.records.verify(path, **arguments)
    return report


@pytest.fixture
def small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "_BUFFER_BYTES", 1 << 18)


def test_whole_file_is_in_order(path: str, small_buffer: None) -> None:
    report = only(path)
    assert report.ok
    assert (report.records, report.file_bytes) == (COUNT, os.path.getsize(path))
    assert report.data_bytes == report.file_bytes - 16 * COUNT


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_any_flipped_bit_is_found_where_tensorflow_finds_it(
    path: str, where: float, bit: int
) -> None:
    offset = int(where * os.path.getsize(path))
    change(path, offset, bit)
    try:
        found = only(path).problems[0]
        message = ""
        try:
            for _ in tf.data.TFRecordDataset(path).batch(500):
                pass
        except tf.errors.DataLossError as error:
            message = error.message
        # TensorFlow names the place of the data where the header is in order.
        assert found.offset is not None
        place = int(re.search(r"record at (\d+)", message)[1])
        assert place - found.offset == (0 if "length" in found.text else 12)
    finally:
        change(path, offset, bit)


def test_changed_data_is_named_and_reading_goes_on(path: str, small_buffer: None) -> None:
    begin = starts(path)
    lengths = np.diff(begin)
    damaged = [int(i) for i in np.flatnonzero(lengths > 16)[[5, 1000, 2500]]]
    for record in damaged:
        change(path, begin[record] + 12)
    report = only(path)
    assert [(p.record, p.offset) for p in report.problems] == [(r, begin[r]) for r in damaged]
    assert report.records == COUNT - 3
    assert "does not match its CRC" in str(report)


def test_changed_length_ends_the_reading(path: str) -> None:
    begin = starts(path)[1000]
    change(path, begin + 1)
    report = only(path)
    [problem] = report.problems
    assert (problem.record, problem.offset, report.records) == (1000, begin, 1000)
    assert "the length does not match its CRC" in problem.text


@pytest.mark.parametrize("missing", [1, 4, 5])
def test_cut_file(path: str, missing: int) -> None:
    begin = starts(path)[-2]
    os.truncate(path, os.path.getsize(path) - missing)
    [problem] = only(path).problems
    assert (problem.record, problem.offset) == (COUNT - 1, begin)
    assert "the file is cut" in problem.text


def test_cut_in_a_header(path: str) -> None:
    os.truncate(path, starts(path)[10] + 7)
    report = only(path)
    assert report.records == 10
    assert "7 bytes are too few for a record" in str(report)


def test_record_larger_than_the_buffer(tmp_path: Path, small_buffer: None) -> None:
    est.records.write(tmp_path / "a", [b"x", bytes(3_000_000), b"y"])
    assert only(str(tmp_path / "a")).records == 3
    change(str(tmp_path / "a"), 2_000_000)
    assert [p.record for p in only(str(tmp_path / "a")).problems] == [1]


def test_a_tfrecord_file_inside_a_record(tmp_path: Path) -> None:
    """Headers that are found in data must not be taken for records."""
    est.records.write(tmp_path / "inner", [bytes(100)] * 300)
    inner = (tmp_path / "inner").read_bytes()
    est.records.write(tmp_path / "a", [b"x" * 50] * 2000 + [inner] * 20 + [b"x" * 50] * 2000)
    report = only(str(tmp_path / "a"))
    assert (report.ok, report.records) == (True, 4020)


def test_records_found_side_by_side_are_those_found_one_by_one(path: str) -> None:
    data = bytearray(Path(path).read_bytes())
    lanes = framing._lane_starts(data, len(data))
    assert lanes is not None
    assert len(lanes) >= 16
    found, end = framing.starts_of_records(data, len(data))
    assert [*found.tolist(), end] == starts(path)


def test_gzip_file_in_order_cut_and_damaged(path: str) -> None:
    packed = gzip.compress(Path(path).read_bytes())
    file = Path(path)
    file.write_bytes(packed)
    assert (only(path).ok, only(path).records, only(path).compression) == (True, COUNT, "GZIP")
    file.write_bytes(packed[: len(packed) // 2])
    cut = only(path)
    assert 0 < cut.records < COUNT
    assert "its GZIP stream is cut off" in str(cut)
    file.write_bytes(packed[:5000] + bytes(100) + packed[5100:])
    assert not only(path).ok


def test_two_gzip_files_joined_are_one(path: str) -> None:
    half = gzip.compress(Path(path).read_bytes())
    Path(path).write_bytes(half + half)
    assert only(path).records == 2 * COUNT


def test_wrong_compression(path: str) -> None:
    assert "its GZIP stream is damaged" in str(only(path, compression="GZIP"))
    Path(path).write_bytes(gzip.compress(Path(path).read_bytes()))
    assert "compressed in another way" in str(only(path, compression=""))


def test_file_of_no_bytes_has_no_records_and_no_fault(tmp_path: Path) -> None:
    written = est.records.write(tmp_path / "a", {"n": [7, 8]}, shards=4)
    reports = est.records.verify(written.files)
    assert [(report.records, report.ok) for report in reports] == [
        (0, True),
        (1, True),
        (0, True),
        (1, True),
    ]
    assert str(reports[0]).endswith("a-00000-of-00004: 0 records")
    assert list(est.records.read(written.files[0])) == []
    assert list(est.records.read(written.files)) == [{"n": 7}, {"n": 8}]


def test_text_file_and_things_that_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("Dear diary, nothing happened today.")
    (tmp_path / "short").write_text("x")
    assert "not a TFRecord file" in str(only(str(tmp_path / "text")))
    assert "not a TFRecord file" in str(only(str(tmp_path / "short")))
    with pytest.raises(InputError, match=r"is a directory, not a file. Name the files in it"):
        est.records.verify(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no file 'nowhere'"):
        est.records.verify("nowhere")
    with pytest.raises(FileNotFoundError, match=r"no file matches 'nowhere\*'"):
        est.records.verify("nowhere*")
    with pytest.raises(InputError, match="list of files is empty"):
        est.records.verify([])


def test_reading_gives_what_precedes_damage_and_then_says_where(path: str) -> None:
    begin = starts(path)
    record = int(np.flatnonzero(np.diff(begin) > 16)[700])
    change(path, begin[record] + 12)
    read = []
    with pytest.raises(InputError, match=rf"record {record} \(at byte {begin[record]}\)"):
        for data in est.records.read_raw(path):
            read.append(data)
    assert len(read) == record
