"""The three canned model_dirs kept beside the repository: evaluate, predict, 80 further steps."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est

fc = tf.feature_column


def _columns() -> tuple[list[Any], list[Any]]:
    age = fc.numeric_column("age")
    hours = fc.numeric_column("hours", normalizer_fn=lambda x: (x - 40.0) / 10.0)
    ageb = fc.bucketized_column(age, [25, 35, 45, 60])
    occ = fc.categorical_column_with_hash_bucket("occ", 50)
    words = ["hs", "bachelors", "masters"]
    edu = fc.categorical_column_with_vocabulary_list("edu", words, num_oov_buckets=1)
    cross = fc.crossed_column([ageb, "occ"], 200)
    deep = [hours, fc.embedding_column(occ, 4), fc.indicator_column(edu), ageb]
    return [ageb, occ, edu, cross], deep


WIDE, DEEP = _columns()
CASES: dict[str, Callable[[str], est.Estimator]] = {
    "dnn_classifier": lambda d: est.DNNClassifier([10, 10], DEEP, n_classes=3, model_dir=d),
    "linear_classifier": lambda d: est.LinearClassifier(WIDE, model_dir=d),
    "wide_deep": lambda d: est.DNNLinearCombinedClassifier(
        linear_feature_columns=WIDE,
        dnn_feature_columns=DEEP,
        dnn_hidden_units=[16, 8],
        model_dir=d,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_continues_a_model_dir_of_the_original(
    name: str, upstream_model_dirs: Path, tmp_path: Path
) -> None:
    folder = upstream_model_dirs / name
    directory = tmp_path / "model"
    directory.mkdir()
    for file in (folder / "model_dir").iterdir():
        shutil.copyfile(file, directory / file.name)
    expected = json.loads((folder / "expected.json").read_text())
    with np.load(folder / "data.npz") as data:
        features = dict(data)
    labels = features.pop("label")

    def input_fn(repeat: bool = False) -> tf.data.Dataset:
        rows = tf.data.Dataset.from_tensor_slices((features, labels))
        return (rows.repeat() if repeat else rows).batch(50)

    estimator = CASES[name](str(directory))
    got = estimator.evaluate(input_fn)
    assert {k: float(v) for k, v in got.items()} == pytest.approx(expected["evaluate"], abs=1e-4)
    rows = list(estimator.predict(input_fn))
    with np.load(folder / "predictions.npz") as predictions:
        assert predictions.files
        for key in predictions.files:
            np.testing.assert_allclose([r[key] for r in rows], predictions[key], atol=1e-3)
    estimator.train(lambda: input_fn(repeat=True), steps=80)
    after = {k: float(v) for k, v in estimator.evaluate(input_fn).items()}
    assert after == pytest.approx(expected["evaluate_after_more"], rel=1e-3)
    saved = {n: s for n, s in tf.train.list_variables(str(directory))}
    assert saved == {n: list(s) for n, s in expected["variables"].items()}
