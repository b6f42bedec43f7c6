"""What TensorFlow brings along and nobody uses is not loaded by our own processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from estimand.core import postponed

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
