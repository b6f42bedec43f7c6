"""A batch as a structure of features and labels, and as the flat list that a trace takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.inputs.legacy.fed_placeholders import FedByHooks


def flatten_batch(features: Any, labels: Any) -> list[Any]:
    """The dense components of a batch (or of its spec), in the order a trace takes them."""
    flat = tf.nest.flatten(features, expand_composites=True)
    if labels is not None:
        flat += tf.nest.flatten(labels, expand_composites=True)
    return flat


def pack_batch(element_spec: tuple[Any, Any], flat: Sequence[tf.Tensor]) -> tuple[Any, Any]:
    """The way back from `flatten_batch`."""
    features_spec, labels_spec = element_spec
    if isinstance(features_spec, FedByHooks):
        features, *labels = features_spec.build()
        return features, None if labels_spec is None else labels[0]
    count = len(tf.nest.flatten(features_spec, expand_composites=True))
    features = tf.nest.pack_sequence_as(features_spec, list(flat[:count]), expand_composites=True)
    if labels_spec is None:
        return features, None
    labels = tf.nest.pack_sequence_as(labels_spec, list(flat[count:]), expand_composites=True)
    return features, labels
