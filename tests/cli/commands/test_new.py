"""`estimand new`: what it writes works as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from estimand.cli.main import main
from tests import forked

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    result = CliRunner().invoke(main, ["new", str(tmp_path / "churn")])
    assert result.exit_code == 0, result.output
    return tmp_path / "churn"


def test_files_and_what_to_type_next(project: Path) -> None:
    names = [".gitignore", "README.md", "make_data.py", "program.py", "test_program.py"]
    assert sorted(one.name for one in project.iterdir()) == names
    assert "runs/churn" in (project / "program.py").read_text()
    assert not any("NAME" in one.read_text() for one in project.iterdir())


def test_nothing_is_overwritten(project: Path) -> None:
    result = CliRunner().invoke(main, ["new", str(project)])
    assert result.exit_code == 2
    assert "is not empty. Give the name of a new directory." in result.output


@pytest.mark.parametrize("name", ["1st", "a b", "a$"])
def test_name_that_no_model_can_have(tmp_path: Path, name: str) -> None:
    assert CliRunner().invoke(main, ["new", str(tmp_path / name)]).exit_code == 2
    assert not (tmp_path / name).exists()


def test_commands_of_its_readme_are_commands(project: Path) -> None:
    used = set(re.findall(r"^    estimand (\S+)", (project / "README.md").read_text(), re.M))
    assert used == {"train", "show", "predict", "serve", "query"}
    assert used <= set(main.list_commands(None))


@pytest.mark.slow
def test_it_trains_and_its_own_test_passes(project: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    subprocess.run([sys.executable, "make_data.py"], cwd=project, check=True)
    command = ["-m", "estimand", "train", "program.py", "--set", "steps=200"]
    trained = forked.run(command, cwd=project, env=environment)
    assert trained.returncode == 0, trained.stderr
    assert trained.stdout.startswith("step 200\n")
    assert list((project / "runs" / "churn" / "export" / "best").glob("*/saved_model.pb"))
    tested = forked.run(["-m", "pytest", "-q", "."], cwd=project, env=environment)
    assert tested.returncode == 0, tested.stdout
