"""Pieces of `canned.rnn` and `canned.kmeans` that code in the wild calls by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.canned import rnn_layers
from estimand.canned.points import points_of

USE_DEFAULT = rnn_layers.USE_DEFAULT


def _make_rnn_layer(
    rnn_cell_fn: Callable[[], Any] | None = None,
    units: Any = None,
    cell_type: Any = USE_DEFAULT,
    return_sequences: bool = False,
) -> Any:
    """One Keras layer, of cells by name, by class or by a function that makes them."""
    rnn_layers.check_cells(units, cell_type, rnn_cell_fn)
    return rnn_layers.recurrent_layer(units, cell_type, rnn_cell_fn, return_sequences)


def _parse_features_if_necessary(features: Any, feature_columns: Sequence[Any] | None) -> tf.Tensor:
    """Points, one per row: a tensor as it is, a dict by its columns or by its names."""
    if not isinstance(features, dict):
        return features
    return points_of("KMeansClustering", features, feature_columns)
