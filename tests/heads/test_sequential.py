"""Heads over the steps of padded sequences: padding must not count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est

MASK = np.array([[True, True, False], [True, False, False], [True, True, True]])
LOGITS = np.random.RandomState(0).randn(3, 3, 1).astype("float32")
LABELS = np.array([[1, 0, 9], [1, -5, 7], [0, 0, 1]])  # padding holds nonsense on purpose
WEIGHTS = np.array([[1.0, 2.0, 100.0], [0.5, 100.0, 100.0], [1.0, 0.0, 3.0]], "float32")


def features(**more: Any) -> dict[str, Any]:
    return {"mask": tf.constant(MASK), **more}


def cross_entropy() -> Any:
    p = 1 / (1 + np.exp(-LOGITS[..., 0].astype("float64")))
    return -np.where(LABELS == 1, np.log(p), np.log(1 - p))


def test_loss_is_over_the_steps_only() -> None:
    head = est.SequentialHeadWrapper(est.BinaryClassHead(), "mask")
    loss = head.loss(logits=LOGITS, labels=LABELS, features=features())
    assert float(loss) == pytest.approx(cross_entropy()[MASK].mean(), rel=1e-6)


def test_weights_are_flattened_with_the_steps() -> None:
    static = est.BinaryClassHead(weight_column="w", loss_reduction="sum")
    head = est.SequentialHeadWrapper(static, "mask", feature_columns="w")
    loss = head.loss(logits=LOGITS, labels=LABELS, features=features(w=WEIGHTS))
    assert float(loss) == pytest.approx((cross_entropy() * WEIGHTS)[MASK].sum(), rel=1e-6)


def test_metrics_are_over_the_steps_only() -> None:
    head = est.SequentialHeadWrapper(est.BinaryClassHead(name="h"), "mask")
    metrics = head.update_metrics(head.metrics(), features(), LOGITS, LABELS)
    hits = ((LOGITS[..., 0] > 0) == LABELS)[MASK]
    assert float(metrics["accuracy/h"].result()) == pytest.approx(hits.mean())
    assert float(metrics["label/mean/h"].result()) == pytest.approx(LABELS[MASK].mean())
    assert head.name == "h_sequential"


def test_sparse_labels_hold_a_value_per_step() -> None:
    indices = np.argwhere(MASK)[::-1]  # in no particular order
    labels = tf.SparseTensor(indices, LABELS[MASK][::-1].astype("int64"), MASK.shape)
    head = est.SequentialHeadWrapper(est.BinaryClassHead(), "mask")
    loss = head.loss(logits=LOGITS, labels=labels, features=features())
    assert float(loss) == pytest.approx(cross_entropy()[MASK].mean(), rel=1e-6)


def test_sparse_labels_of_more_dimensions_in_no_particular_order() -> None:
    logits = np.random.RandomState(1).randn(3, 3, 2).astype("float32")
    labels = np.random.RandomState(2).randn(3, 3, 2).astype("float32")
    indices = np.argwhere(np.repeat(MASK[..., None], 2, -1))[::-1]
    sparse = tf.SparseTensor(indices, labels[tuple(indices.T)], labels.shape)
    head = est.SequentialHeadWrapper(est.RegressionHead(2), "mask")
    loss = head.loss(logits=logits, labels=sparse, features=features())
    assert float(loss) == pytest.approx(((logits - labels)[MASK] ** 2).mean(), rel=1e-6)


def test_a_batch_of_nothing_but_padding_has_a_loss_of_zero() -> None:
    head = est.SequentialHeadWrapper(est.BinaryClassHead(), "mask")
    empty = {"mask": tf.zeros([3, 3], tf.bool)}
    assert float(head.loss(logits=LOGITS, labels=LABELS, features=empty)) == 0.0


def test_predictions_keep_their_shape_and_come_with_the_mask() -> None:
    head = est.SequentialHeadWrapper(est.BinaryClassHead(), "mask")
    with tf.Graph().as_default():
        spec = head.create_estimator_spec(features(), "infer", tf.constant(LOGITS))
    assert spec.predictions["logistic"].shape == [3, 3, 1]
    assert spec.predictions["mask"].shape == [3, 3]


@pytest.mark.parametrize(
    ("given", "labels", "said"),
    [
        (
            {},
            LABELS,
            r"The provided sequence_length_mask key `mask` should be included in the features "
            r"dictionary, but was not found\. Found keys: \[\]",
        ),
        ({"mask": [True]}, LABELS, "Mask is expected to have two dimensions, got 1 instead"),
        (features(), LABELS[:, :2], "Tensor shape is incompatible with provided mask"),
        (features(), LABELS[0], "expected to have at least 2 dimensions, got 1 instead"),
        (
            features(),
            tf.SparseTensor([[0, 0]], tf.constant([1], tf.int64), [3, 3]),
            r"Tensor shape is incompatible with provided mask\. Steps in the mask: 6 steps in "
            "the tensor: 1",
        ),
        (features(), None, "You must provide a labels Tensor"),
    ],
)
def test_what_does_not_fit_the_mask_is_told(given: Any, labels: Any, said: str) -> None:
    head = est.SequentialHeadWrapper(est.BinaryClassHead(), "mask")
    with pytest.raises(est.errors.HeadError, match=said):
        head.loss(logits=LOGITS, labels=labels, features=given)


def test_a_column_to_flatten_must_be_there() -> None:
    head = est.SequentialHeadWrapper(est.BinaryClassHead(), "mask", ["w"])
    with pytest.raises(ValueError, match="`w` column expected in features dictionary"):
        head.loss(logits=LOGITS, labels=LABELS, features=features())


def test_names_must_be_strings() -> None:
    with pytest.raises(TypeError, match="`sequence_mask` column must be a string"):
        est.SequentialHeadWrapper(est.BinaryClassHead(), 3)
    with pytest.raises(TypeError, match="`feature_columns` must be either a string or an iterable"):
        est.SequentialHeadWrapper(est.BinaryClassHead(), "mask", 3)
    with pytest.raises(TypeError, match="Column must a string"):
        est.SequentialHeadWrapper(est.BinaryClassHead(), "mask", [3])
