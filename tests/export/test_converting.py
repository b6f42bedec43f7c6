"""An export as one file: the numbers of the export, through the reader of each format."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner, Result

import estimand as est
from estimand.cli.main import main
from estimand.core.errors import ConfigError, ConversionError, InputError, MissingExtraError
from tests.export.conftest import (
    X,
    examples,
    expected,
    parsing_receiver_fn,
    raw_receiver_fn,
    run_config,
    v1,
)


@pytest.fixture(scope="module")
def raw(linear: est.Estimator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("convert_raw")
    linear.export_saved_model(base, raw_receiver_fn)
    return base


@pytest.fixture(scope="module")
def parsing(linear: est.Estimator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("convert_parsing")
    linear.export_saved_model(base, parsing_receiver_fn)
    return base


def run_graph(graph_def: Any, fetch: str, feeds: dict[str, Any], first: str | None = None) -> Any:
    with v1.Session(graph=tf.Graph()) as session:
        tf.import_graph_def(graph_def, name="")
        if first is not None:
            session.run(first)
        return session.run(fetch, feeds)


def read_graph(path: str) -> Any:
    graph_def = v1.GraphDef()
    graph_def.ParseFromString(Path(path).read_bytes())
    return graph_def


def interpreter(path: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is going to move to a package of its own
        return tf.lite.Interpreter(path)


# Frozen graphs


def test_a_frozen_graph_answers_by_the_names_of_the_export(
    linear: est.Estimator, parsing: Path, tmp_path: Path
) -> None:
    made = est.export.to_frozen_graph(parsing, tmp_path / "frozen.pb")
    graph_def = read_graph(made.path)
    assert not {node.op for node in graph_def.node} & {"VarHandleOp", "VariableV2"}
    answer = run_graph(graph_def, "output_score:0", {"input_example_tensor:0": examples()})
    np.testing.assert_allclose(answer, expected(linear), rtol=1e-5)
    assert made.inputs == {
        "examples": "input_example_tensor:0",
        "inputs": "input_example_tensor:0",
    }


def test_a_frozen_graph_of_one_signature_lacks_what_others_need(raw: Path, tmp_path: Path) -> None:
    made = est.export.to_frozen_graph(raw, tmp_path / "frozen.pb", signature="predict")
    assert made.outputs.keys() == {"y", "twice"}
    assert "concat" not in {node.op.lower().rstrip("v2") for node in read_graph(made.path).node}


def test_a_frozen_graph_as_text(linear: est.Estimator, raw: Path, tmp_path: Path) -> None:
    from google.protobuf import text_format

    made = est.export.to_frozen_graph(raw, tmp_path / "frozen.pbtxt")
    graph_def = text_format.Parse(Path(made.path).read_text(), v1.GraphDef())
    answer = run_graph(graph_def, made.outputs["y"], {made.inputs["x"]: X})
    np.testing.assert_allclose(answer, expected(linear), rtol=1e-5)


def table_model_fn(features: Any, labels: Any, mode: str, params: Any) -> est.EstimatorSpec:
    if params["file"]:
        source: Any = tf.lookup.TextFileInitializer(
            params["file"], tf.string, 0, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
        )
    else:
        source = tf.lookup.KeyValueTensorInitializer(["a", "b"], np.array([0, 1]))
    ids = tf.lookup.StaticHashTable(source, -1).lookup(features["word"])
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions={"id": ids})
    step = v1.train.get_global_step()
    return est.EstimatorSpec(mode, loss=tf.constant(0.0), train_op=step.assign_add(1))


def table_export(tmp_path: Path, file: str | None) -> bytes:
    estimator = est.Estimator(table_model_fn, tmp_path / "model", run_config(), {"file": file})
    estimator.train(lambda: tf.data.Dataset.from_tensors(({"word": ["a"]}, [0])))
    receiver_fn = est.export.build_raw_serving_input_receiver_fn(
        {"word": tf.TensorSpec([None], tf.string)}
    )
    return estimator.export_saved_model(tmp_path / "export", receiver_fn)


def test_tables_are_filled_by_an_op_of_the_frozen_graph(tmp_path: Path) -> None:
    made = est.export.to_frozen_graph(table_export(tmp_path, None), tmp_path / "frozen.pb")
    feeds = {made.inputs["word"]: ["b", "a", "c"]}
    answer = run_graph(read_graph(made.path), made.outputs["id"], feeds, first=made.init_op)
    assert answer.tolist() == [1, 0, -1]


def test_a_table_that_is_filled_from_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("a\nb\n")
    export = table_export(tmp_path, str(tmp_path / "words.txt"))
    with pytest.raises(ConversionError, match=r"from the file 'words\.txt'.*vocabulary_list"):
        est.export.to_frozen_graph(export, tmp_path / "frozen.pb")


# TensorFlow Lite


def test_a_model_of_tensorflow_lite(linear: est.Estimator, raw: Path, tmp_path: Path) -> None:
    made = est.export.to_tflite(raw, tmp_path / "model.tflite", signature="predict")
    answer = interpreter(made.path).get_signature_runner("predict")(x=X)
    np.testing.assert_allclose(answer["y"], expected(linear), rtol=1e-5)
    np.testing.assert_allclose(answer["twice"], 2 * expected(linear), rtol=1e-5)


def test_what_tensorflow_lite_lacks_is_named_and_how_to_take_it_along(
    parsing: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConversionError, match=r"ParseExample.*select_tf_ops=True \(--tf-ops"):
        est.export.to_tflite(parsing, tmp_path / "model.tflite")
    assert not list(tmp_path.iterdir())


# ONNX


def test_an_onnx_model(linear: est.Estimator, raw: Path, tmp_path: Path) -> None:
    pytest.importorskip("tf2onnx", reason="the extra estimand[onnx]")
    runtime = pytest.importorskip("onnxruntime", reason="something to run ONNX with")
    made = est.export.to_onnx(raw, tmp_path / "model.onnx")
    session = runtime.InferenceSession(made.path)
    assert [one.name for one in session.get_inputs()] == ["x"]
    y, twice = session.run(["y", "twice"], {"x": X})
    np.testing.assert_allclose(y, expected(linear), rtol=1e-5)
    np.testing.assert_allclose(twice, 2 * expected(linear), rtol=1e-5)


def test_without_the_extra_its_command_is_told(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'estimand\[onnx\]'"):
        est.export.to_onnx(raw, tmp_path / "model.onnx")


# Asked for wrongly, and the command


def test_an_unknown_signature_is_named(raw: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There are: predict, serving_default"):
        est.export.to_frozen_graph(raw, tmp_path / "frozen.pb", signature="classes")


def test_a_directory_in_place_of_the_file_is_named(raw: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory"):
        est.export.to_frozen_graph(raw, tmp_path)


def convert(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["convert", *map(str, arguments)])


def test_the_command_says_what_to_feed_and_fetch(
    linear: est.Estimator, raw: Path, tmp_path: Path
) -> None:
    result = convert(raw, "--to", "frozen", "--out", tmp_path / "frozen.pb")
    assert result.exit_code == 0, result.output
    assert "input x = x:0" in result.output
    assert "output y = output_score:0" in result.output
    answer = run_graph(read_graph(str(tmp_path / "frozen.pb")), "output_score:0", {"x:0": X})
    np.testing.assert_allclose(answer, expected(linear), rtol=1e-5)


def test_the_command_tells_what_is_wrong(raw: Path, tmp_path: Path) -> None:
    result = convert(tmp_path / "nothing", "--to", "frozen", "--out", tmp_path / "a")
    assert result.exit_code == 2 and "does not exist" in result.output
    result = convert(raw, "--to", "frozen", "--out", tmp_path / "a", "--tf-ops")
    assert result.exit_code == 2 and "go with --to tflite" in result.output
