"""`est.KMeans` against tf.estimator 2.15, NumPy and scikit-learn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est

ORIGINAL = json.loads((Path(__file__).parent / "fixtures" / "kmeans_upstream.json").read_text())
POINTS = np.array(ORIGINAL["points"], "float32")
FULL_BATCH = [case for case in ORIGINAL["cases"] if not case["kw"]["use_mini_batch"]]


def all_points() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(POINTS)


def batches(size: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(POINTS).batch(size).repeat()


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def mini_batches(steps: int, size: int, per_iteration: int) -> np.ndarray:
    """Mini-batch k-means from the first three points, in NumPy."""
    centers = POINTS[:3].astype("float64")
    moved, counts = centers.copy(), np.full(3, 1.0 if per_iteration == 1 else 0.0)
    for step in range(steps):
        if per_iteration > 1 and step and step % per_iteration == 0:
            centers, counts = moved.copy(), np.zeros(3)
        first = step * size % len(POINTS)
        batch = POINTS[first : first + size]
        nearest = np.square(batch[:, None] - centers[None]).sum(-1).argmin(1)
        for j in set(nearest):
            own = batch[nearest == j]
            counts[j] += len(own)
            moved[j] += (own - moved[j]).sum(0) / counts[j]
        if per_iteration == 1:
            centers = moved.copy()
    return centers


@pytest.mark.parametrize("case", FULL_BATCH, ids=lambda case: case["kw"].get("distance_metric"))
def test_lloyd_iterations_are_those_of_the_original(case: dict[str, Any]) -> None:
    kmeans = est.KMeans(3, initial_clusters=POINTS[:3], **case["kw"])
    for expected in case["centers"]:
        kmeans.train(all_points)
        np.testing.assert_allclose(kmeans.cluster_centers(), expected, rtol=1e-5, atol=2e-6)
    assert [int(i) for i in kmeans.predict_cluster_index(all_points)] == case["index"]
    np.testing.assert_allclose(
        list(kmeans.transform(all_points)), case["transform"], rtol=1e-5, atol=1e-5
    )
    assert kmeans.score(all_points) == pytest.approx(case["score"], rel=1e-5)
    assert kmeans.evaluate(all_points) == pytest.approx(case["evaluate"], rel=1e-5)


@pytest.mark.parametrize("case", ORIGINAL["cases"], ids=lambda case: str(case["kw"]))
def test_checkpoints_have_the_names_and_shapes_of_the_original(case: dict[str, Any]) -> None:
    kmeans = est.KMeans(3, initial_clusters=POINTS[:3], **case["kw"])
    kmeans.train(all_points)
    written = {
        (name, tuple(shape), kmeans.get_variable_value(name).dtype.name)
        for name, shape in tf.train.list_variables(kmeans.latest_checkpoint())
    }
    assert written == {(name, tuple(shape), dtype) for name, shape, dtype in case["names"]}


@pytest.mark.parametrize("per_iteration", [1, 3])
@pytest.mark.parametrize("eagerly", [False, True])
def test_mini_batches_move_centers_by_the_running_mean(per_iteration: int, eagerly: bool) -> None:
    kmeans = est.KMeans(
        3,
        initial_clusters=POINTS[:3],
        mini_batch_steps_per_iteration=per_iteration,
        config=est.RunConfig(run_eagerly=eagerly),
    )
    kmeans.train(lambda: batches(6), steps=7)
    expected = mini_batches(7, 6, per_iteration)
    np.testing.assert_allclose(kmeans.cluster_centers(), expected, rtol=1e-5)


def test_full_batch_training_ends_where_scikit_learn_ends() -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    theirs = cluster.KMeans(3, init=POINTS[:3], n_init=1, algorithm="lloyd", tol=0).fit(POINTS)
    ours = est.KMeans(3, initial_clusters=POINTS[:3], use_mini_batch=False)
    ours.train(lambda: all_points().repeat(), steps=20)
    np.testing.assert_allclose(ours.cluster_centers(), theirs.cluster_centers_, rtol=1e-5)
    assert ours.score(all_points) == pytest.approx(theirs.inertia_, rel=1e-5)
    np.testing.assert_allclose(
        list(ours.transform(all_points)), theirs.transform(POINTS), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("how", ["random", "kmeans_plus_plus"])
def test_centers_are_chosen_among_the_points_of_the_first_batch(how: str) -> None:
    kmeans = est.KMeans(5, initial_clusters=how, seed=3, mini_batch_steps_per_iteration=9)
    kmeans.train(all_points)  # one step: the chosen centers come into use, none has moved
    chosen = {tuple(row) for row in kmeans.cluster_centers()}
    assert len(chosen) == 5
    assert chosen <= {tuple(row) for row in POINTS}


def test_the_batch_that_centers_are_chosen_from_is_trained_on() -> None:
    kmeans = est.KMeans(1, use_mini_batch=False).train(all_points)
    np.testing.assert_allclose(kmeans.cluster_centers(), [POINTS.mean(0)], rtol=1e-5)
    assert kmeans.get_variable_value("global_step") == 1


def test_what_a_small_batch_lacks_of_centers_is_taken_from_the_next() -> None:
    kmeans = est.KMeans(5, mini_batch_steps_per_iteration=9)
    kmeans.train(lambda: batches(2), steps=2)
    assert not kmeans.get_variable_value("initialized")
    np.testing.assert_array_equal(kmeans.cluster_centers()[:4], POINTS[:4])
    kmeans.train(lambda: batches(2), steps=1)
    assert kmeans.get_variable_value("initialized")
    np.testing.assert_array_equal(kmeans.cluster_centers()[:4], POINTS[:4])


def test_centers_may_come_from_a_function() -> None:
    kmeans = est.KMeans(
        2, initial_clusters=lambda points, k: points[-k:], mini_batch_steps_per_iteration=9
    )
    kmeans.train(all_points)
    np.testing.assert_array_equal(kmeans.cluster_centers(), POINTS[-2:])


def test_same_seed_same_centers() -> None:
    config = est.RunConfig(tf_random_seed=5)
    first, second = (
        est.KMeans(4, seed=7, config=config).train(lambda: batches(8), steps=3) for _ in range(2)
    )
    np.testing.assert_array_equal(first.cluster_centers(), second.cluster_centers())


def test_center_that_nobody_is_nearest_to_stays() -> None:
    far = np.array([[0.0, 0.0], [1e3, 1e3]], "float32")
    kmeans = est.KMeans(2, initial_clusters=far, use_mini_batch=False).train(all_points)
    np.testing.assert_array_equal(kmeans.cluster_centers()[1], far[1])


def test_distance_to_a_center_itself_is_not_nan() -> None:
    big = (POINTS + 1e4).astype("float32")
    kmeans = est.KMeans(3, initial_clusters=big[:3], mini_batch_steps_per_iteration=9)
    kmeans.train(lambda: tf.data.Dataset.from_tensors(big))
    distances = np.array(list(kmeans.transform(lambda: tf.data.Dataset.from_tensors(big))))
    assert np.isfinite(distances).all()


def test_cosine_distances_are_one_minus_the_cosine() -> None:
    centers = POINTS[:2]
    kmeans = est.KMeans(
        2, initial_clusters=centers, distance_metric="cosine", mini_batch_steps_per_iteration=9
    )
    kmeans.train(all_points)
    expected = 1 - unit(POINTS) @ unit(centers).T
    np.testing.assert_allclose(list(kmeans.transform(all_points)), expected, atol=1e-6)
    assert kmeans.score(all_points) == pytest.approx(expected.min(1).sum(), rel=1e-5)


def test_training_stops_when_the_loss_settles() -> None:
    kmeans = est.KMeans(
        3, initial_clusters=POINTS[:3], use_mini_batch=False, relative_tolerance=1e-6
    )
    kmeans.train(lambda: all_points().repeat(), steps=500)
    assert 2 <= kmeans.get_variable_value("global_step") < 50


def test_features_of_a_dict_stand_side_by_side_by_name() -> None:
    def by_name() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors({"b": POINTS[:, 1:], "a": POINTS[:, 0]})

    kmeans = est.KMeans(1, use_mini_batch=False).train(by_name)
    np.testing.assert_allclose(kmeans.cluster_centers(), [POINTS.mean(0)], rtol=1e-5)


def test_feature_columns_choose_what_is_clustered() -> None:
    def by_name() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors({"b": POINTS[:, 1:], "text": ["x"] * len(POINTS)})

    columns = [tf.feature_column.numeric_column("b")]
    kmeans = est.KMeans(1, use_mini_batch=False, feature_columns=columns).train(by_name)
    np.testing.assert_allclose(kmeans.cluster_centers(), [[POINTS[:, 1].mean()]], rtol=1e-5)


def test_export_answers_with_index_and_distances(tmp_path: Path) -> None:
    kmeans = est.KMeans(3, initial_clusters=POINTS[:3], use_mini_batch=False).train(all_points)

    def receiver() -> Any:
        points = tf.compat.v1.placeholder(tf.float32, [None, 2])
        return est.export.TensorServingInputReceiver(points, {"points": points})

    loaded = tf.saved_model.load(kmeans.export_saved_model(tmp_path, receiver).decode())
    index = loaded.signatures["serving_default"](points=tf.constant(POINTS))["output"]
    distances = loaded.signatures["all_distances"](points=tf.constant(POINTS))["output"]
    expected = np.square(POINTS[:, None] - kmeans.cluster_centers()[None]).sum(-1)
    np.testing.assert_array_equal(index, expected.argmin(1))
    np.testing.assert_allclose(distances, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"initial_clusters": "best"}, "Unsupported initialization algorithm 'best'"),
        ({"distance_metric": "manhattan"}, "Unsupported distance metric 'manhattan'"),
        ({"num_clusters": 0}, "num_clusters must be a whole number from 1. Given: 0"),
        ({"initial_clusters": [1.0, 2.0]}, r"\[clusters, dimensions\]"),
    ],
)
def test_unusable_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        est.KMeans(**{"num_clusters": 2, **arguments})


def test_centers_that_do_not_fit_the_points_are_refused() -> None:
    kmeans = est.KMeans(2, initial_clusters=np.zeros([2, 3]))
    with pytest.raises(ValueError, match=r"3 numbers per center, but the points .* have 2"):
        kmeans.train(all_points)


def test_text_cannot_be_clustered() -> None:
    with pytest.raises(ValueError, match="'x' has type string"):
        est.KMeans(2).train(lambda: tf.data.Dataset.from_tensors({"x": ["a", "b"]}))
