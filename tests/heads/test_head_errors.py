"""What a head does not accept, it says in one sentence; the texts of tf.estimator are kept."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est

ONE_LOGIT = np.zeros([4, 1], "float32")
THREE_LOGITS = np.zeros([4, 3], "float32")
SPARSE = tf.SparseTensor([[0, 0]], tf.constant([1], tf.int64), [4, 1])

CONSTRUCTIONS: dict[str, tuple[Any, str]] = {
    "n_classes_too_small": (lambda: est.MultiClassHead(2), r"n_classes must be > 2: 2\."),
    "n_classes_missing": (lambda: est.MultiClassHead(None), "n_classes cannot be None"),
    "n_classes_no_integer": (lambda: est.MultiClassHead("3"), "n_classes must be an integer"),
    "n_classes_of_multi_label": (
        lambda: est.MultiLabelHead(1),
        r"n_classes must be > 1 for multi-label classification\. Given: 1",
    ),
    "thresholds": (
        lambda: est.BinaryClassHead(thresholds=[0.5, 1.0]),
        r"thresholds not in \(0, 1\): \(\(0\.5, 1\.0\),\)\.",
    ),
    "thresholds_of_multi_label": (
        lambda: est.MultiLabelHead(3, thresholds=[0.5, 1.5]),
        r"thresholds must be in \(0, 1\) range\. Given: 1\.5",
    ),
    "reduction_none": (
        lambda: est.BinaryClassHead(loss_reduction="none"),
        r"Invalid loss_reduction: none\. See `tf\.losses\.Reduction` for valid options\.",
    ),
    "vocabulary_no_list": (
        lambda: est.BinaryClassHead(label_vocabulary="yes"),
        r"label_vocabulary should be a list or a tuple\. Given type: <class 'str'>",
    ),
    "vocabulary_of_wrong_length": (
        lambda: est.MultiClassHead(3, label_vocabulary=["a", "b"]),
        r'"label_vocabulary" does not have "n_classes" items\. len\(label_vocabulary\)=2, '
        r"n_classes=3, label_vocabulary=\['a', 'b'\]",
    ),
    "vocabulary_of_more_than_two": (
        lambda: est.BinaryClassHead(label_vocabulary=["a", "b", "c"]),
        "should name 2 classes",
    ),
    "vocabulary_with_a_word_twice": (
        lambda: est.BinaryClassHead(label_vocabulary=["a", "a"]),
        "label_vocabulary contains 'a' twice",
    ),
    "vocabulary_of_multi_label": (
        lambda: est.MultiLabelHead(3, label_vocabulary=["a"]),
        r"Length of label_vocabulary must be n_classes \(3\)\. Given: 1",
    ),
    "loss_fn_without_labels": (
        lambda: est.BinaryClassHead(loss_fn=lambda logits: logits),
        r"loss_fn must contain argument: labels\. Given arguments: \('logits',\)",
    ),
    "loss_fn_with_more": (
        lambda: est.BinaryClassHead(loss_fn=lambda labels, logits, name: logits),
        r"loss_fn has unexpected args: \['name'\]",
    ),
    "label_dimension": (lambda: est.RegressionHead(0), r"Invalid label_dimension 0\."),
    "class_metrics_out_of_range": (
        lambda: est.MultiLabelHead(3, classes_for_class_based_metrics=[3]),
        r"All classes_for_class_based_metrics must be in range \[0, 2\]\. Given: 3",
    ),
    "class_metrics_without_vocabulary": (
        lambda: est.MultiLabelHead(3, classes_for_class_based_metrics=["a"]),
        "label_vocabulary must be provided when classes_for_class_based_metrics are strings",
    ),
    "no_heads": (lambda: est.MultiHead([]), r"Must specify heads\. Given: \[\]"),
    "head_without_name": (
        lambda: est.MultiHead([est.RegressionHead()]),
        "All given heads must have name specified",
    ),
    "heads_of_the_same_name": (
        lambda: est.MultiHead([est.RegressionHead(name="a"), est.RegressionHead(name="a")]),
        "must have different names",
    ),
    "head_weights": (
        lambda: est.MultiHead([est.RegressionHead(name="a")], [1.0, 2.0]),
        r"heads and head_weights must have the same size\. Given len\(heads\): 1\. "
        r"Given len\(head_weights\): 2\.",
    ),
    "sequential_of_many": (
        lambda: est.SequentialHeadWrapper(est.MultiHead([est.RegressionHead(name="a")])),
        "`MultiHead` is not supported with `SequentialHeadWrapper`",
    ),
}

BATCHES: dict[str, tuple[Any, Any, Any, Any, str]] = {
    "no_labels": (
        est.BinaryClassHead,
        None,
        ONE_LOGIT,
        {},
        r"You must provide a labels Tensor\. Given: None\.",
    ),
    "sparse_labels": (
        est.BinaryClassHead,
        SPARSE,
        ONE_LOGIT,
        {},
        "SparseTensor labels are not supported",
    ),
    "one_hot_labels": (
        lambda: est.MultiClassHead(3),
        np.eye(4, 3),
        THREE_LOGITS,
        {},
        r"Mismatched label shape\. Expected labels dimension=1\.  Received 3\.",
    ),
    "labels_of_another_batch_size": (
        est.BinaryClassHead,
        np.zeros([5, 1]),
        ONE_LOGIT,
        {},
        r"labels shape must be \[D0, D1, \.\.\. DN, 1\].*expected_labels_shape: \(4, 1\)",
    ),
    "labels_too_large": (
        lambda: est.MultiClassHead(3),
        [0, 3, 1, 2],
        THREE_LOGITS,
        {},
        r"Labels must be <= (3|n_classes) - 1, which is 2\. This batch has the label 3 in row \d+$",
    ),
    "labels_too_small": (
        lambda: est.MultiClassHead(3),
        [0, -1, 1, 2],
        THREE_LOGITS,
        {},
        r"Labels must be >= 0.* This batch has the label -1 in row \d+$",
    ),
    "binary_label_of_two": (
        est.BinaryClassHead,
        [0, 1, 2, 0],
        ONE_LOGIT,
        {},
        r"Labels must be <= (2|n_classes) - 1, which is 1\. This batch has the label 2 in row \d+$",
    ),
    "labels_that_are_no_numbers": (
        est.BinaryClassHead,
        [0.0, 1.0, np.nan, 0.0],
        ONE_LOGIT,
        {},
        "Labels must be >= 0",
    ),
    "share_above_one": (
        est.LogisticRegressionHead,
        [0.0, 1.5, 0.5, 0.0],
        ONE_LOGIT,
        {},
        r"Labels must be in range \[0, 1\]\. The labels of this batch go from 0(\.0)? to 1\.5$",
    ),
    "indicator_above_one": (
        lambda: est.MultiLabelHead(3),
        np.full([4, 3], 2),
        THREE_LOGITS,
        {},
        r"labels must be an integer indicator Tensor with values in \[0, 1\].* the label 2$",
    ),
    "sparse_id_too_large": (
        lambda: est.MultiLabelHead(3),
        tf.SparseTensor([[0, 0]], tf.constant([3], tf.int64), [4, 1]),
        THREE_LOGITS,
        {},
        r"labels must be an integer SparseTensor with values in \[0, 3\).* the label 3$",
    ),
    "float_labels": (
        lambda: est.MultiClassHead(3),
        [0.0, 1.0, 2.0, 0.0],
        THREE_LOGITS,
        {},
        r"Labels dtype should be integer\. Instead got <dtype: 'float32'>",
    ),
    "numbers_with_a_vocabulary": (
        lambda: est.MultiClassHead(3, label_vocabulary=["a", "b", "c"]),
        [0, 1, 2, 0],
        THREE_LOGITS,
        {},
        "Labels dtype should be string if there is a vocabulary",
    ),
    "strings_without_a_vocabulary": (
        est.BinaryClassHead,
        ["a", "b", "a", "b"],
        ONE_LOGIT,
        {},
        "Labels are strings, but there is no label_vocabulary",
    ),
    "label_not_in_the_vocabulary": (
        lambda: est.MultiClassHead(3, label_vocabulary=["cat", "dog", "cow"]),
        ["cat", "dog", "bird", "cow"],
        THREE_LOGITS,
        {},
        r"label_vocabulary \(cat, dog, cow\) does not contain the label '?bird'? in row 2$",
    ),
    "labels_by_name": (
        est.BinaryClassHead,
        {"y": [0, 0, 0, 0]},
        ONE_LOGIT,
        {},
        r"labels must be a Tensor, given: a dict with keys \['y'\]",
    ),
    "logits_of_another_width": (
        lambda: est.MultiClassHead(3),
        [0, 1, 2, 0],
        ONE_LOGIT,
        {},
        r"logits shape must be \[D0, D1, \.\.\. DN, logits_dimension\], got \(4, 1\)\.",
    ),
    "logits_of_one_dimension": (
        est.BinaryClassHead,
        [0, 1, 0, 1],
        np.zeros([4], "float32"),
        {},
        r"logits must have rank at least 2\.  Received rank 1, shape \(4,\)",
    ),
    "no_weight_feature": (
        lambda: est.BinaryClassHead(weight_column="w"),
        [0, 1, 0, 1],
        ONE_LOGIT,
        {"x": ONE_LOGIT},
        r"Feature w is not in features dictionary\. .*features has: x\.",
    ),
    "weights_that_are_strings": (
        lambda: est.BinaryClassHead(weight_column="w"),
        [0, 1, 0, 1],
        ONE_LOGIT,
        {"w": ["1", "1", "1", "1"]},
        "Weight column should be castable to float. Given dtype: <dtype: 'string'>",
    ),
    "weights_of_another_shape": (
        lambda: est.BinaryClassHead(weight_column="w"),
        [0, 1, 0, 1],
        ONE_LOGIT,
        {"w": np.ones([4, 2])},
        r"weights shape must be \[D0, D1, \.\.\. DN\] or \[D0, D1, \.\.\. DN, 1\], "
        r"logits_shape: \(4, 1\) weights_shape: \(4, 2\)",
    ),
    "a_loss_function_that_reduces": (
        lambda: est.BinaryClassHead(loss_fn=lambda labels, logits: tf.reduce_mean(logits)),
        [0, 1, 0, 1],
        ONE_LOGIT,
        {},
        r"loss_fn must return Tensor of shape \[D0, D1, \.\.\. DN, 1\]",
    ),
}


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_constructor_says(name: str) -> None:
    construct, said = CONSTRUCTIONS[name]
    with pytest.raises(est.errors.HeadError, match=said) as caught:
        construct()
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", BATCHES)
def test_loss_says(name: str) -> None:
    make_head, labels, logits, features, said = BATCHES[name]
    with pytest.raises(est.errors.HeadError, match=said):
        make_head().loss(labels, logits, features)


@pytest.mark.parametrize("name", BATCHES)
def test_the_same_is_said_of_tensors_of_a_graph(name: str) -> None:
    """Of shapes while the graph is built, of values when it runs."""
    make_head, labels, logits, features, said = BATCHES[name]
    head = make_head()
    loss = tf.function(head.loss, autograph=False)
    labels, logits, features = tf.nest.map_structure(
        lambda part: part if part is None else tf.convert_to_tensor(part),
        (labels, logits, features),
        expand_composites=True,
    )
    with pytest.raises((est.errors.HeadError, tf.errors.InvalidArgumentError)) as caught:
        loss(labels, logits, features)
    assert re.search(said, sentence(str(caught.value))), caught.value


def sentence(message: str) -> str:
    """An assertion of TensorFlow shows its parts in brackets, one after the other."""
    found = re.search(r"assertion failed: \[(.*)\]", message)
    return found.group(1).replace("] [", " ") if found else message


def test_weight_column_of_a_wrong_type() -> None:
    said = "Weight column must be either a string or NumericColumn. Given type: <class 'int'>"
    with pytest.raises(TypeError, match=said):
        est.BinaryClassHead(weight_column=3)


def test_a_bucketized_column_is_no_weight_column() -> None:
    column = tf.feature_column.bucketized_column(tf.feature_column.numeric_column("w"), [1.0])
    with pytest.raises(TypeError, match="Weight column must be either a string or NumericColumn"):
        est.BinaryClassHead(weight_column=column)


def test_unequal_reductions_of_heads() -> None:
    heads = [est.RegressionHead(name="a"), est.RegressionHead(name="b", loss_reduction="sum")]
    said = r"must be the same for different heads\. Given: \['sum_over_batch_size', 'sum'\]"
    with pytest.raises(ValueError, match=said):
        est.MultiHead(heads).loss_reduction  # noqa: B018
