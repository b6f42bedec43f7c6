"""More mistakes of newcomers: labels, layers, columns, inputs, exports; and what is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.estimator.test_messages import COLUMNS, LABELS, ROWS, fc, message, train
from tests.line import config


def with_labels(labels: np.ndarray) -> Callable[[], tf.data.Dataset]:
    return lambda: tf.data.Dataset.from_tensor_slices(({"x": ROWS}, labels)).batch(32)


def sparse_loss(features, labels, mode):
    logits = keras.layers.Dense(2)(features["x"])
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    return est.EstimatorSpec(mode, None, loss, est.minimize(keras.optimizers.SGD(), loss))


# Labels


def test_labels_of_a_sparse_loss_are_a_column(tmp_path: Path) -> None:
    assert message(lambda: train(sparse_loss, tmp_path, with_labels(LABELS[:, None]))) == (
        "sparse_loss (test_more_messages.py, line N): labels are Tensor int64 (None, 1), but a "
        "sparse loss takes the number of a class for each row, int64 (None,). Write labels = "
        "tf.squeeze(labels, axis=-1), or use a loss that is not sparse."
    )


def test_labels_of_a_sparse_loss_are_floats(tmp_path: Path) -> None:
    assert message(lambda: train(sparse_loss, tmp_path, with_labels(LABELS.astype("float32")))) == (
        "sparse_loss (test_more_messages.py, line N): labels are Tensor float32 (None,), but a "
        "sparse loss takes the number of a class for each row, int64 (None,). Write labels = "
        "tf.cast(labels, tf.int64), or use a loss that is not sparse."
    )


def test_the_last_layer_has_too_few_units(tmp_path: Path) -> None:
    assert message(lambda: train(sparse_loss, tmp_path, with_labels(LABELS + 4))).startswith(
        "Received a label value of 5 which is outside the valid range of [0, 2): the logits have "
        "2 values per row, so 2 classes can be told apart. Let the last layer have as many units "
        "as there are classes, keras.layers.Dense(n_classes), and count classes from 0."
    )


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_input_fn_gives_no_labels(tmp_path: Path, mode: str) -> None:
    def features_alone():
        return tf.data.Dataset.from_tensor_slices({"x": ROWS}).batch(32)

    model = est.Estimator(sparse_loss, str(tmp_path), config())
    run = model.train if mode == "train" else model.evaluate
    assert message(lambda: run(features_alone, steps=1)) == (
        f"sparse_loss (test_more_messages.py, line N) failed in {mode.upper()} mode, and labels is "
        "None: input_fn gives features alone. Let it return (features, labels), or a Dataset of "
        "such pairs."
    )


# Model functions


def test_numpy_is_given_a_tensor(tmp_path: Path) -> None:
    def model_fn(features, labels, mode):
        return np.dot(features["x"], np.ones((4, 2)))

    assert message(lambda: train(model_fn, tmp_path)) == (
        "model_fn (test_more_messages.py, line N) gives a tensor to NumPy, but while a model "
        "function is traced, tensors have no values yet. Use TensorFlow functions (tf.where, "
        "tf.cond, tf.print), or run it step by step: est.RunConfig(run_eagerly=True)."
    )


def test_a_layer_is_given_all_features(tmp_path: Path) -> None:
    def model_fn(features, labels, mode):
        return keras.layers.Dense(2)(features)

    assert message(lambda: train(model_fn, tmp_path)) == (
        "model_fn (test_more_messages.py, line N): a Keras layer takes one tensor, and features is "
        "a dict of several: 'x', 'age'. Give it one of them, features['x'], or join them: "
        "keras.layers.Concatenate()([...])."
    )


def test_a_model_function_lets_keras_train(tmp_path: Path) -> None:
    def model_fn(features, labels, mode):
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
        model.compile("adam", "mse")
        return model.fit(features["x"], labels)

    assert message(lambda: train(model_fn, tmp_path)) == (
        "model_fn (test_more_messages.py, line N) calls fit() of a Keras model. In a model "
        "function the estimator runs the steps: call the model itself, model(features['x']), and "
        "return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss)). A "
        "compiled model needs no model function: est.keras.model_to_estimator(model)."
    )


def test_the_optimizer_is_given_as_train_op(tmp_path: Path) -> None:
    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(keras.layers.Dense(1)(features["x"]))
        return est.EstimatorSpec(mode, loss=loss, train_op=keras.optimizers.SGD())

    assert message(lambda: train(model_fn, tmp_path)).endswith(
        ". Write train_op=est.minimize(optimizer, loss)."
    )


# Inputs


def test_a_generator_is_given_in_the_place_of_its_function(tmp_path: Path) -> None:
    def rows():
        yield {"x": ROWS}, LABELS

    model = est.LinearClassifier(COLUMNS, str(tmp_path), config=config())
    assert message(lambda: model.train(rows())) == (
        "input_fn must be callable, given: the generator of rows, which can be gone through once. "
        "Pass the function that makes it, without ()."
    )


def test_a_table_is_given_in_the_place_of_an_input_function(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"age": [1.0, 2.0], "label": [0, 1]})
    model = est.LinearClassifier(COLUMNS, str(tmp_path), config=config())
    assert message(lambda: model.train(table)) == (
        "input_fn must be callable, given: a DataFrame with the columns 'age', 'label'. Write "
        "est.inputs.table_input_fn(table, label_name=...), which makes an input_fn of it."
    )


def test_a_dataset_is_given_in_the_place_of_its_function(tmp_path: Path) -> None:
    dataset = with_labels(LABELS)()
    model = est.LinearClassifier(COLUMNS, str(tmp_path), config=config())
    assert message(lambda: model.train(dataset)) == (
        "input_fn must be callable, given: a Dataset (_BatchDataset). Pass the function that makes "
        "it, without (); or write one: `lambda: make_dataset(...)`."
    )
    assert message(lambda: est.TrainSpec(dataset)) == (
        "`input_fn` must be callable, given: a Dataset (_BatchDataset). Pass the function itself, "
        "or lambda: make_dataset(...)."
    )


def test_nobody_said_which_column_is_the_label(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,rich\n31,0\n47,1\n")
    model = est.LinearClassifier([fc.numeric_column("age")], str(tmp_path), config=config())
    told = message(lambda: model.train(est.inputs.csv_input_fn(tmp_path / "t.csv"), steps=1))
    assert told.endswith("is told which column is the label: label_name='...'.")


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_a_file_is_separated_by_something_else(tmp_path: Path, delimiter: str) -> None:
    (tmp_path / "t.csv").write_text("age,rich\n31,0\n47,1\n".replace(",", delimiter))
    read = est.inputs.csv_input_fn(tmp_path / "t.csv", label_name="rich")
    assert message(lambda: read(mode="train")) == (
        f"csv_input_fn: the data has one column, {f'age{delimiter}rich'!r}. If its fields are "
        f"separated by {delimiter!r}, say field_delim={delimiter!r}."
    )


# What train_and_evaluate, predict and exports are given


def test_an_exporter_is_given_by_its_name() -> None:
    assert message(lambda: est.EvalSpec(with_labels(LABELS), exporters="best")) == (
        "`exporters` must be an Exporter, an iterable of Exporter, or `None`, found 'best'. Write "
        "est.BestExporter('best')."
    )


def test_the_specs_are_swapped(tmp_path: Path) -> None:
    model = est.LinearClassifier(COLUMNS, str(tmp_path), config=config())
    train_spec, eval_spec = est.TrainSpec(with_labels(LABELS)), est.EvalSpec(with_labels(LABELS))
    assert message(lambda: est.train_and_evaluate(model, eval_spec, train_spec)) == (
        "`train_spec` must have type `tf.estimator.TrainSpec`. Got: <class "
        "'estimand.core.spec.EvalSpec'>. The TrainSpec comes first: train_and_evaluate(estimator, "
        "train_spec, eval_spec)."
    )


def test_one_key_of_the_predictions_is_misspelt(tmp_path: Path) -> None:
    model = est.LinearClassifier(
        [fc.numeric_column("x", shape=ROWS.shape[1])], str(tmp_path), config=config()
    )
    model.train(with_labels(LABELS), steps=1)
    rows = model.predict(with_labels(LABELS), predict_keys="probability")
    assert message(lambda: next(rows)).endswith(
        "provided probability. Did you mean 'probabilities'?"
    )


def test_an_input_function_is_given_in_the_place_of_a_receiver(tmp_path: Path) -> None:
    model = est.LinearClassifier(
        [fc.numeric_column("x", shape=ROWS.shape[1])], str(tmp_path), config=config()
    )
    model.train(with_labels(LABELS), steps=1)
    assert message(lambda: model.export_saved_model(tmp_path / "out", with_labels(LABELS))) == (
        "The input_receiver_fn of mode 'infer' must return an est.export.ServingInputReceiver, but "
        "returned a Dataset, as an input_fn does. Make a receiver of it: "
        "est.export.build_serving_input_receiver_fn_from_input_fn(input_fn)."
    )


# Columns


def test_a_numeric_column_reads_words(tmp_path: Path) -> None:
    column = fc.numeric_column("plan")
    assert message(lambda: fc.input_layer({"plan": tf.constant(["a", "b"])}, [column])) == (
        "Column 'plan' reads the feature 'plan', which is string (2,); it takes numbers. Convert "
        "it in input_fn, tf.strings.to_number, or take a categorical column for words."
    )


def test_a_vocabulary_of_words_reads_numbers() -> None:
    column = fc.categorical_column_with_vocabulary_list("plan", ["1", "2"])
    features = {"plan": tf.constant([1, 2])}
    assert message(lambda: fc.input_layer(features, [fc.indicator_column(column)])).endswith(
        "Give numbers as the vocabulary, or convert it in input_fn: tf.strings.as_string."
    )


def test_a_hashed_column_of_numbers_reads_words() -> None:
    column = fc.categorical_column_with_hash_bucket("plan", 3, tf.int64)
    features = {"plan": tf.constant(["1", "2"])}
    assert message(lambda: fc.input_layer(features, [fc.indicator_column(column)])).endswith(
        "Convert it in input_fn: tf.strings.to_number(feature, tf.int64)."
    )


@pytest.mark.parametrize("kind", ["", "sequence_"])
def test_there_is_no_vocabulary_file(kind: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    make = getattr(fc, f"{kind}categorical_column_with_vocabulary_file")
    assert message(lambda: make("plan", "data/plans.txt")) == (
        "vocabulary_file in plan does not exist: 'data/plans.txt'. Give the path of a text file "
        f"with one word per line; the program runs in {str(tmp_path)!r}."
    )


# Exports


def test_columns_are_given_in_the_place_of_parsers() -> None:
    build: Any = est.export.build_parsing_serving_input_receiver_fn
    assert message(lambda: build([fc.numeric_column("age")])).endswith(
        ". For feature columns, write est.feature_column.make_parse_example_spec(columns)."
    )


def test_a_model_dir_is_loaded(tmp_path: Path) -> None:
    for version in ("export/best/1", "export/final/2"):
        (tmp_path / version).mkdir(parents=True)
    (tmp_path / "checkpoint").touch()
    best, final = (str(tmp_path / "export" / name) for name in ("best", "final"))
    assert message(lambda: est.load_model(tmp_path)) == (
        f"{str(tmp_path)!r} is no exported model, but a model_dir. Give {best!r} or {final!r}."
    )
