"""A checkpoint written by tf.estimator 2.15 goes on here with the numbers it had there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import estimand as est
from tests.legacy.v1_view import tf

BATCH = 50


def columns() -> list[Any]:
    column = tf.feature_column
    age = column.numeric_column("age")
    hours = column.numeric_column("hours", normalizer_fn=lambda x: (x - 40.0) / 10.0)
    occupation = column.categorical_column_with_hash_bucket("occ", 50)
    education = column.categorical_column_with_vocabulary_list(
        "edu", ["hs", "bachelors", "masters"], num_oov_buckets=1
    )
    return [
        hours,
        column.embedding_column(occupation, 4),
        column.indicator_column(education),
        column.bucketized_column(age, [25, 35, 45, 60]),
    ]


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    training = mode == tf.estimator.ModeKeys.TRAIN
    net = tf.feature_column.input_layer(features, columns())
    net = tf.layers.dense(net, 12, tf.nn.relu, name="hidden")
    net = tf.layers.batch_normalization(net, training=training, name="bn")
    logits = tf.layers.dense(net, 3, name="logits")
    predictions = {"class": tf.argmax(logits, 1), "prob": tf.nn.softmax(logits)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    metrics = {"accuracy": tf.metrics.accuracy(labels, predictions["class"])}
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        optimizer = tf.train.AdamOptimizer(0.01)
        train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops=metrics, predictions=predictions
    )


class Fixture:
    """The files of one case, its model_dir copied so that nothing there is changed."""

    def __init__(self, folder: Path, copy: Path) -> None:
        self.model_dir = str(copy / "model_dir")
        shutil.copytree(folder / "model_dir", self.model_dir)
        self.expected = json.loads((folder / "expected.json").read_text())
        self.predictions = np.load(folder / "predictions.npz")
        data = np.load(folder / "data.npz", allow_pickle=True)
        self.label = data["label"]
        self.features = {name: data[name] for name in data.files if name != "label"}

    def dataset(self) -> Any:
        features = {
            name: value.astype(str) if value.dtype.kind in "OSU" else value
            for name, value in self.features.items()
        }
        return tf.data.Dataset.from_tensor_slices((features, self.label))

    def train_input_fn(self) -> Any:
        return self.dataset().repeat().batch(BATCH)

    def eval_input_fn(self) -> Any:
        return self.dataset().batch(BATCH)


@pytest.fixture(scope="module")
def case(upstream_model_dirs: Path, tmp_path_factory: pytest.TempPathFactory) -> Fixture:
    return Fixture(upstream_model_dirs / "custom_v1", tmp_path_factory.mktemp("custom_v1"))


@pytest.fixture(scope="module")
def estimator(case: Fixture) -> Any:
    config = est.RunConfig(tf_random_seed=1, progress=False)
    return tf.estimator.Estimator(model_fn, case.model_dir, config)


@pytest.fixture(scope="module")
def at_step_120(case: Fixture, estimator: Any) -> dict[str, Any]:
    """Metrics and predictions, taken before any test trains further."""
    rows = list(estimator.predict(case.eval_input_fn))
    found = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    return {"metrics": estimator.evaluate(case.eval_input_fn), "predictions": found}


def test_variables_are_the_same(case: Fixture, estimator: Any, at_step_120: Any) -> None:
    assert sorted(estimator.get_variable_names()) == sorted(case.expected["variables"])


def test_metrics_at_step_120(case: Fixture, at_step_120: dict[str, Any]) -> None:
    assert at_step_120["metrics"] == pytest.approx(case.expected["evaluate"], abs=1e-4)


def test_predictions_at_step_120(case: Fixture, at_step_120: dict[str, Any]) -> None:
    found = at_step_120["predictions"]
    assert sorted(found) == sorted(case.expected["prediction_keys"])
    for key in case.predictions.files:
        np.testing.assert_allclose(found[key], case.predictions[key], atol=1e-3, err_msg=key)
    assert len(case.predictions.files) >= 1


def test_metrics_after_eighty_more_steps(
    case: Fixture, estimator: Any, at_step_120: dict[str, Any]
) -> None:
    """The slots of Adam and the moving averages go on too, or these numbers would differ."""
    estimator.train(case.train_input_fn, steps=case.expected["more_steps"])
    found = estimator.evaluate(case.eval_input_fn)
    assert found == pytest.approx(case.expected["evaluate_after_more"], rel=1e-3)
    assert found["global_step"] == 200


def test_model_dir_given_back_is_still_readable_by_name(case: Fixture, estimator: Any) -> None:
    shapes = {
        name: list(estimator.get_variable_value(name).shape)
        for name in estimator.get_variable_names()
    }
    assert shapes == case.expected["variables"]


def test_the_same_in_an_eager_run(upstream_model_dirs: Path, tmp_path: Path) -> None:
    case = Fixture(upstream_model_dirs / "custom_v1", tmp_path)
    config = est.RunConfig(progress=False, run_eagerly=True)
    estimator = tf.estimator.Estimator(model_fn, case.model_dir, config)
    found = estimator.evaluate(case.eval_input_fn)
    assert found == pytest.approx(case.expected["evaluate"], abs=1e-4)
    estimator.train(case.train_input_fn, steps=case.expected["more_steps"])
    found = estimator.evaluate(case.eval_input_fn)
    assert found == pytest.approx(case.expected["evaluate_after_more"], rel=1e-3)
