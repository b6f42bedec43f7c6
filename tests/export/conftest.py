"""A small linear model in the old style, trained once, and the same in NumPy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1

X = np.random.RandomState(3).normal(size=(6, 3)).astype(np.float32)
FEATURE_SPEC = {"x": tf.io.FixedLenFeature([3], tf.float32)}


def input_fn() -> tf.data.Dataset:
    labels = X.sum(axis=1, keepdims=True)
    return tf.data.Dataset.from_tensor_slices(({"x": X}, labels)).repeat(4).batch(4)


def linear_model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    weights = v1.get_variable("net/w", [3, 1], initializer=v1.random_normal_initializer(seed=1))
    bias = v1.get_variable("net/b", [1], initializer=v1.constant_initializer(0.25))
    y = tf.identity(tf.matmul(features["x"], weights) + bias, name="output_score")
    if mode == est.ModeKeys.PREDICT:
        outputs = {
            "serving_default": est.export.RegressionOutput(y),
            "classes": est.export.ClassificationOutput(scores=tf.concat([y, -y], 1)),
            "predict": est.export.PredictOutput({"y": y, "twice": 2 * y}),
        }
        return est.EstimatorSpec(mode, predictions={"y": y}, export_outputs=outputs)
    loss = tf.reduce_mean(tf.square(y - labels))
    metrics = {"mae": v1.metrics.mean_absolute_error(labels, y)}
    optimizer = v1.train.AdamOptimizer(0.05)
    train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    return est.EstimatorSpec(
        mode, predictions={"y": y}, loss=loss, train_op=train_op, eval_metric_ops=metrics
    )


def run_config(**settings: Any) -> est.RunConfig:
    settings = {"tf_random_seed": 1, "progress": False, "log_step_count_steps": None, **settings}
    return est.RunConfig(**settings)


def expected(estimator: est.Estimator, x: np.ndarray = X) -> np.ndarray:
    """What the linear model answers, computed by NumPy from the checkpoint."""
    value = estimator.get_variable_value
    return x @ value("net/w") + value("net/b")


def examples(x: np.ndarray = X, name: str = "x") -> list[bytes]:
    return [
        tf.train.Example(
            features=tf.train.Features(
                feature={name: tf.train.Feature(float_list=tf.train.FloatList(value=row))}
            )
        ).SerializeToString()
        for row in x
    ]


def raw_receiver_fn() -> Any:
    return est.export.build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([None, 3])})()


def parsing_receiver_fn() -> Any:
    return est.export.build_parsing_serving_input_receiver_fn(FEATURE_SPEC)()


def files_in(folder: str | os.PathLike[str]) -> set[str]:
    root = Path(folder)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.fixture(scope="session")
def linear(tmp_path_factory: pytest.TempPathFactory) -> est.Estimator:
    """Trained for six steps. Tests do not train it further."""
    model_dir = tmp_path_factory.mktemp("linear")
    estimator = est.Estimator(linear_model_fn, model_dir, run_config())
    return estimator.train(input_fn)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "exports"
