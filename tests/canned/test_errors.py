"""What canned models say when they are given what they cannot use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.canned import cases

C = cases.columns()
CASE = cases.Case(lambda use, c, more: None)
ABSENT = tf.feature_column.numeric_column("absent")


def train(estimator: est.Estimator) -> None:
    estimator.train(CASE.input_fn, steps=1)


@pytest.mark.parametrize(
    "estimator",
    [
        est.LinearClassifier([C.x]),
        est.DNNClassifier([3], [C.x]),
        est.DNNLinearCombinedClassifier(linear_feature_columns=[C.x]),
    ],
)
def test_features_that_are_no_dictionary(estimator: est.Estimator) -> None:
    def input_fn() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices((np.ones([4, 2], "f4"), [0, 1, 0, 1])).batch(2)

    message = "features should be a dictionary of `Tensor`s. Given type"
    with pytest.raises(ValueError, match=message):
        estimator.train(input_fn)


@pytest.mark.parametrize(
    "estimator",
    [
        est.LinearClassifier([ABSENT]),
        est.DNNClassifier([3], [ABSENT]),
        est.DNNLinearCombinedClassifier(linear_feature_columns=[C.x, ABSENT]),
    ],
)
def test_column_without_its_feature(estimator: est.Estimator) -> None:
    with pytest.raises(ValueError, match="Feature absent is not in features dictionary"):
        train(estimator)


@pytest.mark.parametrize("estimator", [est.LinearClassifier([]), est.DNNClassifier([3], None)])
def test_no_columns(estimator: est.Estimator) -> None:
    with pytest.raises(ValueError, match="feature_columns must not be empty"):
        train(estimator)


def test_categorical_column_in_a_deep_model() -> None:
    with pytest.raises(ValueError, match="embedding_column or indicator_column"):
        train(est.DNNClassifier([3], [C.word]))


@pytest.mark.parametrize("columns", [["x"], "x", [C.x, "x"]])
def test_names_instead_of_columns(columns: Any) -> None:
    with pytest.raises(ValueError, match="feature_columns") as told:
        train(est.LinearClassifier(columns))
    assert str(told.value) == (
        "feature_columns must be a list of feature columns. Given: the string 'x'. Make a column "
        "of it: est.feature_column.numeric_column('x') for numbers, "
        "est.feature_column.categorical_column_with_vocabulary_list('x', [...]) for words."
    )


@pytest.mark.parametrize("units", [[4], 4])
def test_units_in_the_place_of_columns(units: Any) -> None:
    with pytest.raises(ValueError, match="feature_columns") as told:
        train(est.DNNClassifier([C.x], units))
    assert str(told.value) == (
        "feature_columns must be a list of feature columns. Given: the number 4. If it is the "
        "size of a hidden layer, say which is which: hidden_units=[4], feature_columns=[...]."
    )


@pytest.mark.parametrize("units", [10, None, ["a"], [0], [-3, 4], [2.5]])
def test_hidden_units(units: Any) -> None:
    with pytest.raises(ValueError, match=r"hidden_units must be .* such as \[64, 32\]\. Given"):
        train(est.DNNClassifier(units, [C.x]))


def test_sparse_combiner() -> None:
    message = "sparse_combiner must be 'sum', 'mean' or 'sqrtn'. Given: 'max'"
    with pytest.raises(ValueError, match=message):
        est.LinearClassifier([C.word], sparse_combiner="max")
    with pytest.raises(ValueError, match=message):
        est.DNNLinearCombinedClassifier(
            linear_feature_columns=[C.word], linear_sparse_combiner="max"
        )


@pytest.mark.parametrize("head", ["regression", None, est.RegressionHead])
def test_what_is_no_head(head: Any) -> None:
    with pytest.raises(ValueError, match="head must be a head, such as"):
        est.DNNEstimator(head, [3], [C.x])
    with pytest.raises(ValueError, match="head must be a head, such as"):
        est.BaselineEstimator(head)


def test_wide_deep_without_parts() -> None:
    message = "Either linear_feature_columns or dnn_feature_columns must be defined"
    with pytest.raises(ValueError, match=message):
        est.DNNLinearCombinedClassifier()
    with pytest.raises(ValueError, match=message):
        est.compat.v1.DNNLinearCombinedRegressor()


def test_wide_deep_without_hidden_units() -> None:
    message = "dnn_hidden_units must be defined when dnn_feature_columns is specified"
    with pytest.raises(ValueError, match=message):
        train(est.DNNLinearCombinedClassifier(dnn_feature_columns=[C.x]))


def test_too_few_classes() -> None:
    with pytest.raises(ValueError, match="n_classes must be 2 or more, given: 1"):
        est.LinearClassifier([C.x], n_classes=1)


def test_label_dimension() -> None:
    with pytest.raises(ValueError, match="Invalid label_dimension 0"):
        est.DNNRegressor([3], [C.x], label_dimension=0)


def test_weight_column_of_a_wrong_type() -> None:
    with pytest.raises(TypeError, match="Weight column must be either a string or"):
        train(est.BaselineClassifier(weight_column=3))


def test_missing_weights() -> None:
    with pytest.raises((KeyError, ValueError), match="importance"):
        train(est.LinearClassifier([C.x], weight_column="importance"))


def test_several_optimizers_do_not_go_with_sync_replicas() -> None:
    optimizer = tf.compat.v1.train.SyncReplicasOptimizer(
        tf.compat.v1.train.GradientDescentOptimizer(0.1), 1
    )
    estimator = est.DNNLinearCombinedClassifier(
        linear_feature_columns=[C.x], linear_optimizer=lambda: optimizer
    )
    with pytest.raises(ValueError, match="SyncReplicasOptimizer does not support multi"):
        train(estimator)


def test_optimizer_of_another_kind_than_the_checkpoints(tmp_path: Any) -> None:
    train(est.LinearClassifier([C.x], model_dir=tmp_path))
    other = est.LinearClassifier([C.x], model_dir=tmp_path, optimizer="SGD")
    with pytest.raises(ValueError, match="Key training/SGD/learning_rate not found in checkpoint"):
        train(other)


def test_sizes_of_layers_may_be_text(tmp_path: Any) -> None:
    """`hidden_units=flags.hidden_units.split(" ")`, as programs of the time have it."""
    estimator = est.DNNClassifier(["3", "2"], [C.x], str(tmp_path))
    train(estimator)
    assert estimator.get_variable_value("dnn/hiddenlayer_1/kernel").shape == (3, 2)
