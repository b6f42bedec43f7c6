"""Keras models as estimators, as users published them; exporting such a model was the complaint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import estimand as est
from estimand.compat.install import installed
from tests.legacy import keras_program as program
from tests.legacy.v1_view import tf


@pytest.fixture(autouse=True)
def tf_estimator_is_back() -> Iterator[None]:
    with installed():
        yield


def images() -> Any:
    pixels = np.random.RandomState(0).rand(8, 12, 12, 3).astype(np.float32)
    labels = np.eye(2, dtype=np.float32)[np.arange(8) % 2]
    return tf.data.Dataset.from_tensor_slices((pixels, labels)).batch(4)


def test_a_model_with_batch_normalization_trains_and_is_exported(tmp_path: Path) -> None:
    estimator = program.model_fn(str(tmp_path / "model"))
    estimator.train(images)
    result = estimator.evaluate(images)
    assert result["global_step"] == 2
    assert 0 <= result["accuracy"] <= 1
    shape = [None, program._PATCH_SIZE, program._PATCH_SIZE, 3]
    receiver_fn = est.export.build_raw_serving_input_receiver_fn(
        {"input_1": tf.TensorSpec(shape, tf.float32)}
    )
    served = est.load_model(estimator.export_saved_model(str(tmp_path / "export"), receiver_fn))
    pixels = next(iter(images().as_numpy_iterator()))[0]
    expected = [next(iter(row.values())) for row in estimator.predict(images)][:4]
    [answer] = served({"input_1": pixels}).values()
    np.testing.assert_allclose(answer, expected, atol=1e-5)


def test_an_optimizer_of_tf_train_in_a_model_that_is_converted() -> None:
    estimator = program.two_layers()
    rows = np.eye(10, dtype=np.float32)
    estimator.train(lambda: tf.data.Dataset.from_tensor_slices((rows, rows)).batch(5))
    assert any("RMSProp" in name for name in estimator.get_variable_names())


def test_an_optimizer_of_tf_train_in_a_model_that_is_fitted() -> None:
    random = np.random.RandomState(0)
    data, labels = random.rand(64, 32), random.rand(64, 10)
    model = program.functional(data, labels)
    assert model.optimizer.iterations.numpy() == 4
    loss, accuracy = model.evaluate(data, labels, batch_size=32, verbose=0)
    assert np.isfinite(loss) and 0 <= accuracy <= 1


def test_a_mirrored_strategy_in_the_configuration(tmp_path: Path) -> None:
    estimator = program.on_several_devices(str(tmp_path))
    assert estimator.latest_checkpoint().endswith("model.ckpt-10")


def test_features_are_read_by_the_name_that_keras_2_gave_an_input(tmp_path: Path) -> None:
    pixels = np.random.RandomState(0).rand(4, 8, 8, 3).astype(np.float32)
    labels = np.eye(2, dtype=np.float32)[[0, 1, 0, 1]]
    estimator = program.read_by_name(pixels, labels, str(tmp_path))
    assert estimator.get_variable_value("global_step") == 1
    assert any("momentum" in name for name in estimator.get_variable_names())
