"""Pieces of `canned.rnn` and `canned.kmeans` that code in the wild calls by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.canned import rnn
from estimand.canned.points import points_of
from estimand.canned.rnn import layers as rnn_layers
from estimand.core.errors import InputError

USE_DEFAULT = rnn_layers.USE_DEFAULT
_DEFAULT_LEARNING_RATE = rnn.LEARNING_RATE
_DEFAULT_CLIP_NORM = rnn.CLIP_NORM


def _make_rnn_layer(
    rnn_cell_fn: Callable[[], Any] | None = None,
    units: Any = None,
    cell_type: Any = USE_DEFAULT,
    return_sequences: bool = False,
) -> Any:
    """One Keras layer, of cells by name, by class or by a function that makes them."""
    rnn_layers.check_cells(units, cell_type, rnn_cell_fn)
    return rnn_layers.recurrent_layer(units, cell_type, rnn_cell_fn, return_sequences)


def _concatenate_context_input(sequence_input: tf.Tensor, context_input: tf.Tensor) -> tf.Tensor:
    """[batch, time, k] and [batch, n] as [batch, time, k + n]: what holds for all steps at each."""
    for name, given, rank in (("sequence", sequence_input, 3), ("context", context_input, 2)):
        if given.shape.rank not in (None, rank) or not given.dtype.is_floating:
            raise InputError(
                f"{name}_input must have rank {rank} and floats, given: {given.shape} of "
                f"{given.dtype.name}."
            )
    at_each_step = tf.tile(context_input[:, None, :], [1, tf.shape(sequence_input)[1], 1])
    return tf.concat([sequence_input, at_each_step], 2)


def _parse_features_if_necessary(features: Any, feature_columns: Sequence[Any] | None) -> tf.Tensor:
    """Points, one per row: a tensor as it is, a dict by its columns or by its names."""
    if not isinstance(features, dict):
        return features
    return points_of("KMeansClustering", features, feature_columns)
