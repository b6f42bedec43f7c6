"""The ready-made models of `tf.contrib.learn`, and what they read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.v1 import contrib
from estimand.compat.v1 import estimator as core
from estimand.core.errors import InputError

v1 = tf.compat.v1
learn, layers = contrib.learn, contrib.layers

RNG = np.random.RandomState(0)
X = RNG.normal(size=[32, 3]).astype(np.float32)
Y = (X.sum(1) > 0).astype(np.int64)
WORDS = np.array(["a", "b", "c", "b"] * 8)


def read() -> Any:
    return {"x": X, "word": tf.constant(WORDS)}, tf.constant(Y)


def test_a_matrix_needs_no_names(tmp_path: Path) -> None:
    columns = learn.infer_real_valued_columns_from_input(X)
    classifier = learn.LinearClassifier(columns, model_dir=str(tmp_path)).fit(X, Y, steps=5)
    assert {"linear//weight", "linear/bias_weight"} <= set(classifier.get_variable_names())
    logits = X @ classifier.weights_ + classifier.bias_
    np.testing.assert_array_equal(list(classifier.predict(X)), (logits > 0)[:, 0])
    proba = classifier.predict_proba(X, as_iterable=False)
    np.testing.assert_allclose(proba[:, 1], 1 / (1 + np.exp(-logits[:, 0])), rtol=1e-4)
    metrics = classifier.evaluate(X, Y)
    assert metrics["accuracy"] == np.mean((logits > 0)[:, 0] == Y)
    assert metrics["accuracy"] == metrics["accuracy/threshold_0.500000_mean"]
    assert metrics["labels/actual_label_mean"] == pytest.approx(Y.mean())


def test_a_linear_model_learns_as_the_one_of_tf_estimator(tmp_path: Path) -> None:
    """That sums over the batch; of a batch of one, sum and mean are the same."""
    columns = [layers.real_valued_column("x", 3), layers.sparse_column_with_keys("word", "abc")]

    def one_by_one() -> Any:
        data = {"x": X, "word": WORDS}, Y[:, None]
        return tf.data.Dataset.from_tensor_slices(data).batch(1)

    then = learn.LinearClassifier(columns, str(tmp_path / "then")).fit(input_fn=one_by_one)
    now = core.LinearClassifier(columns, str(tmp_path / "now"), optimizer="Ftrl")
    now.train(one_by_one)
    pairs = {
        "linear/x/weight": "linear/linear_model/x/weights",
        "linear/word/weights": "linear/linear_model/word/weights",
        "linear/bias_weight": "linear/linear_model/bias_weights",
    }
    for name, other in pairs.items():
        np.testing.assert_allclose(
            then.get_variable_value(name), now.get_variable_value(other), rtol=1e-5
        )


def test_a_deep_model_has_the_names_and_the_step_of_then(tmp_path: Path) -> None:
    word = layers.sparse_column_with_hash_bucket("word", 10)
    columns = [layers.real_valued_column("x", 3), layers.embedding_column(word, 2)]
    run = learn.RunConfig(model_dir=str(tmp_path), tf_random_seed=3)
    classifier = learn.DNNClassifier([4], columns, n_classes=3, config=run)
    classifier.fit(input_fn=read, steps=1)
    names = set(classifier.get_variable_names())
    assert names >= {
        "dnn/hiddenlayer_0/weights",
        "dnn/hiddenlayer_0/biases",
        "dnn/logits/weights",
        "dnn/logits/biases",
        "dnn/input_from_feature_columns/word_embedding/weights",
        "dnn/learning_rate",
    }
    # The first step of Adagrad: rate / sqrt(0.1 + g²) * g, of the mean over the batch.
    hidden = {n: classifier.get_variable_value(f"dnn/logits/{n}") for n in ("weights", "biases")}
    metrics = classifier.evaluate(input_fn=read, steps=1)
    assert set(metrics) == {"accuracy", "loss", "global_step"}
    answer = next(classifier.predict(input_fn=read, outputs=["classes", "probabilities"]))
    assert set(answer) == {"classes", "probabilities"} and answer["probabilities"].shape == (3,)
    assert hidden["weights"].shape == (4, 3) and np.all(np.abs(hidden["biases"]) < 0.05)


def test_wide_and_deep_trains_both_parts(tmp_path: Path) -> None:
    x = layers.real_valued_column("x", 3)
    word = layers.sparse_column_with_keys("word", ["a", "b", "c"])
    model = learn.DNNLinearCombinedRegressor(
        str(tmp_path),
        linear_feature_columns=[word],
        dnn_feature_columns=[x, layers.one_hot_column(word)],
        dnn_hidden_units=[4],
        gradient_clip_norm=5.0,
        enable_centered_bias=True,
    )
    model.fit(input_fn=lambda: (read()[0], tf.cast(Y, tf.float32)), steps=2)
    assert model.get_variable_value("global_step") == 2
    for name in ("linear/word/weights", "dnn/logits/biases", "centered_bias_weight"):
        assert np.any(model.get_variable_value(name))
    scores = model.predict_scores(input_fn=read)
    first = [float(next(scores)) for _ in range(3)]
    # As an array, the first batch of an input that has no end.
    np.testing.assert_allclose(model.predict(input_fn=read, as_iterable=False)[:3], first)


def test_clusters_are_found_in_arrays(tmp_path: Path) -> None:
    points = np.array([[0, 0], [0, 1], [9, 9], [9, 8]], np.float32)
    kmeans = learn.KMeansClustering(2, str(tmp_path), points[1:3], use_mini_batch=False)
    kmeans.fit(x=points, steps=2)
    np.testing.assert_allclose(kmeans.clusters(), [[0, 0.5], [9, 8.5]])
    found = kmeans.predict_cluster_idx(lambda: tf.data.Dataset.from_tensors(points))
    assert [int(one) for one in found] == [0, 0, 1, 1]
    assert kmeans.score(lambda: tf.data.Dataset.from_tensors(points), steps=1) == 1.0


def test_files_of_numbers(tmp_path: Path) -> None:
    base = learn.datasets.base
    rows = "0.5,1.5,2\n2.5,3.5,0\n"
    (tmp_path / "with.csv").write_text("2,2,a,b,c\n" + rows)
    (tmp_path / "without.csv").write_text(rows)
    for made in (
        base.load_csv_with_header(str(tmp_path / "with.csv"), np.int32, np.float32),
        base.load_csv_without_header(str(tmp_path / "without.csv"), np.int32, np.float32),
    ):
        assert made.data.tolist() == [[0.5, 1.5], [2.5, 3.5]] and made.target.tolist() == [2, 0]
    (tmp_path / "with.csv").write_text("3,2\n" + rows)
    with pytest.raises(InputError, match="says 3 rows of 2 features, but there are 2 of 2"):
        base.load_csv_with_header(str(tmp_path / "with.csv"), np.int32, np.float32)


def test_batches_of_records(tmp_path: Path) -> None:
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for value in range(4):
            feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
            features = tf.train.Features(feature={"n": feature})
            writer.write(tf.train.Example(features=features).SerializeToString())
    spec = {"n": tf.io.FixedLenFeature([], tf.int64)}

    def input_fn() -> Any:
        read = learn.read_batch_features(
            path, 2, spec, reader=v1.TFRecordReader, randomize_input=False, num_epochs=1
        )
        return read, None

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        return est.EstimatorSpec(mode, predictions=features["n"])

    estimator = est.Estimator(model_fn, str(tmp_path / "model"))
    assert [int(n) for n in estimator.predict(input_fn, untrained=True)] == [0, 1, 2, 3]


def test_settings_of_a_session_are_those_of_a_run() -> None:
    run = learn.RunConfig("", 2, gpu_memory_fraction=0.25, save_checkpoints_secs=30)
    assert run.save_checkpoints_secs == 30 and run.save_checkpoints_steps is None
    assert run.tf_config.gpu_options.per_process_gpu_memory_fraction == 0.25
    assert run.tf_config.intra_op_parallelism_threads == 2
    assert learn.RunConfig().save_checkpoints_secs == 600
    assert learn.RunConfig(save_checkpoints_steps=7).save_checkpoints_secs is None
    assert isinstance(run.replace(model_dir="a"), learn.RunConfig)
