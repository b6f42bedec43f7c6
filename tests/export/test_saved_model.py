"""An exported model gives the numbers of the checkpoint, whoever loads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.export import captures
from tests.export.conftest import (
    X,
    examples,
    expected,
    files_in,
    input_fn,
    linear_model_fn,
    parsing_receiver_fn,
    raw_receiver_fn,
    run_config,
    v1,
)
from tests.export.programs import saved_model_cli
from tests.integration import processes


def saved_variables(path: bytes) -> set[str]:
    return {name for name, _ in tf.train.list_variables(f"{path.decode()}/variables/variables")}


# Equal numbers through every loader


def test_tensorflow_loads_it_as_functions(linear: est.Estimator, base: Path) -> None:
    loaded = tf.saved_model.load(linear.export_saved_model(base, raw_receiver_fn).decode())
    answer = loaded.signatures["predict"](x=tf.constant(X))
    np.testing.assert_allclose(answer["y"], expected(linear), rtol=1e-5)
    np.testing.assert_allclose(answer["twice"], 2 * expected(linear), rtol=1e-5)


def test_the_v1_loader_finds_tensors_by_name(linear: est.Estimator, base: Path) -> None:
    path = linear.export_saved_model(base, parsing_receiver_fn).decode()
    with v1.Session(graph=tf.Graph()) as session:
        v1.saved_model.loader.load(session, [tf.saved_model.SERVING], path)
        answer = session.run("output_score:0", {"input_example_tensor:0": examples()})
    np.testing.assert_allclose(answer, expected(linear), rtol=1e-5)


def test_our_loader(linear: est.Estimator, base: Path) -> None:
    linear.export_saved_model(base, raw_receiver_fn)
    with est.load_model(base) as model:
        np.testing.assert_allclose(model(x=X)["y"], expected(linear), rtol=1e-5)


def test_saved_model_cli_runs_it(linear: est.Estimator, base: Path, tmp_path: Path) -> None:
    path = linear.export_saved_model(base, raw_receiver_fn).decode()
    np.save(tmp_path / "x.npy", X)
    arguments = ["run", "--dir", path, "--tag_set", "serve", "--signature_def", "serving_default"]
    arguments += ["--inputs", f"x={tmp_path / 'x.npy'}", "--outdir", str(tmp_path)]
    processes.run(saved_model_cli, arguments, log=tmp_path / "log")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(linear), rtol=1e-5)


# What is in it


def test_layout_and_variables_are_those_of_tf_estimator(linear: est.Estimator, base: Path) -> None:
    path = linear.export_saved_model(base, parsing_receiver_fn)
    assert isinstance(path, bytes)
    assert len(Path(path.decode()).name) == 10
    assert files_in(path.decode()) - {"fingerprint.pb"} == {
        "saved_model.pb",
        "variables/variables.index",
        "variables/variables.data-00000-of-00001",
        "assets.extra/model_card.json",
        "assets.extra/model_card.md",
    }
    assert saved_variables(path) == {"net/w", "net/b", "global_step"}


def test_as_text_writes_a_text_file_that_loads(linear: est.Estimator, base: Path) -> None:
    path = linear.export_saved_model(base, raw_receiver_fn, as_text=True).decode()
    assert "saved_model.pbtxt" in files_in(path)
    assert "saved_model.pb" not in files_in(path)
    with est.load_model(path) as model:
        np.testing.assert_allclose(model(x=X)["y"], expected(linear), rtol=1e-5)


def test_extra_assets_are_taken_along(linear: est.Estimator, base: Path, tmp_path: Path) -> None:
    (tmp_path / "terms").write_text("none")
    path = linear.export_saved_model(
        base, raw_receiver_fn, assets_extra={"legal/terms.txt": str(tmp_path / "terms")}
    ).decode()
    assert Path(path, "assets.extra/legal/terms.txt").read_text() == "none"


def test_an_earlier_checkpoint_is_exported_and_the_live_model_stays(tmp_path: Path) -> None:
    estimator = est.Estimator(linear_model_fn, tmp_path / "model", run_config())
    estimator.train(input_fn, max_steps=2)
    first, first_answer = estimator.latest_checkpoint(), expected(estimator)
    estimator.train(input_fn, max_steps=5)
    path = estimator.export_savedmodel(tmp_path / "out", raw_receiver_fn, checkpoint_path=first)
    with est.load_model(path) as model:
        np.testing.assert_allclose(model(x=X)["y"], first_answer, rtol=1e-5)
    predicted = [row["y"] for row in estimator.predict(lambda: input_fn().take(1))]
    np.testing.assert_allclose(predicted, expected(estimator)[:4], rtol=1e-5)


def test_default_attributes_are_kept_on_demand(linear: est.Estimator, base: Path) -> None:
    def stripped(path: bytes) -> bool:
        from tensorflow.core.protobuf import saved_model_pb2

        content = Path(path.decode(), "saved_model.pb").read_bytes()
        graphs = saved_model_pb2.SavedModel.FromString(content).meta_graphs
        return graphs[0].meta_info_def.stripped_default_attrs

    assert stripped(linear.export_saved_model(base, raw_receiver_fn))
    assert not stripped(linear.export_savedmodel(base, raw_receiver_fn))


def test_untrained_but_warm_started_model_exports_what_it_starts_from(
    linear: est.Estimator, tmp_path: Path
) -> None:
    fresh = est.Estimator(linear_model_fn, tmp_path / "m", warm_start_from=linear.model_dir)
    with est.load_model(fresh.export_saved_model(tmp_path / "out", raw_receiver_fn)) as model:
        np.testing.assert_allclose(model(x=X)["y"], expected(linear), rtol=1e-5)


# All modes in one export


def test_all_modes_in_one_export(linear: est.Estimator, base: Path) -> None:
    supervised = est.experimental.build_raw_supervised_input_receiver_fn(
        {"x": tf.TensorSpec([None, 3])}, tf.TensorSpec([None, 1])
    )
    receivers = {"train": supervised, "eval": supervised, "infer": raw_receiver_fn}
    path = linear.experimental_export_all_saved_models(base, receivers)
    assert {"net/w/Adam", "beta1_power", "global_step"} <= saved_variables(path)
    labels = np.zeros((6, 1), np.float32)
    with v1.Session(graph=tf.Graph()) as session:
        graph = v1.saved_model.loader.load(session, ["eval"], path.decode())
        signature = graph.signature_def["eval"]
        assert signature.method_name == "tensorflow/supervised/eval"
        assert set(signature.inputs) == {"x", "label"}
        assert set(signature.outputs) == {
            "loss", "predictions/y", "metrics/mae/value", "metrics/mae/update_op",
        }  # fmt: skip
        feeds = {signature.inputs["x"].name: X, signature.inputs["label"].name: labels}
        loss, _ = session.run(
            [signature.outputs[k].name for k in ("loss", "metrics/mae/update_op")], feeds
        )
        error = session.run(signature.outputs["metrics/mae/value"].name)
    answers = expected(linear)
    np.testing.assert_allclose(loss, np.mean(answers**2), rtol=1e-5)
    np.testing.assert_allclose(error, np.mean(np.abs(answers)), rtol=1e-5)
    with v1.Session(graph=tf.Graph()) as session:
        graph = v1.saved_model.loader.load(session, ["train"], path.decode())
        signature = graph.signature_def["train"]
        feeds = {signature.inputs["x"].name: X, signature.inputs["label"].name: labels}
        step = session.graph.get_collection("saved_model_train_op")[0]
        losses = [session.run([signature.outputs["loss"].name, step], feeds)[0] for _ in range(9)]
    assert losses[-1] < losses[0]


# Tables and other things that a model may use


def vocabulary_model_fn(vocabulary: str) -> Any:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        initializer = tf.lookup.TextFileInitializer(
            vocabulary,
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        ids = tf.lookup.StaticHashTable(initializer, -1).lookup(features["word"])
        column = tf.feature_column.categorical_column_with_vocabulary_file("word", vocabulary)
        one_hot = v1.feature_column.input_layer(
            features, [tf.feature_column.indicator_column(column)]
        )
        scale = v1.get_variable("scale", [], initializer=v1.ones_initializer())
        predictions = {"id": ids, "hot": one_hot * scale}
        return minimal_spec(mode, predictions)

    return model_fn


def minimal_spec(mode: str, predictions: dict[str, tf.Tensor]) -> est.EstimatorSpec:
    step = v1.train.get_global_step()
    loss = tf.constant(0.0)
    return est.EstimatorSpec(
        mode, predictions=predictions, loss=loss, train_op=step.assign_add(1).op
    )


def word_input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(({"word": ["a"]}, [0]))


def word_receiver_fn() -> Any:
    word = v1.placeholder(tf.string, [None], name="word")
    return est.export.ServingInputReceiver({"word": word}, {"word": word})


def test_vocabulary_files_travel_inside(tmp_path: Path) -> None:
    vocabulary = tmp_path / "words.txt"
    vocabulary.write_text("a\nb\nc\n")
    estimator = est.Estimator(vocabulary_model_fn(str(vocabulary)), tmp_path / "m", run_config())
    estimator.train(word_input_fn)
    path = estimator.export_saved_model(tmp_path / "out", word_receiver_fn).decode()
    assert Path(path, "assets/words.txt").read_text() == "a\nb\nc\n"
    vocabulary.unlink()
    moved = Path(path).rename(tmp_path / "elsewhere")
    words = ["c", "a", "zzz"]
    with est.load_model(moved) as model:
        answer = model(word=words)
    assert answer["id"].tolist() == [2, 0, -1]
    assert answer["hot"].tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]
    functions = tf.saved_model.load(str(moved))
    answer = functions.signatures["serving_default"](word=tf.constant(words))
    assert answer["id"].numpy().tolist() == [2, 0, -1]
    assert answer["hot"].numpy().tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]


def test_two_versions_with_other_words_live_side_by_side(tmp_path: Path) -> None:
    paths = []
    for words in ("a\nb\n", "b\na\n"):
        vocabulary = tmp_path / "words.txt"
        vocabulary.write_text(words)
        estimator = est.Estimator(
            vocabulary_model_fn(str(vocabulary)), tmp_path / words[0], run_config()
        )
        estimator.train(word_input_fn)
        paths.append(estimator.export_saved_model(tmp_path / "out", word_receiver_fn).decode())
    models = [tf.saved_model.load(path).signatures["serving_default"] for path in paths]
    answers = [model(word=tf.constant(["a"]))["id"].numpy().tolist() for model in models]
    assert answers == [[0], [1]]


def test_tables_constants_and_keras_layers_made_outside_of_the_model_function(
    tmp_path: Path,
) -> None:
    import keras

    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([5, 7], tf.int64)), -1
    )
    rows = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, tf.constant([0.0, 0.0]))
    rows.insert(["b"], [[1.5, 2.5]])
    offsets = tf.constant(np.arange(200, dtype=np.float32))  # too large to be copied by itself
    lookup = keras.layers.StringLookup(vocabulary=["a", "b"])
    dense = keras.layers.Dense(1, kernel_initializer="ones", name="outside")

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        word = features["word"]
        number = tf.cast(table.lookup(word), tf.float32)[:, None]
        inside = keras.layers.Dense(1, kernel_initializer="ones", name="inside")
        predictions = {
            "number": dense(number) + inside(number) + tf.reduce_sum(offsets),
            "index": lookup(word),
            "row": rows.lookup(word),
        }
        return minimal_spec(mode, predictions)

    estimator = est.Estimator(model_fn, tmp_path / "m", run_config()).train(word_input_fn)
    path = estimator.export_saved_model(tmp_path / "out", word_receiver_fn)
    assert saved_variables(path) == {
        "inside/kernel", "inside/bias", "outside/kernel", "outside/bias", "global_step",
    }  # fmt: skip
    with est.load_model(path) as model:
        answer = model(word=["b", "a", "?"])
    assert answer["number"].tolist() == [[19914.0], [19910.0], [19898.0]]
    assert answer["index"].tolist() == [2, 1, 0]
    assert answer["row"].tolist() == [[1.5, 2.5], [0, 0], [0, 0]]


def test_types_of_tables_are_read_from_the_graph_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial that fails is told by TensorFlow's executor, on the terminal."""
    trials = []
    lookup = tf.raw_ops.LookupTableFindV2

    def noting(**arguments: Any) -> Any:
        trials.append(arguments)
        return lookup(**arguments)

    numbers = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([5, 7], tf.int64)), -1
    )
    rows = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, tf.constant([0.0, 0.0]))
    rows.insert(["b"], [[1.5, 2.5]])
    inside_a_function = tf.function(numbers.lookup)

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        word = features["word"]
        row = tf.cond(tf.size(word) > 0, lambda: rows.lookup(word), lambda: tf.zeros([1, 2]))
        return minimal_spec(mode, {"n": inside_a_function(word), "row": row})

    estimator = est.Estimator(model_fn, tmp_path / "m", run_config()).train(word_input_fn)
    with monkeypatch.context() as patched:
        patched.setattr(captures.tf.raw_ops, "LookupTableFindV2", noting)
        path = estimator.export_saved_model(tmp_path / "out", word_receiver_fn)
    assert not trials
    with est.load_model(path) as model:
        answer = model(word=["b", "?"])
    assert answer["n"].tolist() == [7, -1]
    assert answer["row"].tolist() == [[1.5, 2.5], [0, 0]]


