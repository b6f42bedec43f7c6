"""What a model's answers rest on, of exports and of estimators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from click.testing import CliRunner

import estimand as est
from estimand.cli.main import main

RANDOM = np.random.default_rng(0)
TABLE = {
    "big": RANDOM.normal(size=60).astype("float32"),
    "small": RANDOM.normal(size=60).astype("float32"),
    "word": np.tile(["no", "yes"], 30),
}
WEIGHTS = {"big": 4.0, "small": 1.0, "word": 0.0}
ANSWERS = 4.0 * TABLE["big"] + TABLE["small"]


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    """Known weights, so that what is to be found is known."""
    unused = tf.cast(tf.equal(features["word"], "yes"), tf.float32)
    answer = 4.0 * features["big"] + features["small"] + 0.0 * unused
    if mode == est.ModeKeys.PREDICT:
        classes = tf.stack([tf.nn.sigmoid(-answer), tf.nn.sigmoid(answer)], axis=1)
        outputs = {"serving_default": est.export.PredictOutput({"predictions": answer}),
                   "sides": est.export.PredictOutput({"probabilities": classes})}  # fmt: skip
        return est.EstimatorSpec(mode, {"predictions": answer}, export_outputs=outputs)
    step = tf.compat.v1.train.get_global_step().assign_add(1)
    return est.EstimatorSpec(mode, loss=tf.reduce_mean(answer), train_op=step)


SPEC = {"big": tf.TensorSpec([None]), "small": tf.TensorSpec([None]),
        "word": tf.TensorSpec([None], tf.string)}  # fmt: skip
PARSE = {name: tf.io.FixedLenFeature([], spec.dtype) for name, spec in SPEC.items()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> est.Estimator:
    estimator = est.Estimator(model_fn, tmp_path_factory.mktemp("model"))
    read = est.inputs.numpy_input_fn(TABLE, ANSWERS, shuffle=False)
    return estimator.train(read, max_steps=1)


@pytest.fixture(scope="module", params=["columns", "examples"])
def export(request: Any, trained: est.Estimator, tmp_path_factory: Any) -> str:
    receiver_fn = (
        est.export.build_raw_serving_input_receiver_fn(SPEC)
        if request.param == "columns"
        else est.export.build_parsing_serving_input_receiver_fn(PARSE)
    )
    return trained.export_saved_model(tmp_path_factory.mktemp("export"), receiver_fn).decode()


def order(found: Any) -> list[str]:
    return [one.column for one in found.ranking]


def test_export_with_and_without_labels(export: str) -> None:
    frame = pd.DataFrame(TABLE)
    changed = est.explain(export, frame)
    assert order(changed) == ["big", "small", "word"]
    assert changed.ranking[2].loss == 0
    assert "mean change of 'predictions'" in str(changed)
    losses = est.explain(export, frame.assign(target=ANSWERS), "target")
    assert order(losses) == ["big", "small", "word"]
    assert losses.what.startswith("root mean square error added")
    # Shuffled, a column with weight w differs by w times the root of twice its variance.
    expected = 4.0 * np.sqrt(2) * TABLE["big"].std()
    assert losses.ranking[0].loss == pytest.approx(expected, rel=0.3)


def test_estimator_and_classifier_signature(trained: est.Estimator, export: str) -> None:
    assert order(est.explain(trained, TABLE, ANSWERS))[0] == "big"
    found = est.explain(export, pd.DataFrame(TABLE), ANSWERS > 0, signature="sides")
    assert found.what == "accuracy lost when the column is shuffled"
    assert order(found)[0] == "big" and 0.2 < found.ranking[0].loss < 0.6


def test_mistakes_are_told(export: str) -> None:
    rows = pd.DataFrame(TABLE)
    with pytest.raises(est.errors.InputError, match="no column 'agee' of labels; there are big"):
        est.explain(export, rows, "agee")
    with pytest.raises(est.errors.InputError, match=r"no output 'prediction'.*'predictions'"):
        est.explain(export, rows, output="prediction")
    with pytest.raises(est.errors.ConfigError, match="permutation, shapley"):
        est.explain(export, rows, method="shap")


def test_command(export: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    pd.DataFrame(TABLE).assign(target=ANSWERS).to_csv(path, index=False)
    done = CliRunner().invoke(
        main, ["explain", export, str(path), "--label=target", "--format=json"]
    )
    assert done.exit_code == 0, done.output
    assert list(json.loads(done.stdout)["columns"]) == ["big", "small", "word"]


@pytest.mark.extras
def test_shapley_values_of_a_linear_model_are_its_terms(export: str) -> None:
    pytest.importorskip("shap")
    rows = pd.DataFrame(TABLE).iloc[:20]
    found = est.explain(export, rows, method="shapley")
    assert order(found) == ["big", "small", "word"]
    for place, name in enumerate(found.columns):
        values = TABLE[name][:20]
        term = WEIGHTS[name] * (values - values.mean()) if WEIGHTS[name] else np.zeros(20)
        assert found.values[:, place] == pytest.approx(term, abs=1e-3)
    assert found.base + found.values.sum(axis=1) == pytest.approx(ANSWERS[:20], abs=1e-3)
    sides = est.explain(export, rows, method="shapley", signature="sides")
    assert sides.values.shape == (20, 3)
