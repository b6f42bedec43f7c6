"""Input functions that return Python iterables of batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.errors import InputError
from tests.inputs.reading import batches, call

X = np.arange(12, dtype=np.float32).reshape(6, 2)
Y = np.arange(6)
EXPECTED = [({"x": X[i : i + 4].tolist()}, Y[i : i + 4].tolist()) for i in (0, 4)]


def generate() -> Iterator[Any]:
    for start in (0, 4):
        yield {"x": X[start : start + 4]}, Y[start : start + 4]


def test_a_generator_loses_no_batch() -> None:
    given = call(generate)
    assert given.has_labels and not given.resumable and not given.endless_constant
    assert batches(given) == EXPECTED


def test_the_batch_dimension_is_open_and_the_others_are_known() -> None:
    features, labels = call(generate).element_spec
    assert features == {"x": tf.TensorSpec([None, 2], tf.float32)}
    assert labels == tf.TensorSpec([None], tf.int64)


def test_a_generator_cannot_be_read_twice() -> None:
    given = call(generate)
    batches(given)
    with pytest.raises(tf.errors.OpError, match="can be read only once"):
        batches(given)


def test_a_generator_function_can_be_read_twice() -> None:
    given = call(lambda: generate)
    assert batches(given) == EXPECTED
    assert batches(given) == EXPECTED


def test_an_endless_generator_is_read_as_far_as_asked() -> None:
    def count() -> Iterator[Any]:
        n = 0
        while True:
            yield np.full([2], n)
            n += 1

    assert batches(call(count), 3) == [([0, 0], None), ([1, 1], None), ([2, 2], None)]


@pytest.mark.parametrize("count", [1, 3])
def test_a_list_of_pairs_is_a_list_of_batches(count: int) -> None:
    given = call(lambda: [(X[:2] + i, Y[:2]) for i in range(count)])
    assert batches(given) == [((X[:2] + i).tolist(), [0, 1]) for i in range(count)]


def test_a_list_of_two_pairs_is_ambiguous() -> None:
    with pytest.raises(InputError, match=r"list of two pairs.*Return `iter\(\[\.\.\.\]\)`"):
        call(lambda: [(X, Y), (X, Y)])


def test_a_list_of_dicts_is_a_list_of_batches() -> None:
    given = call(lambda: [{"x": Y[:2]}, {"x": Y[2:4]}, {"x": Y[4:]}])
    assert batches(given) == [({"x": [i, i + 1]}, None) for i in (0, 2, 4)]


def test_a_list_of_three_arrays_is_refused() -> None:
    with pytest.raises(InputError, match=r"as a len 2 tuple.*a list of 3"):
        call(lambda: [X, Y, Y])


class Indexed:
    """Batches by index, as keras.utils.PyDataset has them."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        self.asked.append(index)
        return {"x": X[4 * index : 4 * index + 4]}, Y[4 * index : 4 * index + 4]

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("Keras iterates for ever here")


def test_batches_by_index_are_each_read_once() -> None:
    source = Indexed()
    assert batches(call(lambda: source)) == EXPECTED
    assert source.asked == [0, 1]


def test_a_keras_py_dataset_is_read_once_through() -> None:
    import keras

    class Batches(keras.utils.PyDataset):
        __len__ = Indexed.__len__

        def __getitem__(self, index: int) -> Any:
            return {"x": X[4 * index : 4 * index + 4]}, Y[4 * index : 4 * index + 4]

    assert batches(call(Batches)) == EXPECTED


class Tensor:
    """As much of a PyTorch tensor as is looked at."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self._value


class Loader:
    """As much of a PyTorch DataLoader as is looked at: it gives lists of tensors."""

    def __init__(self, *parts: np.ndarray) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[Any]:
        return iter([[Tensor(part[i : i + 4]) for part in self._parts] for i in (0, 4)])


def test_a_pytorch_loader_gives_arrays() -> None:
    given = call(lambda: Loader(X, Y))
    assert batches(given) == [(features["x"], labels) for features, labels in EXPECTED]
    assert len(batches(given)) == 2


def test_a_pytorch_loader_of_features_alone_has_no_labels() -> None:
    given = call(lambda: Loader(Y))
    assert not given.has_labels
    assert batches(given) == [([0, 1, 2, 3], None), ([4, 5], None)]


def test_text_nested_sparse_and_ragged_batches() -> None:
    def read() -> Iterator[Any]:
        for width in (2, 3):
            sparse = tf.sparse.from_dense(np.eye(width, dtype=np.int64))
            yield {"t": ["a", "bc"], "n": [sparse, tf.ragged.constant([[1] * width, []])]}

    given = call(read)
    assert batches(given) == [
        ({"t": [b"a", b"bc"], "n": [np.eye(w).tolist(), [[1] * w, []]]}, None) for w in (2, 3)
    ]


def failing(*rest: Any) -> Any:
    def read() -> Iterator[Any]:
        yield {"x": np.zeros((2, 3), np.float32)}, np.zeros(2)
        yield from rest

    return call(read)


def test_a_shape_that_varies_names_batch_key_and_shapes() -> None:
    given = failing(({"x": np.zeros((2, 4), np.float32)}, np.zeros(2)))
    with pytest.raises(tf.errors.OpError) as caught:
        batches(given)
    assert (
        "batch 1: features['x'] is float32 (None, 4), but the first batch had float32 (None, 3)"
        in str(caught.value)
    )


def test_a_type_that_varies_names_batch_and_key() -> None:
    given = failing(({"x": np.zeros((2, 3), np.float64)}, np.zeros(2)))
    with pytest.raises(tf.errors.OpError, match=r"batch 1: features\['x'\] is float64"):
        batches(given)


def test_a_narrower_type_is_widened() -> None:
    given = failing(({"x": np.ones((1, 3), np.float16)}, np.ones(1, np.float32)))
    assert batches(given)[1] == ({"x": [[1.0, 1.0, 1.0]]}, [1.0])


def test_a_missing_key_is_named() -> None:
    given = failing(({"z": np.zeros((2, 3), np.float32)}, np.zeros(2)))
    with pytest.raises(tf.errors.OpError, match=r"batch 1, has features\['z'\], labels"):
        batches(given)


def test_a_missing_label_is_named() -> None:
    given = failing({"x": np.zeros((2, 3), np.float32)})
    with pytest.raises(tf.errors.OpError, match=r"batch 1, has features\['x'\]; the first"):
        batches(given)


def test_batches_of_three_are_refused() -> None:
    with pytest.raises(InputError, match=r"as a len 2 tuple.*batch 0 is a tuple of 3"):
        call(lambda: iter([(X, Y, Y)]))


def test_no_batch_at_all_is_refused() -> None:
    with pytest.raises(InputError, match="gave no batch at all"):
        call(lambda: iter([]))


def test_the_generators_own_exception_passes_unchanged() -> None:
    def read() -> Iterator[Any]:
        raise KeyError("mine")
        yield

    with pytest.raises(KeyError, match="mine"):
        call(read)
