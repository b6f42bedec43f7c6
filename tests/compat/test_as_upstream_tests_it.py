"""What tf.estimator's own tests look at, and strangers' programs count on."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.install import installed

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    with installed():
        yield


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(({"x": [[1.0], [2.0]]}, [[1.0], [0.0]]))


def linear(features: Any, labels: Any, mode: str) -> Any:
    y = tf.matmul(features["x"], v1.get_variable("w", [1, 1]))
    if mode == "infer":
        return est.EstimatorSpec(mode, predictions=y)
    loss = tf.reduce_mean((y - labels) ** 2)
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_the_seed_is_that_of_the_graphs_of_input_and_model(tmp_path: Path) -> None:
    seen: list[Any] = []

    def seeing_input_fn() -> tf.data.Dataset:
        seen.append(v1.get_default_graph().seed)
        return input_fn()

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        seen.append(v1.get_default_graph().seed)
        return linear(features, labels, mode)

    before = v1.get_default_graph().seed
    estimator = tf.estimator.Estimator(model_fn, tmp_path, est.RunConfig(tf_random_seed=42))
    estimator.train(seeing_input_fn, steps=1)
    estimator.evaluate(seeing_input_fn)
    list(estimator.predict(seeing_input_fn))
    assert seen == [42] * 6
    assert v1.get_default_graph().seed == before


def test_a_subclass_cannot_override_what_tf_estimator_kept_final() -> None:
    class Mine(tf.estimator.Estimator):  # type: ignore[misc, name-defined]
        def predict(self, *args: Any) -> None:
            pass

    with pytest.raises(ValueError, match=r"cannot override members of Estimator.*\['predict'\]"):
        Mine(model_fn=linear)

    class Allowed(tf.estimator.Estimator):  # type: ignore[misc, name-defined]
        def latest_checkpoint(self) -> None:
            return None

        def predict_scores(self) -> None:
            pass

    Allowed(model_fn=linear)


@pytest.mark.parametrize("face", ["LinearClassifier", "DNNClassifier", "DNNLinearCombined"])
def test_columns_of_version_1_are_refused_by_models_of_version_2(face: str, tmp_path: Path) -> None:
    old = importlib.import_module("tensorflow.python.feature_column.feature_column")
    columns = [old._numeric_column("x")]
    given: dict[str, Any] = {
        "LinearClassifier": lambda kind: kind.LinearClassifier(columns, model_dir=tmp_path),
        "DNNClassifier": lambda kind: kind.DNNClassifier([2], columns, model_dir=tmp_path),
        "DNNLinearCombined": lambda kind: kind.DNNLinearCombinedClassifier(
            tmp_path, linear_feature_columns=columns
        ),
    }
    with pytest.raises(ValueError, match="Received a feature column from TensorFlow v1"):
        given[face](tf.estimator).train(input_fn, steps=1)
    given[face](tf.compat.v1.estimator).train(input_fn, steps=1)


def test_a_saver_with_methods_of_its_own_is_used_in_all_modes(tmp_path: Path) -> None:
    called: list[tuple[str, str]] = []

    class TellingSaver(v1.train.Saver):  # type: ignore[misc, name-defined]
        mode = ""

        def save(self, *args: Any, **kwargs: Any) -> Any:
            called.append((self.mode, "save"))
            return super().save(*args, **kwargs)

        def restore(self, *args: Any, **kwargs: Any) -> Any:
            called.append((self.mode, "restore"))
            return super().restore(*args, **kwargs)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        spec = linear(features, labels, mode)
        saver = TellingSaver()
        saver.mode = mode
        return spec._replace(scaffold=v1.train.Scaffold(saver=saver))

    tf.estimator.Estimator(linear, tmp_path).train(input_fn, steps=1)
    weight = tf.train.load_variable(str(tmp_path), "w")
    estimator = tf.estimator.Estimator(model_fn, tmp_path)
    estimator.evaluate(input_fn)
    (predicted, _) = estimator.predict(input_fn)
    np.testing.assert_allclose(predicted, weight[0])
    tf.estimator.Estimator(model_fn, tmp_path).train(input_fn, steps=1)
    assert {("eval", "restore"), ("train", "restore"), ("train", "save")} <= set(called)
    assert tf.train.load_variable(str(tmp_path), "global_step") == 2


def test_the_function_that_builds_a_baseline() -> None:
    baseline = importlib.import_module("tensorflow_estimator.python.estimator.canned.baseline")
    with tf.Graph().as_default(), v1.Session() as session:
        build = baseline._baseline_model_fn_builder_v2
        (bias,), logits = build({"x": tf.constant([[1.0], [2.0]])}, num_outputs=2)
        session.run(v1.global_variables_initializer())
        session.run(bias.assign([3.0, 4.0]))
        assert bias.op.name == "baseline/bias"
        assert session.run(logits).tolist() == [[3.0, 4.0]] * 2


class AddingCell(tf.keras.layers.Layer):  # type: ignore[misc]
    """As a stranger writes one: the state is the sum of the inputs."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = self.state_size = self.output_size = units

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        total = states[0] + tf.reduce_sum(inputs, -1, keepdims=True)
        return total, [total]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}


