"""The command group itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

import estimand
from estimand.cli.main import main

REPOSITORY = Path(__file__).resolve().parents[2]


def test_help_lists_the_commands() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert "doctor" in result.output


def test_version_is_the_packages() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.output == f"estimand, version {estimand.__version__}\n"


def test_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(main, ["docter"])
    assert result.exit_code == 2
    assert "Error: No such command 'docter'. Did you mean 'doctor'?\n" in result.output
    assert (
        "Error: No such command 'frobnicate'.\n" in CliRunner().invoke(main, ["frobnicate"]).output
    )


def test_python_dash_m_is_the_same_command() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "estimand", "--version"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert finished.stdout == f"estimand, version {estimand.__version__}\n"


def test_help_does_not_load_tensorflow() -> None:
    program = (
        "import sys\n"
        "from estimand.cli.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "sys.exit('tensorflow' in sys.modules)"
    )
    finished = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True)
    assert finished.returncode == 0, finished.stderr
