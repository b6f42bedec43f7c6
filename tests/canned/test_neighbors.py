"""`est.KNeighborsClassifier` and `est.KNeighborsRegressor` against scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.canned.neighbors import model as neighbors_model

neighbors = pytest.importorskip("sklearn.neighbors")

RNG = np.random.default_rng(11)
POINTS = RNG.normal(size=(150, 3)).astype("float32")
CLASSES = (POINTS[:, 0] > 0).astype(int) + (POINTS[:, 1] > 0.5)
ASKED = RNG.normal(size=(40, 3)).astype("float32")


def examples(labels: Any, points: Any = POINTS) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(({"x": points}, labels)).batch(32)


def asked() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices({"x": ASKED}).batch(16)


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_class_probabilities_are_those_of_scikit_learn(weights: str, metric: str) -> None:
    ours = est.KNeighborsClassifier(n_neighbors=7, n_classes=3, weights=weights, metric=metric)
    ours.train(lambda: examples(CLASSES))
    theirs = neighbors.KNeighborsClassifier(7, weights=weights, metric=metric)
    theirs.fit(POINTS, CLASSES)
    rows = list(ours.predict(asked))
    probabilities = [row["probabilities"] for row in rows]
    np.testing.assert_allclose(probabilities, theirs.predict_proba(ASKED), atol=1e-4)
    distances, places = theirs.kneighbors(ASKED)
    np.testing.assert_array_equal([row["neighbor_indices"] for row in rows], places)
    np.testing.assert_allclose([r["neighbor_distances"] for r in rows], distances, atol=1e-5)


def test_accuracy_is_that_of_scikit_learn() -> None:
    two = np.minimum(CLASSES, 1)
    ours = est.KNeighborsClassifier(n_neighbors=4).train(lambda: examples(two))
    theirs = neighbors.KNeighborsClassifier(4).fit(POINTS, two)
    labels = np.minimum((ASKED[:, 0] > 0).astype(int) + (ASKED[:, 1] > 0.5), 1)
    metrics = ours.evaluate(lambda: examples(labels, ASKED))
    assert metrics["accuracy"] == pytest.approx(theirs.score(ASKED, labels))


@pytest.mark.parametrize("eagerly", [False, True])
def test_regression_is_that_of_scikit_learn(eagerly: bool) -> None:
    targets = np.stack([POINTS.sum(1), POINTS[:, 0] ** 2], axis=1).astype("float32")
    config = est.RunConfig(run_eagerly=eagerly)
    ours = est.KNeighborsRegressor(
        n_neighbors=3, label_dimension=2, weights="distance", config=config
    )
    ours.train(lambda: examples(targets))
    theirs = neighbors.KNeighborsRegressor(3, weights="distance").fit(POINTS, targets)
    said = [row["predictions"] for row in ours.predict(asked)]
    np.testing.assert_allclose(said, theirs.predict(ASKED), rtol=1e-4, atol=1e-5)


def test_an_example_at_the_same_place_decides_alone_by_distance() -> None:
    ours = est.KNeighborsRegressor(n_neighbors=3, weights="distance")
    ours.train(lambda: examples(POINTS[:, 2]))
    said = [r["predictions"][0] for r in ours.predict(lambda: examples(POINTS[:, 2]))]
    np.testing.assert_allclose(said, POINTS[:, 2], rtol=1e-6)


def test_search_in_chunks_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbors_model, "_CHUNK", 17)
    ours = est.KNeighborsRegressor(n_neighbors=20).train(lambda: examples(POINTS[:, 2]))
    expected = neighbors.NearestNeighbors(n_neighbors=20).fit(POINTS).kneighbors(ASKED)[1]
    said = [row["neighbor_indices"] for row in ours.predict(asked)]
    np.testing.assert_array_equal(said, expected)


def test_points_far_from_zero_keep_their_neighbours() -> None:
    far = POINTS + np.float32(5000)
    ours = est.KNeighborsRegressor(n_neighbors=3).train(lambda: examples(POINTS[:, 2], far))
    expected = neighbors.NearestNeighbors(n_neighbors=3).fit(far).kneighbors(far)[1]
    said = [row["neighbor_indices"] for row in ours.predict(lambda: examples(POINTS[:, 2], far))]
    assert np.mean(np.array(said) == expected) > 0.99  # ties by rounding of the input itself


def test_memory_grows_and_survives_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbors_model, "_FIRST_ROOM", 8)
    first = est.KNeighborsRegressor(model_dir=tmp_path, n_neighbors=1)
    first.train(lambda: examples(POINTS[:, 2]))
    second = est.KNeighborsRegressor(model_dir=tmp_path, n_neighbors=1)
    second.train(lambda: examples(np.ones(1, "float32"), np.full([1, 3], 9, "float32")))
    assert second.get_variable_value("neighbors/count") == 151
    third = est.KNeighborsRegressor(model_dir=tmp_path, n_neighbors=1)
    near_nine = {"x": [[8.0, 9.0, 9.0]]}
    [row] = third.predict(lambda: tf.data.Dataset.from_tensors(near_nine))
    assert (row["predictions"][0], row["neighbor_indices"][0]) == (1.0, 150)


def test_fewer_examples_than_neighbors_all_vote() -> None:
    ours = est.KNeighborsRegressor(n_neighbors=5)
    ours.train(lambda: examples(np.array([1.0, 4.0], "float32"), POINTS[:2]))
    row = next(ours.predict(asked))
    assert row["predictions"][0] == pytest.approx(2.5)


def test_classes_may_have_names() -> None:
    words = np.array(["cat", "dog", "bird"])
    ours = est.KNeighborsClassifier(
        n_neighbors=1, n_classes=3, label_vocabulary=["bird", "cat", "dog"]
    )
    ours.train(lambda: examples(words, POINTS[:3]))
    said = [row["classes"][0] for row in ours.predict(lambda: examples(words, POINTS[:3]))]
    assert said == [b"cat", b"dog", b"bird"]


def test_export_answers_as_predict_does(tmp_path: Path) -> None:
    ours = est.KNeighborsClassifier(n_neighbors=3, n_classes=3).train(lambda: examples(CLASSES))
    receiver = est.export.build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([1, 3])})
    loaded = tf.saved_model.load(ours.export_saved_model(tmp_path, receiver).decode())
    served = loaded.signatures["predict"](x=tf.constant(ASKED))["probabilities"]
    expected = [row["probabilities"] for row in ours.predict(asked)]
    np.testing.assert_allclose(served, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": "square"}, "weights must be 'uniform' or 'distance'. Given: 'square'"),
        ({"metric": "hamming"}, "metric must be 'euclidean' or 'cosine'. Given: 'hamming'"),
        ({"n_neighbors": 0}, "n_neighbors must be a whole number from 1. Given: 0"),
    ],
)
def test_unusable_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        est.KNeighborsClassifier(**arguments)


def test_label_out_of_range_is_told_in_training() -> None:
    with pytest.raises(Exception, match="Labels must be <= n_classes - 1"):
        est.KNeighborsClassifier().train(lambda: examples(CLASSES))
