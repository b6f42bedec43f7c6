"""The table about the first batch."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.core import expectations
from estimand.estimator.training import data_checks

ROWS = 32


def good_features():
    random = np.random.default_rng(0)
    return {"x": random.normal(size=(ROWS, 2)).astype("float32"), "n": np.arange(ROWS)}


def good_labels():
    return (np.arange(ROWS) % 3)[:, None]


def findings(features=None, labels=None, graph=None):
    as_tensors = tf.nest.map_structure(tf.constant, (features or good_features(),))[0]
    labels = tf.constant(good_labels() if labels is None else labels)
    return data_checks.findings(graph or tf.Graph(), as_tensors, labels)


def test_good_data_gives_no_finding():
    assert findings() == []


def test_nan_is_counted_and_its_first_row_named():
    features = good_features()
    features["x"][5, 1] = np.nan
    features["x"][7, 0] = np.inf
    (found,) = findings(features)
    assert found.where == "feature 'x'"
    assert found.problem == "2 of 64 values are NaN or infinite"
    assert found.example.startswith("row 5: ")


@pytest.mark.parametrize("values", [np.full(ROWS, 3), np.full(ROWS, "same")])
def test_a_constant_feature_is_named_with_its_value(values):
    (found,) = findings({**good_features(), "c": values})
    assert found.where == "feature 'c'"
    assert found.problem == f"the same in all {ROWS} rows"


def test_a_constant_label_is_no_finding():
    assert findings(labels=np.zeros(ROWS, "int64")) == []


def test_parts_of_different_length_are_listed():
    (found,) = findings(labels=np.arange(5))
    assert "different numbers of rows" in found.problem
    assert "label: 5" in found.example


def test_labels_outside_of_what_the_head_takes():
    graph = tf.Graph()
    with graph.as_default():
        expectations.expect_labels(0, 1)
    (found,) = findings(graph=graph)
    assert found == ("label", "10 of 32 labels are outside of 0 to 1", "2")


def test_a_column_whose_words_are_all_unknown():
    graph = tf.Graph()
    column = tf.feature_column.categorical_column_with_vocabulary_list("w", ["a", "b"])
    with graph.as_default():
        expectations.expect_columns([column])
    words = np.array([f"x{i}" for i in range(ROWS)])
    (found,) = findings({**good_features(), "w": words}, graph=graph)
    assert found.where == "column 'w'"
    assert "not in the vocabulary" in found.problem


def model_fn(features, labels, mode):
    w = tf.compat.v1.get_variable("w", [2, 1])
    loss = tf.reduce_mean(tf.square(features["x"] @ w - tf.cast(labels, tf.float32)))
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.01)
    return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss))


def nan_input_fn():
    features = good_features()
    features["x"][5, 1] = np.nan
    return tf.data.Dataset.from_tensor_slices((features, good_labels())).batch(ROWS).repeat()


def test_training_shows_the_table_before_it_fails_with_nan(tmp_path, caplog):
    with pytest.raises(est.NanLossDuringTrainingError), caplog.at_level(logging.WARNING):
        est.Estimator(model_fn, tmp_path).train(nan_input_fn, steps=3)
    [table] = [one for one in caplog.records if "likely not meant" in one.message]
    assert table.name == "estimand"
    assert "feature 'x'  1 of 64 values are NaN or infinite" in table.message


def test_the_check_can_be_left_out(tmp_path, caplog):
    config = est.RunConfig(check_data=False)
    with pytest.raises(est.NanLossDuringTrainingError), caplog.at_level(logging.WARNING):
        est.Estimator(model_fn, tmp_path, config).train(nan_input_fn, steps=3)
    assert "likely not meant" not in caplog.text


def test_a_second_call_does_not_repeat_the_table(tmp_path, caplog):
    def constant_input_fn():
        features = {**good_features(), "n": np.ones(ROWS)}
        return tf.data.Dataset.from_tensor_slices((features, good_labels())).batch(ROWS).repeat()

    estimator = est.Estimator(model_fn, tmp_path)
    estimator.train(constant_input_fn, steps=1)
    assert caplog.text.count("the same in all 32 rows") == 1
    estimator.train(constant_input_fn, steps=1)
    assert caplog.text.count("the same in all 32 rows") == 1


def test_a_canned_model_tells_of_unknown_words_and_labels(tmp_path, caplog):
    word = est.feature_column.categorical_column_with_vocabulary_list("w", ["a", "b"])
    columns = [est.feature_column.numeric_column("n"), est.feature_column.indicator_column(word)]

    def input_fn():
        features = {"n": np.arange(ROWS), "w": np.array([f"x{i}" for i in range(ROWS)])}
        return tf.data.Dataset.from_tensor_slices((features, np.arange(ROWS) % 4)).batch(ROWS)

    estimator = est.DNNClassifier([2], columns, tmp_path, n_classes=3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Labels must be <= n_classes - 1"):
        estimator.train(input_fn, steps=1)
    assert "column 'w'" in caplog.text
    assert "8 of 32 labels are outside of 0 to 2" in caplog.text
