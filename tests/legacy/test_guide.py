"""The snippets of the guides do what their text says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.legacy import guide_program as guide
from tests.legacy.v1_view import tf

RANDOM = np.random.RandomState(3)
CITIES = {
    "population": RANDOM.normal(size=80).astype(np.float32),
    "crime_rate": RANDOM.normal(size=80).astype(np.float32),
    "median_education": RANDOM.normal(12, 1, size=80).astype(np.float32),
}
LABELS = (CITIES["crime_rate"] + CITIES["population"] > 0).astype(np.int32)


def example(**values: Any) -> bytes:
    def feature(value: Any) -> Any:
        if isinstance(value, str):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))

    features = {name: feature(value) for name, value in values.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def test_columns_parse_examples_and_make_them_dense(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("x\ny\n")
    examples = [example(feature_a="y", feature_b=5.0, feature_c=0.6)]
    with tf.Graph().as_default(), tf.Session() as session:
        dense = guide.parse_and_make_dense(examples, guide.make_columns(str(words)))
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        (row,) = session.run(dense)
    # In the order of the columns' names: cross (10), embedding (2), numeric (1), buckets (4).
    assert row.shape == (17,)
    assert row[:10].sum() == 1
    np.testing.assert_array_equal(row[12:], [5.0, 0.0, 0.0, 1.0, 0.0])


def cities(epochs: int | None = 1) -> Any:
    return tf.estimator.inputs.numpy_input_fn(
        CITIES, LABELS, batch_size=20, num_epochs=epochs, shuffle=False
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Any]:
    model_dir = tmp_path_factory.mktemp("linear")
    estimator = guide.make_linear_classifier(12.0, str(model_dir))
    spec = {name: tf.FixedLenFeature([], tf.float32) for name in CITIES}
    receiver_fn = guide.make_serving_input_receiver_fn(spec)
    metrics, exports = guide.train_and_evaluate(estimator, cities(None), cities(), receiver_fn)
    return estimator, metrics, exports


def test_a_linear_classifier_learns(trained: tuple[Any, Any, Any]) -> None:
    _, metrics, _ = trained
    assert metrics["accuracy"] > 0.9
    assert metrics["global_step"] == 60


def test_both_exporters_have_exported(trained: tuple[Any, Any, Any]) -> None:
    estimator, _, exports = trained
    folder = Path(estimator.model_dir) / "export"
    assert {path.name for path in folder.iterdir()} >= {"best_exporter", "final"}
    assert all(export is not None for export in exports)


def test_an_export_is_asked_by_the_names_of_its_tensors(trained: tuple[Any, Any, Any]) -> None:
    estimator, _, exports = trained
    rows = [{name: float(CITIES[name][i]) for name in CITIES} for i in range(5)]
    expected = [row["probabilities"] for row in estimator.predict(cities())][:5]
    with tf.Graph().as_default():
        session, signature = guide.load_graph(tf.compat.as_str_any(exports[1]))
        scores = signature["predict"].outputs["probabilities"].name
        fed = {"input_example_tensor:0": [example(**row) for row in rows]}
        np.testing.assert_allclose(session.run(scores, fed), expected, rtol=1e-5)
        session.close()


def words_input_fn(words: list[str]) -> Any:
    def input_fn() -> Any:
        features = {"sc_vocab_file": words, "sc_vocab_list": ["a", "b"] * (len(words) // 2)}
        labels = [i % 2 for i in range(len(words))]
        return tf.data.Dataset.from_tensor_slices((features, labels)).repeat().batch(4)

    return input_fn


def test_a_warm_start_follows_words_into_a_new_vocabulary(tmp_path: Path) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("one\ntwo\nthree\n")
    new.write_text("three\nfour\none\n")
    first = guide.make_dnn_classifier(str(old), str(tmp_path / "first"))
    first.train(words_input_fn(["one", "two", "three", "one"]), steps=10)
    name = "dnn/input_from_feature_columns/input_layer/sc_vocab_file_embedding/embedding_weights"
    vocabulary = tf.estimator.VocabInfo(
        new_vocab=str(new), new_vocab_size=3, num_oov_buckets=0, old_vocab=str(old)
    )
    ws = tf.estimator.WarmStartSettings(
        ckpt_to_initialize_from=str(tmp_path / "first"), var_name_to_vocab_info={name: vocabulary}
    )
    second = guide.make_dnn_classifier(str(new), str(tmp_path / "second"), ws)
    second.train(words_input_fn(["four"] * 4), steps=1)
    before = first.get_variable_value(name)
    after = second.get_variable_value(name)
    np.testing.assert_array_equal(after[[0, 2]], before[[2, 0]])


def test_records_are_read_from_several_files(tmp_path: Path) -> None:
    for file in range(2):
        with tf.python_io.TFRecordWriter(str(tmp_path / f"{file}.tfrecord")) as writer:
            for row in range(8):
                writer.write(str(file * 8 + row).encode())
    dataset = guide.read_records(str(tmp_path / "*.tfrecord"), batch_size=4)
    batches = [batch.numpy().tolist() for batch in dataset.take(4)]
    assert sorted(int(row) for batch in batches for row in batch) == list(range(16))
