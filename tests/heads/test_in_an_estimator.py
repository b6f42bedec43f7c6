"""Heads from end to end: train a few steps, evaluate, predict, traced and eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est

_v1 = tf.compat.v1
RANDOM = np.random.RandomState(0)
X = RANDOM.randn(48, 3).astype("float32")
W = RANDOM.choice([0.5, 1.0, 2.0], size=48).astype("float32")
BINARY = (X[:, 0] > 0.2).astype("int64")
KINDS = np.array([b"low", b"middle", b"high"])[np.digitize(X[:, 1], [-0.5, 0.5])]
PRICES = (X @ [1.0, -2.0, 0.5]).astype("float32")
SETS = (X > 0).astype("int64")
MASK = RANDOM.rand(48, 3) < 0.7


def linear(head: Any, optimizer: Any = None, **spec: Any) -> Callable[..., Any]:
    """A model function: one matrix, from three features to the logits of `head`."""

    def model_fn(features, labels, mode):
        kernel = _v1.get_variable(
            "kernel", [3, head.logits_dimension], initializer=_v1.zeros_initializer()
        )
        return head.create_estimator_spec(
            features=features,
            mode=mode,
            logits=features["x"] @ kernel,
            labels=labels,
            optimizer=optimizer or _v1.train.GradientDescentOptimizer(0.3),
            **spec,
        )

    return model_fn


def inputs(labels: Any, **features: Any) -> Callable[[], tf.data.Dataset]:
    def input_fn():
        given = ({"x": X, **features}, labels)
        return tf.data.Dataset.from_tensor_slices(given).batch(10)

    return input_fn


def config(tmp_path: Any, **kwargs: Any) -> est.RunConfig:
    return est.RunConfig(model_dir=str(tmp_path), tf_random_seed=1, **kwargs)


def run(model_fn: Any, input_fn: Any, tmp_path: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
    estimator = est.Estimator(model_fn, config=config(tmp_path, **kwargs))
    estimator.train(lambda: input_fn().repeat(8))
    return estimator, estimator.evaluate(input_fn), list(estimator.predict(input_fn))


CASES = {
    "binary": (lambda: est.BinaryClassHead(weight_column="w"), inputs(BINARY, w=W)),
    "multi_class": (
        lambda: est.MultiClassHead(3, label_vocabulary=["low", "middle", "high"]),
        inputs(KINDS),
    ),
    "multi_label": (lambda: est.MultiLabelHead(3, thresholds=[0.5]), inputs(SETS)),
    "regression": (lambda: est.RegressionHead(weight_column="w"), inputs(PRICES, w=W)),
    "poisson": (est.PoissonRegressionHead, inputs(np.round(np.exp(PRICES / 3)))),
    "logistic": (est.LogisticRegressionHead, inputs(BINARY)),
    "hinge": (est.HingeHead, inputs(BINARY)),
    "multi_head": (
        lambda: est.MultiHead([est.BinaryClassHead(name="a"), est.RegressionHead(name="b")]),
        inputs({"a": BINARY, "b": PRICES}),
    ),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("eagerly", [False, True], ids=["traced", "eager"])
@pytest.mark.parametrize("name", CASES)
def test_training_lowers_the_loss_and_all_metrics_come_out(
    name: str, eagerly: bool, tmp_path: Any
) -> None:
    make_head, input_fn = CASES[name]
    head = make_head()
    estimator = est.Estimator(linear(head), config=config(tmp_path, run_eagerly=eagerly))
    before = estimator.evaluate(input_fn)
    estimator.train(lambda: input_fn().repeat(8 if not eagerly else 2))
    after = estimator.evaluate(input_fn)
    assert after["loss"] < before["loss"]
    assert set(after) == {*head.metrics(), "loss", "global_step"}
    assert all(np.isfinite(value) for value in after.values())
    predictions = list(estimator.predict(input_fn))
    assert len(predictions) == len(X)


def test_evaluation_equals_numpy_on_the_trained_weights(tmp_path: Any) -> None:
    head = est.BinaryClassHead(weight_column="w")
    estimator, results, predictions = run(linear(head), inputs(BINARY, w=W), tmp_path)
    logits = X @ estimator.get_variable_value("kernel")[:, 0]
    scores = 1 / (1 + np.exp(-logits))
    losses = -np.where(BINARY == 1, np.log(scores), np.log(1 - scores))
    assert results["average_loss"] == pytest.approx((losses * W).sum() / W.sum(), rel=1e-5)
    hits = (logits > 0) == BINARY
    assert results["accuracy"] == pytest.approx((hits * W).sum() / W.sum(), rel=1e-5)
    batches = [(losses * W)[i : i + 10].mean() for i in range(0, 48, 10)]
    assert results["loss"] == pytest.approx(np.mean(batches), rel=1e-5)
    np.testing.assert_allclose([p["logistic"][0] for p in predictions], scores, rtol=1e-5)


def test_a_second_evaluation_counts_from_zero(tmp_path: Any) -> None:
    estimator = est.Estimator(linear(est.BinaryClassHead()), config=config(tmp_path))
    assert estimator.evaluate(inputs(BINARY)) == estimator.evaluate(inputs(BINARY))


def test_metric_variables_are_in_no_checkpoint(tmp_path: Any) -> None:
    estimator, _, _ = run(linear(est.BinaryClassHead()), inputs(BINARY), tmp_path)
    assert estimator.get_variable_names() == ["global_step", "kernel"]


def test_training_steps_are_those_of_gradient_descent(tmp_path: Any) -> None:
    estimator = est.Estimator(
        linear(est.RegressionHead(weight_column="w")), config=config(tmp_path)
    )
    estimator.train(inputs(PRICES, w=W))
    kernel = np.zeros([3])
    for i in range(0, 48, 10):
        x, y, w = X[i : i + 10], PRICES[i : i + 10], W[i : i + 10]
        kernel -= 0.3 * 2 * (w * (x @ kernel - y)) @ x / len(y)
    np.testing.assert_allclose(estimator.get_variable_value("kernel")[:, 0], kernel, rtol=1e-4)
    assert estimator.get_variable_value("global_step") == 5


def test_a_keras_optimizer_and_chosen_variables(tmp_path: Any) -> None:
    import keras

    def model_fn(features, labels, mode):
        trained, fixed = keras.layers.Dense(4), keras.layers.Dense(1)
        logits = fixed(trained(features["x"]))
        return est.BinaryClassHead().create_estimator_spec(
            features,
            mode,
            logits,
            labels,
            optimizer=keras.optimizers.SGD(0.5),
            trainable_variables=trained.trainable_variables,
        )

    estimator = est.Estimator(model_fn, config=config(tmp_path))
    estimator.train(inputs(BINARY), steps=1)
    first = {n: estimator.get_variable_value(n) for n in estimator.get_variable_names()}
    estimator.train(inputs(BINARY), steps=2)
    changed = {n for n, v in first.items() if np.any(estimator.get_variable_value(n) != v)}
    kernels = sorted(n for n in first if n.endswith("kernel"))
    assert len(kernels) == 2
    assert set(kernels) & changed == {kernels[0]}
    assert "global_step" in changed


def test_update_ops_run_with_the_step(tmp_path: Any) -> None:
    def model_fn(features, labels, mode):
        counter = _v1.get_variable("counter", [], initializer=_v1.zeros_initializer())
        kernel = _v1.get_variable("kernel", [3, 1])
        return est.BinaryClassHead().create_estimator_spec(
            features,
            mode,
            features["x"] @ kernel,
            labels,
            train_op_fn=lambda loss: est.minimize(
                _v1.train.GradientDescentOptimizer(0.1), loss, [kernel]
            ),
            update_ops=[counter.assign_add(1.0)],
        )

    estimator = est.Estimator(model_fn, config=config(tmp_path))
    estimator.train(inputs(BINARY), steps=4)
    assert estimator.get_variable_value("counter") == 4.0


def test_sequences_of_different_lengths(tmp_path: Any) -> None:
    labels = np.where(MASK, SETS, 77)

    def model_fn(features, labels, mode):
        scale = _v1.get_variable("scale", [1, 1], initializer=_v1.zeros_initializer())
        head = est.SequentialHeadWrapper(est.BinaryClassHead(), "mask")
        return head.create_estimator_spec(
            features,
            mode,
            features["x"][..., None] * scale,
            labels,
            optimizer=_v1.train.GradientDescentOptimizer(1.0),
        )

    _, results, predictions = run(model_fn, inputs(labels, mask=MASK), tmp_path)
    assert results["accuracy"] == 1.0
    assert results["label/mean"] == pytest.approx(SETS[MASK].mean())
    np.testing.assert_array_equal([p["mask"] for p in predictions], MASK)
    assert predictions[0]["logistic"].shape == (3, 1)


def test_exactly_one_of_optimizer_and_train_op_fn() -> None:
    with tf.Graph().as_default():
        given = {"features": {}, "mode": "train", "logits": tf.zeros([2, 1]), "labels": [0, 1]}
        head = est.BinaryClassHead()
        with pytest.raises(ValueError, match="train_op_fn and optimizer cannot both be None"):
            head.create_estimator_spec(**given)
        with pytest.raises(ValueError, match="train_op_fn and optimizer cannot both be set"):
            head.create_estimator_spec(
                **given, optimizer="SGD", train_op_fn=lambda loss: tf.no_op()
            )
        with pytest.raises(ValueError, match=r"is not a tf\.keras\.optimizers\.Optimizer"):
            head.create_estimator_spec(**given, optimizer=3)
        with pytest.raises(ValueError, match="update_ops should be a list or a tuple"):
            head.create_estimator_spec(**given, update_ops=3, train_op_fn=lambda loss: tf.no_op())
        with pytest.raises(ValueError, match="mode=sing unrecognized"):
            head.create_estimator_spec(**{**given, "mode": "sing"})


@pytest.mark.parametrize("verb", ["train", "evaluate"])
def test_a_label_out_of_range_stops_the_run_and_is_named(verb: str, tmp_path: Any) -> None:
    labels = np.zeros([48], "int64")
    labels[37] = 5
    estimator = est.Estimator(linear(est.MultiClassHead(3)), config=config(tmp_path))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"<= n_classes - 1, which is 2: this batch has the label 5 in row \d+\. This model",
    ):
        getattr(estimator, verb)(inputs(labels))


@pytest.mark.parametrize("verb", ["train", "evaluate"])
def test_a_label_that_is_not_in_the_vocabulary_is_named(verb: str, tmp_path: Any) -> None:
    labels = KINDS.astype(object)
    labels[37] = b"huge"
    head = est.MultiClassHead(3, label_vocabulary=["low", "middle", "high"])
    estimator = est.Estimator(linear(head), config=config(tmp_path))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"\(low, middle, high\) does not contain the label 'huge' in row \d+(\n|$)",
    ):
        getattr(estimator, verb)(inputs(labels))


def test_batches_of_labels_and_logits_that_differ_are_told(tmp_path: Any) -> None:
    def model_fn(features, labels, mode):
        kernel = _v1.get_variable("kernel", [3, 1])
        logits = tf.concat([features["x"] @ kernel] * 2, axis=0)
        return est.BinaryClassHead().create_estimator_spec(
            features, mode, logits, labels, optimizer=_v1.train.GradientDescentOptimizer(0.1)
        )

    estimator = est.Estimator(model_fn, config=config(tmp_path))
    with pytest.raises(tf.errors.InvalidArgumentError, match="labels shape must be"):
        estimator.train(inputs(BINARY))


def test_summaries_carry_the_name_of_the_head(tmp_path: Any) -> None:
    head = est.MultiHead([est.BinaryClassHead(name="a"), est.RegressionHead(name="b")])
    run(linear(head), inputs({"a": BINARY, "b": PRICES}), tmp_path, save_summary_steps=5)
    tags = set()
    for path in tmp_path.glob("events.out.tfevents*"):
        for record in tf.data.TFRecordDataset(str(path)):
            event = _v1.Event.FromString(record.numpy())
            tags |= {value.tag for value in event.summary.value}
    assert {"loss", "loss/a", "loss/b"} <= tags


def test_a_head_can_be_a_hyperparameter(tmp_path: Any) -> None:
    """Estimator copies its params: a head with a vocabulary in use has to survive that."""
    head = est.BinaryClassHead(label_vocabulary=["no", "yes"])
    words = np.array([b"no", b"yes"])[BINARY]
    head.loss(words[:2], [[0.0], [0.0]])

    def model_fn(features, labels, mode, params):
        return linear(params["head"])(features, labels, mode)

    estimator = est.Estimator(model_fn, config=config(tmp_path), params={"head": head})
    estimator.train(inputs(words), steps=3)
    assert estimator.evaluate(inputs(words))["label/mean"] == pytest.approx(BINARY.mean())


def test_a_head_of_ones_own_needs_only_the_abstract_members(tmp_path: Any) -> None:
    class AbsoluteErrorHead(est.Head):
        name = None
        logits_dimension = 1
        loss_reduction = "sum_over_batch_size"

        def loss(self, labels, logits, features=None, mode=None, regularization_losses=None):
            return tf.reduce_mean(tf.abs(logits[:, 0] - labels))

        def predictions(self, logits, keys=None):
            return {"value": logits[:, 0]}

        def metrics(self, regularization_losses=None):
            return {"mean": est.heads.metrics.Mean("mean")}

        def update_metrics(
            self, eval_metrics, features, logits, labels, mode=None, regularization_losses=None
        ):
            eval_metrics["mean"].update_state(logits)
            return eval_metrics

    _, results, predictions = run(linear(AbsoluteErrorHead()), inputs(PRICES), tmp_path)
    values = [p["value"] for p in predictions]
    assert results["mean"] == pytest.approx(np.mean(values), rel=1e-5)
