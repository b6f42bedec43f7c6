"""What is written for TensorBoard, as TensorBoard itself reads and shows it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import api as hparams_api
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.plugins.projector import ProjectorConfig

import estimand as est
from estimand.core.errors import ConfigError
from estimand.engine.events import EventWriter
from estimand.report.board import projector

v1 = tf.compat.v1
IMAGES = np.random.default_rng(0).random((40, 4, 4, 1)).astype("float32")
BRIGHT = (IMAGES.mean(axis=(1, 2, 3)) > 0.5).astype("int64")
NAMES = np.array([[f"image {k}"] for k in range(40)])
PARAMS = {"units": 3, "optimizer": {"name": "Adam", "rate": 0.5}, "hidden": [4, 2]}


def input_fn(mode: str) -> tf.data.Dataset:
    rows = tf.data.Dataset.from_tensor_slices(
        ({"image": IMAGES, "word": BRIGHT, "name": NAMES}, BRIGHT)
    )
    return (rows.repeat() if mode == est.ModeKeys.TRAIN else rows).batch(10)


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> est.EstimatorSpec:
    table = v1.get_variable("word/embedding_weights", [5, params["units"]])
    weights = v1.get_variable("weights", [16, 2])
    logits = tf.reshape(features["image"], [-1, 16]) @ weights
    logits += tf.reduce_sum(tf.gather(table, features["word"]), axis=1, keepdims=True)
    probabilities = tf.nn.softmax(logits)
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions={"probabilities": probabilities})
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = None
    if mode == est.ModeKeys.TRAIN:
        train_op = v1.train.AdamOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    accuracy = v1.metrics.accuracy(labels, tf.argmax(logits, axis=1))
    return est.EstimatorSpec(mode, None, loss, train_op, {"accuracy": accuracy})


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model_dir with two checkpoints, written for TensorBoard with all that there is."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "words.txt").write_text("dark\nbright\n")
    config = est.RunConfig(tf_random_seed=1, save_summary_steps=1, progress=False)
    estimator = est.Estimator(model_fn, str(folder / "images"), config, PARAMS)
    for steps in (2, 4):
        estimator.train(input_fn, max_steps=steps)
        estimator.evaluate(input_fn)
    takes = {"image": tf.TensorSpec([None, 4, 4, 1]), "word": tf.TensorSpec([None], tf.int64)}
    receiver_fn = est.export.build_raw_serving_input_receiver_fn(takes)
    estimator.export_saved_model(f"{estimator.model_dir}/export", receiver_fn)
    words = {"word": folder / "words.txt"}
    est.report.write_board(estimator.model_dir, estimator, input_fn, words=words)
    return folder / "images"


@pytest.fixture(scope="module")
def read(shown: Path) -> EventAccumulator:
    accumulator = EventAccumulator(str(shown))
    accumulator.Reload()
    return accumulator


def test_curves_of_the_training_stay_what_they_were(read: EventAccumulator) -> None:
    assert [event.step for event in read.Scalars("loss")][-1] == 4
    assert not any(tag.startswith("_") for tag in read.Tags()["scalars"])


def test_precision_and_recall_are_there_for_each_checkpoint(read: EventAccumulator) -> None:
    events = read.Tensors("precision_recall/1/pr_curves")
    assert [event.step for event in events][-2:] == [2, 4]
    true_positives, false_positives, *_ = tf.make_ndarray(events[-1].tensor_proto)
    # From the probability 0 on, everything is taken for the class.
    assert (true_positives[0], false_positives[0]) == (BRIGHT.sum(), (1 - BRIGHT).sum())


def test_images_that_it_gets_wrong_are_drawn(read: EventAccumulator, shown: Path) -> None:
    width, height, *images = tf.make_ndarray(
        read.Tensors("worst_answers/image")[0].tensor_proto
    ).tolist()
    assert (width, height) == (b"4", b"4") and 1 <= len(images) <= 12
    drawn = tf.io.decode_png(images[0]).numpy()[:, :, :1].astype("float32") / 255
    assert min(np.abs(drawn - image).max() for image in IMAGES) < 0.01


def test_rows_that_it_gets_wrong_are_a_table(read: EventAccumulator) -> None:
    (text,) = tf.make_ndarray(read.Tensors("worst_answers")[0].tensor_proto).reshape(-1)
    heading, _, *rows = text.decode().splitlines()
    assert heading == "| word | name | true | answered | probability |"
    for row in rows:
        _, word, name, true, answered, probability, _ = (cell.strip() for cell in row.split("|"))
        assert word == true == str(BRIGHT[int(name.removeprefix("image "))])
        assert true != answered and float(probability) >= 0.5


def test_newest_export_tells_its_model_card(read: EventAccumulator) -> None:
    text = tf.make_ndarray(read.Tensors("model_card")[0].tensor_proto).item().decode()
    assert "## Parameters" in text and '"units": 3' in text


def test_parameters_are_hparams(read: EventAccumulator) -> None:
    content = read.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    told = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info.hparams
    assert told["units"].number_value == 3
    assert told["optimizer.name"].string_value == "Adam"
    assert told["hidden"].string_value == "[4, 2]"


def test_parameters_of_a_run_without_an_export_are_hparams_under_its_name(tmp_path: Path) -> None:
    params = est.HParams(units=3, rate=0.5)
    for given, number in ((params, 3), ({"units": 4, "weights": np.zeros(1000), "f": print}, 4)):
        model_dir = tmp_path / f"units{number}"
        estimator = est.Estimator(
            plain_model_fn, str(model_dir), est.RunConfig(progress=False), given
        )
        estimator.train(lambda: tf.data.Dataset.from_tensors({"x": 1.0}), max_steps=1)
        est.report.write_board(model_dir)
        accumulator = EventAccumulator(str(model_dir))
        accumulator.Reload()
        content = accumulator.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        told = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
        assert told.group_name == f"{tmp_path.name}/units{number}"
        assert told.hparams["units"].number_value == number
        assert sorted(told.hparams) == (["rate", "units"] if number == 3 else ["f", "units"])


def hparams_of(model_dir: Path) -> list[str]:
    accumulator = EventAccumulator(str(model_dir))
    accumulator.Reload()
    content = accumulator.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    told = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
    return sorted(told.hparams)


def test_settings_of_a_canned_model_are_hparams(tmp_path: Path) -> None:
    column = est.feature_column.numeric_column("word")
    config = est.RunConfig(tf_random_seed=1, progress=False)
    model = est.DNNClassifier([4], [column], str(tmp_path / "a"), config=config)
    model.train(input_fn, max_steps=1)
    est.report.write_board(model.model_dir)
    there = hparams_of(tmp_path / "a")
    assert {"hidden_units", "optimizer", "n_classes", "activation_fn"} <= set(there)


def test_hparams_that_a_search_has_written_stay(tmp_path: Path) -> None:
    model = est.Estimator(model_fn, str(tmp_path), params={"units": 3})
    writer = EventWriter.get(tmp_path)
    writer.summary(hparams_api.hparams_pb({"rate": 0.1}), 0)
    writer.flush()
    model.train(input_fn, max_steps=1)
    est.report.write_board(tmp_path)
    assert hparams_of(tmp_path) == ["rate"]


def plain_model_fn(features: Any, labels: Any, mode: str, params: Any) -> est.EstimatorSpec:
    weight = v1.get_variable("weight", [], initializer=tf.zeros_initializer())
    loss = tf.square(weight - features["x"])
    return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize("SGD", loss))


def test_rows_of_an_embedding_have_the_words_of_its_vocabulary(shown: Path) -> None:
    from google.protobuf import text_format

    config = text_format.Parse((shown / projector.CONFIG).read_text(), ProjectorConfig())
    (table,) = config.embeddings
    assert table.tensor_name == "word/embedding_weights"  # not the slots of Adam
    words = (shown / table.metadata_path).read_text().splitlines()
    assert words[:3] == ["dark", "bright", "(out of vocabulary 0)"] and len(words) == 5


def test_words_for_no_embedding_are_refused_with_those_that_there_are(shown: Path) -> None:
    with pytest.raises(ConfigError, match=r"'city'.*there are: word/embedding_weights"):
        projector.write(str(shown), {"city": "words.txt"})


@pytest.mark.slow
def test_tensorboard_itself_shows_it_all(shown: Path) -> None:
    command = [sys.executable, "-m", "estimand", "board", str(shown.parent), "--port=0"]
    board = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert board.stderr is not None
    try:
        told = ""
        while not (address := re.search(r"(http://\S+)/ ", told)):
            told += (line := board.stderr.readline())
            assert line, told

        def ask(path: str) -> Any:
            with urllib.request.urlopen(f"{address[1]}/data/{path}") as answer:
                return json.load(answer)

        assert set(ask("runs")) == {"images", "images/eval"}
        assert "precision_recall/1/pr_curves" in ask("plugin/pr_curves/tags")["images"]
        assert {"model_card", "worst_answers"} <= set(ask("plugin/text/tags")["images"])
        layout = ask("plugin/custom_scalars/layout")
        assert [group["title"] for group in layout["category"]] == ["Loss", "Evaluation"]
        assert "images" in ask("plugin/projector/runs")
        tables = ask("plugin/projector/info?run=images")["embeddings"]
        assert ["word/embedding_weights", [5, 3]] in [
            [table["tensorName"], table["tensorShape"]] for table in tables
        ]
    finally:
        board.terminate()
        board.communicate()
    assert not [name for name in os.listdir(shown) if name.startswith(".tmp")]
