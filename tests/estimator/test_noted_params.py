"""What a run was made with, as it lies in model_dir for who compares runs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.model_dir import RunRecord
from estimand.estimator.noted_params import noted

v1 = tf.compat.v1
X = est.feature_column.numeric_column("x")


def input_fn() -> tf.data.Dataset:
    x = np.linspace(-1, 1, 8, dtype="float32")
    return tf.data.Dataset.from_tensor_slices(({"x": x}, (x > 0).astype("int64"))).batch(4)


def test_settings_of_a_canned_model_are_noted(tmp_path: Path) -> None:
    adam = keras.optimizers.Adam(0.01)
    config = est.RunConfig(progress=False)
    model = est.DNNClassifier(
        [8, 4], [X], tmp_path, optimizer=adam, activation_fn=tf.nn.tanh, config=config
    )
    model.train(input_fn, steps=1)
    params = RunRecord.load(tmp_path).params
    assert params is not None and model.params == {}  # as of tf.estimator
    assert params["hidden_units"] == [8, 4] and params["feature_columns"] == ["x"]
    assert params["optimizer"]["name"] == "Adam"
    assert params["optimizer"]["learning_rate"] == pytest.approx(0.01)
    assert params["activation_fn"] == "tanh" and params["n_classes"] == 2
    assert not {"model_dir", "config", "warm_start_from", "dropout"} & params.keys()


def test_settings_of_canned_models_of_version_1_are_noted(tmp_path: Path) -> None:
    optimizer = v1.train.AdagradOptimizer(0.2)
    from estimand.compat.v1.estimator import DNNClassifier

    model = DNNClassifier([3], [X], tmp_path, optimizer=optimizer)
    told = model._workspace.noted_params()
    assert told["hidden_units"] == [3]
    assert told["optimizer"] == {"name": "AdagradOptimizer", "learning_rate": 0.2}


def test_copies_keep_what_they_were_made_with() -> None:
    model: Any = est.LinearRegressor([X])
    assert copy.copy(model)._workspace.noted_params() == model._workspace.noted_params() != {}


def test_what_a_subclass_takes_is_noted_beside_the_params() -> None:
    class Mine(est.Estimator):
        def __init__(self, units: int, **more: Any) -> None:
            super().__init__(lambda features, mode, params: None, params={"rate": 0.1})

    assert Mine(3, depth=2)._workspace.noted_params() == {"units": 3, "depth": 2, "rate": 0.1}


def test_calls_that_do_not_fit_are_told_by_python() -> None:
    with pytest.raises(TypeError, match="hidden_units"):
        est.DNNClassifier(feature_columns=[X])  # type: ignore[call-arg]


def test_schedules_are_noted_by_their_names_and_functions_without_one_are_not() -> None:
    decay = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    given = {"opt": keras.optimizers.SGD(decay), "f": lambda: 1, "kind": keras.layers.LSTM}
    assert noted(given) == {
        "opt": {"name": "SGD", "learning_rate": "ExponentialDecay"},
        "kind": "LSTM",
    }


def test_optimizers_are_noted_in_a_graph_too() -> None:
    known = keras.optimizers.SGD(0.5)
    with tf.Graph().as_default():
        assert noted({"opt": known}) == {"opt": {"name": "SGD", "learning_rate": 0.5}}
        assert noted({"opt": keras.optimizers.SGD(0.5)}) == {"opt": {"name": "SGD"}}
        rate = tf.constant(0.5)
        assert noted({"opt": v1.train.GradientDescentOptimizer(rate)}) == {
            "opt": {"name": "GradientDescentOptimizer"}
        }
