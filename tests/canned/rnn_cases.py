"""Recurrent models and their data, for the original and for ours alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

CASES: dict[str, dict[str, Any]] = {
    "rnn_lstm": {"units": 4, "cell_type": "lstm"},
    "rnn_gru_list": {"units": [4], "cell_type": "gru", "optimizer": "Adam"},
    "rnn_stacked_default": {"units": [4, 3]},
    "rnn_steps": {"units": [3], "cell_type": "gru", "return_sequences": True, "n_classes": 3},
}
FIRST_STEPS, MORE_STEPS = 4, 6

WORDS = np.array([[1, 2, 4, 3], [3, 5, 0, 0], [2, 0, 0, 0], [5, 1, 1, 0]])
AGES = np.array([[1.0], [2.0], [0.5], [-1.0]], "float32")
TOWNS = np.array([["a"], ["b"], ["a"], ["c"]])
LABELS = np.array([[1], [0], [1], [0]])
STEP_LABELS = np.array([[0, 1, 2, 0], [1, 1, 0, 0], [2, 0, 0, 0], [0, 2, 1, 0]])


def columns() -> tuple[list[Any], list[Any]]:
    fc = tf.feature_column
    words = fc.sequence_categorical_column_with_identity("words", 6)
    towns = fc.categorical_column_with_vocabulary_list("town", ["a", "b", "c"])
    context = [fc.numeric_column("age"), fc.embedding_column(towns, 2)]
    return [fc.embedding_column(words, 3)], context


def input_fn(case: dict[str, Any]) -> tf.data.Dataset:
    labels = STEP_LABELS if case.get("return_sequences") else LABELS
    features = {"words": tf.sparse.from_dense(WORDS), "age": AGES, "town": TOWNS}
    return tf.data.Dataset.from_tensors((features, labels))
