"""`est.keras.load` and `as_checkpoint`: weights between Keras models and estimators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.bridge.conversions import (
    AMOUNT,
    CASES,
    Scaled,
    X,
    Y,
    convert,
    fit,
    read,
    small_model,
    train,
)


def answers(estimator: est.Estimator, **kwargs: Any) -> np.ndarray:
    found = estimator.predict(read(X, epochs=1), **kwargs)
    return np.stack([next(iter(answer.values())) for answer in found])


def of_six_steps(model_dir: Path) -> est.Estimator:
    config = est.RunConfig(model_dir=str(model_dir), save_checkpoints_steps=3)
    estimator = est.keras.model_to_estimator(small_model(), config=config)
    return estimator.train(read(X, Y), steps=6)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> est.Estimator:
    """For tests that do not train it on."""
    return of_six_steps(tmp_path_factory.mktemp("m"))


def test_from_a_model_dir(trained: est.Estimator) -> None:
    model = est.keras.load(trained.model_dir)
    np.testing.assert_allclose(model.predict(X, verbose=0), answers(trained), atol=1e-5)


def test_from_an_older_checkpoint(trained: est.Estimator) -> None:
    path = f"{trained.model_dir}/model.ckpt-3"
    model = est.keras.load(path)
    expected = answers(trained, checkpoint_path=path)
    np.testing.assert_allclose(model.predict(X, verbose=0), expected, atol=1e-5)
    assert np.abs(expected - answers(trained)).max() > 1e-3


@pytest.mark.parametrize("versions", [False, True])
def test_from_an_export(trained: est.Estimator, versions: bool, tmp_path: Path) -> None:
    receiver_fn = est.export.build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([None, 4])})
    exported = trained.export_saved_model(str(tmp_path / "e"), receiver_fn)
    model = est.keras.load(str(tmp_path / "e") if versions else exported)
    np.testing.assert_allclose(model.predict(X, verbose=0), answers(trained), atol=1e-5)


@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_on_to_a_file(trained: est.Estimator, ending: str, tmp_path: Path) -> None:
    est.keras.load(trained.model_dir).save(tmp_path / f"model.{ending}")
    model = keras.models.load_model(tmp_path / f"model.{ending}")
    np.testing.assert_allclose(model.predict(X, verbose=0), answers(trained), atol=1e-5)


def test_into_a_model_that_is_given(tmp_path: Path) -> None:
    case = CASES["subclassed"]
    estimator = convert(case.make(), tmp_path)
    estimator.train(read(X, AMOUNT), steps=2)
    model = case.make()
    model(X[:1])
    assert est.keras.load(tmp_path, model) is model
    np.testing.assert_allclose(model.predict(X, verbose=0), answers(estimator), atol=1e-5)


def test_classes_of_its_own(tmp_path: Path) -> None:
    case = CASES["custom_layer"]
    estimator = convert(case.make(), tmp_path)
    estimator.train(read(X, AMOUNT), steps=2)
    model = est.keras.load(tmp_path, custom_objects={"Scaled": Scaled})
    np.testing.assert_allclose(model.predict(X, verbose=0), answers(estimator), atol=1e-5)


def test_a_layer_that_works_with_what_it_computed_from_its_weights(tmp_path: Path) -> None:
    case = CASES["normalized"]
    estimator = convert(case.make(), tmp_path)
    estimator.train(read(X, AMOUNT), steps=1)
    model = est.keras.load(tmp_path)
    np.testing.assert_allclose(model.predict(X, verbose=0), answers(estimator), atol=1e-5)


@pytest.mark.parametrize("from_export", [False, True])
def test_averages_of_weights_are_taken(from_export: bool, tmp_path: Path) -> None:
    optimizer = keras.optimizers.Adam(0.05, use_ema=True, ema_momentum=0.8)
    estimator = convert(small_model(optimizer=optimizer), tmp_path / "m")
    estimator.train(read(X, Y), steps=4)
    path: Any = tmp_path / "m"
    if from_export:
        receiver = est.export.build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([None, 4])})
        path = estimator.export_saved_model(str(tmp_path / "e"), receiver)
    model = est.keras.load(path)
    np.testing.assert_allclose(model.predict(X, verbose=0), answers(estimator), atol=1e-5)
    weights = estimator.get_variable_value("dense/kernel")
    assert np.abs(model.get_weights()[0] - weights).max() > 1e-3


def test_fit_goes_on_where_the_estimator_stopped(tmp_path: Path) -> None:
    trained = of_six_steps(tmp_path)
    model = est.keras.load(trained.model_dir)
    assert int(model.optimizer.iterations.numpy()) == 6
    ours = fit(model, read(X, Y)(), 4)
    np.testing.assert_allclose(ours, train(trained, read(X, Y), 4), rtol=0, atol=1e-4)


def test_a_model_that_keras_cannot_describe(tmp_path: Path) -> None:
    class Inner(keras.Model):
        def __init__(self, thing: Any) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs)

    model = Inner(object())
    model.compile("sgd", "mse")
    estimator = convert(model, tmp_path)
    estimator.train(read(X, AMOUNT), steps=1)
    with pytest.raises(est.errors.ConfigError, match=r"est.keras.load"):
        est.keras.load(tmp_path)


def test_another_model(trained: est.Estimator) -> None:
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(7)])
    with pytest.raises(est.errors.CheckpointError, match=r"dense/kernel +\| \(4, 7\) float32"):
        est.keras.load(trained.model_dir, model)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(est.errors.NoCheckpointError, match="There is no checkpoint at"):
        est.keras.load(tmp_path)


def test_a_keras_file_starts_a_model_function(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        hidden = keras.layers.Dense(5, name="base")(features)
        outputs = keras.layers.Dense(1, name="new")(hidden)
        loss = tf.reduce_mean(tf.square(outputs - labels))
        train_op = est.minimize(keras.optimizers.SGD(0.0), loss)
        return est.EstimatorSpec(mode, {"y": outputs}, loss, train_op)

    source = keras.Sequential([keras.Input([4]), keras.layers.Dense(5, name="base")])
    source.save(tmp_path / "source.keras")
    checkpoint = est.keras.as_checkpoint(tmp_path / "source.keras", tmp_path / "c")
    settings = est.WarmStartSettings(checkpoint, vars_to_warm_start="base/")
    estimator = est.Estimator(model_fn, str(tmp_path / "m"), warm_start_from=settings)
    estimator.train(read(X, AMOUNT), steps=1)
    value = estimator.get_variable_value("base/kernel")
    np.testing.assert_array_equal(value, source.get_weights()[0])
