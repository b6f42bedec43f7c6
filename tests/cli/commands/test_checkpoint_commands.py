"""`estimand checkpoint show` and `diff`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from estimand.cli.main import main
from estimand.engine.checkpoints.api import CheckpointWriter, Entry
from tests import forked

REPOSITORY = Path(__file__).resolve().parents[3]


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(main, ["checkpoint", *map(str, arguments)])


def write(directory: Path, step: int, **values: Any) -> str:
    entries = [Entry(name, tf.constant(value)) for name, value in values.items()]
    entries.append(Entry("global_step", tf.constant(step, tf.int64)))
    with CheckpointWriter(directory) as writer:
        return writer.save(step, entries, synchronous=True)


def row(output: str, name: str) -> list[str]:
    """The cells of the line about one variable."""
    [line] = [line for line in output.splitlines() if re.match(rf"{re.escape(name)}\s", line)]
    return re.split(r"\s{2,}", line.strip())


def test_show_lists_names_shapes_types_sizes_and_the_step(tmp_path: Path) -> None:
    path = write(tmp_path, 1234, w=np.zeros([300, 2], "float32"), words=[b"a", b"b"])
    result = run("show", path)
    assert result.exit_code == 0, result.output
    assert row(result.output, "w") == ["w", "[300, 2]", "float32", "2.4 kB"]
    assert row(result.output, "words")[:3] == ["words", "[2]", "string"]
    assert result.output.splitlines()[0] == path
    assert result.output.splitlines()[-1].endswith("603 values, 2.4 kB, global step 1,234")


def test_show_reads_values_only_when_asked_for_statistics(tmp_path: Path) -> None:
    values = np.array([0.0, 0.0, 1.0, -3.0], "float32")
    path = write(tmp_path, 1, w=values, flag=True)
    told = row(run("show", path, "--stats").output, "w")[4:]
    assert told == ["-0.5", f"{values.std():.4g}", "-3", "1", "50%"]
    os.remove(f"{path}.data-00000-of-00001")
    assert run("show", path).exit_code == 1  # the step is a value, too
    assert "damaged or missing" in run("show", path).output


def test_show_takes_the_newest_of_a_model_dir(tmp_path: Path) -> None:
    write(tmp_path, 1, w=1.0)
    newest = write(tmp_path, 2, w=2.0)
    assert run("show", tmp_path).output.splitlines()[0] == newest


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001"])
def test_show_takes_a_file_of_the_checkpoint(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path, 1, w=1.0)
    assert run("show", path + ending).output.splitlines()[0] == path


def test_show_reads_the_variables_of_a_saved_model(tmp_path: Path) -> None:
    module = tf.Module()
    module.weights = tf.Variable(tf.zeros([4, 2]))
    tf.saved_model.save(module, str(tmp_path))
    result = run("show", tmp_path)
    assert row(result.output, "weights")[1] == "[4, 2]"
    assert result.output.splitlines()[-1].endswith("no global step")


def test_long_names_are_not_cut_where_the_output_is_a_file(tmp_path: Path) -> None:
    name = "a/" * 80 + "kernel"
    write(tmp_path, 1, **{name: 1.0})
    assert name in run("show", tmp_path).output


def test_equal_checkpoints_have_exit_code_0(tmp_path: Path) -> None:
    values = {"w": np.array([1.0, np.nan, np.inf], "float32"), "words": [b"a"]}
    first, second = (write(tmp_path / name, 1, **values) for name in "ab")
    result = run("diff", first, second)
    assert (result.exit_code, result.output) == (0, "3 variables, all equal.\n")


def test_diff_tells_what_differs_and_has_exit_code_1(tmp_path: Path) -> None:
    first = write(tmp_path / "a", 1, w=[1.0, 2.0], x=[1.0], only=1.0, words=[b"a"], same=5)
    second = write(tmp_path / "b", 1, w=[1.0, 2.5], x=[[1.0]], other=2, words=[b"b"], same=5)
    result = run("diff", first, second)
    assert result.exit_code == 1
    assert row(result.output, "w")[1] == "max abs difference 0.5, 1 of 2 values"
    assert row(result.output, "x")[1] == "[1] float32 against [1, 1] float32"
    assert row(result.output, "only")[1] == "only in the first: [] float32"
    assert row(result.output, "other")[1] == "only in the second: [] int32"
    assert row(result.output, "words")[1] == "other values"
    assert not re.search(r"^same\s", result.output, flags=re.MULTILINE)
    assert result.output.splitlines()[-1] == "5 variables differ, 2 are equal."


@pytest.mark.parametrize(("tolerance", "exit_code"), [(0.4, 1), (0.5, 0)])
def test_small_differences_can_be_let_pass(
    tmp_path: Path, tolerance: float, exit_code: int
) -> None:
    first, second = write(tmp_path / "a", 1, w=2.0), write(tmp_path / "b", 1, w=2.5)
    assert run("diff", first, second, "--tolerance", tolerance).exit_code == exit_code


def test_a_nan_on_one_side_is_a_difference(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", 1, w=2.0), write(tmp_path / "b", 1, w=np.nan)
    assert run("diff", first, second, "--tolerance", 9).exit_code == 1


def test_missing_checkpoint_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    finished = forked.run(["-m", "estimand", "checkpoint", "show", tmp_path])
    assert finished.returncode == 2
    assert finished.stdout == ""
    assert finished.stderr.startswith(f"Error: There is no checkpoint at {tmp_path}.")
    assert len(finished.stderr.splitlines()) == 1


def test_overwritten_index_is_told_without_a_traceback(tmp_path: Path) -> None:
    path = write(tmp_path, 1, w=1.0)
    Path(f"{path}.index").write_bytes(b"no table")
    result = run("show", path)
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {path}.index cannot be read")
    assert "Traceback" not in result.output


@pytest.mark.parametrize("size", [0, 20, 47, 60, 100])
def test_index_that_is_cut_short_is_told(tmp_path: Path, size: int) -> None:
    path = write(tmp_path, 1, w=1.0)
    index = Path(f"{path}.index")
    index.write_bytes(index.read_bytes()[-size:] if size > 47 else b"x" * size)
    result = run("show", path)
    assert result.exit_code == 1
    assert "cannot be read" in result.output


def test_show_does_not_load_tensorflow(tmp_path: Path) -> None:
    path = write(tmp_path, 7, w=np.zeros([300, 2], "float32"))
    program = (
        "import sys\n"
        "from estimand.cli.main import main\n"
        f"main(['checkpoint', 'show', {path!r}], standalone_mode=False)\n"
        "assert 'tensorflow' not in sys.modules"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
    assert "global step 7" in finished.stdout
