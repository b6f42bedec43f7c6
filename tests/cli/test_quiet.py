"""What is held back, and when it is shown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from estimand.cli.quiet import quiet_start

REPOSITORY = Path(__file__).resolve().parents[2]


def noise_from_cpp() -> None:
    os.write(2, b"noise\n")


def test_noise_is_held_back_and_later_output_is_not(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_start():
        noise_from_cpp()
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "later\n"


def test_noise_is_shown_when_verbose(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_start(verbose=True):
        noise_from_cpp()
    assert capfd.readouterr().err == "noise\n"


def test_noise_is_shown_when_the_block_raises(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ImportError, match="no such library"), quiet_start():
        noise_from_cpp()
        raise ImportError("no such library")
    assert capfd.readouterr().err == "noise\n"


def test_noise_is_shown_on_request(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_start() as held_back:
        noise_from_cpp()
        held_back.show = True
    assert capfd.readouterr().err == "noise\n"


def test_standard_output_is_left_alone(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_start():
        print("result", flush=True)
    assert capfd.readouterr().out == "result\n"


def test_works_where_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def no_space() -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", no_space)
    with quiet_start():
        noise_from_cpp()
    assert capfd.readouterr().err == "noise\n"


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"import os\nfrom estimand.cli.quiet import quiet_start\n{program}"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )


def test_noise_from_python_is_held_back_too() -> None:
    finished = run_python("import warnings\nwith quiet_start():\n    warnings.warn('noise')")
    assert (finished.returncode, finished.stderr) == (0, "")


def test_works_with_standard_error_closed() -> None:
    finished = run_python("os.close(2)\nwith quiet_start():\n    print('fine')")
    assert (finished.returncode, finished.stdout) == (0, "fine\n")


def test_a_crash_in_cpp_still_shows_where_it_happened() -> None:
    finished = run_python("with quiet_start():\n    os.abort()")
    assert "Fatal Python error: Aborted" in finished.stderr


def test_what_loading_grpc_prints_is_no_part_of_a_query(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from estimand.cli.main import main
    from estimand.core.errors import ConfigError
    from estimand.serving.client import client

    def loud(*arguments: object) -> None:
        os.write(2, b"Could not find cuda drivers\n")
        raise ConfigError("no transport")

    monkeypatch.setattr(client, "_transport", loud)
    result = CliRunner().invoke(main, ["query", "localhost:1", "demo"])
    assert "no transport" in result.output + str(result.exception)
    assert "cuda" not in capfd.readouterr().err
