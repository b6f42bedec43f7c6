"""`estimand checkpoint convert`: V1 names of canned models to V2 names, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

import estimand as est
from estimand.cli.main import main
from estimand.engine.checkpoints.contents import CheckpointContents
from tests.canned import cases

FIXTURES = Path(__file__).resolve().parents[2] / "canned" / "fixtures"
OLD = sorted(path.name for path in FIXTURES.glob("v1_*"))
# What V1 did not save.
MORE = {
    "v1_dnn_classifier_rmsprop": ["--momentum", "0.9"],
    "v1_linear_regressor_momentum": ["--momentum", "0.9", "--learning-rate", "0.01"],
    "v1_linear_regressor_partitioned_momentum": ["--momentum", "0.9", "--learning-rate", "0.01"],
}


def convert(*arguments: Any) -> Any:
    return CliRunner().invoke(main, ["--verbose", "checkpoint", "convert", *map(str, arguments)])


def values(path: Any) -> dict[str, Any]:
    contents = CheckpointContents(path)
    return {one.name: contents.value(one.name) for one in contents.tensors}


def source(name: str) -> Path:
    return FIXTURES / name / "model_dir"


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", OLD)
def test_there_and_back_is_what_the_original_wrote(name: str, tmp_path: Path) -> None:
    there = convert(source(name), tmp_path / "v2", *MORE.get(name, []))
    assert there.exit_code == 0, there.output
    assert any(n.startswith("training/") for n in values(tmp_path / "v2"))
    back = convert(tmp_path / "v2", tmp_path / "v1", "--to", "v1")
    assert back.exit_code == 0, back.output
    original, ours = values(source(name)), values(tmp_path / "v1")
    assert set(ours) == set(original)
    for key, value in original.items():
        assert ours[key].dtype == value.dtype
        np.testing.assert_allclose(ours[key], value, rtol=1e-4, err_msg=key)


def v2_dnn(model_dir: Path) -> est.Estimator:
    columns = cases.columns()
    return est.DNNClassifier(
        [6], columns.deep, model_dir=model_dir, loss_reduction="sum", optimizer="Adagrad"
    )


def v2_wide_deep(model_dir: Path) -> est.Estimator:
    columns = cases.columns()
    return est.DNNLinearCombinedRegressor(
        model_dir=model_dir,
        linear_feature_columns=columns.wide,
        dnn_feature_columns=columns.deep,
        dnn_hidden_units=[6],
        linear_optimizer="Adam",
        dnn_optimizer="Adam",
        loss_reduction="sum",
    )


@pytest.mark.parametrize(
    ("name", "make"),
    [("v1_dnn_classifier", v2_dnn), ("v1_wide_deep_regressor_adam_twice", v2_wide_deep)],
)
def test_a_converted_model_trains_on_as_the_original_did(
    name: str, make: Any, tmp_path: Path
) -> None:
    assert convert(source(name), tmp_path).exit_code == 0
    expected = json.loads((FIXTURES / name / "expected.json").read_text())
    case, estimator = cases.CASES[name], make(tmp_path)

    def check(said: dict[str, float]) -> None:
        got = estimator.evaluate(case.input_fn)
        for key in ("average_loss", "loss", "global_step"):
            assert got[key] == pytest.approx(said[key], rel=1e-3), key

    check(expected["evaluate"])
    estimator.train(lambda: case.input_fn(repeat=True), steps=cases.MORE_STEPS)
    check(expected["evaluate_after_more"])


def test_learning_rates_are_v1_defaults_and_are_told(tmp_path: Path) -> None:
    result = convert(source("v1_wide_deep_classifier"), tmp_path)
    assert "training/Adagrad/learning_rate is 0.001\n" in result.output
    assert "training/Ftrl/learning_rate is 0.005\n" in result.output


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    refused = convert(source("v1_dnn_classifier"), tmp_path)
    assert refused.exit_code == 2
    assert refused.output.endswith(f"{tmp_path} is not empty. Add --force to write into it.\n")
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]
    assert convert(source("v1_dnn_classifier"), tmp_path, "--force").exit_code == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-40")


def test_a_checkpoint_is_not_converted_in_place() -> None:
    folder = source("v1_dnn_classifier")
    result = convert(folder, folder, "--force")
    assert result.exit_code == 2
    assert "is where the checkpoint comes from" in result.output


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("v1_linear_regressor_momentum", ["--momentum", "0.9"], "Give --learning-rate."),
        ("v1_dnn_classifier_rmsprop", [], "Give --momentum"),
        ("dnn_regressor_nesterov", [], "has V2 names already"),
        ("v1_dnn_classifier", ["--to", "v1"], "no V2 names"),
    ],
)
def test_what_cannot_be_converted_leaves_nothing_behind(
    name: str, options: list[str], message: str, tmp_path: Path
) -> None:
    result = convert(source(name), tmp_path / "out", *options)
    assert result.exit_code == 1
    assert message in result.output
    assert not (tmp_path / "out").exists()


def test_a_model_that_is_not_canned_is_refused(tmp_path: Path) -> None:
    model = est.KMeans(1, initial_clusters=[[0.0]], model_dir=tmp_path / "model")
    model.train(lambda: tf.data.Dataset.from_tensors([[1.0]]))
    result = convert(tmp_path / "model", tmp_path / "out")
    assert result.exit_code == 1
    assert "no checkpoint of a canned model" in result.output
