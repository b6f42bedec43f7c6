"""predict(): what is yielded, how lazily, and several at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.line import (
    X,
    Y,
    batches,
    endless,
    estimator,
    features_only,
    model_fn,
    v1,
    weight_after,
)


def predicting(predictions: Any) -> Any:
    """A model function whose predictions are what the given function makes of the features."""

    def function(features: Any, mode: str) -> est.EstimatorSpec:
        return est.EstimatorSpec(mode, predictions=predictions(features))

    return function


# ------------------------------------------------------------------ what is yielded


def test_one_dict_per_row(tmp_path: Path) -> None:
    rows = list(estimator(tmp_path).train(endless, steps=3).predict(batches))
    assert [row.keys() for row in rows] == [{"x", "y"}] * 4
    assert [row["x"] for row in rows] == list(X)
    assert [row["y"] for row in rows] == pytest.approx(list(weight_after(3) * X))
    assert isinstance(rows[0]["y"], np.float32)


def test_whole_batches(tmp_path: Path) -> None:
    found = list(estimator(tmp_path).predict(batches, yield_single_examples=False, untrained=True))
    assert [batch["y"].tolist() for batch in found] == [[1, 2], [3, 4]]


def test_rows_of_a_single_tensor(tmp_path: Path) -> None:
    made = estimator(tmp_path, predicting(lambda f: tf.stack([f["x"], -f["x"]], axis=1)))
    assert [row.tolist() for row in made.predict(features_only)] == [[x, -x] for x in X]


def test_whole_batches_of_a_single_tensor(tmp_path: Path) -> None:
    made = estimator(tmp_path, predicting(lambda features: 2 * features["x"]))
    found = list(made.predict(features_only, yield_single_examples=False))
    assert [batch.tolist() for batch in found] == [[2, 4], [6, 8]]


def test_strings_come_back_as_bytes(tmp_path: Path) -> None:
    def words(features: Any) -> Any:
        return {"word": tf.strings.as_string(features["x"], precision=0)}

    rows = list(estimator(tmp_path, predicting(words)).predict(features_only))
    assert [row["word"] for row in rows] == [b"1", b"2", b"3", b"4"]
    assert type(rows[0]["word"]) is bytes


def test_nested_arrays_per_row(tmp_path: Path) -> None:
    def outer(features: Any) -> Any:
        return {"outer": features["x"][:, None, None] * tf.constant([[1.0, 2.0], [3.0, 4.0]])}

    rows = list(estimator(tmp_path, predicting(outer)).predict(features_only))
    np.testing.assert_allclose([row["outer"] for row in rows], X[:, None, None] * [[1, 2], [3, 4]])


def test_labels_of_the_input_are_dropped(tmp_path: Path) -> None:
    def looks(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        assert labels is None
        return model_fn(features, labels, mode)

    assert len(list(estimator(tmp_path, looks).predict(batches, untrained=True))) == 4


LABELS = {
    "none": None,
    "floats": Y,
    "integers": Y.astype(np.int64),
    "columns": Y[:, None],
    "a dict": {"a": Y, "b": Y.astype(str)},
    "a tuple": (Y, -Y),
    "sparse": tf.sparse.from_dense(np.diag(Y)),
    "ragged": tf.ragged.constant([[1.0], [], [2.0, 3.0], [4.0]]),
}


def labelled(kind: str, *, known: bool) -> Any:
    def input_fn() -> tf.data.Dataset:
        labels = LABELS[kind]
        rows = tf.data.Dataset.from_tensor_slices({"x": X})
        if labels is not None:
            rows = tf.data.Dataset.zip((rows, tf.data.Dataset.from_tensor_slices(labels)))
        return (rows if known else rows.filter(lambda *_: True)).batch(2)

    return input_fn


@pytest.mark.parametrize("known", [True, False])
def test_each_call_may_have_labels_of_another_kind(tmp_path: Path, known: bool) -> None:
    made = estimator(tmp_path)
    for kind in (*LABELS, *reversed(LABELS)):
        found = [row["y"] for row in made.predict(labelled(kind, known=known), untrained=True)]
        assert found == list(X), kind


def test_generators_over_inputs_with_and_without_labels_in_turn(tmp_path: Path) -> None:
    made = estimator(tmp_path)
    generators = [made.predict(labelled(kind, known=True), untrained=True) for kind in LABELS]
    for rows, x in zip(zip(*generators, strict=True), X, strict=True):
        assert [row["y"] for row in rows] == [x] * len(LABELS)


def test_labels_may_differ_from_those_that_hooks_saw(tmp_path: Path) -> None:
    made = estimator(tmp_path)
    for kind in LABELS:
        rows = made.predict(
            labelled(kind, known=True), hooks=[est.SessionRunHook()], untrained=True
        )
        assert [row["y"] for row in rows] == list(X)


def test_prediction_that_is_a_feature_as_it_came(tmp_path: Path) -> None:
    made = estimator(tmp_path, predicting(lambda features: features))
    assert [row["x"] for row in made.predict(features_only)] == list(X)


def test_last_batch_may_be_smaller(tmp_path: Path) -> None:
    def uneven() -> tf.data.Dataset:
        return features_only().unbatch().batch(3)

    found = list(estimator(tmp_path).predict(uneven, yield_single_examples=False, untrained=True))
    assert [len(batch["y"]) for batch in found] == [3, 1]


def test_rows_of_varying_width(tmp_path: Path) -> None:
    """Batches that cannot be joined into one array."""

    def widening() -> tf.data.Dataset:
        return tf.data.Dataset.range(1, 4).map(lambda n: {"x": tf.ones([2, n])})

    found = list(estimator(tmp_path, predicting(lambda f: f)).predict(widening))
    assert [row["x"].shape for row in found] == [(1,), (1,), (2,), (2,), (3,), (3,)]


# ------------------------------------------------------------------ lengths of inputs


def many(rows: int, size: int, *, known: bool) -> Any:
    def input_fn() -> tf.data.Dataset:
        numbers = tf.data.Dataset.range(rows).map(lambda i: {"x": tf.cast(i, tf.float32)})
        return (numbers if known else numbers.filter(lambda _: True)).batch(size)

    return input_fn


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("rows", "size"), [(1, 1), (7, 7), (1000, 3), (1024, 1), (85, 2)])
def test_all_rows_in_order(tmp_path: Path, rows: int, size: int, known: bool) -> None:
    found = estimator(tmp_path).predict(many(rows, size, known=known), untrained=True)
    assert [row["x"] for row in found] == list(range(rows))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("single", [True, False])
def test_empty_input_yields_nothing(tmp_path: Path, known: bool, single: bool) -> None:
    made = estimator(tmp_path)
    input_fn = many(0, 2, known=known)
    assert list(made.predict(input_fn, yield_single_examples=single, untrained=True)) == []


def test_empty_input_of_an_eager_run_yields_nothing(tmp_path: Path) -> None:
    made = estimator(tmp_path, run_eagerly=True)
    assert list(made.predict(many(0, 2, known=True), untrained=True)) == []


def test_endless_input_may_be_left(tmp_path: Path) -> None:
    rows = estimator(tmp_path).predict(endless, untrained=True)
    assert [next(rows)["x"] for _ in range(6)] == [1, 2, 3, 4, 1, 2]
    rows.close()


def test_plain_tensors_are_warned_of_and_repeat_forever(tmp_path: Path, caplog) -> None:
    rows = estimator(tmp_path).predict(lambda: {"x": tf.constant([5.0, 6.0])}, untrained=True)
    assert [next(rows)["x"] for _ in range(5)] == [5, 6, 5, 6, 5]
    assert any("That means predict yields forever" in m for m in caplog.messages)


# ------------------------------------------------------------------ laziness


def test_nothing_happens_before_the_first_value_is_asked_for(tmp_path: Path) -> None:
    made = estimator(tmp_path, lambda features, labels, mode: pytest.fail("built"))
    made.predict(lambda: pytest.fail("read"))


def test_first_value_needs_only_the_first_batch(tmp_path: Path) -> None:
    read = []

    def rows() -> Iterator[Any]:
        for number in range(100):
            read.append(number)
            yield {"x": np.float32([number])}

    generator = estimator(tmp_path).predict(rows, untrained=True)
    assert next(generator)["x"] == 0
    assert len(read) < 20  # the pipeline reads a little ahead
    generator.close()


@pytest.mark.parametrize("run_eagerly", [False, True], ids=["traced", "eagerly"])
def test_a_generator_is_asked_once_for_each_answer(tmp_path: Path, run_eagerly: bool) -> None:
    asked = iter(range(100))

    def requests() -> tf.data.Dataset:
        # A server's generator: what was taken from it does not come again.
        rows = ({"x": np.float32([number])} for number in asked)
        spec = {"x": tf.TensorSpec([1], tf.float32)}
        return tf.data.Dataset.from_generator(lambda: rows, output_signature=spec)

    answers = estimator(tmp_path, run_eagerly=run_eagerly).predict(requests, untrained=True)
    assert [next(answers)["x"] for _ in range(3)] == [0, 1, 2]
    answers.close()
    assert next(asked) == 3


# ------------------------------------------------------------------ predict_keys


@pytest.mark.parametrize("keys", ["y", ["y"], ("y",), {"y"}])
def test_only_the_wanted_keys(tmp_path: Path, keys: Any) -> None:
    rows = list(estimator(tmp_path).predict(batches, predict_keys=keys, untrained=True))
    assert [row.keys() for row in rows] == [{"y"}] * 4


def test_unknown_keys_beside_known_ones_are_ignored(tmp_path: Path) -> None:
    rows = list(estimator(tmp_path).predict(batches, predict_keys=["y", "z"], untrained=True))
    assert rows[0].keys() == {"y"}


def test_no_known_key_is_refused(tmp_path: Path) -> None:
    message = r"Expected to run at least one output from dict_keys\(\[.*\]\), provided \['z'\]\."
    with pytest.raises(ValueError, match=message):
        next(estimator(tmp_path).predict(batches, predict_keys=["z"], untrained=True))


def test_keys_of_a_single_tensor_are_refused(tmp_path: Path) -> None:
    made = estimator(tmp_path, predicting(lambda features: features["x"]))
    with pytest.raises(ValueError, match="predict_keys argument is not valid in case of non-dict"):
        next(made.predict(features_only, predict_keys=["x"]))


def test_keys_may_differ_between_calls(tmp_path: Path) -> None:
    made = estimator(tmp_path)
    for keys in ("x", "y", None, "x"):
        [row, *_] = made.predict(batches, predict_keys=keys, untrained=True)
        assert row.keys() == ({keys} if keys else {"x", "y"})


# ------------------------------------------------------------------ unequal lengths


def unequal(features: Any) -> Any:
    return {"p": features["x"], "q": tf.concat([features["x"], features["x"]], axis=0)}


def test_unequal_lengths_are_refused_row_by_row(tmp_path: Path) -> None:
    message = (
        "Batch length of predictions should be same. q has different batch length than others."
    )
    with pytest.raises(ValueError, match="Batch length of predictions") as error:
        next(estimator(tmp_path, predicting(unequal)).predict(features_only))
    assert message in str(error.value)


def test_unequal_lengths_are_fine_in_whole_batches(tmp_path: Path) -> None:
    made = estimator(tmp_path, predicting(unequal))
    found = list(made.predict(features_only, yield_single_examples=False))
    assert [(len(b["p"]), len(b["q"])) for b in found] == [(2, 4), (2, 4)]


def test_scalar_among_the_predictions(tmp_path: Path) -> None:
    def with_scalar(features: Any) -> Any:
        return {"p": features["x"], "q": tf.reduce_sum(features["x"])}

    made = estimator(tmp_path, predicting(with_scalar))
    found = list(made.predict(features_only, yield_single_examples=False))
    assert [b["q"] for b in found] == [3, 7]
    with pytest.raises(ValueError, match=r"Batch length of predictions should be same\. q"):
        next(made.predict(features_only))


# ------------------------------------------------------------------ which values, and several calls


def test_untrained_model(tmp_path: Path, caplog) -> None:
    caplog.set_level("INFO", "tensorflow")
    rows = estimator(tmp_path).predict(batches, untrained=True)
    assert [row["y"] for row in rows] == list(X)
    told = f"Could not find trained model in model_dir: {tmp_path}, running initialization to "
    assert told + "predict." in caplog.messages


def test_two_generators_in_turn(tmp_path: Path) -> None:
    made = estimator(tmp_path)
    pairs = list(
        zip(
            made.predict(batches, untrained=True),
            made.predict(batches, untrained=True),
            strict=True,
        )
    )
    assert [(a["x"], b["x"]) for a, b in pairs] == [(x, x) for x in X]


def test_two_generators_of_different_checkpoints_in_turn(tmp_path: Path) -> None:
    made = estimator(tmp_path, save_checkpoints_steps=2).train(endless, steps=4)
    generators = [
        made.predict(batches, checkpoint_path=str(tmp_path / f"model.ckpt-{step}"))
        for step in (0, 2, 4)
    ]
    for row, x in zip(zip(*generators, strict=True), X, strict=True):
        expected = [weight_after(step) * x for step in (0, 2, 4)]
        assert [r["y"] for r in row] == pytest.approx(expected)


def test_evaluation_and_training_between_two_values(tmp_path: Path) -> None:
    made = estimator(tmp_path).train(endless, steps=2)
    rows = made.predict(batches)
    found = [next(rows)["y"], next(rows)["y"]]
    made.evaluate(batches)
    made.train(endless, steps=2)
    found += [row["y"] for row in rows]
    assert found == pytest.approx(list(weight_after(2) * X))
    assert [r["y"] for r in made.predict(batches)] == pytest.approx(list(weight_after(4) * X))


def test_whole_rows_do_not_share_memory_with_what_comes_later(tmp_path: Path) -> None:
    rows = estimator(tmp_path, predicting(lambda f: tf.stack([f["x"]], 1))).predict(features_only)
    first = next(rows)
    first[:] = 100
    assert [row.tolist() for row in rows] == [[2], [3], [4]]


def test_inside_a_graph_of_the_user(tmp_path: Path) -> None:
    made = estimator(tmp_path)
    with tf.Graph().as_default():
        rows = list(made.predict(batches, untrained=True))
        assert not tf.executing_eagerly()
    assert [row["y"] for row in rows] == list(X)


def test_hook_sees_each_batch(tmp_path: Path) -> None:
    seen = []

    class Look(est.SessionRunHook):
        def before_run(self, run_context: Any) -> Any:
            return est.SessionRunArgs({"y": "mul:0"})

        def after_run(self, run_context: Any, run_values: Any) -> None:
            seen.append(run_values.results["y"].tolist())

    rows = list(estimator(tmp_path).predict(batches, hooks=[Look()], untrained=True))
    assert [row["y"] for row in rows] == list(X)
    assert seen == [[1, 2], [3, 4]]


def test_model_without_variables(tmp_path: Path) -> None:
    made = estimator(tmp_path, predicting(lambda f: {"d": 2 * f["x"]}))
    assert [row["d"] for row in made.predict(features_only)] == list(Y)


def test_table_lookup(tmp_path: Path) -> None:
    def words(features: Any) -> Any:
        initializer = tf.lookup.KeyValueTensorInitializer([1, 2], ["one", "two"], tf.int64)
        table = tf.lookup.StaticHashTable(initializer, "many")
        return {"word": table.lookup(tf.cast(features["x"], tf.int64))}

    made = estimator(tmp_path, predicting(words))
    for _ in range(2):
        found = [row["word"] for row in made.predict(features_only)]
        assert found == [b"one", b"two", b"many", b"many"]


def test_dropout_is_a_matter_of_the_model(tmp_path: Path) -> None:
    made = estimator(tmp_path, predicting(lambda f: v1.nn.dropout(f["x"], rate=0.0)))
    assert list(made.predict(features_only)) == list(X)
