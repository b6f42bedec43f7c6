"""Datasets where TensorFlow 1.3 had them."""

from __future__ import annotations

import tensorflow as tf

from estimand.compat.v1 import contrib


def test_datasets_of_the_first_release_are_those_of_today() -> None:
    dataset = contrib.data.Dataset.from_tensor_slices([1, 2, 3]).batch(2)
    assert isinstance(dataset, tf.data.Dataset)
    assert contrib.data.TFRecordDataset is tf.compat.v1.data.TFRecordDataset
