"""numpy_input_fn and pandas_input_fn: order, epochs, checks, and the saved position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.errors import InputError
from estimand.inputs.memory import arrays as memory
from estimand.inputs.memory.arrays import numpy_input_fn, pandas_input_fn
from tests.inputs.reading import batches, call, save_and_continue

FIVE = np.arange(5)


def read(*args: Any, count: int | None = None, **kwargs: Any) -> list[Any]:
    return batches(call(numpy_input_fn(*args, **kwargs)), count)


def features(*args: Any, **kwargs: Any) -> list[Any]:
    return [batch for batch, _ in read(*args, **kwargs)]


# The expected orders of these three were obtained by running tf.estimator 2.15.
def test_batches_cross_the_border_between_epochs() -> None:
    assert features(FIVE, batch_size=2, num_epochs=2, shuffle=False) == [
        [0, 1],
        [2, 3],
        [4, 0],
        [1, 2],
        [3, 4],
    ]


def test_the_last_batch_may_be_smaller() -> None:
    assert read({"y": FIVE}, FIVE * 2, batch_size=2, shuffle=False) == [
        ({"y": [0, 1]}, [0, 2]),
        ({"y": [2, 3]}, [4, 6]),
        ({"y": [4]}, [8]),
    ]


def test_without_epochs_it_reads_for_ever_in_full_batches() -> None:
    input_fn = numpy_input_fn(FIVE, batch_size=3, num_epochs=None, shuffle=False)
    assert input_fn().element_spec == tf.TensorSpec([3], tf.int64)
    assert features(FIVE, batch_size=3, num_epochs=None, shuffle=False, count=8) == [
        [0, 1, 2],
        [3, 4, 0],
        [1, 2, 3],
        [4, 0, 1],
        [2, 3, 4],
        [0, 1, 2],
        [3, 4, 0],
        [1, 2, 3],
    ]


def test_a_batch_larger_than_the_data_is_what_there_is() -> None:
    assert read({"a": FIVE}, {"l": FIVE}, batch_size=7, shuffle=False) == [
        ({"a": [0, 1, 2, 3, 4]}, {"l": [0, 1, 2, 3, 4]})
    ]


def test_no_epoch_is_no_batch() -> None:
    assert read(FIVE, num_epochs=0, shuffle=False) == []


@pytest.mark.parametrize("block_rows", [1, 6, 4096])
@pytest.mark.parametrize("batch_size", [1, 2, 7, 30])
def test_any_blocking_reads_the_same_rows(
    monkeypatch: pytest.MonkeyPatch, block_rows: int, batch_size: int
) -> None:
    monkeypatch.setattr(memory, "_BLOCK_ROWS", block_rows)
    x = np.random.default_rng(0).normal(size=(23, 3)).astype(np.float32)
    rows = np.tile(np.arange(23), 3)
    expected = [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]
    got = read({"x": x}, rows[:23], batch_size=batch_size, num_epochs=3, shuffle=False)
    assert len(got) == len(expected)
    for (batch, labels), indices in zip(got, expected, strict=True):
        assert labels == indices.tolist()
        np.testing.assert_array_equal(np.float32(batch["x"]), x[indices])


def test_shuffling_reads_every_row_once_per_epoch_in_a_new_order() -> None:
    tf.random.set_seed(1)
    n = 1000
    got = read(np.arange(n), np.arange(n) * 2, batch_size=100, num_epochs=3, shuffle=True)
    rows = np.concatenate([batch for batch, _ in got])
    labels = np.concatenate([label for _, label in got])
    np.testing.assert_array_equal(labels, rows * 2)
    epochs = rows.reshape(3, n)
    for epoch in epochs:
        np.testing.assert_array_equal(np.sort(epoch), np.arange(n))
    assert all(np.mean(epochs[i] == epochs[i - 1]) < 0.02 for i in range(3))
    assert all(abs(np.corrcoef(epoch, np.arange(n))[0, 1]) < 0.15 for epoch in epochs)


def test_small_shuffles_put_every_row_first_equally_often() -> None:
    tf.random.set_seed(2)
    rows = np.concatenate(features(np.arange(5), batch_size=5, num_epochs=2000, shuffle=True))
    first = np.bincount(rows.reshape(2000, 5)[:, 0], minlength=5)
    assert first.min() > 320 and first.max() < 480  # 400 expected, standard deviation 18


def test_the_order_follows_the_global_seed() -> None:
    def order(seed: int) -> list[Any]:
        tf.random.set_seed(seed)
        return features(np.arange(50), batch_size=10, shuffle=True)

    assert order(3) == order(3) != order(4)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("num_epochs", [None, 9])
def test_the_position_is_saved_and_restored_exactly(
    tmp_path: Path, shuffle: bool, num_epochs: int | None
) -> None:
    x = {"x": np.arange(40, dtype=np.float32).reshape(20, 2)}

    def make() -> Any:
        tf.random.set_seed(5)
        return call(numpy_input_fn(x, np.arange(20), 3, num_epochs, shuffle))

    straight_on, restored = save_and_continue(make, 11, 30, tmp_path)
    assert straight_on == restored


def test_text_and_types_are_kept() -> None:
    x = {"s": np.array(["a", "bc"]), "o": np.array(["d", "e"], object), "f": np.zeros((2, 3))}
    dataset = numpy_input_fn(x, np.float32([1, 2]), shuffle=False)()
    specs, labels = dataset.element_spec
    assert specs["f"] == tf.TensorSpec([None, 3], tf.float64)
    assert specs["s"].dtype == specs["o"].dtype == tf.string
    assert labels == tf.TensorSpec([None], tf.float32)
    assert read(x, shuffle=False)[0][0]["s"] == [b"a", b"bc"]


def test_old_queue_arguments_change_nothing() -> None:
    assert features(FIVE, shuffle=False, queue_capacity=1, num_threads=4) == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize("shuffle", [None, 1, "yes"])
def test_shuffle_must_be_given(shuffle: Any) -> None:
    with pytest.raises(InputError, match="shuffle must be provided and explicitly set as boolean"):
        numpy_input_fn(FIVE, shuffle=shuffle)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ({}, None, "x cannot be an empty dict"),
        (np.zeros((0, 2)), None, "x cannot be an empty array"),
        ({"a": FIVE}, {}, "y cannot be empty dict, use None instead."),
        ({"a": FIVE}, {"a": FIVE}, "1 duplicate keys are found in both x and y: {'a'}"),
        ({"a": FIVE}, FIVE[:4], r"is mismatched.*\n.*Shapes in x: {'a': \(5,\)}\nShapes in y: \(4"),
        ({"a": FIVE, "b": FIVE[:4]}, None, "Length of tensors in x and y is mismatched"),
        ({"a": np.array([1, None])}, None, r"x\['a'\] is a NumPy array of Python objects"),
    ],
)
def test_wrong_data_are_refused_when_the_function_is_called(x: Any, y: Any, message: str) -> None:
    input_fn = numpy_input_fn(x, y, shuffle=False)
    with pytest.raises(InputError, match="(?s)" + message):
        input_fn()


def test_x_of_another_type_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="x must be a dict or array; got list"):
        numpy_input_fn([1, 2], shuffle=False)()


def test_batch_size_must_be_positive() -> None:
    with pytest.raises(InputError, match="batch_size must be at least 1, given: 0"):
        numpy_input_fn(FIVE, batch_size=0, shuffle=False)


class TestPandas:
    @pytest.fixture
    def pd(self) -> Any:
        return pytest.importorskip("pandas")

    def test_columns_become_features_and_a_series_labels(self, pd: Any) -> None:
        frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})
        given = call(pandas_input_fn(frame, pd.Series([4, 5, 6]), batch_size=2, shuffle=False))
        assert batches(given) == [
            ({"a": [1, 2], "b": [b"x", b"y"]}, [4, 5]),
            ({"a": [3], "b": [b"z"]}, [6]),
        ]

    def test_a_frame_of_labels_becomes_a_dict(self, pd: Any) -> None:
        frame = pd.DataFrame({"a": [1, 2]})
        given = call(pandas_input_fn(frame, pd.DataFrame({"a": [3, 4]}), shuffle=False))
        assert batches(given) == [({"a": [1, 2]}, {"a": [3, 4]})]

    def test_later_changes_of_the_frame_are_not_seen(self, pd: Any) -> None:
        frame = pd.DataFrame({"a": [1, 2]})
        input_fn = pandas_input_fn(frame, shuffle=False)
        frame.loc[0, "a"] = 100
        assert batches(call(input_fn)) == [({"a": [1, 2]}, None)]

    def test_wrong_data_are_refused(self, pd: Any) -> None:
        frame = pd.DataFrame({"a": [1, 2]})
        with pytest.raises(InputError, match="Index for x and y are mismatched"):
            pandas_input_fn(frame, pd.Series([1, 2], index=[5, 6]), shuffle=False)
        with pytest.raises(InputError, match="Cannot use name a for target column"):
            pandas_input_fn(frame, frame["a"], shuffle=False, target_column="a")
        with pytest.raises(TypeError, match="target_column must be a string type"):
            pandas_input_fn(frame, frame["a"], shuffle=False, target_column=3)
        with pytest.raises(InputError, match="shuffle must be provided"):
            pandas_input_fn(frame)
        with pytest.raises(TypeError, match=r"y must be a pandas Series.*numpy_input_fn"):
            pandas_input_fn(frame, np.array([1, 2]), shuffle=False)
        with pytest.raises(TypeError, match=r"x must be a pandas DataFrame.*table_input_fn"):
            pandas_input_fn({"a": [1, 2]}, shuffle=False)
