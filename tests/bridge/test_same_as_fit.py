"""A converted estimator makes the steps that `fit` makes: the same losses, the same weights."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.bridge.conversions import CASES, X, Y, convert, fit, read, small_model, train

STEPS = 8


def test_batch_normalization_and_dropout_give_the_losses_of_fit(tmp_path: Path) -> None:
    model = small_model()
    estimator = convert(model, tmp_path)
    ours = train(estimator, read(X, Y), 20)
    # The model still has the weights, and its dropout the random state, that it was converted
    # with: dropout draws the same masks here.
    theirs = fit(model, read(X, Y)(), 20)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)
    trained = est.keras.load(estimator.model_dir)
    for mine, other in zip(trained.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-5)


def test_the_masks_of_dropout_matter_to_the_losses_compared(tmp_path: Path) -> None:
    """Else the test above would compare nothing of dropout."""
    with_masks = fit(small_model(), read(X, Y)(), 5)
    model = small_model()
    for layer in model.layers:
        if isinstance(layer, keras.layers.Dropout):
            layer.seed_generator.state.assign([123, 0])
    other_masks = fit(model, read(X, Y)(), 5)
    assert np.abs(np.subtract(with_masks, other_masks)).max() > 1e-2


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_model_makes_the_steps_of_fit(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    keras.utils.set_random_seed(7)
    model = case.make()
    estimator = convert(model, tmp_path)
    ours = train(estimator, read(case.x, case.y), STEPS)
    theirs = fit(model, read(case.x, case.y)(), STEPS)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)
    assert np.ptp(ours) > 1e-3, "nothing was trained"

    metrics = estimator.evaluate(read(case.x, case.y, epochs=1))
    expected = model.evaluate(read(case.x, case.y, epochs=1)(), return_dict=True, verbose=0)
    assert set(metrics) == {*expected, "global_step"}
    for key, value in expected.items():
        np.testing.assert_allclose(metrics[key], value, rtol=1e-3, atol=1e-4, err_msg=key)

    answers = list(estimator.predict(read(case.x, epochs=1), yield_single_examples=False))
    predicted = model.predict(read(case.x, epochs=1)(), verbose=0)
    for key, value in answers[0].items():
        whole = np.concatenate([answer[key] for answer in answers])
        assert any(
            whole.shape == other.shape and np.allclose(whole, other, atol=1e-4)
            for other in keras.tree.flatten(predicted)
        ), key
        assert len(value)


def test_weighted_samples_are_those_of_fit(tmp_path: Path) -> None:
    weights = np.linspace(0, 2, len(X)).astype("float32")
    model = small_model(weighted_metrics=["accuracy"])
    estimator = convert(model, tmp_path)
    features = {"features": X, "sample_weights": weights}
    ours = train(estimator, read(features, Y), STEPS)
    data = tf.data.Dataset.from_tensor_slices((X, Y, weights)).batch(12)
    np.testing.assert_allclose(ours, fit(model, data.repeat(), STEPS), rtol=0, atol=1e-4)
    metrics = estimator.evaluate(read(features, Y, epochs=1))
    expected = model.evaluate(data, return_dict=True, verbose=0)
    assert set(metrics) == {*expected, "global_step"}
    for key in ("accuracy", "weighted_accuracy"):
        np.testing.assert_allclose(metrics[key], expected[key], rtol=1e-5)


def test_a_run_that_stops_and_goes_on_makes_the_steps_of_fit(tmp_path: Path) -> None:
    model = small_model()
    first = train(convert(model, tmp_path), read(X, Y), 4)
    # The input of a new call of train begins at its beginning: four batches make an epoch.
    again = train(convert(small_model(), tmp_path), read(X, Y), 4)
    np.testing.assert_allclose(first + again, fit(model, read(X, Y)(), 8), rtol=0, atol=1e-4)


def test_a_model_that_was_fitted_before_goes_on_with_its_optimizer(tmp_path: Path) -> None:
    model = small_model()
    fit(model, read(X, Y)(), 4)
    ours = train(convert(model, tmp_path), read(X, Y), 4)
    np.testing.assert_allclose(ours, fit(model, read(X, Y)(), 4), rtol=0, atol=1e-4)


def test_eager_runs_make_the_same_steps(tmp_path: Path) -> None:
    model = small_model()
    config = est.RunConfig(model_dir=str(tmp_path), run_eagerly=True)
    estimator = est.keras.model_to_estimator(model, config=config)
    estimator.train(read(X, Y), steps=4)
    fit(model, read(X, Y)(), 4)
    trained = est.keras.load(estimator.model_dir)
    for mine, other in zip(trained.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-5)


def test_moving_averages_of_weights_are_what_is_evaluated_as_after_fit(tmp_path: Path) -> None:
    def averaging_model():
        optimizer = keras.optimizers.Adam(0.05, use_ema=True, ema_momentum=0.8)
        return small_model(optimizer=optimizer)

    model = averaging_model()
    estimator = convert(model, tmp_path)
    ours = train(estimator, read(X, Y), STEPS)
    # One epoch: fit puts the averages in place at the end of each.
    model.fit(read(X, Y)().take(STEPS), verbose=0, shuffle=False)
    metrics = estimator.evaluate(read(X, Y, epochs=1))
    expected = model.evaluate(read(X, Y, epochs=1)(), return_dict=True, verbose=0)
    np.testing.assert_allclose(metrics["loss"], expected["loss"], rtol=1e-4)
    answers = np.stack([next(iter(a.values())) for a in estimator.predict(read(X, epochs=1))])
    np.testing.assert_allclose(answers, model.predict(X, verbose=0), atol=1e-4)
    # Training goes on with the weights themselves.
    again = train(estimator, read(X, Y), 1)
    trained = train(convert(averaging_model(), tmp_path / "b"), read(X, Y), STEPS + 1)
    np.testing.assert_allclose(ours + again, trained, atol=1e-5)
