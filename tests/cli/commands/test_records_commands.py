"""`estimand records make | show | verify | schema`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import estimand as est
from estimand.cli.main import main

REPOSITORY = Path(__file__).resolve().parents[3]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["records", *map(str, arguments)])


@pytest.fixture
def people(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text("age,name\n39,Ada\n50,Grace\n,Edsger\n")
    return tmp_path / "people.csv"


@pytest.fixture
def made(people: Path, tmp_path: Path) -> Path:
    assert run("make", people, tmp_path / "people.tfrecord").exit_code == 0
    return tmp_path / "people.tfrecord"


def test_make_from_csv(people: Path, tmp_path: Path) -> None:
    result = run("make", people, tmp_path / "a", "--shards", 2, "--kind", "age=float")
    assert result.exit_code == 0
    assert result.output == (
        f"3 records in {tmp_path}/a-00000-of-00002 to {tmp_path}/a-00001-of-00002\n"
    )
    rows = list(est.records.read(tmp_path / "a-*"))
    assert rows[0] == {"age": 39.0, "name": b"Ada"}
    assert rows[2] == {"name": b"Edsger"}


def test_show_prints_sizes_features_and_records(made: Path) -> None:
    result = run("show", made, "--first", 1)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert any(line.split()[:2] == ["age", "int64"] and "2" in line for line in lines)
    assert lines[-3:] == ["record 0", "  age: 39", "  name: b'Ada'"]


def test_schema_prints_a_spec_that_is_python(made: Path) -> None:
    result = run("schema", "--python", made)
    import tensorflow as tf

    names: dict = {"tf": tf}
    exec(result.output, names)
    assert names["features"] == est.records.parse_spec(made)


def test_verify_of_good_files(made: Path) -> None:
    result = run("verify", made)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"{made}: 3 records in order" in result.stdout
    assert run("verify", "-q", made).output == ""


def test_verify_of_a_cut_file_names_it_and_exits_with_1(made: Path, tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(made.read_bytes()[:-1])
    result = run("verify", made, tmp_path / "cut")
    assert result.exit_code == 1
    assert "3 records in order" in result.stdout
    assert result.stderr.startswith(f"{tmp_path / 'cut'}: record 2 (at byte ")


@pytest.mark.parametrize("command", ["show", "verify", "schema"])
@pytest.mark.parametrize(
    ("name", "told", "exit_code"),
    [
        ("nothing", "there is no file", 2),
        ("nothing*", "no file matches", 2),
        ("", "is a directory", 1),
        ("people.csv", "not a TFRecord file", 1),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    people: Path, tmp_path: Path, command: str, name: str, told: str, exit_code: int
) -> None:
    result = run(command, tmp_path / name if name else tmp_path)
    assert result.exit_code == exit_code
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert isinstance(result.exception, SystemExit)


def test_make_of_unusable_sources(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1\n")
    result = run("make", tmp_path / "a.csv", tmp_path / "out")
    assert result.exit_code == 1
    assert "line 2 has 1 fields; the header has 2: ['x', 'y']" in result.stderr
    assert run("make", tmp_path / "a.csv", tmp_path / "out", "--kind", "x").exit_code == 2


def test_verify_and_help_do_not_load_tensorflow(made: Path) -> None:
    program = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from estimand.cli.main import main\n"
        f"result = CliRunner().invoke(main, ['records', 'verify', {str(made)!r}])\n"
        "print(result.exit_code, 'tensorflow' in sys.modules)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert finished.stdout == "0 False\n"
