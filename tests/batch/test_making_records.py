"""Many files as TFRecord files: every row once, the same kinds everywhere, whatever happens."""

from __future__ import annotations

import datetime
import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

import estimand as est
from estimand.batch import processes
from estimand.batch.plan import Job
from estimand.batch.worker import Worker
from estimand.cli.main import main
from tests.forked import REPOSITORY


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without processes: what they do is done here."""

    def run(job: Job, numbers: Sequence[int], workers: int) -> Iterator[processes.Outcome]:
        worker = Worker(job.output, job.task.for_workers())
        for number in numbers:
            yield processes.Outcome(number, **worker.do(number))

    monkeypatch.setattr(processes, "run", run)


def parsed(made: est.batch.RecordsMade) -> list[dict[str, Any]]:
    """As TensorFlow reads them, by the schema that was gathered while they were written."""
    compression = "GZIP" if made.files[0].endswith(".gz") else ""
    data = tf.data.TFRecordDataset(made.files, compression)
    spec = made.schema.parse_spec()
    return [tf.io.parse_single_example(record, spec) for record in data]


def errors_of(made: est.batch.RecordsMade) -> list[dict[str, Any]]:
    texts = [Path(path).read_text() for path in made.error_files]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def write_csv(path: Path, header: str, lines: Sequence[str]) -> Path:
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


@pytest.mark.usefixtures("here")
def test_a_column_is_of_one_kind_in_all_files(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", "size,zip,name", ["1,00501,x", "2,10001,y"])
    write_csv(tmp_path / "b.csv", "size,zip,name", ["2.5,ABC,z", ",,"])
    made = est.batch.make_records(str(tmp_path / "*.csv"), tmp_path / "out")
    assert made.records == 4 and not made.errors
    assert {n: f.kind for n, f in made.schema.features.items()} == {
        "name": "bytes", "size": "float", "zip": "bytes",
    }  # fmt: skip
    assert list(est.records.read(made.files)) == [
        {"name": b"x", "size": 1.0, "zip": b"00501"},
        {"name": b"y", "size": 2.0, "zip": b"10001"},
        {"name": b"z", "size": 2.5, "zip": b"ABC"},
        {},
    ]


@pytest.mark.usefixtures("here")
def test_statistics_and_schema_are_those_of_the_records(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    values = random.normal(1e6, 3.0, 5000)
    texts = [f"w{i}" for i in random.zipf(2.0, 5000) % 50]
    parts = [range(1000), range(1000, 5000), range(0)]
    for number, rows in enumerate(parts):
        lines = [json.dumps({"v": values[i], "t": texts[i], "l": [i] * (i % 3)}) for i in rows]
        (tmp_path / f"{number}.jsonl").write_text("".join(line + "\n" for line in lines))
    made = est.batch.make_records(str(tmp_path / "*.jsonl"), tmp_path / "out")
    told = made.statistics["features"]
    assert told["v"]["mean"] == pytest.approx(values.mean(), rel=1e-12)
    assert told["v"]["std"] == pytest.approx(values.std(), rel=1e-9)
    assert (told["v"]["min"], told["v"]["max"]) == (values.min(), values.max())
    words, counts = np.unique(texts, return_counts=True)
    ranked = sorted(zip((-counts).tolist(), words.tolist(), strict=True))[:20]
    assert told["t"]["top"] == [(word, -count) for count, word in ranked]
    assert told["t"]["different"] == len(words)
    assert told["l"]["values"] == [0, 2]
    assert told["l"]["missing"] == sum(i % 3 == 0 for i in range(5000))
    assert made.schema == est.records.schema(made.files, limit=None)
    assert json.loads((tmp_path / "out" / "_statistics.json").read_text())["records"] == 5000


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_parquet_files_are_cut_and_keep_their_types(
    tmp_path: Path, compression: str | None
) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {
        "whole": pa.array([1, None, 3] * 10, pa.int32()),
        "part": pa.array([0.5] * 30, pa.float64()),
        "flag": pa.array([True, False, None] * 10),
        "text": pa.array(["a", "ü", None] * 10).dictionary_encode(),
        "many": pa.array([[1.0, 2.0]] * 30, pa.list_(pa.float32())),
        "day": pa.array([datetime.date(1970, 1, 3)] * 30),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    made = est.batch.make_records(
        tmp_path / "a.parquet", tmp_path / "out", shard_rows=12, compression=compression
    )
    assert len(made.files) == 3 and made.records == 30
    rows = list(est.records.read(made.files))
    assert rows[1] == {"part": 0.5, "flag": 0, "text": "ü".encode(), "many": [1, 2], "day": 2}
    assert rows[29] == {"whole": 3, "part": 0.5, "many": [1, 2], "day": 2}
    first = parsed(made)[0]
    assert first["part"].dtype == tf.float32 and first["many"].shape == (2,)
    assert made.statistics["features"]["flag"]["missing"] == 10


@pytest.mark.usefixtures("here")
def test_rows_that_cannot_be_records_are_told_and_the_others_are(tmp_path: Path) -> None:
    lines = [f"{i},{i / 2}" for i in range(3000)]
    lines[2500] = "2500,many"
    lines.insert(1200, "7")
    write_csv(tmp_path / "a.csv", "id,size", lines)
    made = est.batch.make_records(tmp_path / "a.csv", tmp_path / "out")
    assert (made.records, made.errors) == (2999, 2)
    broken, short = sorted(errors_of(made), key=lambda error: -error["row"])
    assert broken["row"] == 2502 and broken["input"] == {"id": "2500", "size": "many"}
    assert "'size' holds 'many', which is no float" in broken["error"]
    assert short["row"] == 1201 and "2 columns" in short["error"]
    numbers = [row["id"] for row in est.records.read(made.files)]
    assert numbers == [i for i in range(3000) if i != 2500]
    assert made.statistics["features"]["size"]["records"] == 2999


@pytest.mark.usefixtures("here")
def test_images_become_records_in_parts(tmp_path: Path) -> None:
    for name, count in (("cat", 5), ("dog", 4)):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(count):
            data = tf.io.encode_png(np.full([2, 2, 3], number, np.uint8)).numpy()
            (tmp_path / "images" / name / f"{number}.png").write_bytes(data)
    made = est.batch.make_records(tmp_path / "images", tmp_path / "out", shard_rows=4)
    one = est.records.write(tmp_path / "one.tfrecord", tmp_path / "images")
    assert len(made.files) == 3
    assert list(est.records.read(made.files)) == list(est.records.read(one.files))
    with pytest.raises(est.errors.InputError, match="images, where every folder is a class"):
        est.batch.make_records(tmp_path / "images", tmp_path / "images" / "cut")
    (tmp_path / "images" / "dog" / "9.png").write_bytes(b"new")
    with pytest.raises(est.errors.InputError, match="images has changed since"):
        est.batch.make_records(tmp_path / "images", tmp_path / "out", shard_rows=4)


@pytest.mark.usefixtures("here")
def test_what_cannot_be_is_told_before_anything_is_written(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["p", "q"]}), tmp_path / "b.parquet")
    est.records.write(tmp_path / "c.tfrecord", {"x": [1]})
    out = tmp_path / "out"
    for given, options, text in (
        ("*.parquet", {}, r"'x' is int64 in .*a.parquet and bytes in .*b.parquet.*--kind x="),
        ("*.tfrecord", {}, "holds records already"),
        ("a.parquet", {"kinds": {"x": "text"}}, "'x' must be one of bytes, float, int64"),
        ("a.parquet", {"compression": "zip"}, "compression must be None or 'GZIP'"),
        ("a.parquet", {"workers": 0}, "workers must be at least 1"),
        ("a.parquet", {"input_format": "xml"}, "input_format must be one of csv, json, parquet"),
    ):
        with pytest.raises(est.errors.InputError, match=text):
            est.batch.make_records(str(tmp_path / given), out, **options)
        assert not out.exists()


@pytest.mark.usefixtures("here")
def test_a_kind_that_only_later_rows_show_is_told_at_the_end(tmp_path: Path) -> None:
    """The first thousand rows of every file have no value."""
    empty = [json.dumps({"x": None})] * 1000
    for name, value in (("a", 1), ("b", "text")):
        lines = [*empty, json.dumps({"x": value})]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(est.errors.InputError, match="'x' is bytes in some files and int64"):
        est.batch.make_records(str(tmp_path / "*.jsonl"), tmp_path / "out")
    made = est.batch.make_records(str(tmp_path / "*.jsonl"), tmp_path / "new", kinds={"x": "bytes"})
    assert (made.records, made.errors) == (2001, 1)


@pytest.mark.usefixtures("here")
def test_the_command_writes_a_file_or_a_directory(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", "x,y", ["1,a", "nan,b"])
    run = CliRunner().invoke
    source, out = str(tmp_path / "a.csv"), f"{tmp_path / 'out'}/"
    done = run(main, ["records", "make", source, out, "--kind", "y=bytes"])
    assert done.exit_code == 0, done.output
    assert f"2 records in 1 file in {out}" in done.output
    told = json.loads((tmp_path / "out" / "_statistics.json").read_text())["features"]["x"]
    assert (told["not_finite"], told["mean"]) == (1, 1.0)
    assert math.isnan(list(est.records.read(f"{out}records-*"))[1]["x"])
    one = run(main, ["records", "make", source, str(tmp_path / "a.tfrecord"), "--shards", "2"])
    assert "a.tfrecord-00000-of-00002 to " in one.output
    for target, option in ((out, "--shards"), (str(tmp_path / "b.tfrecord"), "--workers")):
        wrong = run(main, ["records", "make", source, target, option, "2"])
        assert wrong.exit_code == 2 and f"{option} needs a TARGET that is a" in wrong.output


def test_killed_in_the_middle_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    for number in range(8):
        lines = [f"{i},{i / 7},{'x' * (i % 5)}" for i in range(20_000)]
        write_csv(tmp_path / f"{number}.csv", "id,part,text", lines)
    command = [sys.executable, "-m", "estimand", "records", "make", str(tmp_path / "*.csv")]
    marks = tmp_path / "out" / "_job"
    first = subprocess.Popen([*command, f"{tmp_path / 'out'}/", "--workers", "2"], cwd=REPOSITORY)
    ends = time.monotonic() + 120
    while len(list(marks.glob("done-*"))) < 2 and time.monotonic() < ends:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = {path.name: path.stat().st_mtime_ns for path in marks.glob("done-*")}
    assert 2 <= len(before) < 8
    subprocess.run([*command, f"{tmp_path / 'out'}/", "--workers", "2"], cwd=REPOSITORY, check=True)
    after = {path.name: path.stat().st_mtime_ns for path in marks.glob("done-*")}
    assert len(after) == 8 and before.items() <= after.items()
    subprocess.run([*command, f"{tmp_path / 'whole'}/"], cwd=REPOSITORY, check=True)
    made = sorted((tmp_path / "out").glob("records-*"))
    assert len(made) == 8
    for path in (*made, tmp_path / "out" / "_statistics.json"):
        assert path.read_bytes() == (tmp_path / "whole" / path.name).read_bytes()
