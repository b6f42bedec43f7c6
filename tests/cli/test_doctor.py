"""`estimand doctor`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from estimand.cli import doctor
from estimand.cli.main import main

REPOSITORY = Path(__file__).resolve().parents[2]


def broken_look() -> str:
    os.write(2, b"libcudart.so: cannot open\n")
    raise ImportError("DLL load failed\nwith a long story")


@pytest.fixture
def one_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = (
        doctor.Check("Python", lambda: "3.11.9", "-"),
        doctor.Check("TensorFlow", broken_look, "pip install tensorflow"),
    )
    monkeypatch.setattr(doctor, "CHECKS", checks)


def test_healthy_machine_gets_five_ticks_and_no_noise() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "estimand", "doctor"],
        cwd=REPOSITORY,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert finished.returncode == 0
    assert finished.stderr == ""
    subjects = re.findall(r"^✓ (\w+(?: \w+)?)  ", finished.stdout, flags=re.MULTILINE)
    assert subjects == ["Python", "TensorFlow", "Keras", "Devices", "Temp dir"]
    assert len(finished.stdout.splitlines()) == 5


@pytest.mark.usefixtures("one_broken")
def test_one_broken_thing_does_not_hide_the_others_and_the_exit_code_is_1() -> None:
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "✓ Python      3.11.9",
        "✗ TensorFlow  ImportError: DLL load failed  Fix: pip install tensorflow",
    ]


@pytest.mark.usefixtures("one_broken")
def test_what_was_held_back_is_shown_when_something_is_broken(
    capfd: pytest.CaptureFixture[str],
) -> None:
    CliRunner().invoke(main, ["doctor"])
    assert capfd.readouterr().err == "libcudart.so: cannot open\n"


def test_unsupported_python_is_said_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PYTHON_BELOW", (3, 0))
    finding = doctor.examine(doctor.CHECKS[0])
    assert not finding.in_order
    assert re.fullmatch(
        r"3\.\d+\.\d+\S* is not supported\.  Fix: use Python 3\.11, 3\.12 or 3\.13", finding.text
    )


def test_unwritable_temporary_directory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/no/such/directory")
    finding = doctor.examine(doctor.CHECKS[-1])
    assert not finding.in_order
    assert "No such file or directory" in finding.text
    assert "export TMPDIR=" in finding.text


def test_marks_are_plain_where_the_terminal_cannot_show_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "stdout_can_print", lambda text: False)
    lines = [
        doctor.line(doctor.Finding("Python", in_order, "3.11.9")) for in_order in (True, False)
    ]
    assert "ok" in lines[0]
    assert "!!" in lines[1]


def test_accepted_versions_are_those_of_the_package() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    (tensorflow,) = (text for text in project["dependencies"] if text.startswith("tensorflow>"))

    def bounds(text: str) -> list[tuple[int, ...]]:
        return [tuple(map(int, version.split("."))) for version in re.findall(r"\d+\.\d+", text)]

    assert bounds(tensorflow) == [doctor.TENSORFLOW_FROM, doctor.TENSORFLOW_BELOW]
    assert bounds(doctor.INSTALL_TENSORFLOW) == [doctor.TENSORFLOW_FROM, doctor.TENSORFLOW_BELOW]
    assert bounds(project["requires-python"]) == [doctor.PYTHON_FROM, doctor.PYTHON_BELOW]
