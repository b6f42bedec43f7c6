"""`model_dir/keras` holds the weights that a Keras model brought, and counts from then on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.bridge.conversions import convert, numbers

X = numbers(8, 3)


def random_model(units: int = 2) -> Any:
    """Other weights every time, averages of batch normalization included."""
    normalization = keras.layers.BatchNormalization(moving_mean_initializer="random_normal")
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(units), normalization])
    model.compile("sgd", "mse")
    return model


def predicted(estimator: est.Estimator) -> np.ndarray:
    rows = estimator.predict(lambda: tf.data.Dataset.from_tensors(X))
    return np.array([next(iter(row.values())) for row in rows])


def test_the_weights_are_where_tf_estimator_keeps_them(tmp_path: Path) -> None:
    model = random_model()
    estimator = convert(model, tmp_path)
    path = f"{tmp_path}/keras/keras_model.ckpt"
    assert estimator._warm_start_settings.ckpt_to_initialize_from == path
    assert tf.train.latest_checkpoint(f"{tmp_path}/keras") == path
    kernel = tf.train.load_variable(path, "dense/kernel")
    np.testing.assert_array_equal(kernel, model.get_weights()[0])
    assert tf.train.load_variable(path, "global_step") == 0


@pytest.mark.parametrize("eager", [False, True])
def test_a_program_started_again_begins_with_the_same_weights(tmp_path: Path, eager: bool) -> None:
    config = est.RunConfig(model_dir=str(tmp_path), run_eagerly=eager)
    expected = predicted(est.keras.model_to_estimator(random_model(), config=config))
    again = est.keras.model_to_estimator(random_model(), config=config)
    np.testing.assert_allclose(predicted(again), expected, rtol=1e-5)
    shutil.rmtree(tmp_path)
    np.testing.assert_allclose(predicted(again), expected, rtol=1e-5)


def test_an_export_before_training_has_them(tmp_path: Path) -> None:
    expected = predicted(convert(random_model(), tmp_path))
    again = convert(random_model(), tmp_path)
    receiver = est.export.build_raw_serving_input_receiver_fn({"input": tf.TensorSpec([None, 3])})
    exported = tf.saved_model.load(again.export_saved_model(str(tmp_path / "export"), receiver))
    served = exported.signatures["serving_default"](input=tf.constant(X))
    np.testing.assert_allclose(next(iter(served.values())), expected, rtol=1e-5)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    convert(random_model(), tmp_path)
    with pytest.raises(est.errors.ConfigError, match=r"shape \[3, 2\] there and \[3, 4\].*Remove"):
        convert(random_model(4), tmp_path)
