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

from estimand.cli.commands import doctor
from estimand.cli.main import main

REPOSITORY = Path(__file__).resolve().parents[3]


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


SUBJECTS = ["Python", "TensorFlow", "Keras", "Extras", "GPUs", "Threads", "Work dir", "Temp dir"]


def test_healthy_machine_gets_a_tick_for_each_subject_without_loading_tensorflow() -> None:
    program = (
        "import sys\n"
        "from estimand.cli.main import main\n"
        "main(['doctor'], standalone_mode=False)\n"
        "assert 'tensorflow' not in sys.modules"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert finished.returncode == 0
    assert finished.stderr == ""
    subjects = re.findall(r"^[✓!] (\w+(?: \w+)?)  ", finished.stdout, flags=re.MULTILINE)
    assert subjects == SUBJECTS
    assert len(finished.stdout.splitlines()) == len(SUBJECTS)


def test_thoroughly_tensorflow_computes_and_names_its_devices() -> None:
    findings = [doctor.examine(check) for check in doctor.THOROUGH]
    assert [finding.in_order for finding in findings] == [True, True]
    assert re.fullmatch(r"TensorFlow \S+ and Keras \S+ compute", findings[0].text)
    assert "CPU:0" in findings[1].text


def test_hint_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def look() -> str:
        raise doctor.Hint("none; pip install it")

    monkeypatch.setattr(doctor, "CHECKS", (doctor.Check("Extras", look, "-"),))
    result = CliRunner().invoke(main, ["doctor"])
    assert (result.exit_code, result.stdout) == (0, "! Extras      none; pip install it\n")


def test_missing_serve_extra_is_told_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "grpc" else object())
    with pytest.raises(doctor.Hint, match=r"pip install 'estimand\[serve\]'"):
        doctor.extras()


def test_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for_the_repository = {"demo", "bench", "dev", "dev-extras", "docs", "pictures", "all"}
    told = {name for name in extras if extras[name]} - for_the_repository
    assert set(doctor.EXTRAS) == told


@pytest.mark.parametrize(
    ("environment", "quota", "message"),
    [
        ({}, 1.5, r"8 cores.* the container may use 1.5: export TF_NUM_INTRAOP_THREADS=2"),
        ({"OMP_NUM_THREADS": "1"}, None, "OMP_NUM_THREADS=1: some cores stay idle.*unset OMP_NUM"),
    ],
)
def test_threads_that_do_not_fit_the_machine(
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    quota: float | None,
    message: str,
) -> None:
    for name in doctor.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(doctor, "usable_cores", lambda: 8)
    monkeypatch.setattr(doctor, "cpu_quota", lambda: quota)
    with pytest.raises(doctor.Hint, match=message):
        doctor.threads()


@pytest.mark.parametrize(("text", "quota"), [("max 100000", None), ("150000 100000", 1.5)])
def test_processors_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, quota: float | None
) -> None:
    (tmp_path / "cpu.max").write_text(f"{text}\n")
    monkeypatch.setattr(doctor, "_CGROUP", tmp_path)
    assert doctor.cpu_quota() == quota


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'Tesla T4'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tool


@pytest.mark.usefixtures("nvidia_smi")
def test_gpu_that_tensorflow_cannot_use_comes_with_the_cure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    with pytest.raises(doctor.Hint, match=r"Tesla T4, without CUDA.*'tensorflow\[and-cuda\]'"):
        doctor.gpus()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with pytest.raises(doctor.Hint, match="hidden by CUDA_VISIBLE_DEVICES='-1'"):
        doctor.gpus()


@pytest.mark.usefixtures("nvidia_smi")
def test_gpu_that_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: object())
    assert doctor.gpus().startswith("Tesla T4")


def test_full_disk_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_LITTLE_SPACE", 1e30)
    finding = doctor.examine(doctor.CHECKS[-1])
    assert not finding.in_order and "GB free.  Fix: export TMPDIR=" in finding.text


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
