"""Forests: trained by ydf, evaluated by TensorFlow; ydf's own predictions are the oracle."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est

ydf = pytest.importorskip("ydf", reason="forests need ydf: pip install 'estimand[forests]'")

RNG = np.random.default_rng(5)
ROWS = 400
TABLE = {
    "age": RNG.normal(size=ROWS).astype("float32"),
    "town": RNG.choice(["Bern", "Rome", "Oslo", "Bonn", ""], ROWS),
    "pair": RNG.normal(size=(ROWS, 2)).astype("float32"),
    "member": RNG.random(ROWS) > 0.5,
}
TABLE["age"][::17] = np.nan
AGE = np.nan_to_num(TABLE["age"])
NUMBER = (AGE + 2 * (TABLE["town"] == "Rome") + TABLE["pair"][:, 0] + TABLE["member"]).astype("f")
THREE = np.digitize(NUMBER, [0.5, 1.5])
FEW_TREES = {"num_trees": 12, "max_depth": 5}


def data(labels: Any, rows: slice = slice(None)) -> tf.data.Dataset:
    features = {name: values[rows] for name, values in TABLE.items()}
    return tf.data.Dataset.from_tensor_slices((features, labels[rows])).batch(64)


def as_ydf_sees_it() -> dict[str, np.ndarray]:
    """The columns by the names of the trained models: sorted by name of the feature."""
    columns = [
        TABLE["age"],
        TABLE["member"].astype("float32"),
        TABLE["pair"][:, 0],
        TABLE["pair"][:, 1],
        TABLE["town"],
    ]
    return {f"column_{i}": values for i, values in enumerate(columns)}


def said(estimator: est.Estimator, labels: Any, key: str) -> np.ndarray:
    return np.array([row[key] for row in estimator.predict(lambda: data(labels))])


@pytest.mark.parametrize("kind", ["RandomForest", "GradientBoostedTrees"])
def test_two_classes_have_the_probabilities_of_ydf(kind: str) -> None:
    labels = (NUMBER > 1).astype(int)
    forest = getattr(est, f"{kind}Classifier")(hyperparameters=FEW_TREES)
    forest.train(lambda: data(labels))
    expected = forest.ydf_model().predict(as_ydf_sees_it())
    np.testing.assert_allclose(
        said(forest, labels, "probabilities")[:, 1], expected, rtol=1e-4, atol=1e-5
    )
    metrics = forest.evaluate(lambda: data(labels))
    assert metrics["accuracy"] == pytest.approx(np.mean((expected > 0.5) == labels), abs=0.01)
    assert metrics["global_step"] == 7  # batches read


@pytest.mark.parametrize("kind", ["RandomForest", "GradientBoostedTrees"])
def test_three_classes_have_the_probabilities_of_ydf(kind: str) -> None:
    forest = getattr(est, f"{kind}Classifier")(n_classes=4, hyperparameters=FEW_TREES)
    forest.train(lambda: data(THREE))  # the fourth class never comes
    model = forest.ydf_model()
    expected = np.zeros([ROWS, 4])
    expected[:, [int(name) for name in model.label_classes()]] = model.predict(as_ydf_sees_it())
    np.testing.assert_allclose(said(forest, THREE, "probabilities"), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["RandomForest", "GradientBoostedTrees"])
def test_numbers_are_those_of_ydf(kind: str) -> None:
    forest = getattr(est, f"{kind}Regressor")(hyperparameters=FEW_TREES)
    forest.train(lambda: data(NUMBER))
    expected = forest.ydf_model().predict(as_ydf_sees_it())
    np.testing.assert_allclose(
        said(forest, NUMBER, "predictions")[:, 0], expected, rtol=1e-4, atol=1e-5
    )
    loss = forest.evaluate(lambda: data(NUMBER))["average_loss"]
    assert loss == pytest.approx(np.mean(np.square(expected - NUMBER)), rel=1e-3)


def test_trees_may_give_probabilities_instead_of_votes() -> None:
    labels = (NUMBER > 1).astype(int)
    forest = est.RandomForestClassifier(
        hyperparameters={**FEW_TREES, "max_depth": 2, "winner_take_all": False}
    )
    forest.train(lambda: data(labels))
    expected = forest.ydf_model().predict(as_ydf_sees_it())
    assert len(np.unique(expected.round(4))) > 13  # more than 12 votes can give
    np.testing.assert_allclose(said(forest, labels, "probabilities")[:, 1], expected, atol=1e-5)


def test_questions_whether_a_value_is_missing() -> None:
    labels = np.isnan(TABLE["age"]).astype(int)
    forest = est.GradientBoostedTreesClassifier(
        features=["age"], hyperparameters={**FEW_TREES, "allow_na_conditions": True}
    )
    forest.train(lambda: data(labels))
    expected = forest.ydf_model().predict({"column_0": TABLE["age"]})
    np.testing.assert_allclose(said(forest, labels, "probabilities")[:, 1], expected, atol=1e-5)
    assert forest.evaluate(lambda: data(labels))["accuracy"] == 1.0


def test_words_never_seen_are_answered_as_ydf_does() -> None:
    forest = est.GradientBoostedTreesRegressor(features=["town"], hyperparameters=FEW_TREES)
    forest.train(lambda: data(NUMBER))
    towns = np.array(["Rome", "Paris", "", "Oslo"])
    expected = forest.ydf_model().predict({"column_0": towns})
    rows = forest.predict(lambda: tf.data.Dataset.from_tensors({"town": towns}))
    np.testing.assert_allclose([row["predictions"][0] for row in rows], expected, rtol=1e-4)


def test_weights_count_in_training() -> None:
    labels = np.zeros(100, int)
    labels[::2] = 1
    weight = np.where(labels == 1, 9.0, 1.0).astype("float32")
    features = {"x": np.zeros(100, "float32"), "weight": weight}
    forest = est.RandomForestClassifier(
        weight_column="weight", hyperparameters={"num_trees": 3, "winner_take_all": False}
    )
    forest.train(lambda: tf.data.Dataset.from_tensors((features, labels)))
    [row] = forest.predict(lambda: tf.data.Dataset.from_tensors({"x": [0.0]}))
    assert row["probabilities"][1] == pytest.approx(0.9, abs=0.05)


def test_classes_may_have_names() -> None:
    words = np.where(NUMBER > 1, "large", "small")
    forest = est.GradientBoostedTreesClassifier(
        label_vocabulary=["small", "large"], hyperparameters=FEW_TREES
    )
    forest.train(lambda: data(words))
    right = said(forest, words, "classes")[:, 0] == np.char.encode(words)
    assert right.mean() > 0.9


def test_another_process_needs_no_ydf_to_predict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = est.GradientBoostedTreesRegressor(tmp_path, hyperparameters=FEW_TREES)
    expected = said(trained.train(lambda: data(NUMBER)), NUMBER, "predictions")
    monkeypatch.setitem(sys.modules, "ydf", None)
    again = est.GradientBoostedTreesRegressor(tmp_path)
    np.testing.assert_array_equal(said(again, NUMBER, "predictions"), expected)
    with pytest.raises(ImportError, match=r"pip install 'estimand\[forests\]'"):
        again.train(lambda: data(NUMBER))


def test_export_answers_as_predict_does(tmp_path: Path) -> None:
    forest = est.GradientBoostedTreesRegressor(hyperparameters=FEW_TREES)
    forest.train(lambda: data(NUMBER))
    receiver = est.export.build_raw_serving_input_receiver_fn(
        {name: tf.constant(values[:1]) for name, values in TABLE.items()}
    )
    loaded = tf.saved_model.load(forest.export_saved_model(tmp_path, receiver).decode())
    fed = {name: tf.constant(values) for name, values in TABLE.items()}
    served = loaded.signatures["predict"](**fed)["predictions"]
    np.testing.assert_allclose(served, said(forest, NUMBER, "predictions"), rtol=1e-6)


def test_max_steps_reached_means_that_nothing_is_done(tmp_path: Path) -> None:
    forest = est.RandomForestRegressor(tmp_path, hyperparameters=FEW_TREES)
    forest.train(lambda: data(NUMBER), max_steps=3)
    first = os.stat(f"{forest.latest_checkpoint()}.index").st_mtime_ns
    assert forest.get_variable_value("global_step") == 3
    forest.train(lambda: data(NUMBER), max_steps=3)
    assert os.stat(f"{forest.latest_checkpoint()}.index").st_mtime_ns == first


def test_training_again_replaces_the_forest() -> None:
    forest = est.RandomForestRegressor(hyperparameters=FEW_TREES)
    forest.train(lambda: data(NUMBER))
    forest.evaluate(lambda: data(NUMBER))
    forest.train(lambda: data(NUMBER * 0 + 5))
    np.testing.assert_allclose(said(forest, NUMBER, "predictions"), 5.0, rtol=1e-5)
    assert forest.get_variable_value("global_step") == 14


def test_train_and_evaluate_with_an_exporter(tmp_path: Path) -> None:
    forest = est.GradientBoostedTreesRegressor(tmp_path, hyperparameters=FEW_TREES)
    receiver = est.export.build_raw_serving_input_receiver_fn(
        {name: tf.constant(values[:1]) for name, values in TABLE.items()}
    )
    metrics, exports = est.train_and_evaluate(
        forest,
        est.TrainSpec(lambda: data(NUMBER), max_steps=7),
        est.EvalSpec(lambda: data(NUMBER), exporters=est.FinalExporter("final", receiver)),
    )
    assert metrics["average_loss"] < np.var(NUMBER)
    assert os.path.isdir(exports[0])


def test_input_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match=r"never ends. Leave out repeat\(\), or give steps="):
        est.RandomForestRegressor().train(lambda: data(NUMBER).repeat())


def test_unknown_hyperparameter_names_the_learner() -> None:
    forest = est.RandomForestRegressor(hyperparameters={"trees": 3})
    with pytest.raises(ValueError, match=r"those of ydf.RandomForestLearner; given: {'trees': 3}"):
        forest.train(lambda: data(NUMBER))


def test_missing_feature_is_named() -> None:
    with pytest.raises(ValueError, match=r"there is no feature 'heigth'. input_fn gives: .*'age'"):
        est.RandomForestRegressor(features=["heigth"]).train(lambda: data(NUMBER))


def test_questions_that_tensorflow_cannot_ask_are_refused() -> None:
    forest = est.GradientBoostedTreesRegressor(
        features=["pair"], hyperparameters={**FEW_TREES, "split_axis": "SPARSE_OBLIQUE"}
    )
    with pytest.raises(est.errors.EstimandError, match="NumericalSparseObliqueCondition"):
        forest.train(lambda: data(NUMBER))
