"""The Iris program: trained on the real flowers, and its first steps against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from estimand.engine.events import read_scalars
from tests.legacy.iris_program import (
    eval_input_fn,
    make_classifier,
    make_premade_classifier,
    train_input_fn,
)
from tests.legacy.v1_view import tf

_data = load_iris()
NAMES = ["SepalLength", "SepalWidth", "PetalLength", "PetalWidth"]
X = _data.data.astype(np.float32)
Y = _data.target.astype(np.int32)
FEATURES = {name: X[:, i] for i, name in enumerate(NAMES)}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Any:
    classifier = make_classifier(FEATURES, str(tmp_path_factory.mktemp("iris")))
    classifier.train(input_fn=lambda: train_input_fn(FEATURES, Y, 100), steps=300)
    return classifier


def test_it_learns_to_tell_the_flowers_apart(classifier: Any) -> None:
    result = classifier.evaluate(input_fn=lambda: eval_input_fn(FEATURES, Y, 100))
    assert result["accuracy"] > 0.9
    assert result["global_step"] == 300


def test_predictions_without_labels(classifier: Any) -> None:
    rows = list(classifier.predict(input_fn=lambda: eval_input_fn(FEATURES, None, 100)))
    assert len(rows) == 150
    class_ids = np.array([row["class_ids"][0] for row in rows])
    probabilities = np.array([row["probabilities"] for row in rows])
    np.testing.assert_array_equal(class_ids, probabilities.argmax(axis=1))
    result = classifier.evaluate(input_fn=lambda: eval_input_fn(FEATURES, Y, 150))
    assert result["accuracy"] == pytest.approx(np.mean(class_ids == Y))
    losses = -np.log(probabilities[np.arange(150), Y])
    assert result["loss"] == pytest.approx(losses.mean(), rel=1e-4)


def test_checkpoints_at_start_and_end(classifier: Any) -> None:
    files = Path(classifier.model_dir).glob("model.ckpt-*.index")
    found = {file.name.split(".")[1] for file in files}
    assert found == {"ckpt-0", "ckpt-300"}


def test_summary_of_a_metric_at_its_steps(classifier: Any) -> None:
    scalars = read_scalars(classifier.model_dir)
    assert [step for step, _ in scalars["accuracy"]] == [1, 101, 201]
    values = [value for _, value in scalars["accuracy"]]
    assert values[0] < values[-1] <= 1


def test_a_premade_classifier_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    columns = [tf.feature_column.numeric_column(key=key) for key in FEATURES]
    for step in (1, 2):
        classifier = make_premade_classifier(columns, str(tmp_path))
        classifier.train(input_fn=lambda: train_input_fn(FEATURES, Y, 100), steps=1)
        assert classifier.latest_checkpoint().endswith(f"model.ckpt-{step}")
    assert classifier.get_variable_value("dnn/hiddenlayer_1/kernel").shape == (10, 10)
    assert classifier.config.keep_checkpoint_max == 10


def test_adagrad_steps_equal_numpy(tmp_path: Path) -> None:
    classifier = make_classifier(FEATURES, str(tmp_path))
    classifier.train(lambda: eval_input_fn(FEATURES, Y, 50).repeat(), steps=5)
    reader = tf.train.load_checkpoint(str(tmp_path / "model.ckpt-0"))
    names = [n for n in reader.get_variable_to_shape_map() if n.startswith("dense")]
    weights = {n: reader.get_tensor(n).astype(np.float64) for n in names if "Ada" not in n}
    assert len(weights) == 6
    accumulators = {name: np.full(value.shape, 0.1) for name, value in weights.items()}
    # The columns are taken in the order of their names.
    columns = np.stack([FEATURES[name] for name in sorted(NAMES)], axis=1).astype(np.float64)
    for step in range(5):
        rows = np.arange(step * 50, (step + 1) * 50) % 150
        for name, gradient in gradients(weights, columns[rows], Y[rows]).items():
            accumulators[name] += gradient**2
            weights[name] -= 0.1 * gradient / np.sqrt(accumulators[name])
    for name, value in weights.items():
        found = classifier.get_variable_value
        np.testing.assert_allclose(found(name), value, atol=1e-4, err_msg=name)
        np.testing.assert_allclose(found(f"{name}/Adagrad"), accumulators[name], rtol=1e-3)


def gradients(weights: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    layers = ["dense", "dense_1", "dense_2"]
    inputs = [x]
    for layer in layers:
        outputs = inputs[-1] @ weights[f"{layer}/kernel"] + weights[f"{layer}/bias"]
        inputs.append(outputs if layer == layers[-1] else np.maximum(outputs, 0))
    logits = inputs.pop()
    delta = np.exp(logits - logits.max(axis=1, keepdims=True))
    delta /= delta.sum(axis=1, keepdims=True)
    delta[np.arange(len(y)), y] -= 1
    delta /= len(y)
    found = {}
    for layer, given in zip(reversed(layers), reversed(inputs), strict=True):
        found[f"{layer}/kernel"] = given.T @ delta
        found[f"{layer}/bias"] = delta.sum(axis=0)
        delta = (delta @ weights[f"{layer}/kernel"].T) * (given > 0)
    return found
