"""`est.keras.model_to_estimator`: what it accepts, what it names, what it leaves alone."""

from __future__ import annotations

import logging
import shutil
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
    LEFT,
    RIGHT,
    Scaled,
    Subclassed,
    X,
    Y,
    convert,
    custom_layer,
    read,
    small_model,
    train,
    two_towers,
)


def predictions(estimator: est.Estimator, x: Any = X) -> np.ndarray:
    found = estimator.predict(read(x, epochs=1))
    return np.stack([next(iter(answer.values())) for answer in found])


# ------------------------------------------------------------------ arguments


def test_neither_model_nor_path() -> None:
    with pytest.raises(ValueError, match="Either `keras_model` or `keras_model_path` needs to be"):
        est.keras.model_to_estimator()


def test_both_model_and_path() -> None:
    with pytest.raises(ValueError, match="either `keras_model` or `keras_model_path`, but not bo"):
        est.keras.model_to_estimator(small_model(), "model.keras")


def test_a_model_that_is_not_compiled() -> None:
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="The given keras model has not been compiled yet"):
        est.keras.model_to_estimator(model)


def test_what_is_no_keras_model() -> None:
    with pytest.raises(est.errors.ConfigError, match=r"must be a keras.Model, given: str"):
        est.keras.model_to_estimator("model.keras")


def test_an_unknown_checkpoint_format() -> None:
    with pytest.raises(ValueError, match=r'must be one of "checkpoint" or "saver". Got h5'):
        est.keras.model_to_estimator(small_model(), checkpoint_format="h5")


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(est.errors.ConfigError, match=r"'/nowhere/m.keras': there is no such file"):
        est.keras.model_to_estimator(keras_model_path="/nowhere/m.keras")


