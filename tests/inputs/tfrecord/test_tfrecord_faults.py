"""Damaged files and records that do not parse: named, or left out and counted."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import InputError
from estimand.inputs.records.files import ends_with_a_record
from tests.inputs.reading import batches, call, read_fault, skipped

SPEC = {"n": tf.io.FixedLenFeature([], tf.int64), "x": tf.io.FixedLenFeature([], tf.float32)}
SPARSE = {**SPEC, "x": tf.io.VarLenFeature(tf.float32)}


def write(path: Path, changed: dict[int, Any], rows: int = 50) -> None:
    """Rows {"n": i, "x": 1.0}, some of them replaced."""
    table = [changed.get(n, {"n": n, "x": 1.0}) for n in range(rows)]
    parts = []
    for row in table:
        est.records.write(path, [row])
        parts += list(est.records.read_raw(path))
    est.records.write(path, parts)


def fault_of(read: Any) -> str:
    """What is said of a file that is at fault, before reading it or while doing so."""
    try:
        return str(read_fault(call(read, mode="eval")))
    except InputError as error:
        return str(error)


def labels(given: Any) -> list[int]:
    return [n for _, part in batches(given) for n in part]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"n": 7, "x": [1.0, 2.0]}, r"'x' holds 2 values \(1.0, 2.0\); .*\[\], float32\) wants 1"),
        ({"n": 7, "x": 3}, r"feature 'x' holds int64 values \(3\); .* wants float"),
        ({"n": 7}, "feature 'x' is missing"),
        ({"n": "seven", "x": 1.0}, "feature 'n' holds bytes values"),
        (b"\x0a\x7f", "its 2 bytes are not a tf.train.Example"),
    ],
)
def test_record_that_does_not_parse_is_named(tmp_path: Path, row: Any, told: str) -> None:
    path = tmp_path / "a"
    write(path, {7: row})
    fault = read_fault(
        call(est.inputs.tfrecord_input_fn(path, SPEC, "n", batch_size=4), mode="eval")
    )
    assert isinstance(fault, InputError)
    offset = sum(len(r) + 16 for r in list(est.records.read_raw(path))[:7])
    with pytest.raises(InputError, match=rf"a: record 7 \(at byte {offset}\): .*{told}"):
        raise fault


def test_record_that_tensorflow_cannot_even_quote_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a", {7: b"\xff\xff"})
    read = est.inputs.tfrecord_input_fn(tmp_path / "a", SPEC, "n")
    with pytest.raises(UnicodeDecodeError) as caught:
        list(read(mode="eval"))
    assert "record 7 " in str(read.explain_error(caught.value))
    cached = est.inputs.tfrecord_input_fn(tmp_path / "a", SPEC, "n", cache=True)
    with pytest.raises(InputError, match=r"record 7 .* its 2 bytes are not a tf.train.Example"):
        cached(mode="eval")


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_file_is_named(tmp_path: Path, cut: bool, compressed: bool) -> None:
    est.records.write(tmp_path / "a", {"n": range(5), "x": [1.0] * 5})
    est.records.write(tmp_path / "b", {"n": range(50), "x": [1.0] * 50})
    data = bytearray((tmp_path / "b").read_bytes())
    if cut:
        del data[-3:]
    else:
        data[len(data) // 2] ^= 1
    (tmp_path / "b").write_bytes(gzip.compress(data) if compressed else data)
    read = est.inputs.tfrecord_input_fn(tmp_path / "*", SPEC, "n")
    [problem] = est.records.verify(tmp_path / "b")[0].problems
    assert f"{tmp_path / 'b'}: {problem}" in fault_of(read)


@pytest.mark.parametrize("left", [1, 4, 11])
def test_file_cut_inside_a_header_does_not_just_end(tmp_path: Path, left: int) -> None:
    """TensorFlow takes it for the end of the file."""
    path = tmp_path / "a"
    est.records.write(path, {"n": range(5), "x": [1.0] * 5})
    size = path.stat().st_size // 5
    os.truncate(path, 4 * size + left)
    said = fault_of(est.inputs.tfrecord_input_fn(path, SPEC, "n"))
    assert f"{path}: record 4 (at byte {4 * size}): the file is cut" in said
    skipping = call(est.inputs.tfrecord_input_fn(path, SPEC, "n", on_error="skip"), mode="eval")
    assert labels(skipping) == [0, 1, 2, 3]
    [sentence] = skipped(skipping)
    assert f"of {path} the damaged record 4 and all that follows, {left} of" in sentence


def test_compressed_file_cut_between_two_records_does_not_just_end(tmp_path: Path) -> None:
    est.records.write(tmp_path / "plain", {"n": range(50), "x": [1.0] * 50})
    data = (tmp_path / "plain").read_bytes()
    packer = zlib.compressobj(wbits=31)
    half = packer.compress(data[: len(data) // 2]) + packer.flush(zlib.Z_FULL_FLUSH)
    (tmp_path / "a").write_bytes(half)
    assert len(list(tf.data.TFRecordDataset(str(tmp_path / "a"), "GZIP"))) == 25
    said = fault_of(est.inputs.tfrecord_input_fn(tmp_path / "a", SPEC, "n"))
    assert f"{tmp_path / 'a'}: record 25 (at byte {len(data) // 2})" in said
    assert "its GZIP stream is cut off" in said


def test_empty_file_among_others_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    est.records.write(tmp_path / "b", {"n": range(5), "x": [1.0] * 5})
    given = call(est.inputs.tfrecord_input_fn(tmp_path / "*", SPEC, "n"), mode="eval")
    assert labels(given) == list(range(5))


def test_last_record_of_any_size_is_found(tmp_path: Path) -> None:
    for size in (0, 3, 20_000, 5_000_000):
        est.records.write(tmp_path / "a", [b"x", bytes(size)])
        # The last is larger than what is looked at: the file is then looked at as a whole.
        assert ends_with_a_record(str(tmp_path / "a")) == (size < 4_000_000)
        os.truncate(tmp_path / "a", (tmp_path / "a").stat().st_size - 1)
        assert not ends_with_a_record(str(tmp_path / "a"))


def test_file_that_vanished_is_named(tmp_path: Path) -> None:
    est.records.write(tmp_path / "a", {"n": [1], "x": [1.0]})
    given = call(est.inputs.tfrecord_input_fn(tmp_path / "a", SPEC, "n"), mode="eval")
    os.remove(tmp_path / "a")
    assert "is no longer there" in str(read_fault(given))


def test_error_of_something_else_is_not_ours(tmp_path: Path) -> None:
    est.records.write(tmp_path / "a", {"n": [1], "x": [1.0]})
    read = est.inputs.tfrecord_input_fn(tmp_path / "a", SPEC, "n")
    read(mode="eval")
    assert read.explain_error(tf.errors.InvalidArgumentError(None, None, "shapes differ")) is None
    assert read.explain_error(ValueError("parse error")) is None


def test_unsuitable_files_are_told_before_reading(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for files, message in (
        (tmp_path / "empty", r"empty' is empty \(0 bytes\)"),
        (tmp_path, "is a directory"),
        (tmp_path / "no", "there is no file"),
        (tmp_path / "no*", "no file matches"),
    ):
        with pytest.raises(InputError, match=message):
            est.inputs.tfrecord_input_fn(files, SPEC)(mode="eval")


def test_wrong_compression_is_told(tmp_path: Path) -> None:
    est.records.write(tmp_path / "a", {"n": [1], "x": [1.0]})
    read = est.inputs.tfrecord_input_fn(tmp_path / "a", SPEC, "n", compression="GZIP")
    assert "its GZIP stream is damaged" in str(read_fault(call(read, mode="eval")))


def test_skipping_does_not_go_as_far_as_whole_files_of_another_format(tmp_path: Path) -> None:
    est.records.write(tmp_path / "a", {"n": [1], "x": [1.0]})
    (tmp_path / "text").write_text("Dear diary, nothing happened today.")
    for name, compression in (("a", "GZIP"), ("text", None)):
        read = est.inputs.tfrecord_input_fn(
            tmp_path / name, SPEC, compression=compression, on_error="skip"
        )
        with pytest.raises(InputError, match=rf"no record can be read, .*{name}: record 0"):
            read(mode="train")


@pytest.mark.parametrize("spec", [SPEC, SPARSE])
@pytest.mark.parametrize("cache", [False, True])
def test_records_that_do_not_parse_are_left_out_and_counted(
    tmp_path: Path, spec: dict, cache: bool
) -> None:
    bad = {3: {"n": 3, "x": "text"}, 4: b"\xff\xff", 20: {"x": 1.0}}
    write(tmp_path / "a", bad)
    read = est.inputs.tfrecord_input_fn(
        tmp_path / "a", spec, "n", batch_size=8, on_error="skip", cache=cache
    )
    given = call(read, mode="eval")
    assert labels(given) == [n for n in range(50) if n not in bad]
    [sentence] = skipped(given)
    assert sentence.startswith(
        "tfrecord_input_fn left out 3 record(s) that do not parse, the first in "
        f"{tmp_path / 'a'}: record 3 (at byte "
    )
    assert "feature 'x' holds bytes values" in sentence
    assert skipped(given) == []


def test_batches_stay_full_where_records_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "a", {n: b"\xff" for n in range(10, 30)})
    read = est.inputs.tfrecord_input_fn(
        tmp_path / "a", SPEC, "n", batch_size=8, on_error="skip", drop_remainder=True
    )
    assert [len(part) for _, part in batches(call(read, mode="eval"))] == [8, 8, 8]


def test_a_batch_without_any_good_record_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "a", {n: b"\xff" for n in range(8, 24)})
    read = est.inputs.tfrecord_input_fn(tmp_path / "a", SPARSE, "n", batch_size=8, on_error="skip")
    assert labels(call(read, mode="eval")) == [*range(8), *range(24, 50)]


def test_what_follows_damage_is_left_out_and_told(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 50), ("c", 100)):
        rows = range(first, first + 50)
        est.records.write(tmp_path / name, {"n": rows, "x": [1.0] * 50})
    data = bytearray((tmp_path / "b").read_bytes())
    data[len(data) // 2 + 14] ^= 1
    (tmp_path / "b").write_bytes(data)
    report = est.records.verify(tmp_path / "b")[0]
    read = est.inputs.tfrecord_input_fn(tmp_path / "*", SPEC, "n", on_error="skip")
    given = call(read, mode="eval")
    good = report.problems[0].record
    assert labels(given) == [*range(50 + good), *range(100, 150)]
    size = (tmp_path / "b").stat().st_size
    assert skipped(given) == [
        f"tfrecord_input_fn left out of {tmp_path / 'b'} the damaged record {good} and "
        f"{49 - good} good record(s) behind it, {size - report.problems[0].offset:,} of {size:,} "
        f"bytes ({report.problems[0]})."
    ]
    assert skipped(given) == []


def test_nothing_is_reported_where_all_is_well(tmp_path: Path) -> None:
    est.records.write(tmp_path / "a", {"n": range(5), "x": [1.0] * 5})
    given = call(
        est.inputs.tfrecord_input_fn(tmp_path / "a", SPEC, "n", on_error="skip"), mode="eval"
    )
    assert labels(given) == list(range(5))
    assert skipped(given) == []


def test_spec_is_inferred_from_what_can_be_read(tmp_path: Path) -> None:
    write(tmp_path / "a", {2: b"\xff\xff"})
    read = est.inputs.tfrecord_input_fn(tmp_path / "a", label_key="n", on_error="skip")
    assert len(labels(call(read, mode="eval"))) == 49
    with pytest.raises(InputError, match=r"record 2 .* is neither"):
        est.inputs.tfrecord_input_fn(tmp_path / "a", label_key="n")(mode="eval")


def test_skip_and_drop_remainder_need_fixed_lengths(tmp_path: Path) -> None:
    est.records.write(tmp_path / "a", {"n": [1], "x": [1.0]})
    read = est.inputs.tfrecord_input_fn(
        tmp_path / "a", SPARSE, "n", on_error="skip", drop_remainder=True
    )
    with pytest.raises(InputError, match=r"these are not: \['x'\]"):
        read(mode="eval")


def test_training_stops_with_the_named_record_or_goes_on_without_it(tmp_path: Path) -> None:
    write(tmp_path / "a", {7: {"n": 7}})

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = tf.compat.v1.get_variable("w", [])
        loss = tf.reduce_mean((features["x"] * w - 1.0) ** 2)
        train_op = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(
            loss, tf.compat.v1.train.get_global_step()
        )
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    strict = est.inputs.tfrecord_input_fn(tmp_path / "a", SPEC, "n", batch_size=5)
    with pytest.raises(InputError, match=r"record 7 .* feature 'x' is missing"):
        est.Estimator(model_fn, str(tmp_path / "strict")).train(strict, steps=20)
    lenient = est.inputs.tfrecord_input_fn(tmp_path / "a", SPEC, "n", 5, on_error="skip")
    estimator = est.Estimator(model_fn, str(tmp_path / "lenient"))
    estimator.train(lenient, steps=20)
    assert estimator.get_variable_value("global_step") == 20
