"""Sessions that a model function opens on the graph it is building."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1


def saved_model(folder: Path) -> str:
    """x times a variable that begins with 2, and is 3 in the checkpoint."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 1], name="x")
        factor = v1.get_variable("factor", initializer=2.0, use_resource=False)
        y = tf.multiply(x, factor, name="y")
        session.run(factor.assign(3.0))
        v1.saved_model.simple_save(session, str(folder / "model"), {"x": x}, {"y": y})
    return str(folder / "model")


def estimator(path: str, seen: list[Any]) -> est.Estimator:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        with v1.Session() as session:
            v1.saved_model.loader.load(
                session, ["serve"], path, import_scope="before", input_map={"x:0": features}
            )
            graph = v1.get_default_graph()
            values = [graph.get_tensor_by_name("before/factor:0"), v1.global_variables("before")[0]]
            seen.append([mode, *map(float, session.run(values))])
        y = graph.get_tensor_by_name("before/y:0")
        if mode == est.ModeKeys.PREDICT:
            return est.EstimatorSpec(mode, predictions=y)
        loss = tf.reduce_mean((y - labels) ** 2)
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return est.Estimator(model_fn)


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.ones([1, 1])))


def test_a_model_is_loaded_into_one_and_its_values_stay_there(tmp_path: Path) -> None:
    seen: list[Any] = []
    trained = estimator(saved_model(tmp_path), seen)
    trained.train(input_fn)
    # As in tf.estimator the training began with the initializer: of (f - 1)^2 at 2.
    assert trained.get_variable_value("before/factor") == pytest.approx(2 - 0.1 * 2 * 1)
    # What the evaluation's session loads does not touch what was trained.
    assert trained.evaluate(input_fn)["loss"] == pytest.approx(0.8**2)
    assert next(iter(trained.predict(input_fn))) == pytest.approx([1.8])
    assert seen == [[mode, 3.0, 3.0] for mode in ("train", "eval", "infer")]


def test_others_are_as_ever(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        del features, labels
        with tf.Graph().as_default(), v1.Session() as session:
            start = session.run(tf.constant(2.0) * 3.0)
        loss = v1.get_variable("weight", initializer=start) * 1.0
        return est.EstimatorSpec(mode, loss=loss, train_op=tf.no_op())

    assert est.Estimator(model_fn).train(input_fn, max_steps=1).get_variable_value("weight") == 6.0
