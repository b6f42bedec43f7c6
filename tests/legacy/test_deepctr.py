"""DeepCTR's Estimator models, as they are on PyPI: code that knows nothing of Estimand.

The package is installed without its dependencies into a temporary directory. It runs in a process
of its own, because `install()` and Keras' state are those of the whole process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked

pytestmark = pytest.mark.slow

MODELS = ["DeepFM"]  # the others differ in their interactions only; make corpus has four

PROGRAM = """
import json, sys, tempfile
import estimand
estimand.install()
import numpy as np
import tensorflow as tf
import deepctr.estimator as models

random = np.random.RandomState(0)
x = {f"C{i}": random.randint(0, 20, 64).astype(str).astype(bytes) for i in range(3)}
x |= {f"I{i}": random.rand(64).astype(np.float32) for i in range(2)}
y = (x["I0"] > 0.5).astype(np.float32)

dnn, linear = [], []
for i in range(3):
    column = tf.feature_column.categorical_column_with_hash_bucket(f"C{i}", 10)
    dnn.append(tf.feature_column.embedding_column(column, 4))
    linear.append(column)
for i in range(2):
    dnn.append(tf.feature_column.numeric_column(f"I{i}"))
    linear.append(tf.feature_column.numeric_column(f"I{i}"))

def input_fn(epochs=1):
    return tf.data.Dataset.from_tensor_slices((x, y)).repeat(epochs).batch(32)

for name in sys.argv[1:]:
    columns = [dnn] if name == "PNN" else [linear, dnn]
    config = tf.estimator.RunConfig(model_dir=tempfile.mkdtemp(), tf_random_seed=1)
    model = getattr(models, name + "Estimator")(*columns, config=config)
    before = model.evaluate(input_fn)["LogLoss"]
    model.train(lambda: input_fn(None), steps=20)
    after = model.evaluate(input_fn)
    rows = list(model.predict(input_fn))
    pred = np.array([row["pred"][0] for row in rows], np.float64)
    error = -np.mean(np.log(np.where(y > 0, pred, 1 - pred)))
    print(json.dumps({"name": name, "before": float(before), "after": float(after["LogLoss"]),
                      "step": int(after["global_step"]), "error": float(error)}), flush=True)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("deepctr")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    done = subprocess.run(
        [*command, str(target), "deepctr==0.9.4"], capture_output=True, text=True, timeout=120
    )
    if done.returncode:
        pytest.skip(f"deepctr cannot be installed: {done.stderr.strip()[-200:]}")
    return target


def test_models_train_evaluate_and_predict(package: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = forked.run([program, *MODELS], env={**os.environ, "PYTHONPATH": str(package)})
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [result["name"] for result in results] == MODELS, done.stderr[-3000:]
    for result in results:
        assert result["step"] == 20, result
        assert result["after"] < result["before"], result
        assert result["after"] == pytest.approx(result["error"], rel=1e-3), result
