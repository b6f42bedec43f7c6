"""The dense way: when it is taken, what its gradients are, and that learning is the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.features import fast_path, fast_path_enabled

v1 = tf.compat.v1
fc = est.feature_column

FEATURES = {
    "c": np.array(["x", "", "z", "x", "q", "y"]),
    "d": np.array(["r", "s", "", "r", "t", "s"]),
    "i": np.array([2, -1, 0, 1, 2, 2]),
    "age": np.array([10.0, 20.0, 30.0, 40.0, 50.0, 60.0], np.float32),
}
LABELS = np.array([1.0, 0.0, 2.0, -1.0, 3.0, 0.5], np.float32)


def columns() -> tuple[list[Any], list[Any]]:
    c = fc.categorical_column_with_vocabulary_list("c", ["x", "y", "z"])
    d = fc.categorical_column_with_hash_bucket("d", 5)
    i = fc.categorical_column_with_identity("i", 3)
    age = fc.bucketized_column(fc.numeric_column("age"), [25.0, 45.0])
    wide = [c, d, i, age, fc.crossed_column([age, "d"], 11), fc.crossed_column([c, i], 11)]
    start = v1.constant_initializer(0.3)
    deep = [fc.embedding_column(x, 2, initializer=start) for x in (c, d)] + [fc.indicator_column(i)]
    return wide, deep


def graph_features() -> dict[str, tf.Tensor]:
    return {key: tf.constant(value) for key, value in FEATURES.items()}


def kinds_of_ops() -> Counter[str]:
    return Counter(op.type for op in v1.get_default_graph().get_operations())


def build() -> tf.Tensor:
    wide, deep = columns()
    features = graph_features()
    kernel = v1.get_variable("kernel", [7, 1], initializer=v1.ones_initializer())
    return tf.matmul(fc.input_layer(features, deep), kernel) + fc.linear_model(features, wide)


def test_single_values_never_become_sparse_tensors() -> None:
    with tf.Graph().as_default():
        build()
        dense = kinds_of_ops()
    with tf.Graph().as_default(), fast_path(False):
        build()
        plain = kinds_of_ops()
    assert plain["SparseFillEmptyRows"] == 8
    assert dense["SparseFillEmptyRows"] == dense["Where"] == dense["Unique"] == 0


@pytest.mark.parametrize("value", ["several", "unknown_rank"])
def test_other_shapes_go_the_sparse_way(value: str) -> None:
    c = fc.categorical_column_with_hash_bucket("c", 5)
    with tf.Graph().as_default():
        shape = [None, 3] if value == "several" else [None, None]
        fc.linear_model({"c": v1.placeholder(tf.string, shape)}, [c])
        assert kinds_of_ops()["SparseFillEmptyRows"] == 1


def test_the_switch_is_local_to_its_block() -> None:
    with fast_path(False):
        with fast_path(True):
            assert fast_path_enabled()
        assert not fast_path_enabled()
    assert fast_path_enabled()


def test_gradients_of_tables_are_sparse_and_missing_values_touch_row_0() -> None:
    c = fc.categorical_column_with_vocabulary_list("c", ["x", "y", "z"])
    with tf.Graph().as_default(), v1.Session() as session:
        features = {"c": tf.constant(FEATURES["c"])}
        output = fc.input_layer(features, [fc.embedding_column(c, 2)])
        [gradient] = tf.gradients(output, v1.trainable_variables())
        assert isinstance(gradient, tf.IndexedSlices)
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        indices, values = session.run([gradient.indices, gradient.values])
    np.testing.assert_array_equal(indices, [0, 0, 2, 0, 0, 1])
    np.testing.assert_array_equal(values[:, 0], [1, 0, 1, 1, 0, 1])


def test_nan_in_row_0_does_not_leak_into_missing_values() -> None:
    c = fc.categorical_column_with_hash_bucket("c", 5)
    start = v1.constant_initializer(np.nan)
    with tf.Graph().as_default(), v1.Session() as session:
        features = {"c": tf.constant(["", ""])}
        output = fc.input_layer(features, [fc.embedding_column(c, 2, initializer=start)])
        session.run(v1.global_variables_initializer())
        np.testing.assert_array_equal(session.run(output), np.zeros((2, 2)))


OPTIMIZERS = {
    "ftrl": lambda: v1.train.FtrlOptimizer(0.3, l1_regularization_strength=0.01),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.3),
    "adam": lambda: v1.train.AdamOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_learning_takes_the_same_course_as_with_tensorflows_own_layers(name: str) -> None:
    ours = values_after_learning(build, OPTIMIZERS[name])

    def build_of_tensorflow() -> tf.Tensor:
        wide, deep = columns()
        features = graph_features()
        kernel = v1.get_variable("kernel", [7, 1], initializer=v1.ones_initializer())
        x = v1.feature_column.input_layer(features, deep)
        return tf.matmul(x, kernel) + v1.feature_column.linear_model(features, wide)

    theirs = values_after_learning(build_of_tensorflow, OPTIMIZERS[name])
    assert ours.keys() == theirs.keys()
    for variable, value in theirs.items():
        np.testing.assert_allclose(ours[variable], value, rtol=1e-4, atol=1e-5, err_msg=variable)


def values_after_learning(
    build: Callable[[], tf.Tensor], optimizer: Callable[[], Any]
) -> dict[str, np.ndarray]:
    with tf.Graph().as_default(), v1.Session() as session:
        loss = tf.reduce_mean(tf.square(build()[:, 0] - LABELS))
        train = optimizer().minimize(loss)
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        for _ in range(5):
            session.run(train)
        return {v.name: session.run(v) for v in v1.global_variables()}


def test_partitioned_tables_are_looked_up_as_tensorflow_does() -> None:
    def run(layers: Any) -> dict[str, np.ndarray]:
        column = fc.categorical_column_with_identity("i", 3)
        embedding = fc.embedding_column(column, 2, initializer=v1.random_normal_initializer(seed=1))
        with tf.Graph().as_default(), v1.Session() as session:
            features = {"i": tf.constant(FEATURES["i"])}
            with v1.variable_scope("net", partitioner=v1.fixed_size_partitioner(2)):
                output = layers.input_layer(features, [embedding])
                layers.linear_model(features, [column, embedding])
            session.run(v1.global_variables_initializer())
            found = {v.name: np.array(v.shape.as_list()) for v in v1.global_variables()}
            return {"output": session.run(output), **found}

    ours, theirs = run(fc), run(v1.feature_column)
    assert "net/input_layer/i_embedding/embedding_weights/part_1:0" in ours
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, err_msg=name)
