"""Shards in this process: formats, rows that are broken, columns that are kept."""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.batch import processes, shards
from estimand.batch.plan import Job
from estimand.batch.worker import Worker
from tests.batch.conftest import assert_right, expected, read_answers, rows_of, write_rows

FORMATS = {"csv": ".csv", "json": ".jsonl", "parquet": ".parquet", "tfrecord": ".tfrecord"}


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without processes: what they do is done here."""

    def run(job: Job, numbers: Sequence[int], workers: int) -> Iterator[processes.Outcome]:
        work = Worker(job.output, job.task.for_workers())
        for number in numbers:
            yield processes.Outcome(number, **work.do(number))

    monkeypatch.setattr(processes, "run", run)


def errors_of(done: est.batch.Predicted) -> list[dict[str, Any]]:
    texts = [Path(path).read_text() for path in done.error_files]
    return [json.loads(line) for text in texts for line in text.splitlines()]


@pytest.mark.parametrize("receiver", ["parsing", "raw"])
@pytest.mark.parametrize("given", FORMATS)
def test_each_format_is_answered(
    exports: dict[str, str], tmp_path: Path, given: str, receiver: str
) -> None:
    rows = rows_of(range(100))
    path = write_rows(tmp_path / f"rows{FORMATS[given]}", rows)
    done = est.batch.predict(exports[receiver], path, tmp_path / "out", keep=["id"], batch_size=16)
    assert (done.rows, done.errors, done.done_before) == (100, 0, 0)
    assert [Path(file).name for file in done.files] == [
        f"predictions-00000-of-00001{FORMATS[given]}"
    ]
    assert_right(read_answers(done.files[0]), rows)
    assert not done.error_files and not list((tmp_path / "out" / "_errors").iterdir())
    assert json.loads((tmp_path / "out" / "_SUCCESS").read_text()) == {"rows": 100, "errors": 0}


@pytest.mark.parametrize("wanted", FORMATS)
def test_each_format_is_written(exports: dict[str, str], tmp_path: Path, wanted: str) -> None:
    rows = rows_of(range(50))
    path = write_rows(tmp_path / "rows.jsonl", rows)
    out = tmp_path / "out"
    done = est.batch.predict(exports["raw"], path, out, keep=["id"], format=wanted, batch_size=16)
    assert_right(read_answers(done.files[0]), rows)


def test_parquet_files_are_cut_into_shards(exports: dict[str, str], tmp_path: Path) -> None:
    first = write_rows(tmp_path / "a.parquet", rows_of(range(101)))
    write_rows(tmp_path / "b.parquet", rows_of(range(101, 120)))
    out = tmp_path / "out"
    done = est.batch.predict(
        exports["parsing"], str(tmp_path / "*.parquet"), out, keep=["id"], shard_rows=30,
        batch_size=7,
    )  # fmt: skip
    sizes = [len(read_answers(file)) for file in done.files]
    assert sizes == [30, 30, 30, 11, 19]
    assert_right([row for file in done.files for row in read_answers(file)], rows_of(range(120)))
    import pyarrow.parquet as pq

    assert pq.read_table(out).num_rows == 120  # nothing beside the answers is taken for some
    assert first.exists()


@pytest.mark.parametrize("receiver", ["parsing", "raw"])
@pytest.mark.parametrize("given", FORMATS)
def test_rows_that_fail_are_collected_and_the_others_answered(
    exports: dict[str, str], tmp_path: Path, given: str, receiver: str
) -> None:
    rows = rows_of(range(60))
    for number in (3, 4, 40):
        rows[number]["x"] = -1.0
    path = write_rows(tmp_path / f"rows{FORMATS[given]}", rows)
    out = tmp_path / "out"
    done = est.batch.predict(exports[receiver], path, out, keep=["id"], batch_size=16)
    assert (done.rows, done.errors) == (57, 3)
    assert_right(read_answers(done.files[0]), [row for row in rows if row["x"] >= 0])
    errors = errors_of(done)
    assert [error["row"] for error in errors] == [4, 5, 41]
    assert all(error["file"] == str(path) and "x is below 0" in error["error"] for error in errors)
    if given in ("json", "parquet"):
        assert errors[0]["input"] == rows[3]


def test_rows_that_cannot_be_read_are_collected(exports: dict[str, str], tmp_path: Path) -> None:
    rows = rows_of(range(4))
    lines = [json.dumps(row) for row in rows]
    (tmp_path / "a.jsonl").write_text("\n".join([lines[0], "{broken", "[1]", *lines[1:]]))
    (tmp_path / "b.csv").write_text("id,x,word\n0,0,w0\n1,1\n2,two,w2\n3,,w3\n4,4,w4\n")
    done = est.batch.predict(
        exports["raw"], [tmp_path / "a.jsonl", tmp_path / "b.csv"], tmp_path / "out", keep=["id"],
        format="json",
    )  # fmt: skip
    assert_right(read_answers(done.files[0]), rows)
    assert_right(read_answers(done.files[1]), [rows[0], *rows_of(range(4, 5))])
    told = [(error["row"], error["error"]) for error in errors_of(done)]
    assert [row for row, _ in told] == [2, 3, 2, 3, 4]
    for text, (_, error) in zip(
        ["line 2 is no JSON", "a row is an object", "line 3: the header has 3 columns",
         "Row 3, 'x': 'two' is no float32", "Row 4, 'x': the cell is empty"],
        told,
        strict=True,
    ):  # fmt: skip
        assert text in error


def test_missing_values_in_columns_are_those_of_rows(
    exports: dict[str, str], tmp_path: Path
) -> None:
    """Whole columns are converted together where they can be; it makes no difference."""
    rows = rows_of(range(40))
    for number in (5, 6):
        rows[number]["word"] = None
    rows[7]["word"] = ""
    path = write_rows(tmp_path / "rows.parquet", rows)
    lines = write_rows(tmp_path / "rows.jsonl", rows)
    found = [
        est.batch.predict(exports["parsing"], one, tmp_path / one.suffix[1:], keep=["id"])
        for one in (path, lines)
    ]
    for row in rows:
        row["word"] = row["word"] or "none"
    for done in found:
        assert_right(read_answers(done.files[0]), rows)
    rows[9]["x"] = None
    path = write_rows(tmp_path / "more.parquet", rows)
    done = est.batch.predict(exports["parsing"], path, tmp_path / "more", keep=["id"])
    assert (done.rows, done.errors) == (39, 1)
    assert "Row 10, 'x': the cell is empty" in errors_of(done)[0]["error"]


def test_a_column_that_is_missing_ends_the_shard_not_the_others(
    exports: dict[str, str], tmp_path: Path
) -> None:
    write_rows(tmp_path / "a.parquet", [{"id": 1, "ex": 1.0, "word": "a"}])
    write_rows(tmp_path / "b.parquet", rows_of(range(3)))
    out = tmp_path / "out"
    for receiver in ("parsing", "raw"):
        with pytest.raises(est.errors.BatchError, match=r"1 of 2 shards.*a.parquet.*no column 'x'"):
            est.batch.predict(exports[receiver], str(tmp_path / "*.parquet"), out / receiver)
        assert (out / receiver / "predictions-00001-of-00002.parquet").exists()
        assert not (out / receiver / "predictions-00000-of-00002.parquet").exists()
        assert not (out / receiver / "_SUCCESS").exists()


def test_a_misspelt_feature_ends_the_shard(exports: dict[str, str], tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", [{"x": 1.0, "wort": "a"}] * 3)
    with pytest.raises(est.errors.BatchError, match=r"lacks 'word'.*Did you mean 'wort'"):
        est.batch.predict(exports["parsing"], path, tmp_path / "out")


def test_a_feature_that_few_rows_have_is_no_matter_of_batches(
    exports: dict[str, str], tmp_path: Path
) -> None:
    """Rows that are asked for singly, because of a broken one, may lack what others have."""
    rows = rows_of(range(8))
    for row in rows[1:]:
        del row["word"]
    rows[5]["x"] = -1.0
    path = write_rows(tmp_path / "a.jsonl", rows)
    done = est.batch.predict(exports["parsing"], path, tmp_path / "out", keep=["id"], batch_size=8)
    assert (done.rows, done.errors) == (7, 1)
    wanted = [{**row, "word": row.get("word", "none")} for row in rows if row["x"] >= 0]
    assert_right(read_answers(done.files[0]), wanted)


def test_kept_columns_keep_their_types(exports: dict[str, str], tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    day = datetime.date(2026, 11, 17)
    table = pa.table({"x": [1.0, 2.0], "word": ["a", "b"], "day": [day, None], "n": [[1], [2, 3]]})
    pq.write_table(table, tmp_path / "rows.parquet")
    path = tmp_path / "rows.parquet"
    done = est.batch.predict(exports["raw"], path, tmp_path / "a", keep=["day", "n"])
    found = pq.read_table(done.files[0])
    assert found.column("day").equals(table.column("day"))
    assert found.column("n").to_pylist() == [[1], [2, 3]]
    done = est.batch.predict(exports["raw"], path, tmp_path / "b", keep=["day"], format="json")
    assert [row["day"] for row in read_answers(done.files[0])] == ["2026-11-17", None]


def test_files_without_rows(exports: dict[str, str], tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(
        pa.table({"id": [1], "x": [1.0], "word": ["a"]}).slice(1), tmp_path / "a.parquet"
    )
    (tmp_path / "b.csv").write_text("id,x,word\n")
    (tmp_path / "c.jsonl").write_text("")
    for name in ("a.parquet", "b.csv", "c.jsonl"):
        done = est.batch.predict(exports["raw"], tmp_path / name, tmp_path / name[0], keep=["id"])
        assert (done.rows, done.errors, len(done.files)) == (0, 0, 1)
        assert read_answers(done.files[0]) == []


def test_a_damaged_file_ends_its_shard(exports: dict[str, str], tmp_path: Path) -> None:
    good = write_rows(tmp_path / "a.tfrecord", rows_of(range(30)))
    (tmp_path / "b.tfrecord").write_bytes(good.read_bytes()[:-10])
    with pytest.raises(est.errors.BatchError, match=r"b.tfrecord is no TFRecord file, or damaged"):
        est.batch.predict(exports["raw"], str(tmp_path / "*.tfrecord"), tmp_path / "out")
    assert not (tmp_path / "out" / "predictions-00001-of-00002.tfrecord").exists()


def test_text_that_cannot_be_utf_8_is_a_matter_of_its_row(
    exports: dict[str, str], tmp_path: Path
) -> None:
    rows = rows_of(range(4))
    rows[1]["word"], rows[2]["id"] = "\ud800", "\udfff"  # half a character: JSON can say it
    path = write_rows(tmp_path / "a.jsonl", rows)
    for wanted in FORMATS:
        out = tmp_path / wanted
        done = est.batch.predict(exports["raw"], path, out, keep=["id"], format=wanted)
        assert (done.rows, [one["row"] for one in errors_of(done)]) == (2, [2, 3]), wanted
        assert [one["input"] for one in errors_of(done)] == rows[1:3]


def test_a_quote_that_is_left_open_takes_no_row_silently(
    exports: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text('x,word\n1,a\n2,"b"c\n3,d\n4,"e\n5,f\n')
    done = est.batch.predict(exports["raw"], tmp_path / "a.csv", tmp_path / "out")
    assert done.rows == 2
    assert [one["error"].split(": ", 1)[1] for one in errors_of(done)] == [
        "',' expected after '\"'. Is there a quote too many or too few?",
        "unexpected end of data. Is there a quote too many or too few?",
    ]


@pytest.mark.parametrize("text", ["[" * 100_000, "5\n6\n"])
def test_json_that_is_none_is_told(exports: dict[str, str], tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with contextlib.suppress(est.errors.InputError):
        done = est.batch.make_records(tmp_path / "a.json", tmp_path / "out")
        assert (done.records, done.errors) == (0, 1)


def test_input_that_changes_while_it_is_read_is_not_taken_for_done(
    exports: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_rows(tmp_path / "a.jsonl", rows_of(range(30)))
    read = shards.read_chunks

    def read_and_write(*given: Any) -> Iterator[Any]:
        yield from read(*given)
        write_rows(path, rows_of(range(31)))

    monkeypatch.setattr(shards, "read_chunks", read_and_write)
    with pytest.raises(est.errors.BatchError, match=r"a.jsonl has changed since the job was begun"):
        est.batch.predict(exports["raw"], path, tmp_path / "out")
    assert [one.name for one in (tmp_path / "out").iterdir() if one.name[0] != "_"] == []


@pytest.mark.parametrize("given", FORMATS)
def test_paths_of_tensorflows_file_systems(
    exports: dict[str, str], tmp_path: Path, given: str
) -> None:
    """ram:// is one that Python's own functions know nothing of, as gs:// is."""
    rows = rows_of(range(60))
    rows[3]["x"] = -1.0
    local = write_rows(tmp_path / f"rows{FORMATS[given]}", rows)
    remote = f"ram://in-{given}/{local.name}"
    tf.io.gfile.copy(str(local), remote)
    out = f"ram://out-{given}"
    for done_before in (0, 1):
        done = est.batch.predict(exports["raw"], remote, out, keep=["id"], batch_size=16)
        assert (done.rows, done.errors, done.done_before) == (59, 1, done_before)
    tf.io.gfile.copy(done.files[0], str(tmp_path / f"found{FORMATS[given]}"))
    found = read_answers(tmp_path / f"found{FORMATS[given]}")
    assert_right(found, [row for row in rows if row["x"] >= 0])
    with tf.io.gfile.GFile(done.error_files[0]) as file:
        assert json.loads(file.read())["row"] == 4


def test_answers_are_those_of_the_loaded_model(exports: dict[str, str], tmp_path: Path) -> None:
    rows = rows_of(range(20))
    done = est.batch.predict(
        exports["raw"], write_rows(tmp_path / "rows.parquet", rows), tmp_path / "out"
    )
    with est.load_model(exports["raw"]) as model:
        answers = model([{"x": row["x"], "word": row["word"]} for row in rows])
    found = read_answers(done.files[0])
    assert [row["y"] for row in found] == answers["y"].tolist()
    assert [row["said"] for row in found] == [one.decode() for one in answers["said"]]
    assert found[3]["both"] == expected(rows[3])["both"]
