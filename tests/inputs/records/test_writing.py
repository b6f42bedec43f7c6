"""Sources, shards, compression, and what an interrupted writer leaves."""

from __future__ import annotations

import gzip
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import tensorflow as tf
from PIL import Image

import estimand as est
from estimand.core.errors import InputError
from estimand.core.files import atomic_files


def rows_of(path: Any) -> list[dict[str, Any]]:
    return list(est.records.read(path))


def test_shards_keep_the_order_of_rows_whose_number_is_known(tmp_path: Path) -> None:
    written = est.records.write(tmp_path / "a", {"n": range(10)}, shards=3)
    assert [os.path.basename(f) for f in written.files] == [f"a-0000{i}-of-00003" for i in range(3)]
    assert [row["n"] for row in rows_of(tmp_path / "a-*")] == list(range(10))
    assert [len(rows_of(file)) for file in written.files] == [3, 3, 4]


def test_rows_from_a_generator_are_dealt_out_in_turn(tmp_path: Path) -> None:
    written = est.records.write(tmp_path / "a", ({"n": n} for n in range(10_000)), shards=3)
    assert written.records == 10_000
    for shard, file in enumerate(written.files):
        assert [row["n"] for row in rows_of(file)] == list(range(shard, 10_000, 3))


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_compressed_files_are_read_by_tensorflow(tmp_path: Path, compression: str) -> None:
    est.records.write(tmp_path / "a", {"n": range(1000)}, compression=compression)
    data = tf.data.TFRecordDataset(str(tmp_path / "a"), compression)
    assert len(list(data)) == 1000
    assert [row["n"] for row in rows_of(tmp_path / "a")] == list(range(1000))


def test_the_same_data_gives_the_same_gzip_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        est.records.write(tmp_path / name, {"n": range(10)}, compression="GZIP")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_pandas_frame_with_every_kind_of_column(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "i": [1, 2],
            "f": [1.5, float("nan")],
            "o": ["a", None],
            "s": pd.array(["x", pd.NA], dtype="string"),
            "n": pd.array([7, pd.NA], dtype="Int64"),
            "c": pd.Categorical(["u", None]),
            "l": [[1, 2], [3]],
            "b": [True, False],
        }
    )
    est.records.write(tmp_path / "a", frame)
    first, second = rows_of(tmp_path / "a")
    assert first == {
        "b": 1, "c": b"u", "f": 1.5, "i": 1, "l": [1, 2], "n": 7, "o": b"a", "s": b"x",
    }  # fmt: skip
    assert np.isnan(second.pop("f"))
    assert second == {"b": 0, "i": 2, "l": 3}


def test_polars_and_pyarrow_tables(tmp_path: Path) -> None:
    table = {"i": [1, None], "s": ["a", "b"], "l": [[1.5], []]}
    est.records.write(tmp_path / "polars", pl.DataFrame(table))
    est.records.write(tmp_path / "arrow", pa.table(table))
    wanted = [{"i": 1, "l": 1.5, "s": b"a"}, {"l": [], "s": b"b"}]
    assert rows_of(tmp_path / "polars") == rows_of(tmp_path / "arrow") == wanted


def test_frame_comes_back(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": [3, 4], "t": ["ä", "b"], "x": [0.5, 1.5]})
    est.records.write(tmp_path / "a", frame)
    back = est.records.read_frame(tmp_path / "a")
    assert back.to_dict("list") == frame.to_dict("list")


def test_csv_file_with_empty_fields_and_quotes(tmp_path: Path) -> None:
    text = 'n,x,t\n1,1.5,"a, b"\n-2,,c\n'
    (tmp_path / "a.csv").write_text(text)
    with gzip.open(tmp_path / "b.csv.gz", "wt") as file:
        file.write(text)
    wanted = [{"n": 1, "t": b"a, b", "x": 1.5}, {"n": -2, "t": b"c"}]
    for name in ("a.csv", "b.csv.gz"):
        est.records.write(tmp_path / "out", tmp_path / name)
        assert rows_of(tmp_path / "out") == wanted


def test_kinds_overrule_what_a_csv_file_looks_like(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n2\n")
    est.records.write(tmp_path / "a", tmp_path / "a.csv", kinds={"n": "float"})
    assert est.records.schema(tmp_path / "a").features["n"].kind == "float"


def test_numbers_of_a_csv_file_can_be_kept_as_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("zip,n\n00501,1\n,2\n")
    est.records.write(tmp_path / "a", tmp_path / "a.csv", kinds={"zip": "bytes"})
    assert rows_of(tmp_path / "a") == [{"n": 1, "zip": b"00501"}, {"n": 2}]


def test_csv_file_that_cannot_be_decoded(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"n,t\n1,caf\xe9\n")
    with pytest.raises(InputError, match=r"a.csv' is not UTF-8 .*iconv -f LATIN1"):
        est.records.write(tmp_path / "a", tmp_path / "a.csv")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"n\n1\n2\n3\n")[:-9])
    with pytest.raises(InputError, match=r"b.csv.gz': .* cut or damaged"):
        est.records.write(tmp_path / "b", tmp_path / "b.csv.gz")


