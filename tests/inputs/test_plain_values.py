"""Input functions that return tensors or arrays and no Dataset: one batch for every step."""

from __future__ import annotations

import collections
import logging
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.errors import InputError
from tests.inputs.reading import batches, call


def test_tensors_are_given_for_ever() -> None:
    given = call(lambda: ({"x": tf.constant([[1.0], [2.0]])}, tf.constant([0, 1])))
    assert given.endless_constant and given.has_labels and given.resumable
    assert batches(given, 3) == [({"x": [[1.0], [2.0]]}, [0, 1])] * 3


def test_random_tensors_are_fresh_at_every_step() -> None:
    given = call(lambda: tf.random.uniform([4]))
    assert given.endless_constant and not given.resumable
    seen = {tuple(features) for features, _ in batches(given, 5)}
    assert len(seen) == 5


def test_features_and_labels_of_one_step_come_from_one_draw() -> None:
    def input_fn() -> Any:
        x = tf.random.normal([3])
        return x, x * 2

    for features, labels in batches(call(input_fn), 3):
        np.testing.assert_allclose(labels, np.multiply(features, 2), rtol=1e-6)


def test_arrays_need_only_one_call() -> None:
    calls = []

    def input_fn() -> Any:
        calls.append(1)
        return {"x": np.array([1.0, 2.0])}, np.array([3, 4])

    given = call(input_fn)
    assert calls == [1]
    assert given.endless_constant and given.resumable
    assert batches(given, 2) == [({"x": [1.0, 2.0]}, [3, 4])] * 2


def test_a_list_of_two_is_a_pair() -> None:
    assert batches(call(lambda: [np.array([1]), np.array([2])]), 1) == [([1], [2])]


def test_labels_none_means_no_labels() -> None:
    given = call(lambda: ({"x": tf.constant([1])}, None))
    assert not given.has_labels
    assert batches(given, 1) == [({"x": [1]}, None)]


def test_nested_structures_keep_their_types() -> None:
    Point = collections.namedtuple("Point", "a b")

    def input_fn() -> Any:
        features = {"list": [tf.constant([1]), np.array([2])], "point": Point([3.0], (4.0,))}
        return features, {"y": {"z": tf.constant([5])}}

    given = call(input_fn)
    assert batches(given, 1) == [
        ({"list": [[1], [2]], "point": Point([3.0], [4.0])}, {"y": {"z": [5]}})
    ]
    assert isinstance(given.element_spec[0]["list"], list)


def test_sparse_and_ragged_tensors_are_kept() -> None:
    def input_fn() -> Any:
        value = tf.compat.v1.SparseTensorValue([[0, 1]], [7], [1, 2])
        return {"s": value, "r": tf.ragged.constant([[1], []])}

    assert batches(call(input_fn), 1) == [({"s": [[0, 7]], "r": [[1], []]}, None)]


def test_python_numbers_get_the_types_of_tf_constant() -> None:
    features, labels = call(lambda: ({"f": [1.5]}, [1, 2])).element_spec
    assert features["f"].dtype == tf.float32
    assert labels.dtype == tf.int32
    assert call(lambda: {"big": [2**40]}).element_spec[0]["big"].dtype == tf.int64


def test_numpy_types_are_kept() -> None:
    features, _ = call(lambda: {"d": np.zeros(2), "s": np.array(["a", "b"])}).element_spec
    assert features["d"].dtype == tf.float64
    assert features["s"].dtype == tf.string


def test_variables_give_their_value() -> None:
    variable = tf.Variable([1.0])
    assert batches(call(lambda: {"v": variable}), 1) == [({"v": [1.0]}, None)]


def test_what_works_only_eagerly_becomes_a_constant(caplog: pytest.LogCaptureFixture) -> None:
    def input_fn() -> Any:
        return tf.constant(tf.random.shuffle(tf.range(3)).numpy())

    with caplog.at_level(logging.WARNING, "tensorflow"):
        given = call(input_fn)
    assert given.endless_constant
    first, second = batches(given, 2)
    assert first == second
    assert "works in eager mode only" in caplog.text


