"""Parts of tf.contrib that are models of their own: numbers against other ways to compute them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.install import installed
from estimand.compat.v1 import contrib
from estimand.compat.v1.contrib_modules import trees

v1 = tf.compat.v1


@pytest.fixture
def graph() -> Iterator[v1.Session]:
    with tf.Graph().as_default(), v1.Session() as session:
        yield session


def test_a_conditional_random_field_against_all_sequences_of_tags(graph: v1.Session) -> None:
    random = np.random.RandomState(0)
    scores = random.randn(2, 3, 4).astype("float32")
    transitions = random.randn(4, 4).astype("float32")
    tags, lengths = np.array([[1, 2, 0], [3, 1, 0]]), np.array([3, 2])

    def score(row: int, sequence: Any) -> float:
        own = sum(scores[row, t, tag] for t, tag in enumerate(sequence))
        return own + sum(transitions[a, b] for a, b in itertools.pairwise(sequence))

    likelihood, params = contrib.crf.crf_log_likelihood(scores, tags, lengths, transitions)
    decoded, best = contrib.crf.crf_decode(scores, params, lengths)
    likelihood, decoded, best = graph.run([likelihood, decoded, best])
    for row, length in enumerate(lengths):
        everything = {s: score(row, s) for s in itertools.product(range(4), repeat=length)}
        norm = np.log(sum(np.exp(list(everything.values()))))
        assert likelihood[row] == pytest.approx(score(row, tags[row, :length]) - norm, rel=1e-4)
        winner = max(everything, key=everything.__getitem__)
        assert tuple(decoded[row, :length]) == winner
        assert best[row] == pytest.approx(everything[winner], rel=1e-4)
        found, value = contrib.crf.viterbi_decode(scores[row, :length], transitions)
        assert tuple(found) == winner and value == pytest.approx(everything[winner], rel=1e-4)


def test_an_estimator_with_a_random_field_learns(tmp_path: Path) -> None:
    x = np.random.RandomState(1).randint(0, 3, [64, 5])

    def input_fn() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(({"x": x}, x)).repeat().batch(16)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        scores = est.compat.v1.layers.dense(tf.one_hot(features["x"], 3), 3)
        lengths = tf.fill([tf.shape(scores)[0]], 5)
        likelihood, transitions = contrib.crf.crf_log_likelihood(scores, labels, lengths)
        tags, _ = contrib.crf.crf_decode(scores, transitions, lengths)
        loss = -tf.reduce_mean(likelihood)
        train_op = v1.train.AdamOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        metrics = {"accuracy": v1.metrics.accuracy(labels, tags)}
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)

    made = est.Estimator(model_fn, tmp_path).train(input_fn, steps=40)
    assert made.evaluate(lambda: input_fn().take(4))["accuracy"] > 0.95
    assert "transitions" in made.get_variable_names()


@pytest.mark.parametrize("lengths", [None, [4, 2, 0]])
def test_a_fused_lstm_is_an_lstm(graph: v1.Session, lengths: list[int] | None) -> None:
    x = np.random.RandomState(0).randn(4, 3, 5).astype("float32")
    fused = contrib.rnn.LSTMBlockFusedCell(6)
    given = None if lengths is None else tf.constant(lengths)
    outputs, state = fused(x, dtype=tf.float32, sequence_length=given)
    cell = contrib.rnn.BasicLSTMCell(6)
    expected, last = v1.nn.dynamic_rnn(
        cell, tf.constant(x), given, dtype=tf.float32, time_major=True
    )
    graph.run(v1.global_variables_initializer())
    assert [v.op.name for v in fused.weights] == ["lstm_fused_cell/kernel", "lstm_fused_cell/bias"]
    for mine, other in zip(fused.weights, cell.weights, strict=True):
        graph.run(v1.assign(other, mine))
    ours, theirs = graph.run([(outputs, state), (expected, last)])
    for one, other in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    (gradient,) = tf.gradients(tf.reduce_sum(outputs), fused.weights[:1])
    assert graph.run(gradient).shape == (11, 24)


def test_a_network_of_eager_execution_tracks_its_layers() -> None:
    class Net(contrib.eager.Network):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(name="net")
            self.first = self.track_layer(tf.keras.layers.Dense(3))
            self.second = self.track_layer(tf.keras.layers.Dense(1))

        def call(self, x: Any) -> Any:
            return self.second(self.first(x))

    net = Net()
    assert net(tf.ones([2, 4])).shape == (2, 1)
    assert [tuple(v.shape) for v in net.trainable_variables] == [(4, 3), (3,), (3, 1), (1,)]


def test_the_ops_of_k_means_find_the_clusters(graph: v1.Session) -> None:
    random = np.random.RandomState(2)
    centers = np.array([[0, 0], [10, 0], [0, 10]], "float32")
    points = np.concatenate([c + random.randn(20, 2).astype("float32") for c in centers])
    kmeans = contrib.factorization.KMeans(
        tf.constant(points), 3, "kmeans_plus_plus", use_mini_batch=False, random_seed=7
    )
    _, clusters, scores, ready, init, train = kmeans.training_graph()
    graph.run(v1.global_variables_initializer())
    assert not graph.run(ready)
    graph.run(init)
    for _ in range(5):
        graph.run(train)
    found = graph.run(v1.global_variables("clusters")[0])
    np.testing.assert_allclose(found[np.argsort(found.sum(1))][0], points[:20].mean(0), atol=1e-4)
    assert len(set(graph.run(clusters[0])[:20])) == 1 and graph.run(scores[0]).mean() < 4


def test_streaming_metrics_take_predictions_first(graph: v1.Session) -> None:
    predictions, labels = tf.constant([1, 1, 0]), tf.constant([1, 0, 0])
    value, update = contrib.metrics.streaming_precision(predictions, labels)
    f1 = contrib.metrics.f1_score(labels, tf.cast(predictions, tf.float32))
    graph.run(v1.local_variables_initializer())
    graph.run([update, f1[1]])
    assert graph.run(value) == pytest.approx(0.5)
    assert graph.run(f1[0]) == pytest.approx(2 / 3)


def test_a_decoder_gives_what_a_network_over_the_sequence_gives(graph: v1.Session) -> None:
    x = np.random.RandomState(3).randn(2, 4, 5).astype("float32")
    lengths = tf.constant([4, 2])
    cell = contrib.rnn.GRUCell(6)
    helper = contrib.seq2seq.TrainingHelper(tf.constant(x), lengths)
    decoder = contrib.seq2seq.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32))
    made, last, found = contrib.seq2seq.dynamic_decode(decoder, impute_finished=True)
    expected, state = v1.nn.dynamic_rnn(cell, tf.constant(x), lengths, dtype=tf.float32)
    graph.run(v1.global_variables_initializer())
    made, last, found, expected, state = graph.run([made, last, found, expected, state])
    np.testing.assert_allclose(made.rnn_output, expected, atol=1e-5)
    np.testing.assert_allclose(last, state, atol=1e-5)
    assert found.tolist() == [4, 2]


@pytest.mark.parametrize("kind", ["LuongAttention", "BahdanauAttention"])
def test_a_decoder_with_attention_stops_at_the_end_of_a_sentence(
    graph: v1.Session, kind: str
) -> None:
    memory = tf.constant(np.random.RandomState(4).randn(2, 3, 6).astype("float32"))
    mechanism = getattr(contrib.seq2seq, kind)(6, memory, memory_sequence_length=[3, 1])
    cell = contrib.seq2seq.AttentionWrapper(
        contrib.rnn.GRUCell(6), mechanism, attention_layer_size=4, alignment_history=True
    )
    table = tf.constant(np.eye(5, dtype="float32"))
    helper = contrib.seq2seq.GreedyEmbeddingHelper(table, tf.zeros([2], tf.int32), 4)
    decoder = contrib.seq2seq.BasicDecoder(
        cell, helper, cell.zero_state(2, tf.float32), est.compat.v1.layers.Dense(5)
    )
    made, last, lengths = contrib.seq2seq.dynamic_decode(decoder, maximum_iterations=7)
    graph.run(v1.global_variables_initializer())
    looked, ids, counted = graph.run([last.alignment_history.stack(), made.sample_id, lengths])
    assert ids.shape[1] == counted.max() == len(looked) <= 7
    np.testing.assert_allclose(looked.sum(-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(looked[:, 1, 1:], 0.0, atol=1e-6)  # behind the end of the second


def test_boosted_trees_and_forests_grow(tmp_path: Path) -> None:
    pytest.importorskip("ydf")
    x = np.linspace(-1, 1, 200).astype("float32")

    def input_fn() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(({"x": x}, (x > 0.2).astype("int64"))).batch(50)

    with installed():
        columns = [tf.feature_column.numeric_column("x")]
        made = tf.estimator.BoostedTreesClassifier(
            columns, n_batches_per_layer=1, n_trees=10, max_depth=2, model_dir=str(tmp_path / "a")
        )
    made.train(input_fn, max_steps=100)
    assert made.evaluate(input_fn)["accuracy"] > 0.95
    params = contrib.tensor_forest.python.tensor_forest.ForestHParams(
        num_classes=2, num_features=1, num_trees=5
    ).fill()
    client = contrib.tensor_forest.client.random_forest
    forest = client.TensorForestEstimator(params, model_dir=str(tmp_path / "b"))
    forest.train(input_fn)
    assert forest.evaluate(input_fn)["accuracy"] > 0.95


def test_what_boosted_trees_ignore_is_told_once(tmp_path: Path, caplog, monkeypatch) -> None:
    monkeypatch.setattr(trees, "_told", set())
    for _ in range(2):
        trees.BoostedTreesRegressor(
            [], model_dir=str(tmp_path), min_node_weight=2.0, pruning_mode="pre", center_bias=True
        )
    said = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len(said) == 1
    assert "no equivalent of min_node_weight=2.0, pruning_mode='pre': ignored" in said[0]


def test_what_a_forest_ignores_is_told(tmp_path: Path, caplog, monkeypatch) -> None:
    monkeypatch.setattr(trees, "_told", set())
    grown = {"num_classes": 2, "num_trees": 5}
    trees.TensorForestEstimator(grown, model_dir=str(tmp_path), keys_name="id", trainer_id=3)
    [said] = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "keys_name='id', trainer_id=3: ignored" in said
    assert "est.RandomForestClassifier" in said


def test_boosted_trees_with_the_defaults_of_upstream_have_nothing_to_tell(tmp_path, caplog) -> None:
    trees.BoostedTreesClassifier([], model_dir=str(tmp_path))
    assert not [r for r in caplog.records if r.levelname == "WARNING"]


def test_what_libraries_import_of_the_decoders_is_there() -> None:
    swapped = contrib.seq2seq._transpose_batch_time(tf.zeros([2, 3, 4]))
    assert swapped.shape == [3, 2, 4]
