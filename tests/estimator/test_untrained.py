"""A model_dir without a checkpoint: predict refuses, evaluate warns, old code goes on."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.install import installed
from estimand.core.errors import NoCheckpointError
from tests.line import batches, config, endless, estimator, features_only, v1

REFUSED = (
    "predict: the model is not trained. {}. Call train first, or give the model_dir of a trained "
    "model. To predict with random weights, write predict(..., untrained=True)."
)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch) -> Path:
    """A directory to be in, with a trained model in runs/type."""
    monkeypatch.chdir(tmp_path)
    estimator("runs/type").train(endless, max_steps=5)
    return tmp_path / "runs"


@pytest.mark.parametrize("eagerly", [False, True])
def test_predict_refuses_and_names_what_is_there_and_near(runs: Path, eagerly: bool) -> None:
    (runs / "typo").mkdir()
    untrained = estimator("runs/typo", run_eagerly=eagerly)
    with pytest.raises(NoCheckpointError) as told:
        next(untrained.predict(features_only))
    assert str(told.value) == REFUSED.format("runs/typo is empty; runs/type has model.ckpt-5")
    rows = list(untrained.predict(features_only, untrained=True))
    assert [row["y"] for row in rows] == [1, 2, 3, 4]
    with pytest.raises(NoCheckpointError):  # still: nothing has been trained since
        next(untrained.predict(features_only))


def test_the_directory_above_a_trained_one_is_recognised(runs: Path) -> None:
    with pytest.raises(NoCheckpointError) as told:
        next(estimator("runs").predict(features_only))
    there = "runs has no checkpoint, only type; runs/type has model.ckpt-5"
    assert str(told.value) == REFUSED.format(there)


def test_a_directory_that_is_not_there_is_called_so(tmp_path: Path) -> None:
    with pytest.raises(NoCheckpointError) as told:
        next(estimator(tmp_path / "nowhere").predict(features_only))
    assert str(told.value) == REFUSED.format(f"{tmp_path / 'nowhere'} does not exist")


@pytest.mark.parametrize("eagerly", [False, True])
def test_evaluate_warns_on_a_logger_that_nobody_silences(runs: Path, caplog, eagerly: bool) -> None:
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    try:
        results = estimator("runs/typo", run_eagerly=eagerly).evaluate(batches)
    finally:
        logging.getLogger("tensorflow").setLevel(logging.NOTSET)
    assert results["global_step"] == 0
    [record] = [r for r in caplog.records if r.name == "estimand"]
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "evaluate: THE MODEL IS NOT TRAINED. runs/typo does not exist; runs/type has "
        "model.ckpt-5. The metrics are those of random weights."
    )


def warned(caplog) -> list[str]:
    return [r.getMessage() for r in caplog.records if "NOT TRAINED" in r.getMessage()]


def test_old_code_gets_its_predictions_and_the_warning(runs: Path, caplog) -> None:
    with installed():
        rows = list(estimator("runs/typo").predict(features_only))
    assert len(rows) == 4
    assert warned(caplog) == [
        "predict: THE MODEL IS NOT TRAINED. runs/typo does not exist; runs/type has "
        "model.ckpt-5. The predictions come from random weights."
    ]
    with pytest.raises(NoCheckpointError):  # installed no more
        next(estimator("runs/other").predict(features_only))


def test_models_of_version_1_predict_with_the_warning(tmp_path: Path, caplog) -> None:
    from estimand.compat.v1.estimator import LinearRegressor

    columns = [est.feature_column.numeric_column("x")]
    model = LinearRegressor(columns, str(tmp_path), config=config())
    assert len(list(model.predict(features_only))) == 4
    assert len(warned(caplog)) == 1


# What is not untrained


def test_trained_in_this_process_without_a_checkpoint(tmp_path: Path, caplog) -> None:
    made = estimator(tmp_path, save_checkpoints_steps=None, save_checkpoints_secs=None)
    made.train(endless, max_steps=3)
    assert made.latest_checkpoint() is None
    assert len(list(made.predict(features_only))) == 4
    made.evaluate(batches)
    assert not warned(caplog)


def test_warm_started(runs: Path, caplog) -> None:
    made = est.Estimator(
        estimator("runs/type")._model_fn, "runs/new", config(), warm_start_from="runs/type"
    )
    assert len(list(made.predict(features_only))) == 4
    assert not warned(caplog)


def test_a_keras_model_brings_its_weights(tmp_path: Path, caplog) -> None:
    import keras

    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    made = est.keras.model_to_estimator(model, model_dir=str(tmp_path))
    read = est.inputs.numpy_input_fn(np.ones([4, 1], "float32"), batch_size=2, shuffle=False)
    assert len(list(made.predict(read))) == 4
    assert not warned(caplog)


def test_a_model_with_nothing_to_train(tmp_path: Path, caplog) -> None:
    def doubled(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        return est.EstimatorSpec(mode, predictions=2 * features["x"])

    assert list(estimator(tmp_path, doubled).predict(features_only)) == [2, 4, 6, 8]
    assert not warned(caplog)


def test_a_model_of_variables_that_were_there_before(tmp_path: Path, caplog) -> None:
    w = tf.Variable(3.0)

    def tripled(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        return est.EstimatorSpec(mode, predictions=w * features["x"])

    assert list(estimator(tmp_path, tripled).predict(features_only)) == [3, 6, 9, 12]
    assert not warned(caplog)


def test_a_model_that_is_filled_by_its_scaffold(tmp_path: Path, caplog) -> None:
    def filled(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        w = v1.get_variable("w", [])
        fill = w.assign(3.0)
        scaffold = v1.train.Scaffold(init_fn=lambda scaffold, session: session.run(fill))
        return est.EstimatorSpec(mode, predictions=w * features["x"], scaffold=scaffold)

    assert list(estimator(tmp_path, filled).predict(features_only)) == [3, 6, 9, 12]
    assert not warned(caplog)


# Results


@pytest.mark.parametrize("eagerly", [False, True])
def test_results_are_numbers_of_python_equal_to_those_of_numpy(
    tmp_path: Path, eagerly: bool
) -> None:
    made = estimator(tmp_path, run_eagerly=eagerly).train(endless, max_steps=5)
    results = made.evaluate(batches)
    assert {name: type(value) for name, value in results.items()} == {
        "mae": float,
        "loss": float,
        "global_step": int,
    }
    assert json.loads(json.dumps(results)) == results
    assert results["loss"] == np.float32(results["loss"])


def test_results_that_are_arrays_stay_arrays(tmp_path: Path) -> None:
    def counting(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        w = v1.get_variable("w", [])
        matrix = v1.metrics.mean_tensor(tf.ones([2, 1]) + 0 * w)
        loss = tf.reduce_sum(w)
        return est.EstimatorSpec(mode, loss=loss, eval_metric_ops={"matrix": matrix})

    results = estimator(tmp_path, counting).evaluate(batches)
    assert isinstance(results["matrix"], np.ndarray)
    assert results["matrix"].shape == (2, 1)
