"""`estimand show` and `estimand predict`."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner, Result

import estimand as est
from estimand.cli.main import main
from tests.export.conftest import (
    X,
    examples,
    expected,
    input_fn,
    parsing_receiver_fn,
    raw_receiver_fn,
)


def run(*arguments: Any) -> Result:
    # Wide enough that no long path is broken in two.
    runner = CliRunner(env={"COLUMNS": "300"})
    return runner.invoke(main, [str(argument) for argument in arguments])


def answers(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def raw(linear: est.Estimator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("raw")
    linear.evaluate(input_fn, steps=1)
    linear.export_saved_model(base, raw_receiver_fn)
    return base


@pytest.fixture(scope="module")
def parsing(linear: est.Estimator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("parsing")
    linear.export_saved_model(base, parsing_receiver_fn)
    return base


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """The rows of X in each format."""
    paths = {k: tmp_path / f"rows.{k}" for k in ("csv", "json", "jsonl", "tfrecord")}
    with paths["csv"].open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "note"])
        writer.writerows([json.dumps(row.tolist()), "kept out"] for row in X)
    rows = [{"x": row.tolist()} for row in X]
    paths["json"].write_text(json.dumps({"instances": rows}))
    paths["jsonl"].write_text("\n".join(map(json.dumps, rows)))
    with tf.io.TFRecordWriter(str(paths["tfrecord"])) as writer:
        for example in examples():
            writer.write(example)
    return paths


# show


def test_show_tells_signatures_and_origin(linear: est.Estimator, raw: Path) -> None:
    result = run("show", raw)
    assert result.exit_code == 0
    for text in (
        "serving_default",
        "[?, 3]",
        "float32",
        "model.ckpt-6",
        "mae = ",
        "linear_model_fn",
    ):
        assert text in result.output.replace("\n", ""), text


def test_show_as_json(linear: est.Estimator, raw: Path) -> None:
    facts = json.loads(run("show", raw, "--json").stdout)
    assert facts["global_step"] == 6
    assert facts["checkpoint"] == linear.latest_checkpoint()
    assert facts["trainable_parameters"] == 4
    assert facts["metrics"].keys() == {"loss", "mae"}
    (graph,) = facts["graphs"]
    assert graph["tags"] == ["serve"]
    inputs = graph["signatures"]["predict"]["inputs"]
    assert inputs == {"x": {"dtype": "float32", "shape": [None, 3], "tensor": "x:0"}}


def test_show_does_not_load_tensorflow(raw: Path) -> None:
    program = (
        "import sys\n"
        "from estimand.cli.main import main\n"
        f"main(['show', {str(raw)!r}], standalone_mode=False)\n"
        "assert 'tensorflow' not in sys.modules"
    )
    repository = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=repository, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "serving_default" in done.stdout


def test_show_without_a_model_says_so(tmp_path: Path) -> None:
    result = run("show", tmp_path)
    assert result.exit_code == 2
    assert "is no exported model" in result.output


# predict


@pytest.mark.parametrize("file_format", ["csv", "json", "jsonl", "tfrecord"])
@pytest.mark.parametrize("receiver", ["raw", "parsing"])
def test_predict_answers_each_row(
    request: pytest.FixtureRequest,
    linear: est.Estimator,
    files: dict[str, Path],
    receiver: str,
    file_format: str,
) -> None:
    base = request.getfixturevalue(receiver)
    result = run(
        "predict", base, "--input", files[file_format], "--signature", "predict",
        "--batch-size", 4,
    )  # fmt: skip
    found = [row["y"] for row in answers(result)]
    np.testing.assert_allclose(found, expected(linear), rtol=1e-5)


def test_predict_as_csv(linear: est.Estimator, raw: Path, files: dict[str, Path]) -> None:
    result = run("predict", raw, "--input", files["csv"], "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert rows[0].keys() == {"y", "twice"}
    np.testing.assert_allclose(
        [json.loads(row["twice"]) for row in rows], 2 * expected(linear), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.csv", "x,y\n1,2,3\n", "a.csv, line 2: the header has 2 columns"),
        ("a.csv", "z\n1\n", "Row 1 lacks 'x'"),
        ("a.csv", "x\nseven\n", "Row 1, 'x': 'seven' is no float32"),
        ("a.jsonl", '{"x": [1, 2, 3]}\n{"x":\n', "line 2 is no JSON"),
        ("a.json", "[1, 2]", "a row is an object"),
        ("a.jsonl", '{"x": [1, 2]}', "takes arrays of shape"),
        ("a.tfrecord", "nothing of the kind, but long enough", "is no TFRecord file, or damaged"),
        ("a.xls", "", "does not tell its format"),
        ("a.csv", "x,x\n1,2\n", "a.csv: the header names 'x' more than once"),
        ("a.csv", b"x\xff\n1\n", "a.csv is no text in UTF-8"),
        ("a.json", b'[{"x": "\xe9"}]', "a.json is no text in UTF-8"),
        ("a.jsonl", '{"x": [1, 2, 3]}\n{"x": [1, 2]}', "no rectangular array"),
    ],
)
def test_rows_that_cannot_be_used_are_named(
    raw: Path, tmp_path: Path, name: str, content: str | bytes, text: str
) -> None:
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    result = run("predict", raw, "--input", tmp_path / name)
    assert result.exit_code == 1
    assert text in result.output
    assert "Traceback" not in result.output


def test_rows_that_the_model_cannot_parse_are_named(parsing: Path, tmp_path: Path) -> None:
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        writer.write(b"no example")
    (tmp_path / "a.csv").write_text("z\n1\n")
    for name, text in [
        ("a.tfrecord", "'serving_default' cannot use rows 1 to 1: Could not parse example"),
        ("a.csv", "Row 1 lacks 'x', which the model takes as float32 and has no default for."),
    ]:
        result = run("predict", parsing, "--input", tmp_path / name)
        assert result.exit_code == 1
        assert text in result.output
        assert "Traceback" not in result.output


def test_an_unknown_signature_is_named(raw: Path, files: dict[str, Path]) -> None:
    result = run("predict", raw, "--input", files["csv"], "--signature", "classify")
    assert result.exit_code == 1
    assert "There is no signature 'classify'" in result.output
    assert "predict, serving_default" in result.output


def test_a_missing_file_is_named(raw: Path) -> None:
    result = run("predict", raw, "--input", "/nowhere/rows.csv")
    assert result.exit_code == 2
    assert "'/nowhere/rows.csv' does not exist" in result.output


def test_parquet_is_answered_like_the_others(
    linear: est.Estimator, raw: Path, tmp_path: Path
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": X.tolist()}), tmp_path / "rows.parquet")
    found = [row["y"] for row in answers(run("predict", raw, "--input", tmp_path / "rows.parquet"))]
    np.testing.assert_allclose(found, expected(linear), rtol=1e-5)


def test_many_files_are_answered_into_a_directory(
    linear: est.Estimator, raw: Path, files: dict[str, Path], tmp_path: Path
) -> None:
    command = ["predict", raw, "--input", files["jsonl"], "--output", tmp_path / "out"]
    result = run(*command, "--workers", 1, "--format", "csv")
    assert result.exit_code == 0, result.output
    assert f"{len(X)} rows in 1 file in " in result.stdout
    with (tmp_path / "out" / "predictions-00000-of-00001.csv").open(newline="") as file:
        found = [json.loads(row["y"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(found, expected(linear), rtol=1e-5)


@pytest.mark.parametrize("option", [["--workers", 2], ["--keep", "x"], ["--format", "parquet"]])
def test_options_of_many_files_need_a_directory(
    raw: Path, files: dict[str, Path], option: list[Any]
) -> None:
    result = run("predict", raw, "--input", files["csv"], *option)
    assert result.exit_code == 2
    assert f"{option[0]} " in result.output and "needs --output" in result.output
