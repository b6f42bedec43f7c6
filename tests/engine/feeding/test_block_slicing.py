"""Sliced batches against TensorFlow's own."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimand.engine.feeding.block_slicing import in_blocks

X = np.random.default_rng(0).normal(size=(700, 3)).astype("float32")
WORDS = np.array([f"w{i}" for i in range(700)])
SCALARS = np.arange(700)


def elements(dataset):
    return [[np.asarray(leaf) for leaf in tf.nest.flatten(e)] for e in dataset]


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("size", [128, 350, 700, 1000])
def test_batches_are_those_of_the_dataset(drop, prefetch, size):
    rows = tf.data.Dataset.from_tensor_slices(({"x": X, "w": WORDS}, SCALARS))
    given = rows.batch(size, drop_remainder=drop)
    given = given.prefetch(2) if prefetch else given
    sliced = in_blocks(given)
    assert sliced is not given
    assert sliced.element_spec == given.element_spec
    assert int(sliced.cardinality()) == int(given.cardinality())
    expected = elements(given)
    found = elements(sliced)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "given",
    [
        tf.data.Dataset.from_tensor_slices(X).batch(32),
        tf.data.Dataset.from_tensor_slices(X).shuffle(9).batch(256),
        tf.data.Dataset.from_tensor_slices(X).repeat(2).batch(256),
        tf.data.Dataset.from_tensor_slices(X).map(lambda x: x + 1).batch(256),
        tf.data.Dataset.from_tensor_slices(X).batch(256).map(lambda x: x + 1),
        tf.data.Dataset.range(1000).batch(256),
        tf.data.Dataset.from_tensor_slices(tf.sparse.from_dense(X)).batch(256),
        tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3]] * 200)).batch(256),
        tf.data.Dataset.from_tensor_slices(X).padded_batch(256),
    ],
    ids=[
        "small",
        "shuffled",
        "repeated",
        "mapped",
        "mapped_after",
        "range",
        "sparse",
        "ragged",
        "padded",
    ],
)
def test_other_pipelines_stay_as_they_are(given):
    assert in_blocks(given) is given


def test_an_empty_dataset_gives_no_batch():
    assert elements(in_blocks(tf.data.Dataset.from_tensor_slices(X[:0]).batch(256))) == []