def test_a_model_with_a_train_step_of_its_own() -> None:
    class Own(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            return {}

    model = Own([keras.Input([2]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(est.errors.ConfigError, match=r"Own overrides train_step.*compute_loss"):
        est.keras.model_to_estimator(model)


def test_a_model_with_a_loss_of_its_own(tmp_path: Path) -> None:
    class Own(keras.Sequential):
        def compute_loss(
            self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None
        ) -> Any:
            return keras.ops.mean(keras.ops.abs(y - y_pred)) * 10.0

    keras.utils.set_random_seed(1)
    model = Own([keras.Input([4]), keras.layers.Dense(1)])
    model.compile("sgd")
    expected = 10 * np.abs(AMOUNT[:12] - model.predict(X[:12], verbose=0)).mean()
    losses = train(convert(model, tmp_path), read(X, AMOUNT), 1)
    np.testing.assert_allclose(losses, [expected], rtol=1e-5)


def test_a_frozen_model_has_nothing_to_train(tmp_path: Path) -> None:
    model = small_model()
    model.trainable = False
    with pytest.raises(est.errors.ConfigError, match="no trainable variables: all of its layers"):
        convert(model, tmp_path).train(read(X, Y), steps=1)


# ------------------------------------------------------------------ files


@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_models_from_files(ending: str, tmp_path: Path) -> None:
    model = small_model(loss=keras.losses.MeanSquaredError(), metrics=[])
    path = tmp_path / f"model.{ending}"
    model.save(path)
    estimator = est.keras.model_to_estimator(keras_model_path=path, model_dir=str(tmp_path / "m"))
    np.testing.assert_allclose(predictions(estimator), model.predict(X, verbose=0), atol=1e-5)


def test_a_file_with_classes_of_its_own(tmp_path: Path) -> None:
    model = custom_layer()
    model.save(tmp_path / "model.keras")
    estimator = est.keras.model_to_estimator(
        keras_model_path=str(tmp_path / "model.keras"),
        custom_objects={"Scaled": Scaled},
        model_dir=str(tmp_path / "m"),
    )
    np.testing.assert_allclose(predictions(estimator), model.predict(X, verbose=0), atol=1e-5)


# ------------------------------------------------------------------ the model stays as it is


def test_training_does_not_change_the_model(tmp_path: Path) -> None:
    model = small_model()
    before = [v.numpy() for v in model.variables]
    paths = [v.path for v in model.variables]
    estimator = convert(model, tmp_path)
    estimator.train(read(X, Y), steps=3)
    estimator.evaluate(read(X, Y, epochs=1))
    for value, variable in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(value, variable.numpy())
    assert [v.path for v in model.variables] == paths
    assert not model.optimizer.built


def test_estimators_of_one_model_do_not_meet(tmp_path: Path) -> None:
    model = small_model()
    one, other = convert(model, tmp_path / "1"), convert(model, tmp_path / "2")
    first = train(one, read(X, Y), 4)
    assert train(other, read(X, Y), 4) == first
    before = predictions(one)
    other.train(read(X, Y), steps=4)
    np.testing.assert_array_equal(predictions(one), before)


def test_the_weights_of_the_moment_of_conversion_count(tmp_path: Path) -> None:
    model = small_model()
    expected = model.predict(X, verbose=0)
    estimator = convert(model, tmp_path)
    model.set_weights([np.zeros_like(w) for w in model.get_weights()])
    np.testing.assert_allclose(predictions(estimator), expected, atol=1e-6)


def test_a_removed_model_dir_starts_anew_with_the_weights_of_the_model(tmp_path: Path) -> None:
    estimator = convert(small_model(), tmp_path / "m")
    first = train(estimator, read(X, Y), 3)
    shutil.rmtree(tmp_path / "m")
    np.testing.assert_allclose(train(estimator, read(X, Y), 3), first, rtol=1e-6)


# ------------------------------------------------------------------ names


def test_variables_are_named_by_their_layers(tmp_path: Path) -> None:
    estimator = convert(CASES["nested"].make(), tmp_path)
    estimator.train(read(X, AMOUNT), steps=1)
    names = set(estimator.get_variable_names())
    assert {"inner/dense/kernel", "inner/batch_normalization/moving_mean"} <= names
    assert {"dense_1/kernel", "sgd/iteration", "global_step"} <= names


def test_the_same_model_made_later_in_the_process_finds_its_checkpoint(tmp_path: Path) -> None:
    first = convert(small_model(), tmp_path)
    first.train(read(X, Y), steps=3)
    keras.layers.Dense(3), keras.layers.Dense(3)  # the numbers of layers go on
    again = convert(small_model(), tmp_path)
    np.testing.assert_array_equal(predictions(again), predictions(first))
    again.train(read(X, Y), steps=1)
    assert again.get_variable_value("global_step") == 4


def test_metrics_under_other_names(tmp_path: Path) -> None:
    estimator = convert(small_model(), tmp_path, metric_names_map={"accuracy": "hits"})
    metrics = estimator.evaluate(read(X, Y, epochs=1))
    assert set(metrics) == {"hits", "loss", "global_step"}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"other": "x"}, r"metric names:\"\['accuracy'\]\" do not exist in the `metric_names_map`"),
        ({"accuracy": "a", "other": "x"}, r"unexpected keys .* Expected keys: \['accuracy'\], Rec"),
    ],
)
def test_names_of_metrics_that_do_not_fit(names: Any, message: str, tmp_path: Path) -> None:
    estimator = convert(small_model(), tmp_path, metric_names_map=names)
    with pytest.raises(ValueError, match=message):
        estimator.evaluate(read(X, Y, epochs=1))


def test_inputs_and_outputs_go_by_name(tmp_path: Path) -> None:
    model = two_towers()
    estimator = convert(model, tmp_path)
    # In the other order, and with one that the model does not ask for.
    features = {"unused": X, "right": RIGHT, "left": LEFT}
    answers = list(estimator.predict(read(features, epochs=1)))
    price, kind = model.predict([LEFT, RIGHT], verbose=0)
    np.testing.assert_allclose([a["price"] for a in answers], price, atol=1e-5)
    np.testing.assert_allclose([a["kind"] for a in answers], kind, atol=1e-5)


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    estimator = convert(two_towers(), tmp_path)
    with pytest.raises(KeyError, match="does not cover requested inputs keys") as caught:
        next(estimator.predict(read({"left": LEFT, "rihgt": RIGHT}, epochs=1)))
    assert "Missed keys: {'right'}" in str(caught.value)


def test_names_of_inputs_as_in_keras_2(tmp_path: Path) -> None:
    a, b = keras.Input([4]), keras.Input([4])
    model = keras.Model([a, b], keras.layers.Dense(1)(a - b))
    model.compile("sgd", "mse")
    found = predictions(convert(model, tmp_path), {"input_2": RIGHT, "input_1": LEFT})
    np.testing.assert_allclose(found, model.predict([LEFT, RIGHT], verbose=0), atol=1e-5)


def test_the_only_input_may_have_any_name(tmp_path: Path) -> None:
    model = small_model()
    found = predictions(convert(model, tmp_path), {"input_1": X})
    np.testing.assert_allclose(found, model.predict(X, verbose=0), atol=1e-6)


