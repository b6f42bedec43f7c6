"""What TensorFlow brings along and nobody uses is not loaded by our own processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from estimand.core.interpreter import postponed

postponed.postpone()
postponed.postpone()
assert sum(type(finder).__name__ == "_Postponing" for finder in sys.meta_path) == 1
import keras
import tensorflow as tf

print("sklearn" in sys.modules, keras.layers.Dense(1)(tf.ones([1, 2])).shape)
from keras.wrappers import SKLearnClassifier

print("sklearn" in sys.modules, tf.keras.wrappers.SKLearnClassifier.__name__)
"""


def test_wrappers_for_scikit_learn_are_loaded_when_they_are_used() -> None:
    pytest.importorskip("sklearn")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["False (1, 1)", "True SKLearnClassifier"], done.stderr


def test_a_module_is_run_without_them(tmp_path: Path) -> None:
    (tmp_path / "looks.py").write_text(
        "import sys, tensorflow\nprint(__name__, sys.argv[1:], 'sklearn' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "estimand.core.interpreter.postponed", "looks", "one", "two"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )
    assert done.stdout == "__main__ ['one', 'two'] False\n", done.stderr
