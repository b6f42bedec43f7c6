"""`est.RNNClassifier` and `est.RNNEstimator` against tf.estimator 2.15 and NumPy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.canned import rnn_cases

FIXTURES = Path(__file__).resolve().parent / "fixtures"
NUMBERS = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, 0.0]], "float32")
LENGTHS = [3, 2]


def numbers_input(labels: Any = None, padded_to: int = 3) -> tf.data.Dataset:
    rows = [(i, t) for i, length in enumerate(LENGTHS) for t in range(length)]
    values = [NUMBERS[place] for place in rows]
    numbers = tf.SparseTensor(np.array(rows, "int64"), values, [2, padded_to])
    features = {"x": numbers, "c": [[1.0], [-2.0]]}
    return tf.data.Dataset.from_tensors(features if labels is None else (features, labels))


def number_columns() -> tuple[list[Any], list[Any]]:
    fc = tf.feature_column
    return [fc.sequence_numeric_column("x")], [fc.numeric_column("c")]


def recurrence(estimator: est.Estimator) -> list[np.ndarray]:
    """Logits at each step, from the weights of a trained simple RNN, in NumPy."""

    def value(name: str) -> np.ndarray:
        return estimator.get_variable_value(f"rnn_model/{name}").astype("float64")

    cell = "rnn/simple_rnn_cell"
    logits = []
    for row, (length, context) in enumerate(zip(LENGTHS, [1.0, -2.0], strict=True)):
        state, steps = np.zeros(3), []
        for t in range(length):
            step = np.array([NUMBERS[row, t], context])
            state = np.tanh(
                step @ value(f"{cell}/kernel")
                + state @ value(f"{cell}/recurrent_kernel")
                + value(f"{cell}/bias")
            )
            steps.append(state @ value("logits/kernel") + value("logits/bias"))
        logits.append(np.array(steps))
    return logits


@pytest.mark.parametrize("name", sorted(rnn_cases.CASES))
def test_a_model_of_the_original_continues(name: str, tmp_path: Path) -> None:
    expected = json.loads((FIXTURES / name / "expected.json").read_text())
    case = rnn_cases.CASES[name]
    model_dir = shutil.copytree(FIXTURES / name, tmp_path / "model")
    sequence, context = rnn_cases.columns()
    estimator = est.RNNClassifier(sequence, context, model_dir=model_dir, **case)

    def once() -> tf.data.Dataset:
        return rnn_cases.input_fn(case)

    def check(said: dict[str, Any]) -> None:
        logits = [row["logits"] for row in estimator.predict(once)]
        np.testing.assert_allclose(logits, said["logits"], rtol=1e-4, atol=1e-5)
        assert estimator.evaluate(once) == pytest.approx(said["metrics"], rel=1e-4)

    check(expected["before"])
    estimator.train(lambda: once().repeat(), steps=rnn_cases.MORE_STEPS)
    check(expected["after"])
    ours = {n for n in estimator.get_variable_names() if "seed_generator" not in n}
    assert ours == set(expected["names"])


@pytest.mark.parametrize("padded_to", [3, 5])
def test_prediction_is_made_after_the_last_step_of_each_sequence(padded_to: int) -> None:
    estimator = est.RNNEstimator(est.RegressionHead(), *number_columns(), units=3)
    estimator.train(lambda: numbers_input([[1.0], [0.0]], padded_to))
    said = [row["predictions"] for row in estimator.predict(lambda: numbers_input(None, padded_to))]
    expected = [steps[-1] for steps in recurrence(estimator)]
    np.testing.assert_allclose(said, expected, rtol=1e-5)


def test_predictions_at_every_step_with_their_mask() -> None:
    head = est.SequentialHeadWrapper(est.RegressionHead(), "mask")
    estimator = est.RNNEstimator(head, *number_columns(), units=[3], return_sequences=True)
    labels = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 99.0]], "float32")
    estimator.train(lambda: numbers_input(labels))
    expected = recurrence(estimator)
    for row, steps, length in zip(
        estimator.predict(lambda: numbers_input()), expected, LENGTHS, strict=True
    ):
        np.testing.assert_allclose(row["predictions"][:length], steps, rtol=1e-5)
        assert row["mask"].tolist() == [t < length for t in range(3)]
    errors = [np.square(steps[:, 0] - labels[i, : len(steps)]) for i, steps in enumerate(expected)]
    loss = estimator.evaluate(lambda: numbers_input(labels))["average_loss"]
    assert loss == pytest.approx(np.concatenate(errors).mean(), rel=1e-5)


def test_cells_may_come_from_a_function() -> None:
    import keras

    estimator = est.RNNClassifier(
        number_columns()[0],
        rnn_cell_fn=lambda: [keras.layers.LSTMCell(2), keras.layers.GRUCell(3)],
        n_classes=3,
    )
    estimator.train(lambda: numbers_input([[1], [2]]))
    rows = list(estimator.predict(lambda: numbers_input()))
    assert [row["probabilities"].shape for row in rows] == [(3,), (3,)]
    assert estimator.get_variable_value("rnn_model/logits/kernel").shape == (3, 3)


def test_an_optimizer_by_name_clips_gradients_and_one_given_does_not() -> None:
    def moved_by(optimizer: Any) -> float:
        columns = [tf.feature_column.sequence_numeric_column("x")]
        estimator = est.RNNEstimator(
            est.RegressionHead(),
            columns,
            units=2,
            optimizer=optimizer,
            config=est.RunConfig(tf_random_seed=1),
        )
        estimator.train(lambda: numbers_input([[1e4], [1e4]]))
        return float(abs(estimator.get_variable_value("rnn_model/logits/bias")[0]))

    assert moved_by("SGD") == pytest.approx(0.05 * 5.0, rel=1e-5)
    assert moved_by(tf.compat.v1.train.GradientDescentOptimizer(0.05)) > 100


def test_export_takes_sequences_as_examples(tmp_path: Path) -> None:
    sequence, context = rnn_cases.columns()
    config = est.RunConfig(tf_random_seed=1)
    estimator = est.RNNClassifier(sequence, context, units=[3], cell_type="lstm", config=config)
    case = rnn_cases.CASES["rnn_lstm"]
    estimator.train(lambda: rnn_cases.input_fn(case))
    spec = tf.feature_column.make_parse_example_spec([*sequence, *context])
    receiver = est.export.build_parsing_serving_input_receiver_fn(spec)
    loaded = tf.saved_model.load(estimator.export_saved_model(tmp_path, receiver).decode())

    def example(words: list[int], age: float, town: str) -> bytes:
        feature = {
            "words": tf.train.Feature(int64_list=tf.train.Int64List(value=words)),
            "age": tf.train.Feature(float_list=tf.train.FloatList(value=[age])),
            "town": tf.train.Feature(bytes_list=tf.train.BytesList(value=[town.encode()])),
        }
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    served = loaded.signatures["predict"](
        examples=tf.constant([example([1, 2, 4, 3], 1.0, "a"), example([3, 5], 2.0, "b")])
    )
    rows = list(estimator.predict(lambda: rnn_cases.input_fn(case)))[:2]
    # Logits may be near 0, where float32 sums of another order differ by more than 1e-5 of them.
    wanted = [r["logits"] for r in rows]
    np.testing.assert_allclose(served["logits"], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"units": 3, "rnn_cell_fn": lambda: None}, "must not be specified when using rnn_cell_fn"),
        ({"units": 3, "cell_type": "grru"}, r"Supported strings are: .*'gru'.*Given: 'grru'"),
        ({}, "units must be the size of the recurrent layer"),
        ({"units": [3], "return_sequences": True}, "head must be a `_SequentialHead`"),
        ({"units": [3], "optimizer": "Adagrat"}, "Unsupported optimizer name: Adagrat"),
    ],
)
def test_unusable_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        est.RNNEstimator(est.RegressionHead(), number_columns()[0], **arguments).train(
            lambda: numbers_input([[1.0], [0.0]])
        )