def test_a_missing_label_is_named(tmp_path: Path) -> None:
    estimator = convert(two_towers(), tmp_path)
    with pytest.raises(KeyError, match="labels does not cover requested outputs keys"):
        estimator.train(read({"left": LEFT, "right": RIGHT}, {"price": AMOUNT}), steps=1)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_weights_of_samples_by_output(kind: int, tmp_path: Path) -> None:
    weights = np.linspace(0, 2, len(X)).astype("float32")
    given = [{"kind": weights}, {"price": weights, "kind": weights}, weights][kind]
    estimator = convert(two_towers(), tmp_path)
    features = {"features": {"left": LEFT, "right": RIGHT}, "sample_weights": given}
    labels = {"price": AMOUNT, "kind": Y[:, None]}
    losses = train(estimator, read(features, labels), 1)
    price, kinds = two_towers_outputs(estimator)
    w = weights[:12]
    of_price = np.mean((price - AMOUNT[:12]) ** 2, axis=1)
    of_kind = -np.log(kinds[np.arange(12), Y[:12]])
    expected = 0.5 * np.mean(of_price * (w if kind else 1)) + 2 * np.mean(of_kind * w)
    np.testing.assert_allclose(losses, [expected], rtol=1e-4)


def two_towers_outputs(estimator: est.Estimator) -> tuple[np.ndarray, np.ndarray]:
    """What the model says to the first batch before any training."""
    model = estimator._model_fn.model  # type: ignore[attr-defined]
    return model.predict([LEFT[:12], RIGHT[:12]], verbose=0)


def test_weights_for_an_output_that_is_not_there(tmp_path: Path) -> None:
    features = {"features": {"left": LEFT, "right": RIGHT}, "sample_weights": {"sort": AMOUNT}}
    labels = {"price": AMOUNT, "kind": Y[:, None]}
    with pytest.raises(
        ValueError, match=r"Unknown entries in sample_weights dictionary: \['sort'\]"
    ):
        convert(two_towers(), tmp_path).train(read(features, labels), steps=1)


# ------------------------------------------------------------------ in the rest of the world


def test_train_and_evaluate_and_its_exporters(tmp_path: Path) -> None:
    estimator = convert(small_model(), tmp_path)
    receiver_fn = est.export.build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([None, 4])})
    metrics, exports = est.train_and_evaluate(
        estimator,
        est.TrainSpec(read(X, Y), max_steps=6),
        est.EvalSpec(
            read(X, Y, epochs=1), steps=None, exporters=est.LatestExporter("now", receiver_fn)
        ),
    )
    assert metrics["global_step"] == 6 and len(exports) == 1
    loaded = est.keras.load(exports[0])
    np.testing.assert_allclose(loaded.predict(X, verbose=0), predictions(estimator), atol=1e-5)


def test_a_subclassed_model_warm_starts_from_another(tmp_path: Path) -> None:
    first = CASES["subclassed"].make()
    old = convert(first, tmp_path / "old")
    old.train(read(X, AMOUNT), steps=2)
    new = est.keras.model_to_estimator(
        CASES["subclassed"].make(),
        model_dir=str(tmp_path / "new"),
        warm_start_from=str(tmp_path / "old"),
        optimizer=keras.optimizers.SGD(0.0),
    )
    new.train(read(X, AMOUNT), steps=1)
    np.testing.assert_allclose(predictions(new), predictions(old), atol=1e-6)
    assert isinstance(first, Subclassed)


def test_metrics_that_would_not_be_counted_are_reported(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    class Own(keras.Sequential):
        def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
            return {}

    model = Own([keras.Input([2]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with caplog.at_level(logging.WARNING, "tensorflow"):
        convert(model, tmp_path)
    assert "Own overrides compute_metrics" in caplog.text


def test_an_hdf5_file_with_short_names_of_losses_is_read(tmp_path: Path) -> None:
    model = small_model()
    model.compile("sgd", "mse", metrics=["mae"])
    model.save(tmp_path / "model.h5")
    read = est.keras.model_to_estimator(keras_model_path=tmp_path / "model.h5")
    assert read.model_fn is not None


def test_missing_labels_are_named(tmp_path: Path) -> None:
    model = small_model()
    model.compile("sgd", "mse")
    estimator = est.keras.model_to_estimator(model, model_dir=str(tmp_path))
    rows = np.zeros((2, *model.input_shape[1:]), np.float32)
    with pytest.raises(ValueError, match="input_fn returns no labels"):
        estimator.train(lambda: tf.data.Dataset.from_tensor_slices(rows).batch(2))