def test_tensors_without_random_operations_are_computed_once() -> None:
    calls = []

    def input_fn() -> Any:
        calls.append(1)
        return tf.sparse.to_dense(tf.SparseTensor([[0]], [5], [2])) * 2

    assert batches(call(input_fn), 2) == [([10, 0], None)] * 2
    assert len(calls) == 1


def test_iterating_a_dataset_inside_does_not_hang(caplog: pytest.LogCaptureFixture) -> None:
    def input_fn() -> Any:
        return tf.stack([x for x in tf.data.Dataset.range(3)])

    with caplog.at_level(logging.WARNING, "tensorflow"):
        assert batches(call(input_fn), 1) == [([0, 1, 2], None)]
    assert "return a tf.data.Dataset" in caplog.text


def test_a_three_tuple_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        call(lambda: (np.zeros(2), np.zeros(2), np.ones(2)))
    message = str(caught.value)
    assert "input_fn should return (features, labels) as a len 2 tuple." in message
    assert "returned a tuple of 3: (array float64 (2,), array float64 (2,)" in message


def test_none_is_refused() -> None:
    with pytest.raises(InputError, match=r"returned None. Is a `return` missing"):
        call(lambda: None)


def test_an_empty_dict_is_refused() -> None:
    with pytest.raises(InputError, match="features is an empty dict"):
        call(dict)


def test_labels_alone_come_with_an_empty_dict() -> None:
    assert call(lambda: ({}, np.ones([2]))).has_labels


@pytest.mark.parametrize("value", ["train.csv", b"train.csv", 3, 2.5])
def test_a_single_value_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match=r"features are .*, a single value. Return a tf.data"):
        call(lambda: value)


def test_features_none_is_refused() -> None:
    with pytest.raises(InputError, match="features is None"):
        call(lambda: (None, np.zeros(2)))


def test_object_arrays_are_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"features\['a'\] is a NumPy array of Python obj.*nan"):
        call(lambda: {"a": np.array(["x", float("nan")], dtype=object)})


def test_object_arrays_of_strings_are_accepted() -> None:
    assert batches(call(lambda: {"a": np.array(["x", b"y"], dtype=object)}), 1) == [
        ({"a": [b"x", b"y"]}, None)
    ]


def test_ragged_lists_are_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"features\['a'\].*different lengths.*tf.ragged.constant"):
        call(lambda: {"a": [[1, 2], [3]]})


def test_dates_are_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"labels has dtype datetime64"):
        call(lambda: (np.zeros(1), np.array(["2020-01-01"], "datetime64[D]")))


def test_an_object_of_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"features\['f'\] is <.*function.*>, a function"):
        call(lambda: {"f": call})


class Frame:
    """As much of a pandas DataFrame as is looked at."""

    def __init__(self, **columns: Any) -> None:
        self._columns = columns
        self.columns, self.iloc = list(columns), None

    def __getitem__(self, name: str) -> Any:
        return Series(self._columns[name])


class Series:
    def __init__(self, values: Any) -> None:
        self._values = np.asarray(values)

    def to_numpy(self) -> np.ndarray:
        return self._values

    def __array__(self, *_: Any) -> np.ndarray:
        return self._values


def test_frames_become_dicts_of_columns_and_series_arrays() -> None:
    given = call(lambda: (Frame(a=[1, 2], b=["x", "y"]), Series([0.5, 1.5])))
    assert batches(given, 1) == [({"a": [1, 2], "b": [b"x", b"y"]}, [0.5, 1.5])]


def test_real_pandas_objects_are_accepted() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": pd.Categorical(["u", "v"])})
    given = call(lambda: (frame, pd.Series([0.5, 1.5])))
    assert batches(given, 1) == [({"a": [1, 2], "b": [b"x", b"y"], "c": [b"u", b"v"]}, [0.5, 1.5])]
    assert batches(call(lambda: frame[["a"]]), 1) == [({"a": [1, 2]}, None)]
