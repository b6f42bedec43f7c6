"""Several heads on one network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est

LOGITS = np.array([[1.0, 3.0, -1.0], [0.0, 2.0, 5.0]], "float32")
LABELS = {"click": np.array([1, 0]), "price": np.array([[2.0, 0.0], [2.0, 4.0]])}


def two_heads(**kwargs: Any) -> est.MultiHead:
    return est.MultiHead(
        [est.BinaryClassHead(name="click"), est.RegressionHead(2, name="price")], **kwargs
    )


def losses_in_numpy() -> tuple[float, float]:
    p = 1 / (1 + np.exp(-LOGITS[:, 0]))
    click = -np.where(LABELS["click"] == 1, np.log(p), np.log(1 - p)).mean()
    price = ((LOGITS[:, 1:] - LABELS["price"]) ** 2).mean()
    return click, price


def test_losses_are_weighted_and_added() -> None:
    click, price = losses_in_numpy()
    assert float(two_heads().loss(LABELS, LOGITS)) == pytest.approx(click + price, rel=1e-6)
    weighted = two_heads(head_weights=[3.0, 0.25]).loss(LABELS, LOGITS)
    assert float(weighted) == pytest.approx(3.0 * click + 0.25 * price, rel=1e-6)


def test_regularization_is_not_weighted() -> None:
    click, price = losses_in_numpy()
    head = two_heads(head_weights=[3.0, 0.25])
    loss = head.loss(LABELS, LOGITS, regularization_losses=[tf.constant(7.0)])
    assert float(loss) == pytest.approx(3.0 * click + 0.25 * price + 7.0, rel=1e-6)


def test_logits_may_be_given_by_head() -> None:
    by_head = {"click": LOGITS[:, :1], "price": LOGITS[:, 1:]}
    head = two_heads()
    assert float(head.loss(LABELS, by_head)) == float(head.loss(LABELS, LOGITS))


def test_metrics_add_up_over_batches() -> None:
    click, price = losses_in_numpy()
    head = two_heads()
    metrics = head.metrics()
    for _ in range(3):
        head.update_metrics(metrics, {}, LOGITS, LABELS)
    assert float(metrics["loss/click"].result()) == pytest.approx(click, rel=1e-6)
    assert float(metrics["average_loss/price"].result()) == pytest.approx(price, rel=1e-6)
    assert float(metrics["accuracy/click"].result()) == 1.0
    head.update_metrics(metrics, {}, -LOGITS, LABELS)  # one that is wrong where it can be
    assert float(metrics["accuracy/click"].result()) == pytest.approx(7 / 8)


def test_predictions_are_keyed_by_head() -> None:
    predictions = two_heads().predictions(LOGITS)
    np.testing.assert_array_equal(predictions["price", "predictions"], LOGITS[:, 1:])
    assert predictions["click", "class_ids"].numpy().tolist() == [[1], [0]]
    assert list(two_heads().predictions(LOGITS, keys=["logistic"])) == [("click", "logistic")]


def test_name_width_and_label_ranges_are_those_of_the_heads() -> None:
    head = two_heads()
    assert (head.name, head.logits_dimension) == ("click_price", 3)
    assert head.label_range == {"click": (0, 1), "price": None}
    assert head.loss_reduction == "sum_over_batch_size"


@pytest.mark.parametrize(
    ("labels", "logits", "said"),
    [
        (LABELS["click"], LOGITS, "labels must be a dict"),
        ({"click": 1}, LOGITS, r"labels has missing values for head\(s\): \['price'\]"),
        (LABELS, {"price": LOGITS}, r"logits has missing values for head\(s\): \['click'\]"),
        (
            LABELS,
            LOGITS[:, :2],
            r"Could not split logits of shape \[2, 2\] among the heads with individual logits "
            r"dimensions: \[1, 2\]\. The last dimension of the logits tensor should equal 3 but "
            "is 2",
        ),
        (None, LOGITS, "You must provide a labels Tensor"),
    ],
)
def test_what_does_not_fit_the_heads_is_told(labels: Any, logits: Any, said: str) -> None:
    with pytest.raises(est.errors.HeadError, match=said):
        two_heads().loss(labels, logits)


def test_an_export_has_the_signatures_of_all_heads_and_a_merged_one() -> None:
    with tf.Graph().as_default():
        spec = two_heads().create_estimator_spec({}, "infer", tf.constant(LOGITS))
    outputs = spec.export_outputs
    assert set(outputs) == {
        "serving_default",
        "click",
        "click/classification",
        "click/regression",
        "click/predict",
        "price",
        "price/regression",
        "price/predict",
        "predict",
    }
    assert outputs["serving_default"] is outputs["click"]
    assert {"click/logistic", "price/predictions"} < set(outputs["predict"].outputs)