def test_keras_batch_normalization_is_exported_with_its_moving_averages(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        import keras

        layer = keras.layers.BatchNormalization(momentum=0.5, name="bn")
        y = layer(features["x"], training=mode == est.ModeKeys.TRAIN)
        return minimal_spec(mode, {"y": y})

    estimator = est.Estimator(model_fn, tmp_path / "m", run_config()).train(input_fn)
    value = estimator.get_variable_value
    mean, variance = value("bn/moving_mean"), value("bn/moving_variance")
    assert np.abs(mean).max() > 0
    with est.load_model(estimator.export_saved_model(tmp_path / "o", raw_receiver_fn)) as model:
        np.testing.assert_allclose(
            model(x=X)["y"], (X - mean) / np.sqrt(variance + 1e-3), rtol=1e-4, atol=1e-6
        )


def test_averages_of_the_weights_are_exported_if_the_saver_says_so(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = linear_model_fn(features, labels, mode)
        averages = tf.train.ExponentialMovingAverage(0.5)
        if mode == est.ModeKeys.TRAIN:
            with tf.control_dependencies([spec.train_op]):
                return spec._replace(train_op=averages.apply(v1.trainable_variables()))
        saver = v1.train.Saver(averages.variables_to_restore(v1.trainable_variables()))
        return spec._replace(scaffold=v1.train.Scaffold(saver=saver))

    estimator = est.Estimator(model_fn, tmp_path / "m", run_config()).train(input_fn)
    value = estimator.get_variable_value
    average = "ExponentialMovingAverage"
    weights, bias = value(f"net/w/{average}"), value(f"net/b/{average}")
    assert np.abs(weights - value("net/w")).max() > 1e-3
    with est.load_model(estimator.export_saved_model(tmp_path / "o", raw_receiver_fn)) as model:
        np.testing.assert_allclose(model(x=X)["y"], X @ weights + bias, rtol=1e-5)


def test_a_variable_and_an_op_of_one_name(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        import keras

        y = keras.layers.Dense(1, kernel_initializer="ones", name="score")(features["x"])
        return minimal_spec(mode, {"y": tf.identity(y, name="score/kernel")})

    estimator = est.Estimator(model_fn, tmp_path / "m", run_config()).train(input_fn)
    path = estimator.export_saved_model(tmp_path / "o", raw_receiver_fn)
    assert "score/kernel" in saved_variables(path)
    with est.load_model(path) as model:
        sums = X.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.run("score/kernel:0", {"x:0": X}), sums, rtol=1e-5)


def test_export_in_a_program_that_disabled_eager_execution_inside_a_graph(
    linear: est.Estimator, base: Path
) -> None:
    with tf.Graph().as_default():
        path = linear.export_saved_model(base, raw_receiver_fn)
    with est.load_model(path) as model:
        np.testing.assert_allclose(model(x=X)["y"], expected(linear), rtol=1e-5)
