"""A model with recurrent layers, trained and exported: other processes have all that it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1
X = np.random.default_rng(0).normal(size=(8, 6, 3)).astype("float32")


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    hidden = keras.layers.LSTM(4, return_sequences=True)(features["x"])
    score = keras.layers.Dense(1)(keras.layers.GRU(4)(hidden))
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions={"score": score})
    loss = tf.reduce_mean((score - labels) ** 2)
    return est.EstimatorSpec(
        mode, loss=loss, train_op=est.minimize(keras.optimizers.SGD(0.1), loss)
    )


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(({"x": X}, X[:, 0, :1])).batch(3)  # 3, 3 and 2 rows


def receiver_fn() -> est.export.ServingInputReceiver:
    x = v1.placeholder(tf.float32, [None, 6, 3], name="x")
    return est.export.ServingInputReceiver({"x": x}, {"x": x})


def test_an_export_answers_as_predict_does_and_has_gradients_that_tensorflow_knows(
    tmp_path: Path,
) -> None:
    estimator = est.Estimator(model_fn, str(tmp_path / "model"), est.RunConfig(tf_random_seed=1))
    estimator.train(input_fn, max_steps=3)
    expected = [row["score"] for row in estimator.predict(input_fn)]
    path = estimator.export_saved_model(str(tmp_path / "export"), receiver_fn).decode()

    answer = tf.saved_model.load(path).signatures["serving_default"](x=tf.constant(X))["score"]
    np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-6)
    with v1.Session(graph=tf.Graph()) as session:
        meta = v1.saved_model.loader.load(session, [tf.saved_model.SERVING], path)
        signature = meta.signature_def["serving_default"]
        types = {node.op for node in meta.graph_def.node}
        assert not types & {"While", "StatelessWhile"}
        assert not [n.name for n in meta.graph_def.node if "_gradient_op_type" in n.attr]
        graph = session.graph
        x, score = (
            graph.get_tensor_by_name(info.name)
            for info in (signature.inputs["x"], signature.outputs["score"])
        )
        [slope] = session.run(tf.gradients(score, x), {x: X})
    assert np.abs(slope).max() > 0


def test_a_run_in_two_parts_has_the_bits_of_one_run(tmp_path: Path) -> None:
    def repeated() -> tf.data.Dataset:
        return input_fn().take(1).repeat()  # each call of train begins its input anew

    def trained(name: str, *stops: int) -> est.Estimator:
        config = est.RunConfig(tf_random_seed=1)
        for steps in stops:
            estimator = est.Estimator(model_fn, str(tmp_path / name), config)
            estimator.train(repeated, max_steps=steps)
        return estimator

    whole, parts = trained("whole", 7), trained("parts", 2, 3, 7)
    for name in whole.get_variable_names():
        first, second = (e.get_variable_value(name) for e in (whole, parts))
        np.testing.assert_array_equal(first, second, err_msg=name)
