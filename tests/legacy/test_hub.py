"""Modules of TensorFlow Hub, where a release is installed that has them (up to 0.15)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests import forked

PROGRAM = Path(__file__).parent / "corpus" / "programs" / "hub_modules.py"


def has_modules() -> bool:
    found = importlib.util.find_spec("tensorflow_hub")
    return found is not None and Path(str(found.origin)).with_name("native_module.py").exists()


@pytest.mark.skipif(not has_modules(), reason="needs tensorflow-hub==0.12.0")
def test_modules_are_trained_asked_and_exported(tmp_path: Path) -> None:
    done = forked.run(["-m", "estimand", "run", PROGRAM, tmp_path / "modules"])
    assert done.returncode == 0, done.stderr[-3000:]
    assert "all done" in done.stdout
