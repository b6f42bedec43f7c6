"""A graph with variables of its own that a model function imports, as hub.Module does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import ModelFnError

v1 = tf.compat.v1


def meta_graph(folder: Path, *, with_variable: bool) -> str:
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None, 1], name="x")
        factor: Any = tf.constant(2.0)
        if with_variable:
            factor = v1.get_variable("factor", initializer=2.0, use_resource=True)
        tf.multiply(x, factor, name="y")
        v1.train.export_meta_graph(str(folder / "module.meta"))
    return str(folder / "module.meta")


def estimator(path: str) -> est.Estimator:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        v1.train.import_meta_graph(path, import_scope="module", input_map={"x": features})
        y = v1.get_default_graph().get_tensor_by_name("module/y:0")
        weight = v1.get_variable("weight", initializer=1.0)
        loss = tf.reduce_mean((weight * y - labels) ** 2)
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(
            loss, v1.train.get_global_step(), var_list=[weight]
        )
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return est.Estimator(model_fn)


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.ones([1, 1])))


def test_variables_of_an_imported_graph_are_refused_in_one_sentence(tmp_path: Path) -> None:
    path = meta_graph(tmp_path, with_variable=True)
    with pytest.raises(ModelFnError, match=r"imported a graph with variables: 'module/factor', by"):
        estimator(path).train(input_fn)


def test_a_graph_without_variables_is_imported(tmp_path: Path) -> None:
    trained = estimator(meta_graph(tmp_path, with_variable=False))
    trained.train(input_fn)
    # The loss is (2 w - 1)^2 at w = 1.
    assert trained.get_variable_value("weight") == pytest.approx(1 - 0.1 * 2 * 2 * 1)