@pytest.mark.parametrize("sequences", [False, True])
def test_the_recurrent_model_takes_cells_of_ones_own(sequences: bool) -> None:
    rnn = importlib.import_module("tensorflow_estimator.python.estimator.canned.rnn")
    layer = tf.keras.layers.RNN(AddingCell(1), return_sequences=sequences)
    columns = [tf.feature_column.sequence_numeric_column("price")]
    context = [tf.feature_column.numeric_column("size")]
    model = rnn.RNNModel(layer, 1, columns, context, return_sequences=sequences)
    prices = tf.sparse.from_dense([[10.0, 5.0], [2.0, 0.0]])
    features = {"price": prices, "size": tf.constant([[1.0], [3.0]])}
    model(features)
    dense = model.layers[-1] if hasattr(model, "layers") else model._logits_layer
    dense.set_weights([np.array([[2.0]], "float32"), np.array([1.0], "float32")])
    found = np.array(model(features))
    # Sums of price and size: 11, then 17; and 5, after which there is no more.
    expected = [[[23.0], [35.0]], [[11.0], [11.0]]] if sequences else [[35.0], [11.0]]
    np.testing.assert_allclose(found, expected)
    with pytest.raises(ValueError, match="should be passed a layer"):
        rnn.RNNModel("lstm", 1, columns)


def test_the_converter_of_checkpoints_reads_the_learning_rate_from_the_graph(
    tmp_path: Path,
) -> None:
    converter = importlib.import_module(
        "tensorflow_estimator.python.estimator.tools.checkpoint_converter"
    )
    columns = [tf.feature_column.numeric_column("x")]
    made = tf.compat.v1.estimator.DNNClassifier(
        [2], columns, tmp_path / "v1", optimizer=v1.train.AdagradOptimizer(0.25)
    )
    made.train(lambda: input_fn().map(lambda x, y: (x, tf.cast(y, tf.int64))), steps=1)
    graph = str(tmp_path / "v1" / "graph.pbtxt")
    (tmp_path / "v2").mkdir()
    target = str(tmp_path / "v2" / "model.ckpt-1")
    converter.convert_checkpoint("dnn", str(tmp_path / "v1"), graph, target)
    names = {name for name, _ in tf.train.list_variables(target)}
    assert "training/Adagrad/dnn/hiddenlayer_0/kernel/accumulator" in names
    assert tf.train.load_variable(target, "training/Adagrad/learning_rate") == 0.25
    with pytest.raises(ValueError, match="estimator_type must be one of"):
        converter.convert_checkpoint("tree", target, None, target)
