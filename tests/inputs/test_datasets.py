"""Input functions that return a tf.data.Dataset."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.errors import InputError
from tests.inputs.reading import batches, call, save_and_continue

Dataset = tf.data.Dataset
X = np.arange(6, dtype=np.float32).reshape(6, 1)
Y = np.arange(6)


def test_features_and_labels_come_apart() -> None:
    given = call(lambda: Dataset.from_tensor_slices(({"x": X}, Y)).batch(4))
    assert given.has_labels and given.resumable and not given.endless_constant
    assert batches(given) == [
        ({"x": X[:4].tolist()}, [0, 1, 2, 3]),
        ({"x": [[4.0], [5.0]]}, [4, 5]),
    ]


def test_the_function_is_called_once() -> None:
    calls = []

    def input_fn() -> Dataset:
        calls.append(tf.executing_eagerly())
        return Dataset.range(3)

    call(input_fn)
    assert calls == [True]


def test_the_dataset_is_built_on_the_cpu() -> None:
    seen = []

    def input_fn() -> Dataset:
        seen.append(tf.constant(1).device)
        return Dataset.range(3)

    call(input_fn)
    assert "CPU:0" in seen[0]


def test_features_alone_have_labels_none() -> None:
    given = call(lambda: Dataset.from_tensor_slices({"x": Y}).batch(6))
    assert not given.has_labels
    assert batches(given) == [({"x": [0, 1, 2, 3, 4, 5]}, None)]


def test_labels_that_are_none_in_every_element_count_as_no_labels() -> None:
    given = call(lambda: Dataset.from_tensors((Y, None)))
    assert not given.has_labels
    assert batches(given) == [([0, 1, 2, 3, 4, 5], None)]
    assert given.element_spec == (tf.TensorSpec([6], tf.int64), None)


def test_a_tuple_of_features_without_labels_stays_a_tuple() -> None:
    given = call(lambda: Dataset.from_tensors(((1, 2), None)))
    assert batches(given) == [((1, 2), None)]


def test_element_spec_is_that_of_features_and_labels() -> None:
    given = call(lambda: Dataset.from_tensor_slices(({"x": X}, Y)).batch(2))
    features, labels = given.element_spec
    assert features == {"x": tf.TensorSpec([None, 1], tf.float32)}
    assert labels == tf.TensorSpec([None], tf.int64)


def test_nested_sparse_and_ragged_features_pass_through() -> None:
    Point = collections.namedtuple("Point", "sparse ragged")
    features = {"in": Point(tf.sparse.from_dense([[0, 3]]), tf.ragged.constant([[1], [2, 3]]))}
    (unpacked, labels), *_ = batches(call(lambda: Dataset.from_tensors((features, ([1], [2])))))
    assert unpacked == {"in": Point([[0, 3]], [[1], [2, 3]])}
    assert labels == ([1], [2])


def test_a_v1_dataset_is_a_dataset() -> None:
    given = call(lambda: tf.compat.v1.data.Dataset.from_tensor_slices((Y, Y)).batch(3))
    assert batches(given) == [([0, 1, 2], [0, 1, 2]), ([3, 4, 5], [3, 4, 5])]


def test_a_function_of_tensorflow_1_is_looked_at() -> None:
    def input_fn() -> Any:
        numbers = tf.compat.v1.data.Dataset.range(4).batch(2)
        return numbers.map_with_legacy_function(lambda x: {"x": x + 1})

    assert [features["x"] for features, _ in batches(call(input_fn))] == [[1, 2], [3, 4]]


def test_scalar_elements_are_not_an_error() -> None:
    assert batches(call(lambda: Dataset.range(2))) == [(0, None), (1, None)]


def test_the_position_can_be_saved(tmp_path: Path) -> None:
    def make() -> Any:
        return call(lambda: Dataset.range(20).shuffle(20, seed=3).repeat().batch(3))

    straight_on, restored = save_and_continue(make, 4, 5, tmp_path)
    assert straight_on == restored


def test_elements_of_three_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        call(lambda: Dataset.from_tensors((X, Y, Y)))
    assert "input_fn should return (features, labels) as a len 2 tuple." in str(caught.value)
    assert "a tuple of 3: (float32 (6, 1), int64 (6,), int64 (6,))" in str(caught.value)
    assert "features dict" in str(caught.value)


def test_elements_of_one_are_refused() -> None:
    with pytest.raises(InputError, match="a tuple of 1"):
        call(lambda: Dataset.from_tensors((X,)))


def test_empty_features_are_refused() -> None:
    with pytest.raises(InputError, match="features are empty"):
        call(lambda: Dataset.from_tensors(((), Y)))


def test_labels_alone_come_with_an_empty_dict() -> None:
    given = call(lambda: Dataset.from_tensors(({}, Y)))
    assert given.has_labels and given.dataset.element_spec[0] == {}


def test_datasets_inside_elements_are_refused() -> None:
    with pytest.raises(InputError, match=r"contain Datasets .*flat_map"):
        call(lambda: Dataset.range(6).window(2))


def test_a_pair_of_datasets_is_refused_with_the_cure() -> None:
    with pytest.raises(InputError, match=r"features is a Dataset .*tf\.data\.Dataset\.zip"):
        call(lambda: (Dataset.range(3), Dataset.range(3)))


def test_the_users_own_exception_passes_unchanged() -> None:
    error = KeyError("mine")

    def input_fn() -> Dataset:
        raise error

    with pytest.raises(KeyError) as caught:
        call(input_fn)
    assert caught.value is error
    assert caught.traceback[-1].name == "input_fn"
