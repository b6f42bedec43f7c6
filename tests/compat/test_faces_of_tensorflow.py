"""Where programs look for what `install()` puts back: every face, however it is reached."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.install import installed


@pytest.fixture(autouse=True)
def _in_place() -> Iterator[None]:
    with installed():
        yield


@pytest.mark.parametrize("face", ["v1", "v1.compat.v1", "v2.compat.v1"])
def test_faces_of_tensorflow_1(face: str) -> None:
    program = f"""
import tensorflow
tf = tensorflow.compat.{face}
found = tf.estimator.DNNClassifier, tf.layers.dense, tf.nn.rnn_cell.LSTMCell
keras = tf.keras.estimator.model_to_estimator, tf.keras.layers.DenseFeatures
"""
    names: dict[str, object] = {}
    exec(program, names)
    v1 = est.compat.v1
    assert names["found"] == (v1.DNNClassifier, v1.layers.dense, v1.rnn_cell.LSTMCell)


@pytest.mark.parametrize("face", ["v2", "v1.compat.v2", "v2.compat.v2"])
def test_faces_of_tensorflow_2(face: str) -> None:
    names: dict[str, object] = {}
    exec(f"import tensorflow\nfound = tensorflow.compat.{face}.estimator.DNNClassifier", names)
    assert names["found"] is est.DNNClassifier


def test_the_usual_imports_of_the_years_between() -> None:
    names: dict[str, object] = {}
    exec("import tensorflow.compat.v2 as tf\nfound = tf.compat.v1.estimator.Estimator", names)
    assert names["found"] is est.Estimator


def test_libraries_are_not_told_that_it_is_tensorflow_1() -> None:
    found: dict[str, object] = {"tf": tf}  # in a file that uses it, as this one, it is there
    exec("old = hasattr(tf, 'contrib') or hasattr(tf.compat.v1, 'contrib')", found)
    assert not found["old"]
    import tensorflow.contrib.training as contrib_training

    assert contrib_training.HParams is est.HParams


@pytest.mark.parametrize("face", [tf, tf.compat.v1], ids=["v2", "v1"])
def test_experimental_names_of_keras_2(face: object) -> None:
    keras = face.keras  # type: ignore[attr-defined]
    assert keras.experimental.SequenceFeatures is est.feature_column.SequenceFeatures
    normalize = keras.layers.experimental.preprocessing.Normalization(mean=1.0, variance=4.0)
    assert normalize(tf.constant([[3.0]])).numpy().tolist() == [[1.0]]


def test_dense_features_fill_the_dict_they_are_given() -> None:
    size, color = tf.feature_column.numeric_column("size"), tf.feature_column.numeric_column("c")
    found: dict[object, tf.Tensor] = {}
    layer = tf.compat.v1.keras.layers.DenseFeatures([size, color])
    features = {"size": tf.constant([[1.0]]), "c": tf.constant([[2.0]])}
    joined = layer(features, cols_to_output_tensors=found)
    assert joined.numpy().tolist() == [[2.0, 1.0]]
    assert {column.name: t.numpy().item() for column, t in found.items()} == {"c": 2.0, "size": 1.0}
    layer(features)
    assert len(found) == 2


def test_keras_3_compiles_models_with_legacy_optimizers() -> None:
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.legacy.Adagrad(0.5), "mse")
    assert float(model.optimizer.learning_rate) == 0.5
    model.fit(tf.ones([4, 1]), tf.ones([4, 1]), verbose=0)


def test_keras_is_imported_below_every_face() -> None:
    from tensorflow.compat.v1.keras.initializers import he_uniform
    from tensorflow.compat.v2.keras.layers import Dense

    assert Dense is tf.keras.layers.Dense
    assert he_uniform is tf.keras.initializers.HeUniform
