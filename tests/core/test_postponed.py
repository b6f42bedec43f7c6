"""What TensorFlow brings along and nobody uses is not loaded by our own processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from estimand.core import postponed

postponed.postpone()
postponed.postpone()
assert sum(type(finder).__name__ == "_Postponing" for finder in sys.meta_path) == 1
import keras
import tensorflow as tf

loaded = [name for name in ("sklearn", "pandas") if name in sys.modules]
print(loaded, keras.layers.Dense(1)(tf.ones([1, 2])).shape)
from keras.wrappers import SKLearnClassifier

print("sklearn" in sys.modules, tf.keras.wrappers.SKLearnClassifier.__name__)
"""


def test_wrappers_for_scikit_learn_are_loaded_when_they_are_used() -> None:
    pytest.importorskip("sklearn")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["[] (1, 1)", "True SKLearnClassifier"], done.stderr


FITTED = """
import sys
from estimand.core import postponed

postponed.postpone()
import keras

before = "pandas" in sys.modules
import pandas as pd

rows = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [0.0, 1.0, 0.0, 1.0]})
model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)])
model.compile("sgd", "mse")
model.fit(rows, rows["a"], verbose=0, validation_split=0.5)
print(before, model.predict(rows, verbose=0).shape)
"""


def test_a_data_frame_is_fitted_although_pandas_came_later() -> None:
    pytest.importorskip("pandas")
    done = subprocess.run(
        [sys.executable, "-c", FITTED], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["False (4, 1)"], done.stderr


def test_a_module_is_run_without_them(tmp_path: Path) -> None:
    (tmp_path / "looks.py").write_text(
        "import sys, tensorflow\n"
        "print(__name__, sys.argv[1:], {'sklearn', 'pandas'} & sys.modules.keys())\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "estimand.core.postponed", "looks", "one", "two"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )
    assert done.stdout == "__main__ ['one', 'two'] set()\n", done.stderr
