"""What cannot be exported is named before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import (
    CheckpointError,
    ConfigError,
    ExportWriteError,
    ModelFnError,
    NoCheckpointError,
    SpecError,
)
from tests.export.conftest import linear_model_fn, raw_receiver_fn, run_config, v1


def test_no_receiver(linear: est.Estimator, base: Path) -> None:
    with pytest.raises(ConfigError, match=r"An input_receiver_fn must be defined\."):
        linear.export_saved_model(base, None)


def test_a_receiver_in_place_of_its_function(linear: est.Estimator, base: Path) -> None:
    with pytest.raises(ConfigError, match="Pass the function itself"):
        linear.export_saved_model(base, {"x": 1})


def test_a_function_that_returns_no_receiver(linear: est.Estimator, base: Path) -> None:
    with pytest.raises(SpecError, match=r"must return an est\.export\.ServingInputReceiver"):
        linear.export_saved_model(base, lambda: {"x": 1})


def test_no_checkpoint(tmp_path: Path) -> None:
    estimator = est.Estimator(linear_model_fn, tmp_path / "empty")
    with pytest.raises(NoCheckpointError, match=r"Couldn't find trained model at .*empty"):
        estimator.export_saved_model(tmp_path / "out", raw_receiver_fn)


def test_a_checkpoint_that_is_not_there(linear: est.Estimator, base: Path) -> None:
    with pytest.raises(NoCheckpointError, match=r"model\.ckpt-77"):
        linear.export_saved_model(base, raw_receiver_fn, checkpoint_path="/tmp/model.ckpt-77")


def test_a_variable_that_the_checkpoint_lacks(linear: est.Estimator, base: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        v1.get_variable("extra", [2])
        return linear_model_fn(features, labels, mode)

    estimator = est.Estimator(model_fn, linear.model_dir, run_config())
    with pytest.raises(CheckpointError) as caught:
        estimator.export_saved_model(base, raw_receiver_fn)
    assert "Could not load all requested variables from checkpoint. Please make sure your " in str(
        caught.value
    )
    assert "extra" in str(caught.value)
    assert not base.exists()


def test_no_mode_to_export(linear: est.Estimator, base: Path) -> None:
    with pytest.raises(ConfigError, match=r"No valid modes for exporting found\. Got dict_keys"):
        linear.experimental_export_all_saved_models(base, {})
    with pytest.raises(ConfigError, match=r"\['predict'\]"):
        linear.experimental_export_all_saved_models(base, {"predict": raw_receiver_fn})


def test_a_base_that_is_a_file(linear: est.Estimator, tmp_path: Path) -> None:
    (tmp_path / "base").touch()
    with pytest.raises(ExportWriteError, match="a file is in its place"):
        linear.export_saved_model(tmp_path / "base", raw_receiver_fn)


def test_no_base(linear: est.Estimator) -> None:
    with pytest.raises(ConfigError, match="export_dir_base must be the path of a directory"):
        linear.export_saved_model("", raw_receiver_fn)


def test_an_extra_asset_that_is_not_there(linear: est.Estimator, base: Path) -> None:
    with pytest.raises(ConfigError, match=r"assets_extra\['a'\] names the file '/nowhere/b'"):
        linear.export_saved_model(base, raw_receiver_fn, assets_extra={"a": "/nowhere/b"})


def test_an_extra_asset_outside_of_the_export(linear: est.Estimator, base: Path) -> None:
    with pytest.raises(ConfigError, match="outside of the export"):
        linear.export_saved_model(base, raw_receiver_fn, assets_extra={"../a": __file__})


def test_a_predict_spec_without_predictions(linear: est.Estimator, base: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        return est.EstimatorSpec(mode)

    estimator = est.Estimator(model_fn, linear.model_dir, run_config())
    with pytest.raises(SpecError, match="Missing predictions"):
        estimator.export_saved_model(base, raw_receiver_fn)


def test_a_model_function_that_returns_no_spec(linear: est.Estimator, base: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        return features

    estimator = est.Estimator(model_fn, linear.model_dir, run_config())
    with pytest.raises(ModelFnError, match="should return an EstimatorSpec"):
        estimator.export_saved_model(base, raw_receiver_fn)


def test_a_resource_that_cannot_travel(linear: est.Estimator, base: Path) -> None:
    iterator = iter(tf.data.Dataset.range(3).repeat())

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = linear_model_fn(features, labels, mode)
        number = tf.cast(next(iterator), tf.float32)
        return est.EstimatorSpec(mode, predictions={"y": spec.predictions["y"] + number})

    estimator = est.Estimator(model_fn, linear.model_dir, run_config())
    with pytest.raises(ModelFnError, match="neither a variable nor a lookup table"):
        estimator.export_saved_model(base, raw_receiver_fn)
