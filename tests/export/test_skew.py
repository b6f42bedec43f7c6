"""What was read in training is what is served: types, blanks, and rows in the same words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from click.testing import CliRunner

import estimand as est
from estimand.cli.main import main
from estimand.core.errors import ConfigError, InputError, SpecError
from estimand.export import deriving

PEOPLE = """age,job,hours,rich
31,clerk,40,0
47,,38.5,1
,farmer,60,0
52,clerk,41,1
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> dict[str, Any]:
    """A model of a CSV file with blanks and a column of integers, exported with no receiver."""
    folder = tmp_path_factory.mktemp("people")
    file = folder / "people.csv"
    file.write_text(PEOPLE)
    fc = est.feature_column
    jobs = fc.categorical_column_with_vocabulary_list("job", ["clerk", "farmer", "none"])
    columns = [
        fc.numeric_column("age", normalizer_fn=lambda age: (age - 40.0) / 10.0),
        fc.numeric_column("hours"),
        fc.indicator_column(jobs),
    ]
    read = est.inputs.csv_input_fn(
        str(file), 4, "rich", column_defaults={"age": 40, "job": "none"}, seed=1
    )
    model = est.DNNClassifier(
        [4], columns, str(folder / "run"), config=est.RunConfig(progress=False, tf_random_seed=1)
    )
    _, [export] = est.train_and_evaluate(
        model,
        est.TrainSpec(read, max_steps=5),
        est.EvalSpec(read, steps=1, exporters=est.FinalExporter("final")),
    )
    return {
        "file": file,
        "model": model,
        "read": read,
        "export": export.decode(),
        "columns": columns,
    }


def by_estimator(trained: dict[str, Any]) -> np.ndarray:
    rows = trained["model"].predict(lambda: trained["read"]("infer"))
    return np.stack([row["probabilities"] for row in rows])


def test_the_file_that_trained_the_model_is_predicted_alike(trained: dict[str, Any]) -> None:
    result = CliRunner().invoke(
        main, ["predict", trained["export"], "--input", str(trained["file"]), "--signature=predict"]
    )
    assert result.exit_code == 0, result.output
    found = [json.loads(line)["probabilities"] for line in result.output.splitlines()]
    np.testing.assert_allclose(found, by_estimator(trained), rtol=1e-5)


def test_a_loaded_model_takes_a_dataframe_and_rows(trained: dict[str, Any]) -> None:
    frame = pd.read_csv(trained["file"])
    with est.load_model(trained["export"]) as model:
        predict = model.signatures["predict"]
        np.testing.assert_allclose(
            predict(frame)["probabilities"], by_estimator(trained), rtol=1e-5
        )
        rows = [{"age": 31, "job": "clerk", "hours": 40.0}]
        np.testing.assert_allclose(
            predict(rows)["probabilities"], by_estimator(trained)[:1], rtol=1e-5
        )
        assert model.features == {
            "age": {"dtype": "int64", "shape": [None], "default": 40},
            "hours": {"dtype": "float32", "shape": [None], "required": True},
            "job": {"dtype": "string", "shape": [None], "default": "none"},
        }


def predicted(trained: dict[str, Any], text: str, tmp_path: Path) -> str:
    file = tmp_path / "rows.csv"
    file.write_text(text)
    result = CliRunner().invoke(main, ["predict", trained["export"], "--input", str(file)])
    assert result.exit_code == 1
    return result.output.strip().splitlines()[-1]


def test_a_blank_that_nothing_stands_for_is_named(trained: dict[str, Any], tmp_path: Path) -> None:
    assert predicted(trained, "age,job,hours\n31,clerk,40\n31,clerk,\n", tmp_path) == (
        "Error: Row 2, 'hours': the cell is empty, but the model takes a float32 there and has no "
        "default for it."
    )


def test_a_column_that_is_misspelt_is_named(trained: dict[str, Any], tmp_path: Path) -> None:
    assert predicted(trained, "age,job,houres\n31,clerk,40\n", tmp_path) == (
        "Error: Row 1 lacks 'hours', which the model takes as float32 and has no default for. It "
        "has: 'age', 'job', 'houres'. Did you mean 'houres'?"
    )


def test_a_misspelt_column_does_not_hide_behind_a_default(
    trained: dict[str, Any], tmp_path: Path
) -> None:
    told = (
        "Row 1 lacks 'job', which the model takes as string. It has: 'age', 'jobb', 'hours'. Did "
        "you mean 'jobb'? To let a feature be missing in all rows, give no names that the model "
        "does not know, or leave its value blank."
    )
    assert predicted(trained, "age,jobb,hours\n31,clerk,40\n", tmp_path) == f"Error: {told}"
    frame = pd.DataFrame({"age": [31], "jobb": ["clerk"], "hours": [40.0]})
    with (
        est.load_model(trained["export"]) as model,
        pytest.raises(InputError, match=re.escape(told)),
    ):
        model.signatures["predict"](frame)