def test_folder_of_image_folders(tmp_path: Path) -> None:
    for name in ("cat", "ant"):
        (tmp_path / "in" / name).mkdir(parents=True)
        Image.new("RGB", (2, 3)).save(tmp_path / "in" / name / "1.png")
    assert est.records.write(tmp_path / "out", tmp_path / "in").records == 2
    first, second = rows_of(tmp_path / "out")
    assert (first["image/class/text"], first["image/class/label"]) == (b"ant", 0)
    assert (second["image/class/text"], second["image/class/label"]) == (b"cat", 1)
    assert tf.io.decode_png(first["image/encoded"]).shape == (3, 2, 3)


# ---------------------------------------------------------------- what cannot be written


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"x": [1, "a"]}, "feature 'x' holds 'a' .str among numbers."),
        ({"x": [2**63]}, "does not fit into int64"),
        ({"x": [object()]}, "feature 'x' holds <object"),
        ({"x": np.array(["2020-01-01"], "M8[D]")}, "type datetime64"),
        ({"x": [1], "y": [1, 2]}, "differ in length: {'x': 1, 'y': 2}"),
        ({3: [1]}, "column name 3 is not text"),
        ({}, "has no columns"),
        ([1, 2], "row 0 is int"),
        (np.zeros(3), "needs a name"),
        ({"x": 5}, "must hold a column"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "a column name twice: .'x', 'x'."),
    ],
)
def test_unusable_data_is_named(tmp_path: Path, data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        est.records.write(tmp_path / "a", data)
    assert os.listdir(tmp_path) == []


def test_kind_that_changes_in_a_later_block_is_named_with_its_rows(tmp_path: Path) -> None:
    rows = ({"x": n if n < 5000 else 0.5} for n in range(6000))
    with pytest.raises(InputError, match=r"rows 4096 to 5999, feature 'x' holds float values"):
        est.records.write(tmp_path / "a", rows)


def test_places_that_cannot_be_written_to(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory"):
        est.records.write(tmp_path, {"x": [1]})
    with pytest.raises(InputError, match="there is no directory"):
        est.records.write(tmp_path / "no" / "a", {"x": [1]})
    with pytest.raises(InputError, match="shards must be a number from 1, given: 0"):
        est.records.write(tmp_path / "a", {"x": [1]}, shards=0)
    with pytest.raises(InputError, match=r"compression must be .* given: 'BZ2'"):
        est.records.write(tmp_path / "a", {"x": [1]}, compression="BZ2")


# ---------------------------------------------------------------- whole or not at all


def failing_rows() -> Iterator[dict[str, int]]:
    yield from ({"n": n} for n in range(5000))
    raise RuntimeError("the source broke")


def test_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    est.records.write(tmp_path / "a", {"n": [1]})
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(RuntimeError, match="the source broke"):
        est.records.write(tmp_path / "a", failing_rows())
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == before


def test_killed_writer_leaves_no_final_name_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    program = (
        "import itertools, sys, time\n"
        "from estimand.inputs import records\n"
        "def rows():\n"
        "    for n in range(9000): yield {'n': n}\n"
        "    print('written', flush=True); time.sleep(60)\n"
        f"records.write({str(tmp_path / 'a')!r}, rows(), shards=2)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    left = os.listdir(tmp_path)
    assert len(left) == 2
    assert all(name.startswith(f".tmp-{process.pid}-") and "-a-0000" in name for name in left)
    with pytest.raises(InputError, match="no file matches"):
        rows_of(tmp_path / "*")
    est.records.write(tmp_path / "a", {"n": [1]})
    assert os.listdir(tmp_path) == ["a"]


def test_files_of_a_running_writer_or_another_name_are_left_alone(tmp_path: Path) -> None:
    host = atomic_files.this_process().host
    running = Path(atomic_files.temporary_path(str(tmp_path), "00000000-a"))
    other = tmp_path / f".tmp-999999999-00000000-{host}-00000000-ab"
    elsewhere = tmp_path / ".tmp-999999999-00000000-elsewhere-00000000-a"
    old = tmp_path / ".tmp-999999999-00000001-elsewhere-00000000-a"
    for file in (running, other, elsewhere, old):
        file.touch()
    os.utime(old, (time.time() - 10**6,) * 2)
    est.records.write(tmp_path / "a", {"n": [1]})
    assert {f.name for f in tmp_path.iterdir()} == {"a", running.name, other.name, elsewhere.name}


def test_other_numbers_of_shards_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    est.records.write(tmp_path / "a", {"n": range(4)}, shards=2)
    with caplog.at_level(logging.WARNING, "estimand"):
        est.records.write(tmp_path / "a", {"n": range(4)}, shards=4)
    assert "files of 2 shards of the same name" in caplog.text


def test_no_progress_bar_without_a_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    est.records.write(tmp_path / "a", {"n": range(4)})
    assert capfd.readouterr() == ("", "")


def test_progress_bar_counts_records(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    est.records.write(tmp_path / "a", {"n": range(4)}, progress=True)
    assert "4/4" in capfd.readouterr().err
