"""csv_input_fn on broken data: it names the place, or skips and counts."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import InputError
from estimand.inputs import csv_input_fn
from tests.inputs.reading import batches, call, read_fault, skipped

GOOD = "".join(f"{i},w{i}\n" for i in range(1500))
PACKED = gzip.compress(b"a\n1\n", mtime=0)  # names of tests must not depend on the time
SKIP = "pass on_error='skip'"


def written(tmp_path: Path, text: str | bytes, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def opened(path: Any, **options: Any) -> Any:
    return call(csv_input_fn(path, **options), mode="eval")


# ------------------------------------------------------------------ files that are no files


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "t.csv is empty .0 bytes."),
        ("t.csv", b"\n\n", "t.csv has no line that is not blank or a comment"),
        ("t.csv", b"a,b\n", "there are no rows in .*t.csv, only a header"),
        ("t.csv", b"1,2\n3,4\n", "has only numbers: 1, 2. For files without a header"),
        (
            "t.csv",
            PACKED,
            "name does not end in .gz. Pass compression='GZIP'",
        ),
        ("t.csv.gz", b"a,b\n1,2\n", "t.csv.gz is not compressed by gzip: it begins with b'a,b"),
        ("t.csv", b"PK\x03\x04zzzz", "t.csv is not text but a ZIP archive"),
        ("t.csv", b"PAR1zzzz", "Parquet file .read it with est.inputs.parquet_input_fn."),
        ("t.csv", "a,b\n1,2\n".encode("utf-16"), "UTF-16 text .*iconv -f UTF-16 -t UTF-8 t.csv"),
        ("t.csv", b"a,b\n1,caf\xe9\n", "line 2 is not UTF-8: byte 0xe9 at position 6"),
    ],
)
def test_unusable_file_is_told_when_the_input_function_is_called(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        opened(written(tmp_path, content, name))


def test_missing_file_tells_what_is_there_instead(tmp_path: Path) -> None:
    written(tmp_path, "a\n1\n", "people.csv")
    with pytest.raises(InputError, match=r"there is no file .*persons.csv.*contains: people.csv"):
        opened(tmp_path / "persons.csv")
    with pytest.raises(InputError, match=r"no file matches .*\*.tsv.*contains: people.csv"):
        opened(str(tmp_path / "*.tsv"))
    with pytest.raises(InputError, match=r"there is no directory .*nowhere.* either"):
        opened(tmp_path / "nowhere" / "a.csv")


def test_directory_in_place_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a directory. Name the files in it.*/\*'"):
        opened(tmp_path)


def test_no_files_at_all() -> None:
    with pytest.raises(InputError, match="no files were given"):
        opened([])


def test_headers_that_differ_are_both_shown(tmp_path: Path) -> None:
    written(tmp_path, "a,b\n1,2\n", "1.csv")
    written(tmp_path, "b,a\n1,2\n", "2.csv")
    with pytest.raises(InputError, match=r"(?s)headers.*1.csv: a, b\n.*2.csv: b, a\n"):
        opened(str(tmp_path / "*.csv"))


# ------------------------------------------------------------------ broken rows


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("x7,w", r"t.csv, line 1502, column 'n': 'x7' is not an integer. The type was inferred"),
        ("0.5,w", r"'0.5' is not an integer.*column_defaults=\{'n': tf.float32\}"),
        (f"{2**63},w", f"'{2**63}' is not an integer"),
        (",w", r"column 'n': the value is missing. .*column_defaults=\{'n': 0\}"),
        ("1", r"line 1502 has 1 field and 2 were expected \(n, s\): '1'"),
        ("1,2,3", "line 1502 has 3 fields and 2 were expected"),
        ('1,"open', "line 1502: a quoted field is not closed .*Line breaks inside fields"),
        ('1,a"b"c', "line 1502, column 's': misplaced quotes"),
    ],
)
def test_broken_row_is_named_with_line_column_and_value(
    tmp_path: Path, row: str, message: str
) -> None:
    path = written(tmp_path, f"n,s\n{GOOD}{row}\n1,a\n{row}\n")
    fault = read_fault(opened(path))
    assert isinstance(fault, InputError)
    assert SKIP in str(fault)
    with pytest.raises(InputError, match=message):
        raise fault


def test_line_numbers_count_every_line_of_the_right_file(tmp_path: Path) -> None:
    written(tmp_path, "n,s\n1,a\n", "1.csv")
    written(tmp_path, "# note\nn,s\n\n1,a\n# note\n\nbad,a\n", "2.csv")
    fault = read_fault(opened(str(tmp_path / "*.csv"), comment="#", column_defaults={"n": int}))
    assert "2.csv, line 7, column 'n': 'bad'" in str(fault)


def test_column_that_is_not_read_may_be_broken(tmp_path: Path) -> None:
    path = written(tmp_path, "n,s\n1,a\nbad,b\n")
    options = {"select_columns": ["s"], "column_defaults": {"n": int}}
    assert batches(opened(path, **options)) == [({"s": [b"a", b"b"]}, None)]


def test_too_many_fields_are_noticed_also_when_few_columns_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, "n,s,t\n1,a,b\n1,000,a,b\n")
    fault = read_fault(opened(path, select_columns=["s"]))
    assert "line 3 has 4 fields and 3 were expected (n, s, t): '1,000,a,b'" in str(fault)


def test_error_of_somebody_else_is_not_explained(tmp_path: Path) -> None:
    given = opened(written(tmp_path, "n\n1\n"))
    error = tf.errors.InvalidArgumentError(None, None, "labels must be < 3")
    assert given.sources[0].explain_error(error) is None


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_compressed_file_that_was_cut_is_an_error_and_no_early_end(
    tmp_path: Path, on_error: str
) -> None:
    rows = "".join(f"{i}\n" for i in np.random.default_rng(0).integers(0, 10**9, 20_000))
    whole = gzip.compress(f"n\n{rows}".encode())
    path = written(tmp_path, whole[: len(whole) // 2], "t.csv.gz")
    fault = read_fault(opened(path, on_error=on_error))
    assert "t.csv.gz: Compressed file ended before" in str(fault)
    assert "cut or damaged" in str(fault)


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_compressed_file_that_is_damaged_in_its_first_rows(tmp_path: Path, damage: str) -> None:
    data = bytearray(gzip.compress(f"n,w\n{GOOD}".encode()))
    place = len(data) * 3 // 4
    if damage == "cut":
        del data[place:]
    else:
        data[place : place + 100] = bytes(100)
    path = written(tmp_path, bytes(data), "t.csv.gz")
    with pytest.raises(InputError, match=r"t.csv.gz: .* cut or damaged"):
        opened(path, num_rows_for_inference=1500)


def test_file_removed_while_reading(tmp_path: Path) -> None:
    for name in ("1.csv", "2.csv"):
        written(tmp_path, "n\n1\n", name)
    given = opened(str(tmp_path / "*.csv"))
    os.remove(tmp_path / "2.csv")
    assert "2.csv is no longer there" in str(read_fault(given))


# ------------------------------------------------------------------ skipping


def test_skipped_rows_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    broken = "bad,a\n1\n" + '1,"open\n'
    path = written(tmp_path, f"n,s\n{GOOD}{broken}7,last\n")
    given = opened(path, on_error="skip")
    rows = [n for features, _ in batches(given) for n in features["n"]]
    assert rows == [*range(1500), 7]
    [said] = skipped(given)
    assert said.startswith(f"Skipped 3 of 1,504 rows of {path}: first in {path}, line 1502")
    assert "column 'n': 'bad' is not an integer." in said
    assert skipped(given) == []


def test_nothing_is_reported_when_nothing_was_skipped(tmp_path: Path) -> None:
    given = opened(written(tmp_path, f"n,s\n{GOOD}"), on_error="skip")
    assert sum(len(features["n"]) for features, _ in batches(given)) == 1500
    assert skipped(given) == []


def test_batches_keep_their_size_where_rows_are_skipped(tmp_path: Path) -> None:
    path = written(tmp_path, "n\n" + "1\nbad\n" * 10)
    given = opened(path, on_error="skip", batch_size=4, column_defaults={"n": int})
    assert [len(features["n"]) for features, _ in batches(given)] == [4, 4, 2]


def test_file_of_nothing_but_broken_rows_is_an_error_also_when_skipping(tmp_path: Path) -> None:
    path = written(tmp_path, "n\n" + "bad\n" * 2000)
    with pytest.raises(InputError, match=r"of the lines of .*t.csv that are data, none can be"):
        csv_input_fn(path, on_error="skip", column_defaults={"n": int})(mode="train")


# ------------------------------------------------------------------ through an estimator


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    w = tf.compat.v1.get_variable("w", [])
    loss = tf.reduce_mean((tf.cast(features["n"], tf.float32) * w - 1.0) ** 2)
    step = tf.compat.v1.train.get_global_step()
    return est.EstimatorSpec(mode, loss=loss, train_op=step.assign_add(1))


def train(tmp_path: Path, input_fn: Any, steps: int = 10) -> None:
    config = est.RunConfig(str(tmp_path / "model"), progress=False)
    est.Estimator(model_fn, config=config).train(input_fn, max_steps=steps)


def test_training_stops_with_the_place_of_the_broken_row(tmp_path: Path) -> None:
    path = written(tmp_path, f"n,s\n{GOOD}bad,a\n")
    with pytest.raises(InputError, match=r"t\.csv, line 1502, column 'n': 'bad'"):
        train(tmp_path, csv_input_fn(path, batch_size=500))


def test_training_reports_what_it_skipped_also_through_a_wrapping_function(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    read = csv_input_fn(
        written(tmp_path, f"n,s\n{GOOD}bad,a\n"),
        batch_size=500,
        num_epochs=1,
        shuffle=False,
        on_error="skip",
    )

    def input_fn(mode: str) -> tf.data.Dataset:
        return read(mode).map(lambda features: {"n": features["n"] + 1})

    train(tmp_path, input_fn)
    assert [m for m in caplog.messages if m.startswith("Skipped 1 of 1,501 rows of")]
    assert not [m for m in caplog.messages if "cannot be saved" in m]


LATIN_1 = ("n,city\n" + "".join(f"{n},Rome\n" for n in range(1200))).encode() + b"1200,Orl\xe9ans\n"


def test_bytes_that_are_not_utf8_are_told_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(LATIN_1)
    fault = read_fault(call(est.inputs.csv_input_fn(tmp_path / "t.csv"), mode="eval"))
    place = rf"{tmp_path / 't.csv'}, line 1202, column 'city': b'Orl\\xe9ans' is not UTF-8\. "
    with pytest.raises(InputError, match=place + r"Convert the file: `iconv -f LATIN1"):
        raise fault


@pytest.mark.parametrize("rows_before", [0, 1200])
def test_rows_that_are_not_utf8_are_left_out_and_counted(tmp_path: Path, rows_before: int) -> None:
    rows = [f"{n},Rome\n".encode() for n in range(1201)]
    rows[rows_before] = b"9,Orl\xe9ans\n"
    (tmp_path / "t.csv").write_bytes(b"n,city\n" + b"".join(rows))
    given = call(est.inputs.csv_input_fn(tmp_path / "t.csv", on_error="skip"), mode="eval")
    assert sum(len(features["n"]) for features, _ in batches(given)) == 1200
    [sentence] = skipped(given)
    assert f"Skipped 1 of 1,201 rows of {tmp_path / 't.csv'}: first in" in sentence
    assert f"line {rows_before + 2}, column 'city'" in sentence
