"""Columns inside an Estimator: trained, shared between modes, started from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1
fc = est.feature_column

FEATURES = {
    "c": np.array(["x", "y", "z", "x", "", "w"]),
    "d": np.array(["x", "x", "y", "q", "z", ""]),
    "n": np.linspace(-1, 1, 6).astype(np.float32),
}
LABELS = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], np.float32)


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((FEATURES, LABELS)).repeat(10).batch(6)


def columns_c_d() -> list[Any]:
    return [
        fc.categorical_column_with_vocabulary_list("c", ["x", "y", "z"], num_oov_buckets=1),
        fc.categorical_column_with_vocabulary_list("d", ["x", "y", "z"], num_oov_buckets=1),
    ]


def model_fn_of(deep: list[Any], wide: list[Any] = ()) -> Callable[..., est.EstimatorSpec]:  # type: ignore[assignment]
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        with v1.variable_scope("dnn"):
            x = fc.input_layer(features, deep)
            kernel = v1.get_variable("kernel", [x.shape[1], 1], initializer=v1.ones_initializer())
            output = tf.matmul(x, kernel)
        if wide:
            with v1.variable_scope("linear"):
                output += fc.linear_model(features, wide)
        output = output[:, 0]
        if mode == est.ModeKeys.PREDICT:
            return est.EstimatorSpec(mode, predictions={"y": output})
        loss = tf.reduce_mean(tf.square(output - labels))
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def config(eagerly: bool) -> est.RunConfig:
    return est.RunConfig(tf_random_seed=1, run_eagerly=eagerly)


either_way = pytest.mark.parametrize("eagerly", [False, True], ids=["traced", "eager"])


@either_way
def test_shared_embeddings_are_trained_in_one_table_at_top_level(
    tmp_path: Path, eagerly: bool
) -> None:
    shared = fc.shared_embeddings(columns_c_d(), 2, initializer=v1.ones_initializer())
    estimator = est.Estimator(model_fn_of(shared), str(tmp_path), config(eagerly))
    estimator.train(input_fn, steps=1)
    names = [n for n in estimator.get_variable_names() if "embedding" in n]
    assert names == ["c_d_shared_embedding"]
    # One step by hand: both columns push into the same table.
    table, kernel = np.ones((4, 2)), np.ones(4)
    row = {"x": 0, "y": 1, "z": 2, "q": 3, "w": 3}
    gradient = np.zeros_like(table)
    for c, d, label in zip(FEATURES["c"], FEATURES["d"], LABELS, strict=True):
        parts = [table[row[v]] if v else np.zeros(2) for v in (c, d)]
        error = 2 * (np.concatenate(parts) @ kernel - label) / len(LABELS)
        for v in (c, d):
            if v:
                gradient[row[v]] += error
    expected = table - 0.1 * gradient
    np.testing.assert_allclose(
        estimator.get_variable_value("c_d_shared_embedding"), expected, rtol=1e-5
    )


def test_evaluate_and_predict_see_the_shared_table_that_was_trained(tmp_path: Path) -> None:
    shared = fc.shared_embeddings(columns_c_d(), 2)
    estimator = est.Estimator(model_fn_of(shared), str(tmp_path), config(False))
    estimator.train(input_fn, steps=60)
    loss = estimator.evaluate(input_fn, steps=1)["loss"]
    predicted = [p["y"] for p, _ in zip(estimator.predict(input_fn), range(6), strict=False)]
    assert loss < 1.5
    np.testing.assert_allclose(np.mean((np.array(predicted) - LABELS) ** 2), loss, rtol=1e-5)
    # and so does another estimator, from the checkpoint alone
    again = est.Estimator(model_fn_of(shared), str(tmp_path), config(False))
    np.testing.assert_allclose(again.evaluate(input_fn, steps=1)["loss"], loss, rtol=1e-6)


def test_two_shared_tables_of_one_name_are_refused() -> None:
    first, second = fc.shared_embeddings(columns_c_d(), 2), fc.shared_embeddings(columns_c_d(), 2)
    with tf.Graph().as_default():
        features = {k: tf.constant(FEATURES[k]) for k in ("c", "d")}
        fc.input_layer(features, first)
        with pytest.raises(est.errors.FeatureColumnError, match="c_d_shared_embedding"):
            fc.input_layer(features, second)


@either_way
def test_variables_have_the_names_of_tf_estimator(tmp_path: Path, eagerly: bool) -> None:
    c, d = columns_c_d()
    shared = fc.shared_embedding_columns([c, d], 2)
    deep = [fc.numeric_column("n"), fc.embedding_column(c, 3), fc.indicator_column(d), *shared]
    wide = [c, fc.crossed_column(["c", "d"], 9), fc.numeric_column("n")]
    estimator = est.Estimator(model_fn_of(deep, wide), str(tmp_path), config(eagerly))
    estimator.train(input_fn, steps=2)
    assert estimator.get_variable_names() == [
        "dnn/input_layer/c_d_shared_embedding/embedding_weights",
        "dnn/input_layer/c_embedding/embedding_weights",
        "dnn/kernel",
        "global_step",
        "linear/linear_model/bias_weights",
        "linear/linear_model/c/weights",
        "linear/linear_model/c_X_d/weights",
        "linear/linear_model/n/weights",
    ]


def test_untrainable_embedding_stays(tmp_path: Path) -> None:
    column = fc.embedding_column(
        columns_c_d()[0], 2, initializer=v1.ones_initializer(), trainable=False
    )
    estimator = est.Estimator(model_fn_of([column]), str(tmp_path), config(False))
    estimator.train(input_fn, steps=3)
    value = estimator.get_variable_value("dnn/input_layer/c_embedding/embedding_weights")
    np.testing.assert_array_equal(value, np.ones((4, 2)))


@pytest.fixture
def source(tmp_path: Path) -> tuple[str, np.ndarray]:
    """A checkpoint with a table, as some other model left it."""
    value = np.arange(8, dtype=np.float32).reshape(4, 2)
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("other/table", initializer=value)
        session.run(variable.initializer)
        return v1.train.Saver([variable]).save(session, str(tmp_path / "source")), value


@pytest.mark.parametrize("kind", ["own", "shared", "v1_shared"])
@either_way
def test_embedding_starts_from_a_checkpoint_and_then_learns(
    tmp_path: Path, source: tuple[str, np.ndarray], kind: str, eagerly: bool
) -> None:
    path, value = source
    origin = {"ckpt_to_load_from": path, "tensor_name_in_ckpt": "other/table"}
    if kind == "own":
        columns = [fc.embedding_column(columns_c_d()[0], 2, **origin)]
        name = "dnn/input_layer/c_embedding/embedding_weights"
    elif kind == "shared":
        columns = fc.shared_embeddings(columns_c_d(), 2, **origin)
        name = "c_d_shared_embedding"
    else:
        columns = fc.shared_embedding_columns(columns_c_d(), 2, **origin)
        name = "dnn/input_layer/c_d_shared_embedding/embedding_weights"

    def trained(rate: float, steps: int) -> np.ndarray:
        def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
            with v1.variable_scope("dnn"):
                loss = tf.reduce_sum(fc.input_layer(features, columns))
            optimizer = v1.train.GradientDescentOptimizer(rate)
            train_op = optimizer.minimize(loss, v1.train.get_global_step())
            return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

        estimator = est.Estimator(model_fn, str(tmp_path / "model"), config(eagerly))
        estimator.train(input_fn, steps=steps)
        estimator.evaluate(input_fn, steps=1)
        return estimator.get_variable_value(name)

    standing_still = 1e-6
    np.testing.assert_allclose(trained(standing_still, steps=2), value, atol=1e-4)
    moved = trained(1.0, steps=3)
    assert np.abs(moved - value).max() > 1
    # From now on its own checkpoint counts, not the source.
    np.testing.assert_allclose(trained(standing_still, steps=2), moved, atol=1e-4)


def test_tables_of_both_parts_are_one(tmp_path: Path) -> None:
    c, _ = columns_c_d()
    made: list[int] = []

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = model_fn_of([fc.embedding_column(c, 2)], [c])(features, labels, mode)
        operations = v1.get_default_graph().get_operations()
        made.append(sum(op.type == "LookupTableFindV2" for op in operations))
        return spec

    est.Estimator(model_fn, str(tmp_path), config(False)).train(input_fn, steps=1)
    assert made == [1]