def test_a_default_stands_for_a_column_that_is_absent_or_blank(trained: dict[str, Any]) -> None:
    with est.load_model(trained["export"]) as model:
        predict = model.signatures["predict"]
        known = predict([{"age": 31, "job": "none", "hours": 40.0}])["probabilities"]
        absent = predict([{"age": 31, "hours": 40.0}])["probabilities"]
        blank = pd.DataFrame({"age": [31], "job": [np.nan], "hours": [40.0], "rich": [1]})
        np.testing.assert_array_equal(absent, known)
        np.testing.assert_array_equal(predict(blank)["probabilities"], known)


def test_show_lists_the_features_that_examples_hold(trained: dict[str, Any]) -> None:
    result = CliRunner().invoke(main, ["show", trained["export"]], terminal_width=200)
    rows = [re.sub(r"[│┃\s]+", " ", line).strip() for line in result.output.splitlines()]
    assert "feature age int64 (40 if missing) [?]" in rows
    assert "feature hours float32 [?]" in rows
    assert "feature job string ('none' if missing) [?]" in rows


def test_a_receiver_is_derived_from_columns_and_input_function(trained: dict[str, Any]) -> None:
    receiver_fn = est.export.build_serving_input_receiver_fn_from_input_fn(
        trained["read"], trained["columns"][:2], defaults={"hours": 40.0}
    )
    with tf.Graph().as_default():
        receiver = receiver_fn()
    assert {name: value.dtype.name for name, value in receiver.features.items()} == {
        "age": "int64",
        "hours": "float32",
    }
    assert list(receiver.receiver_tensors) == ["examples"]


def test_types_of_training_are_those_of_the_features() -> None:
    def input_fn():
        features = {
            "flag": [True, False],
            "small": np.int8([1, 2]),
            "wide": np.zeros([2, 2, 3]),
            "words": tf.sparse.from_dense([["a", "b"], ["c", ""]]),
            "path": tf.ragged.constant([[1], [2, 3]]),
        }
        return tf.data.Dataset.from_tensors(features)

    receiver_fn = est.export.build_serving_input_receiver_fn_from_input_fn(input_fn)
    with tf.Graph().as_default():
        found = receiver_fn().features
    assert {k: (v.dtype.name, v.shape[1:].as_list()) for k, v in found.items()} == {
        "flag": ("bool", []),
        "small": ("int8", []),
        "wide": ("float64", [2, 3]),
        "words": ("string", [None]),
        "path": ("int32", [None]),
    }


def test_features_that_are_one_tensor_are_fed_as_they_are() -> None:
    receiver_fn = est.export.build_serving_input_receiver_fn_from_input_fn(
        lambda: tf.data.Dataset.from_tensors(np.zeros([2, 3], "float32"))
    )
    with tf.Graph().as_default():
        assert receiver_fn().receiver_tensors["input"].shape.as_list() == [None, 3]


def test_what_cannot_be_derived_is_said() -> None:
    spec = {"x": tf.TensorSpec([None, None], tf.float32)}
    with pytest.raises(SpecError, match=r"the feature 'x' is .* does not tell the shape"):
        deriving.receiver_fn_for(deriving.TrainedOn(spec))
    exporter = est.LatestExporter("latest")
    model = est.LinearClassifier([est.feature_column.numeric_column("x")])
    with pytest.raises(ConfigError) as told:
        exporter.export(model, "", "", {}, False)
    assert str(told.value) == (
        "A serving_input_receiver_fn can only be derived after training or evaluating in this "
        "process. Make one with est.export.build_serving_input_receiver_fn_from_input_fn(input_fn)."
    )


def test_a_signature_of_raw_inputs_takes_rows_too(trained: dict[str, Any], tmp_path: Path) -> None:
    receiver_fn = est.export.build_raw_serving_input_receiver_fn(
        {"age": tf.TensorSpec([None], tf.int64), "hours": tf.TensorSpec([None]),
         "job": tf.TensorSpec([None], tf.string)}
    )  # fmt: skip
    with est.load_model(trained["model"].export_saved_model(tmp_path, receiver_fn)) as model:
        frame = pd.read_csv(trained["file"]).dropna()
        found = model(frame)["probabilities"]
        np.testing.assert_allclose(found, by_estimator(trained)[[0, 3]], rtol=1e-5)
        with pytest.raises(InputError) as told:
            model(frame.rename(columns={"age": "agee"}))
    assert str(told.value) == (
        "Row 1 lacks 'age', which the signature takes as age (int64, [?]). It has: 'agee', 'job', "
        "'hours', 'rich'. Did you mean 'agee'?"
    )
