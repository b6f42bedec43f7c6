"""Weights of canned models, read from real checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.report import weights

fc = est.feature_column
CITY = fc.categorical_column_with_vocabulary_list("city", ["Köln", "Bonn"], num_oov_buckets=1)
AGE = fc.numeric_column("age")
BANDS = fc.bucketized_column(AGE, [20.0, 40.0])


def input_fn() -> tf.data.Dataset:
    city, age = np.array(["Köln", "Bonn", "Rom"] * 8), np.linspace(0, 60, 24, dtype="float32")
    rows = ({"city": city, "age": age}, (age > 30).astype("int64"))
    return tf.data.Dataset.from_tensor_slices(rows).batch(8)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Any:
    model = est.DNNLinearCombinedClassifier(
        tmp_path_factory.mktemp("wide"),
        linear_feature_columns=[CITY, BANDS],
        dnn_feature_columns=[AGE],
        dnn_hidden_units=[4],
        config=est.RunConfig(tf_random_seed=1, progress=False),
    )
    return model.train(input_fn)


def test_linear_weights_are_named_by_what_they_stand_for(wide: Any) -> None:
    columns = weights.columns_of(wide._workspace.made_with.values())
    found = weights.of_linear_model(wide.model_dir, columns)
    by_name = {(one.column, one.value): one.weight for one in found}
    value = wide.get_variable_value
    assert by_name["city", "Bonn"] == pytest.approx(value("linear/linear_model/city/weights")[1, 0])
    bands = value("linear/linear_model/age_bucketized/weights")
    assert by_name["age_bucketized", "20 to 40"] == pytest.approx(bands[1, 0])
    assert ("city", "2") in by_name and ("age_bucketized", "from 40") in by_name
    assert abs(found[0].weight) == max(abs(one.weight) for one in found)


def test_layers_are_told_and_slots_of_optimizers_are_not(wide: Any) -> None:
    layers = {layer.name: layer for layer in weights.layers(wide.model_dir)}
    kernel = wide.get_variable_value("dnn/hiddenlayer_0/kernel")
    told = layers["dnn/hiddenlayer_0/kernel"]
    assert told.shape == [1, 4] and told.mean == pytest.approx(kernel.mean(), rel=1e-5)
    assert not any("dagrad" in name or "Ftrl" in name for name in layers)


def test_report_shows_them_with_words_where_the_estimator_is_given(
    wide: Any, tmp_path: Path
) -> None:
    text = Path(est.report.write(tmp_path / "r.html", [wide.model_dir], wide, input_fn)).read_text()
    assert "linear weights" in text and "city K" in text and "dnn/logits/bias" in text
