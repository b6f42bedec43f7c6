"""`estimand query`: files in, tables out, and errors that say what to do."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest
import tensorflow as tf
from click.testing import CliRunner

from estimand.cli.main import main
from tests.serving.running import Server, example, free_port


@pytest.fixture(params=["grpc", "rest"])
def host(server: Server, request: pytest.FixtureRequest) -> str:
    if request.param == "grpc":
        return f"127.0.0.1:{server.port}"
    return f"http://127.0.0.1:{server.rest_port}"


def query(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["--verbose", "query", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def test_rows_of_a_csv_file_as_json_csv_and_table(host: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b,name\n1,2,x\n3,0.5,y\n")
    found = query(host, "two_inputs", "--input", rows, "--output", "json", "--batch-size", 1)
    assert list(map(json.loads, found.splitlines())) == [
        {"product": 2.0, "sum": 3.0},
        {"product": 1.5, "sum": 3.5},
    ]
    found = query(host, "two_inputs", "--input", rows, "--output", "csv")
    assert found.split() == ["product,sum", "2.0,3.0", "1.5,3.5"]
    found = query(host, "two_inputs", "--input", rows)
    assert [word for word in found.split() if word[0].isalnum()] == [
        *("product", "sum"),
        *("2", "3"),
        *("1.5", "3.5"),
    ]


def rows_of(table: str) -> list[list[str]]:
    """The words of its rows, by signature: frames and headings are drawn."""
    cells = [re.split(r"\s*[│┃]\s*", line.strip()) for line in table.splitlines()]
    return [row[1:-1] for row in cells if len(row) > 3 and row[1]]


def test_what_a_model_takes_is_listed_feature_by_feature(host: str, models: Path) -> None:
    """Not only a vector of texts: what the tf.Examples in it have to hold."""
    expected = [
        ["input", "inputs", "string", "[?]"],
        ["feature", "x", "float32", "[?, 1]"],
        ["output", "classes", "string", "[?, 2]"],
        ["output", "scores", "float32", "[?, 2]"],
    ]
    asked = query(host, "classifier")
    assert "classification (classify)" in asked
    assert rows_of(asked)[: len(expected)] == expected
    shown = CliRunner().invoke(main, ["show", str(models / "classifier")], terminal_width=200)
    rows = [row[:4] for row in rows_of(shown.output)]
    place = rows.index(expected[0])  # it begins with another signature
    assert rows[place : place + len(expected)] == expected


def test_rows_become_examples(host: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("x\n1\n-1\n")  # integers, where the model parses floats
    found = query(host, "classifier", "--input", rows, "--output", "json", "--signature", "predict")
    assert [json.loads(line)["class_ids"] for line in found.splitlines()] == [[1], [0]]


def test_records_of_examples(server: Server, tmp_path: Path) -> None:
    with tf.io.TFRecordWriter(str(tmp_path / "rows.tfrecord")) as writer:
        writer.write(example(x=1.0).SerializeToString())
    host = f"127.0.0.1:{server.port}"
    found = query(
        host, "classifier", "--input", tmp_path / "rows.tfrecord", "--signature", "predict",
        "--output", "json",
    )  # fmt: skip
    assert json.loads(found)["class_ids"] == [1]


def test_a_picture_goes_as_it_is_to_a_model_that_takes_bytes(host: str, tmp_path: Path) -> None:
    picture = tf.io.encode_png(tf.zeros([2, 2, 1], tf.uint8)).numpy()
    (tmp_path / "dot.png").write_bytes(picture)
    found = query(host, "bytes", "--input", tmp_path / "dot.png", "--output", "json")
    assert base64.b64decode(json.loads(found)["image_bytes"]["b64"]) == picture
    wrapped = query(
        host, "bytes", "--input", tmp_path / "dot.png", "--feature", "image/encoded",
        "--output", "json",
    )  # fmt: skip
    parsed = tf.train.Example.FromString(
        base64.b64decode(json.loads(wrapped)["image_bytes"]["b64"])
    )
    assert parsed.features.feature["image/encoded"].bytes_list.value[0] == picture


def test_without_a_file_it_tells_what_the_model_takes(host: str) -> None:
    found = query(host, "half_plus_two")
    assert "half_plus_two version 123: AVAILABLE" in found
    assert "regress_x_to_y (regress)" in found
    assert "[?, 1]" in found


def test_what_is_wrong_is_told_in_one_line(host: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("a,c\n1,2\n")
    told = query(host, "two_inputs", "--input", rows, code=1)
    assert "lacks ['b']" in told
    assert "takes a (float32, [?]), b (float32, [?])" in told
    assert "It serves: 'batch_mean'" in query(host, "nothing", "--input", rows, code=1)
    assert "no signature 'z'" in query(
        host, "two_inputs", "--input", rows, "--signature", "z", code=1
    )
    for model, name in (("two_inputs", "no.csv"), ("bytes", "no.png")):
        assert "does not exist" in query(host, model, "--input", tmp_path / name, code=2)


def test_no_server(tmp_path: Path) -> None:
    port = free_port()
    told = query(f"127.0.0.1:{port}", "m", code=1)
    assert f"No model server answers at 127.0.0.1:{port} over gRPC" in told
    assert "is no address" in query("ftp://x", "m", code=1)


@pytest.mark.parametrize(("pixels", "most"), [("0-1", 1.0), ("0-255", 255.0)])
def test_a_picture_in_the_size_and_the_numbers_that_the_model_takes(pixels, most) -> None:
    from estimand.cli.commands.query_rows import _pixels
    from estimand.export.loaded.arrays import TensorInfo

    picture = tf.io.encode_png(tf.fill([4, 6, 3], tf.constant(255, tf.uint8))).numpy()
    info = TensorInfo("image", "float32", (None, 2, 3, 1), "image:0")
    found = _pixels(picture, info, pixels)
    assert (found.shape, found.dtype.name) == ((2, 3, 1), "float32")
    assert found.max() == found.min() == most


def test_floating_point_pixels_need_a_meaning() -> None:
    from estimand.cli.commands.query_rows import _pixels
    from estimand.core.errors import InputError
    from estimand.export.loaded.arrays import TensorInfo

    picture = tf.io.encode_png(tf.zeros([2, 2, 1], tf.uint8)).numpy()
    with pytest.raises(InputError, match=r"--pixels=0-1 or --pixels=0-255"):
        _pixels(picture, TensorInfo("image", "float32", (None, None, None, 1), "i:0"), None)
    with pytest.raises(InputError, match="takes no pictures"):
        _pixels(picture, TensorInfo("image", "float32", (None, 4), "i:0"), "0-1")
    with pytest.raises(InputError, match="cannot be read"):
        _pixels(b"no picture", TensorInfo("image", "uint8", (None, 2, 2, 3), "i:0"), None)
