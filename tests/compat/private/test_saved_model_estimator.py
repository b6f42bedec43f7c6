"""A SavedModel of every mode goes on without its model function."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.private.saved_model_estimator import ModeMissingError, SavedModelEstimator

v1 = tf.compat.v1
VOCABULARY = ["red", "blue"]


def input_fn():
    features = {"size": [[1.0], [2.0]], "color": [["red"], ["green"]]}
    return tf.data.Dataset.from_tensors((features, [[1.0], [2.0]])).repeat()


def model_fn(features, labels, mode):
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(VOCABULARY, tf.constant([1.0, 2.0])), 3.0
    )
    weight = v1.get_variable("weight", [1, 1], initializer=v1.zeros_initializer())
    answer = features["size"] @ weight
    predictions = {"answer": answer, "code": table.lookup(features["color"])}
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions)
    loss = tf.reduce_mean(tf.square(answer - labels))
    train_op = v1.train.AdamOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    metrics = {"error": v1.metrics.mean_absolute_error(labels, answer)}
    return est.EstimatorSpec(mode, predictions, loss, train_op, metrics)


def receivers(*modes: str):
    train = est.export.build_supervised_input_receiver_fn_from_input_fn(input_fn)

    def serve():
        features = {
            "size": v1.placeholder(tf.float32, [None, 1], "size"),
            "color": v1.placeholder(tf.string, [None, 1], "color"),
        }
        return est.export.ServingInputReceiver(features, features)

    return {mode: serve if mode == est.ModeKeys.PREDICT else train for mode in modes}


def exported(tmp_path: Path, *modes: str) -> tuple[est.Estimator, bytes]:
    trained = est.Estimator(model_fn, str(tmp_path / "trained")).train(input_fn, steps=10)
    return trained, trained.experimental_export_all_saved_models(
        str(tmp_path / "export"), receivers(*modes)
    )


def test_a_saved_model_trains_on_as_the_estimator_would(tmp_path: Path) -> None:
    trained, export = exported(tmp_path, "train", "eval", "infer")
    again = SavedModelEstimator(export, str(tmp_path / "again"))
    assert again.evaluate(input_fn, steps=2)["metrics/error"] == pytest.approx(
        trained.evaluate(input_fn, steps=2)["error"], rel=1e-6
    )
    for estimator in (trained, again):
        estimator.train(input_fn, steps=5)
    assert again.get_variable_value("global_step") == 15
    # The optimizer's slots are those of the export as well.
    assert again.get_variable_value("weight") == pytest.approx(
        trained.get_variable_value("weight"), rel=1e-6
    )
    row = next(again.predict(lambda: input_fn().map(lambda features, _: features)))
    assert row["code"].tolist() == [1.0]
    assert row["answer"] == pytest.approx(again.get_variable_value("weight")[0], rel=1e-6)


def test_it_can_be_exported_again(tmp_path: Path) -> None:
    _, export = exported(tmp_path, "train", "eval", "infer")
    again = SavedModelEstimator(export, str(tmp_path / "again")).train(input_fn, steps=1)
    twice = again.export_saved_model(str(tmp_path / "twice"), receivers("infer")["infer"])
    last = SavedModelEstimator(twice, str(tmp_path / "last"))
    row = next(last.predict(lambda: input_fn().map(lambda features, _: features)))
    assert row["answer"] == pytest.approx(again.get_variable_value("weight")[0], rel=1e-6)


def test_modes_that_were_not_exported_and_inputs_that_do_not_fit(tmp_path: Path) -> None:
    _, export = exported(tmp_path, "eval")
    estimator = SavedModelEstimator(export, str(tmp_path / "again"))
    with pytest.raises(ModeMissingError, match="train mode is not available"):
        estimator.train(input_fn, steps=1)
    flat = input_fn().map(lambda features, labels: (features, labels[:, 0]))
    with pytest.raises(ValueError, match="Expected shape"):
        estimator.evaluate(lambda: flat, steps=1)
    whole = input_fn().map(lambda features, labels: (features, tf.cast(labels, tf.int32)))
    with pytest.raises(ValueError, match="Expected dtype"):
        estimator.evaluate(lambda: whole, steps=1)
