"""Labels in the shape and range a head can use, or one sentence on why they are not."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.core.errors import HeadError
from estimand.heads.checks import after, require

_NO_LABELS = (
    "You must provide a labels Tensor. Given: None. Suggested troubleshooting steps: Check that "
    "your data contains your label feature. Check that your input_fn properly parses and returns "
    "labels. An input_fn that is made of a file or a table is told which column is the label: "
    "label_name='...'."
)
_SPARSE = (
    "SparseTensor labels are not supported. Labels must be a Tensor of shape "
    "[D0, D1, ..., DN, {0}], e.g. [batch_size, {0}].Suggested Fix (1): Check the label feature in "
    "your data. Each example must contain {0} value(s). If not, your choice of label was probably "
    "incorrect. Suggested Fix (2): In your input_fn, use tf.sparse.to_dense() to turn labels into "
    "a Tensor."
)
_LAST_DIMENSION = (
    "Mismatched label shape. Expected labels dimension={}.  Received {}. Suggested Fix: If your "
    "classifier expects one-hot encoding label, check your n_classes argument to the estimator "
    "and/or the shape of your label. Otherwise, check the shape of your label."
)
_SHAPE = (
    "labels shape must be [D0, D1, ... DN, {}]. Suggested Fix: check your n_classes argument to "
    "the head and/or the shape of your label."
)


def given_labels(labels: Any) -> Any:
    """Labels as a tensor or SparseTensor; a complaint if there are none."""
    if labels is None:
        raise HeadError(_NO_LABELS)
    if isinstance(labels, dict):
        raise HeadError(
            f"labels must be a Tensor, given: a dict with keys {sorted(map(str, labels))}. Pick "
            "one of them, labels['...'], or use MultiHead, which takes one entry per head."
        )
    if isinstance(labels, (tf.SparseTensor, tf.compat.v1.SparseTensorValue)):
        return tf.compat.v1.convert_to_tensor_or_sparse_tensor(labels)
    return tf.convert_to_tensor(labels)


def checked_labels(labels: Any, logits: tf.Tensor, dimension: int) -> tf.Tensor:
    """Dense labels of the shape of `logits`, but with `dimension` as the last one.

    With a `dimension` of 1 they may come without it.
    """
    with tf.name_scope("labels"):
        labels = given_labels(labels)
        if isinstance(labels, tf.SparseTensor):
            raise HeadError(_SPARSE.format(dimension))
        if labels.shape.rank is None:
            return _shaped_at_run_time(labels, logits, dimension)
        if logits.shape.rank is not None and labels.shape.rank == logits.shape.rank - 1:
            labels = tf.expand_dims(labels, -1)
        _check_static_shape(labels, logits, dimension)
        return after(_same_batch(labels, logits, dimension), labels)


def checked_range(labels: tf.Tensor, n_classes: int, message: str | None = None) -> tf.Tensor:
    """`labels`, which have to lie in [0, n_classes - 1]."""
    largest = n_classes - 1
    limit = f"{n_classes} - 1" if tf.executing_eagerly() else "n_classes - 1"
    told = message or f"Labels must be >= 0. Labels must be <= {limit}, which is {largest}"
    with tf.name_scope("check_label_range"):
        if labels.dtype.is_integer:
            # Seen as unsigned, a negative number is larger than any label: one look finds both.
            # The last one is no label: there may be none at all.
            flat = tf.concat([tf.reshape(labels, [-1]), tf.zeros([1], labels.dtype)], 0)
            unsigned = _unsigned(flat)
            culprit = tf.cast(tf.reduce_max(unsigned), labels.dtype)
            place = tf.argmax(unsigned)
            fits = (culprit >= 0) & (culprit <= largest)
            where = ("in row", place) if message is None else ()  # values may lie otherwise
            return after(
                require(fits, f"{told}. This batch has the label", culprit, *where), labels
            )
        low, high = tf.reduce_min(labels), tf.reduce_max(labels)
        fits = (low >= 0.0) & (high <= float(largest))
        return after(
            require(fits, f"{told}. The labels of this batch go from", low, "to", high), labels
        )


def _unsigned(labels: tf.Tensor) -> tf.Tensor:
    as_unsigned = {
        tf.int8: tf.uint8,
        tf.int16: tf.uint16,
        tf.int32: tf.uint32,
        tf.int64: tf.uint64,
    }
    dtype = as_unsigned.get(labels.dtype)
    return labels if dtype is None else tf.bitcast(labels, dtype)


def _check_static_shape(labels: tf.Tensor, logits: tf.Tensor, dimension: int) -> None:
    shape = labels.shape
    if shape.rank < 2:
        raise HeadError(
            f"{_SHAPE.format(dimension)} labels must have rank at least 2.  "
            f"Received rank {shape.rank}, shape {tuple(shape)}."
        )
    if shape[-1] is not None and shape[-1] != dimension:
        raise HeadError(_LAST_DIMENSION.format(dimension, shape[-1]))
    expected = _expected_shape(logits, dimension)
    if not shape.is_compatible_with(expected):
        raise HeadError(
            f"{_SHAPE.format(dimension)}, expected_labels_shape: {tuple(expected.as_list())}. "
            f"labels_shape: {tuple(shape.as_list())}. But for the last dimension, "
            "logits and labels must have the same shape: labels have "
            f"{tuple(shape[:-1].as_list())}, logits {tuple(logits.shape.as_list())}."
        )


def _expected_shape(logits: tf.Tensor, dimension: int) -> tf.TensorShape:
    if logits.shape.rank is None:
        return logits.shape
    return logits.shape[:-1].concatenate([dimension])


def _same_batch(labels: tf.Tensor, logits: tf.Tensor, dimension: int) -> list[tf.Operation]:
    """Whether all dimensions but the last are equal, where the static shapes leave it open."""
    of_labels = labels.shape.as_list()
    of_logits: list[Any] = logits.shape.as_list() if logits.shape.rank else [None, None]
    if None not in of_labels + of_logits[:-1]:
        return []
    told = _SHAPE.format(dimension)
    if None not in of_labels[1:] + of_logits[1:]:
        # Only the size of the batch is open: numbers of values are quicker to compare than shapes.
        n_labels, n_logits = tf.size(labels), tf.size(logits)
        logits_per_label = of_logits[-1] // dimension
        needed = n_labels if logits_per_label == 1 else n_labels * logits_per_label
        parts = (f"{told} Labels in this batch:", n_labels, "which needs as many logits:", needed)
        return require(tf.equal(needed, n_logits), *parts, "but there are", n_logits)
    labels_shape, logits_shape = tf.shape(labels), tf.shape(logits)
    expected = tf.concat([logits_shape[:-1], [dimension]], axis=0)
    return require(
        tf.reduce_all(tf.equal(labels_shape, expected)),
        told,
        "expected_labels_shape: ",
        expected,
        "labels_shape: ",
        labels_shape,
    )


def _shaped_at_run_time(labels: tf.Tensor, logits: tf.Tensor, dimension: int) -> tf.Tensor:
    """Labels whose rank no one knows yet take the shape of logits, if they have as many values."""
    expected = tf.concat([tf.shape(logits)[:-1], [dimension]], axis=0)
    checks = require(
        tf.equal(tf.size(labels), tf.reduce_prod(expected)),
        _SHAPE.format(dimension),
        "expected_labels_shape: ",
        expected,
        "labels_shape: ",
        tf.shape(labels),
        "Received shape: ",
        tf.shape(labels),
    )
    shaped = tf.reshape(after(checks, labels), expected)
    shaped.set_shape(_expected_shape(logits, dimension))
    return shaped
