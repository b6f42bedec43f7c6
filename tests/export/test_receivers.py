"""Receivers: what they accept, how they name things."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import SpecError

v1 = tf.compat.v1
export = est.export


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def placeholder(name: str = "x") -> tf.Tensor:
    return v1.placeholder(tf.float32, [None, 2], name=name)


def test_bare_tensors_get_names() -> None:
    x = placeholder()
    receiver = export.ServingInputReceiver(x, x)
    assert receiver.features == {"feature": x}
    assert receiver.receiver_tensors == {"input": x}


def test_a_tensor_receiver_passes_the_tensor_on() -> None:
    x = placeholder()
    receiver = export.TensorServingInputReceiver(x, {"x": x}, {"again": x})
    assert receiver.features is x
    assert receiver.receiver_tensors_alternatives == {"again": {"input": x}}


def test_features_may_have_integer_keys_and_be_sparse() -> None:
    sparse = v1.sparse_placeholder(tf.int64, [None, 3])
    receiver = export.ServingInputReceiver({0: sparse}, {"s": sparse})
    assert receiver.features == {0: sparse}


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda x: export.ServingInputReceiver(None, x), "features must be defined"),
        (lambda x: export.ServingInputReceiver(x, None), "receiver_tensors must be defined"),
        (
            lambda x: export.ServingInputReceiver({"x": [1]}, x),
            "feature x must be a Tensor, SparseTensor, or RaggedTensor",
        ),
        (
            lambda x: export.ServingInputReceiver({1.5: x}, x),
            "feature keys must be strings or ints: 1.5",
        ),
        (
            lambda x: export.ServingInputReceiver(x, {1: x}),
            "receiver_tensor keys must be strings: 1",
        ),
        (
            lambda x: export.ServingInputReceiver(x, x, [x]),
            "receiver_tensors_alternatives must be a dict",
        ),
        (lambda x: export.TensorServingInputReceiver(None, x), "features must be defined"),
        (lambda x: export.TensorServingInputReceiver({"x": x}, x), "feature must be a Tensor"),
        (lambda x: export.SupervisedInputReceiver(x, None, x), "labels must be defined"),
    ],
)
def test_what_cannot_be_received(make: Any, text: str) -> None:
    with pytest.raises(SpecError, match=text):
        make(placeholder())


def test_the_parsing_receiver_is_fed_examples() -> None:
    spec = {"age": tf.io.FixedLenFeature([1], tf.float32), "tags": tf.io.VarLenFeature(tf.string)}
    receiver = export.build_parsing_serving_input_receiver_fn(spec)()
    examples = receiver.receiver_tensors["examples"]
    assert (examples.name, examples.dtype) == ("input_example_tensor:0", tf.string)
    assert isinstance(receiver.features["tags"], tf.SparseTensor)


def test_raw_receivers_take_type_and_shape_from_what_they_are_shown() -> None:
    shown = {
        "array": np.zeros([5, 2]),
        "spec": tf.TensorSpec([5], tf.string),
        "a b": np.zeros([5], np.int32),
    }
    receiver = export.build_raw_serving_input_receiver_fn(shown)()
    tensors = receiver.receiver_tensors
    assert {k: (t.dtype.name, t.shape.as_list()) for k, t in tensors.items()} == {
        "array": ("float64", [None, 2]),
        "spec": ("string", [None]),
        "a b": ("int32", [None]),
    }
    assert [tensors[k].name for k in shown] == ["array:0", "spec:0", "a_b:0"]
    assert receiver.features == tensors


EAGER = tf.zeros([4, 3])


def test_raw_receivers_take_eager_tensors() -> None:
    receiver_fn = export.build_raw_serving_input_receiver_fn({"x": EAGER}, default_batch_size=7)
    assert receiver_fn().receiver_tensors["x"].shape.as_list() == [7, 3]


def test_raw_receivers_keep_names_of_graph_tensors() -> None:
    with tf.Graph().as_default():
        known = placeholder("known_name")
    receiver = export.build_raw_serving_input_receiver_fn({"x": known})()
    assert receiver.receiver_tensors["x"].name == "known_name:0"


def test_raw_receivers_refuse_sparse_features() -> None:
    sparse = v1.sparse_placeholder(tf.int64, [None, 3])
    receiver_fn = export.build_raw_serving_input_receiver_fn({"s": sparse})
    with pytest.raises(SpecError, match="build_parsing_serving_input_receiver_fn"):
        receiver_fn()


def test_supervised_receivers_name_bare_features_and_labels() -> None:
    receiver_fn = est.experimental.build_raw_supervised_input_receiver_fn(
        np.zeros([2, 3], np.float32), np.zeros([2], np.int64)
    )
    receiver = receiver_fn()
    assert receiver.receiver_tensors.keys() == {"input", "label"}
    assert isinstance(receiver.features, tf.Tensor)
    assert receiver.labels.dtype == tf.int64


def test_features_and_labels_of_one_name_are_refused() -> None:
    x = np.zeros([2])
    with pytest.raises(SpecError, match=r"overlapping keys: \['x'\]"):
        est.experimental.build_raw_supervised_input_receiver_fn({"x": x}, {"x": x, "y": x})


def test_a_supervised_receiver_like_an_input_function() -> None:
    def input_fn(rows: int) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors(({"x": np.zeros([rows, 2])}, np.zeros([rows])))

    receiver_fn = export.build_supervised_input_receiver_fn_from_input_fn(input_fn, rows=3)
    receiver = receiver_fn()
    assert receiver.receiver_tensors["x"].shape.as_list() == [None, 2]
    assert receiver.receiver_tensors["label"].shape.as_list() == [None]


def test_an_input_function_without_labels_is_refused() -> None:
    with pytest.raises(SpecError, match=r"a tuple \(features, labels\)"):
        export.build_supervised_input_receiver_fn_from_input_fn(lambda: {"x": np.zeros([2])})
