"""Heads and batches to try them on, for tf.estimator and for estimand alike.

A case takes the module that has the heads and returns a head and its batches, each a triple of
features, logits and labels.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

Case = Callable[[Any], tuple[Any, list[Any]]]
CLASSES = ["BinaryClassHead", "MultiClassHead", "MultiLabelHead", "MultiHead", "RegressionHead"]
CLASSES += ["PoissonRegressionHead", "LogisticRegressionHead"]
METHODS = ["__init__", "loss", "metrics", "update_metrics", "create_estimator_spec"]


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.RandomState(seed).randn(*shape).astype("float32")


def weights(seed: int, *shape: int) -> np.ndarray:
    values = np.random.RandomState(seed).choice([0.0, 0.5, 1.0, 3.0], size=shape)
    return values.astype("float32")


def ids(seed: int, n: int, *shape: int) -> np.ndarray:
    return np.random.RandomState(seed).randint(0, n, size=shape).astype("int64")


def words(seed: int, vocabulary: list[str], *shape: int) -> np.ndarray:
    return np.array(vocabulary)[ids(seed, len(vocabulary), *shape)].astype("S")


def sparse(rows: list[list[Any]], width: int) -> tf.SparseTensor:
    indices = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    return tf.SparseTensor(indices, [v for row in rows for v in row], [len(rows), width])


def as_tensors(batch: Any) -> Any:
    return tf.nest.map_structure(tf.convert_to_tensor, batch, expand_composites=True)


def binary(est: Any) -> Any:
    head = est.BinaryClassHead(thresholds=[0.25, 0.5])
    return head, [({}, 3 * numbers(s, 20, 1), ids(s + 9, 2, 20, 1)) for s in (1, 2)]


def binary_weighted(est: Any) -> Any:
    head = est.BinaryClassHead(weight_column="w", thresholds=[0.7], loss_reduction="sum", name="h")
    return head, [({"w": weights(s, 20)}, numbers(s, 20, 1), ids(s + 9, 2, 20, 1)) for s in (1, 2)]


def binary_vocabulary(est: Any) -> Any:
    head = est.BinaryClassHead(label_vocabulary=["no", "yes"])
    return head, [({}, numbers(3, 6, 1), words(4, ["no", "yes"], 6))]


def binary_soft_labels(est: Any) -> Any:
    labels = np.array([[0.0], [0.25], [1.0], [0.7]], "float32")
    return est.BinaryClassHead(), [({}, numbers(5, 4, 1), labels)]


def binary_three_dimensions(est: Any) -> Any:
    features = {"w": weights(7, 4, 3)}
    head = est.BinaryClassHead(weight_column="w")
    return head, [(features, numbers(6, 4, 3, 1), ids(8, 2, 4, 3))]


def binary_on_the_thresholds(est: Any) -> Any:
    shares = np.array([[0.25], [0.5], [0.25], [0.75], [0.5], [0.0], [1.0]], "float32")
    with np.errstate(divide="ignore"):
        logits = np.clip(np.log(shares / (1 - shares)), -90, 90).astype("float32")
    return est.BinaryClassHead(thresholds=[0.25]), [({}, logits, ids(3, 2, 7, 1))]


def binary_one_class_only(est: Any) -> Any:
    return est.BinaryClassHead(), [({}, numbers(3, 5, 1), np.zeros((5, 1), "int64"))]


def binary_own_loss(est: Any) -> Any:
    def loss_fn(labels: Any, logits: Any, features: Any) -> Any:
        return tf.abs(labels - logits) + features["x"]

    features = {"x": numbers(1, 5, 1)}
    return est.BinaryClassHead(loss_fn=loss_fn), [(features, numbers(3, 5, 1), ids(4, 2, 5, 1))]


def multi_class(est: Any) -> Any:
    head = est.MultiClassHead(4)
    return head, [({}, numbers(s, 20, 4), ids(s + 9, 4, 20)) for s in (1, 2)]


def multi_class_weighted(est: Any) -> Any:
    column = tf.feature_column.numeric_column("w", normalizer_fn=lambda x: x * 2.0)
    head = est.MultiClassHead(
        3, weight_column=column, label_vocabulary=["a", "b", "c"], loss_reduction="sum", name="m"
    )
    batch = ({"w": weights(3, 9)}, numbers(4, 9, 3), words(5, ["a", "b", "c"], 9, 1))
    return head, [batch, batch]


def multi_class_three_dimensions(est: Any) -> Any:
    features = {"w": weights(7, 2, 3, 1)}
    head = est.MultiClassHead(5, weight_column="w")
    return head, [(features, numbers(6, 2, 3, 5), ids(8, 5, 2, 3, 1))]


def multi_label(est: Any) -> Any:
    head = est.MultiLabelHead(3, thresholds=[0.3], classes_for_class_based_metrics=[0, 2])
    return head, [({}, numbers(s, 12, 3), ids(s + 9, 2, 12, 3)) for s in (1, 2)]


def multi_label_weighted(est: Any) -> Any:
    head = est.MultiLabelHead(
        3,
        weight_column="w",
        thresholds=[0.5],
        label_vocabulary=["x", "y", "z"],
        classes_for_class_based_metrics=["z"],
        name="l",
    )
    labels = sparse([["x"], ["y", "z"], [], ["x", "y", "z"]], 3)
    return head, [({"w": weights(2, 4, 1)}, numbers(3, 4, 3), labels)]


def multi_label_sparse_ids(est: Any) -> Any:
    return est.MultiLabelHead(4), [({}, numbers(3, 3, 4), sparse([[0, 3], [1], [2, 0, 1]], 3))]


def regression(est: Any) -> Any:
    return est.RegressionHead(), [({}, numbers(s, 8, 1), numbers(s + 9, 8)) for s in (1, 2)]


def regression_weighted(est: Any) -> Any:
    head = est.RegressionHead(3, weight_column="w", name="r")
    return head, [({"w": weights(4, 6)}, numbers(1, 6, 3), numbers(2, 6, 3))]


def regression_weight_per_logit(est: Any) -> Any:
    head = est.RegressionHead(2, weight_column="w", loss_reduction="sum")
    return head, [({"w": weights(4, 6, 2)}, numbers(1, 6, 2), numbers(2, 6, 2))]


def poisson(est: Any) -> Any:
    labels = ids(3, 6, 7, 1).astype("float32")
    return est.PoissonRegressionHead(), [({}, numbers(1, 7, 1), labels)]


def poisson_without_constant(est: Any) -> Any:
    head = est.PoissonRegressionHead(2, weight_column="w", compute_full_loss=False)
    return head, [({"w": weights(5, 7)}, numbers(1, 7, 2), ids(3, 6, 7, 2))]


def logistic(est: Any) -> Any:
    labels = np.random.RandomState(2).rand(7, 1).astype("float32")
    return est.LogisticRegressionHead(weight_column="w"), [
        ({"w": weights(5, 7)}, numbers(1, 7, 1), labels)
    ]


def multi_head(est: Any) -> Any:
    heads = [
        est.BinaryClassHead(name="click", weight_column="w"),
        est.MultiClassHead(3, name="kind"),
        est.RegressionHead(2, name="price"),
    ]
    labels = {"click": ids(1, 2, 9), "kind": ids(2, 3, 9), "price": numbers(3, 9, 2)}
    batch = ({"w": weights(4, 9)}, numbers(5, 9, 6), labels)
    return est.MultiHead(heads, [1.0, 0.5, 2.0]), [batch]


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        binary,
        binary_weighted,
        binary_vocabulary,
        binary_soft_labels,
        binary_three_dimensions,
        binary_on_the_thresholds,
        binary_one_class_only,
        binary_own_loss,
        multi_class,
        multi_class_weighted,
        multi_class_three_dimensions,
        multi_label,
        multi_label_weighted,
        multi_label_sparse_ids,
        regression,
        regression_weighted,
        regression_weight_per_logit,
        poisson,
        poisson_without_constant,
        logistic,
        multi_head,
    )
}


def numbers_of(est: Any, case: Case) -> dict[str, Any]:
    """Run eagerly: losses, predictions of the first batch, metrics over all."""
    head, batches = case(est)
    batches = [as_tensors(batch) for batch in batches]
    extra = [tf.constant(0.25), tf.constant(1.5)]
    losses = [float(head.loss(labels, logits, features)) for features, logits, labels in batches]
    features, logits, labels = batches[0]
    regularized = float(head.loss(labels, logits, features, regularization_losses=extra))
    metrics = head.metrics(regularization_losses=extra)
    for features, logits, labels in batches:
        updated = head.update_metrics(
            metrics, features, logits, labels, regularization_losses=extra
        )
    predictions = {_joined(k): _plain(v) for k, v in head.predictions(batches[0][1]).items()}
    return {
        "loss": losses,
        "regularized": regularized,
        "predictions": dict(sorted(predictions.items())),
        "metrics": {k: float(m.result()) for k, m in sorted(updated.items())},
    }


def names_of(est: Any, case: Case) -> dict[str, Any]:
    """Build the specs of all modes in a graph: names of tensors, signatures, summaries."""
    names: dict[str, Any] = {}
    for mode in ("infer", "eval", "train"):
        with tf.Graph().as_default():
            tf.compat.v1.train.create_global_step()
            head, batches = case(est)
            features, logits, labels = as_tensors(batches[0])
            spec = head.create_estimator_spec(
                features=features,
                mode=mode,
                logits=logits,
                labels=labels,
                train_op_fn=(lambda loss: tf.no_op()) if mode == "train" else None,
                regularization_losses=[tf.constant(1.0)],
            )
            if mode == "infer":
                names["tensors"] = {_joined(k): v.name for k, v in spec.predictions.items()}
                names["outputs"] = {
                    k: type(v).__name__ for k, v in sorted(spec.export_outputs.items())
                }
            elif mode == "train":
                summaries = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SUMMARIES)
                names["summaries"] = sorted(s.op.name for s in summaries)
            else:
                names["metrics"] = sorted(spec.eval_metric_ops)
    return names


def signatures_of(est: Any) -> dict[str, Any]:
    return {
        f"{name}.{method}": [
            [p.name, repr(p.default) if p.default is not p.empty else None]
            for p in inspect.signature(getattr(getattr(est, name), method)).parameters.values()
        ]
        for name in CLASSES
        for method in METHODS
    }


def _joined(key: Any) -> str:
    return "/".join(key) if isinstance(key, tuple) else key


def _plain(value: Any) -> Any:
    array = value.numpy()
    return array.astype("U").tolist() if array.dtype == object else array.tolist()
