"""Ops keep their names in an export, whatever is made for it beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

import estimand as est

v1 = tf.compat.v1
WORDS = ["good", "bad", "fine"]


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    column = tf.feature_column.categorical_column_with_vocabulary_list("word", WORDS)
    shown = tf.feature_column.indicator_column(column)
    weights = v1.get_variable("weights", [len(WORDS), 1])
    logits = tf.matmul(v1.feature_column.input_layer(features, [shown]), weights)
    predictions = {"logits": logits, "version": tf.constant("7.1")}  # a name by default: Const
    if mode == est.ModeKeys.PREDICT:
        outputs = {"serving_default": est.export.PredictOutput(predictions)}
        return est.EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
    loss = v1.losses.mean_squared_error(labels, logits)
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn() -> tf.data.Dataset:
    rows = ({"word": WORDS}, [[1.0], [0.0], [1.0]])
    return tf.data.Dataset.from_tensor_slices(rows).batch(3)


def receiver_fn() -> est.export.ServingInputReceiver:
    word = v1.placeholder(tf.string, [None], name="word")
    # As tensorflow-model-analysis has it: a constant among what may be fed.
    return est.export.ServingInputReceiver(
        {"word": word}, {"word": word, "release": tf.constant("2026")}
    )


def test_constants_of_tables_do_not_take_the_names_of_constants(tmp_path: Path) -> None:
    estimator = est.Estimator(model_fn, str(tmp_path / "model"))
    estimator.train(input_fn)
    path = estimator.export_saved_model(str(tmp_path / "export"), receiver_fn).decode()
    with v1.Session(graph=tf.Graph()) as session:
        meta = v1.saved_model.loader.load(session, [tf.saved_model.SERVING], path)
        signature = meta.signature_def["serving_default"]
        outputs = {key: info.name for key, info in signature.outputs.items()}
        answer = session.run(outputs, {signature.inputs["word"].name: ["bad"]})
        assert answer["version"] == b"7.1"
        assert session.run(signature.inputs["release"].name) == b"2026"
