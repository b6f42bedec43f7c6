"""Which TensorFlow a file was written for is seen in the names it uses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tensorflow

from estimand.compat import detection
from estimand.compat.install import installed
from estimand.compat.v1.view import tf as tf1


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    with installed():
        yield


HEAD = "import tensorflow as tf\n"


@pytest.mark.parametrize(
    ("source", "keras_trains"),
    [
        ("model = tf.keras.Sequential()\nmodel.fit(x, y)", True),
        ("from tensorflow.keras import layers\ntf.app.run(main)\nmodel.fit(x, y)", True),
        ("tf.keras.Sequential()\nestimator.train(input_fn)", False),
        ("tf.keras.Sequential()\nmodel.fit(x, y)\ntf.Session()", False),
        ("tf.app.run(main)\nclassifier.fit(x, y)", False),
    ],
)
def test_programs_in_which_keras_trains(source: str, keras_trains: bool) -> None:
    assert detection.trains_with_keras(HEAD + source) is keras_trains


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (HEAD + "tf.placeholder(tf.float32)", ["placeholder"]),
        (HEAD + "tf.layers.dense(x, 3)", ["layers.dense"]),
        (HEAD + "tf.app.run()", ["app.run"]),
        (HEAD + "tf.train.AdamOptimizer(0.1)", ["train.AdamOptimizer"]),
        (HEAD + "tf.losses.sparse_softmax_cross_entropy", ["losses.sparse_softmax_cross_entropy"]),
        (HEAD + "tf.estimator.inputs.numpy_input_fn", ["estimator.inputs.numpy_input_fn"]),
        (HEAD + "tf.nn.rnn_cell.GRUCell(3)", ["nn.rnn_cell.GRUCell"]),
        ("import tensorflow\ntensorflow.get_variable('a', [])", ["get_variable"]),
        ("from tensorflow.contrib import layers", ["contrib"]),
        ("from tensorflow import placeholder", ["placeholder"]),
    ],
)
def test_names_of_version_1(source: str, names: list[str]) -> None:
    assert detection.only_names_of(tf1, tensorflow, source) == names


@pytest.mark.parametrize(
    "source",
    [
        HEAD + "tf.constant(1); tf.estimator.Estimator; tf.summary.scalar; tf.data.Dataset.range",
        HEAD + "tf.keras.layers.Dense(3); tf.compat.v1.placeholder(tf.float32)",
        "import tensorflow.compat.v1 as tf\ntf.placeholder(tf.float32)",
        HEAD + "try:\n    tf.placeholder\nexcept AttributeError:\n    pass",
        HEAD + "tf.no_such_name_anywhere",
        "import numpy as tf\ntf.placeholder",
        "this is not Python",
    ],
)
def test_nothing_that_asks_for_version_1(source: str) -> None:
    assert detection.only_names_of(tf1, tensorflow, source) == []
