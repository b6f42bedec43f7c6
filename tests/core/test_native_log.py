"""What TensorFlow's C++ code says by itself is held back inside, and only there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from estimand.core import lines_of_old
from estimand.core.tf_private import native_log
from estimand.core.tf_private.native_log import ERROR, FATAL, native_log_from

REPOSITORY = Path(__file__).resolve().parents[2]


class Abseil:
    """The level below which nothing is logged, and how it was changed."""

    def __init__(self, level: int) -> None:
        self.levels = [level]

    def functions(self) -> tuple[object, object]:
        return lambda: self.levels[-1], self.levels.append


@pytest.fixture
def abseil(monkeypatch: pytest.MonkeyPatch) -> Abseil:
    found = Abseil(0)
    monkeypatch.setattr(native_log, "_functions", found.functions)
    return found


def test_the_level_is_raised_inside_and_restored_when_it_fails(abseil: Abseil) -> None:
    with pytest.raises(KeyError), native_log_from(ERROR):
        assert abseil.levels == [0, ERROR]
        raise KeyError
    assert abseil.levels == [0, ERROR, 0]


def test_who_has_asked_for_less_gets_no_more(abseil: Abseil) -> None:
    abseil.levels = [FATAL]  # TF_CPP_MIN_LOG_LEVEL=3
    with native_log_from(ERROR):
        assert abseil.levels[-1] == FATAL


def test_where_abseil_is_not_found_all_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_log, "_functions", lambda: None)
    with native_log_from(ERROR):
        pass


def test_abseil_is_found_in_the_installed_tensorflow() -> None:
    found = native_log._functions()
    assert found is not None
    now, _ = found
    before = now()
    with native_log_from(FATAL):
        assert now() == FATAL
    assert now() == before


@pytest.mark.parametrize("hardware", [True, False])
def test_a_gpu_that_fails_is_not_hushed_up(
    abseil: Abseil, monkeypatch: pytest.MonkeyPatch, hardware: bool
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(native_log, "has_gpu_device", lambda: hardware)
    monkeypatch.setattr(
        native_log.tf.config, "list_physical_devices", lambda: seen.append(abseil.levels[-1])
    )
    native_log.look_for_devices_quietly.__wrapped__()
    assert seen == [0 if hardware else FATAL]


@pytest.mark.parametrize(
    ("variables", "verbose"),
    [
        ({}, False),
        ({"ESTIMAND_VERBOSE": "1"}, True),
        ({"TF_CPP_MIN_LOG_LEVEL": "0"}, True),
        ({"TF_CPP_MIN_LOG_LEVEL": "2"}, False),  # as `estimand serve` sets it
    ],
)
def test_verbose_is_who_has_asked_for_more(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], verbose: bool
) -> None:
    for name in ("ESTIMAND_VERBOSE", "TF_CPP_MIN_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert lines_of_old.is_verbose() is verbose


PROGRAM = """
import os, sys
import tensorflow as tf
from estimand.core.tf_private import ERROR, look_for_devices_quietly, native_log_from
sys.stderr.write("imported\\n")
sys.stderr.flush()
look_for_devices_quietly()
with native_log_from(ERROR), tf.Graph().as_default():
    tf.compat.v1.Session().run(tf.constant(1))  # says that an MLIR pass is not enabled
"""


@pytest.mark.slow
@pytest.mark.skipif(native_log.has_gpu_device(), reason="what a GPU says is not held back")
def test_a_process_without_a_gpu_says_nothing_about_it() -> None:
    variables = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=variables | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.partition("imported\n")[2] == ""
