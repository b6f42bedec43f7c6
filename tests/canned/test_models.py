"""What canned models do, apart from their numbers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.canned.dnn import dnn_model_fn
from estimand.canned.linear import linear_model_fn
from tests.canned import cases

C = cases.columns()
CASE = cases.Case(lambda use, c, more: None)
MODELS: dict[str, Callable[..., est.Estimator]] = {
    "dnn": lambda **more: est.DNNClassifier([4], C.deep, batch_norm=True, **more),
    "linear": lambda **more: est.LinearClassifier(C.wide, **more),
    "wide_deep": lambda **more: est.DNNLinearCombinedClassifier(
        linear_feature_columns=C.wide,
        dnn_feature_columns=C.deep,
        dnn_hidden_units=[4],
        dnn_optimizer="Ftrl",
        **more,
    ),
    "baseline": lambda **more: est.BaselineClassifier(**more),
    "v1_dnn": lambda **more: est.compat.v1.DNNClassifier([4], C.deep, optimizer="Adam", **more),
}


def training_input() -> tf.data.Dataset:
    return CASE.input_fn(repeat=True)


@pytest.mark.sample(3)
@pytest.mark.parametrize("model", MODELS)
def test_run_eagerly_makes_the_same_model(model: str) -> None:
    traced = MODELS[model](config=est.RunConfig(tf_random_seed=1)).train(training_input, steps=3)
    config = est.RunConfig(tf_random_seed=1, run_eagerly=True)
    eager = MODELS[model](config=config).train(training_input, steps=3)
    assert eager.get_variable_names() == traced.get_variable_names()
    for name in traced.get_variable_names():
        expected = traced.get_variable_value(name)
        np.testing.assert_allclose(
            eager.get_variable_value(name), expected, rtol=1e-4, atol=1e-6, err_msg=name
        )


def test_baseline_takes_several_features_from_a_dataset() -> None:
    estimator = est.BaselineClassifier(weight_column="weight").train(training_input, steps=300)
    features, labels = cases.table()
    share = np.average(labels["binary"], weights=features["weight"])
    assert next(estimator.predict(CASE.input_fn))["logistic"][0] == pytest.approx(share, abs=0.01)


def test_baseline_is_served_without_the_weights() -> None:
    estimator = est.BaselineRegressor(weight_column="weight", label_dimension=2)
    labels = cases.table()[1]["two_numbers"]

    def with_weights() -> tf.data.Dataset:
        features = {"x": np.zeros(100), "weight": np.ones(100)}
        return tf.data.Dataset.from_tensor_slices((features, labels)).batch(20)

    def without() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices({"x": np.zeros(3)}).batch(3)

    estimator.train(with_weights)
    assert len(list(estimator.predict(without))) == 3


def test_baseline_needs_a_feature() -> None:
    with pytest.raises(ValueError, match="needs one feature at least"):
        est.BaselineClassifier(weight_column="weight").train(
            lambda: tf.data.Dataset.from_tensor_slices(({"weight": [1.0]}, [1])).batch(1)
        )


def test_dropout_is_for_training_only() -> None:
    config = est.RunConfig(tf_random_seed=1)
    plain = est.DNNClassifier([50], [C.x], config=config, dropout=None)
    thin = est.DNNClassifier([50], [C.x], config=config, dropout=0.9)
    touched = {}
    for name, estimator in (("plain", plain), ("thin", thin)):
        estimator.train(training_input, steps=1)
        squares = estimator.get_variable_value("training/Adagrad/dnn/logits/kernel/accumulator")
        touched[name] = (squares > 0.1).mean()
    assert touched["plain"] > touched["thin"]
    first, second = (list(thin.predict(CASE.input_fn)) for _ in range(2))
    assert [r["logits"] for r in first] == [r["logits"] for r in second]


def test_batch_norm_averages_move_by_a_thousandth() -> None:
    config = est.RunConfig(tf_random_seed=1)
    estimator = est.DNNClassifier([3], [C.x], batch_norm=True, activation_fn=None, config=config)
    estimator.train(training_input, steps=1)
    mean = estimator.get_variable_value("dnn/hiddenlayer_0/batchnorm_0/moving_mean")
    variance = estimator.get_variable_value("dnn/hiddenlayer_0/batchnorm_0/moving_variance")
    # The kernel has taken a step of at most the learning rate, 0.001, since.
    hidden = cases.table()[0]["x"][:20] @ estimator.get_variable_value("dnn/hiddenlayer_0/kernel")
    np.testing.assert_allclose(mean, 0.001 * hidden.mean(0), atol=1e-5)
    np.testing.assert_allclose(variance, 0.999 + 0.001 * hidden.var(0), atol=1e-5)


@pytest.mark.parametrize("activation", ["tanh", tf.nn.tanh])
def test_activation_by_name_or_function(activation: Any, tmp_path: Path) -> None:
    estimator = est.DNNRegressor([3], [C.x], activation_fn=activation, model_dir=tmp_path)
    case = cases.Case(lambda use, c, more: None, "number")
    estimator.train(case.input_fn)
    value = estimator.get_variable_value
    hidden = np.tanh(
        cases.table()[0]["x"] @ value("dnn/hiddenlayer_0/kernel") + value("dnn/hiddenlayer_0/bias")
    )
    expected = hidden @ value("dnn/logits/kernel") + value("dnn/logits/bias")
    got = [row["predictions"] for row in estimator.predict(case.input_fn)]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


def test_summaries_have_the_tags_of_the_original(tmp_path: Path) -> None:
    MODELS["wide_deep"](model_dir=tmp_path).train(training_input, steps=1)
    tags = {
        value.tag
        for file in tmp_path.glob("events.*")
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
    }
    assert tags >= {
        "bias",
        "dnn/hiddenlayer_0/activation",
        "dnn/hiddenlayer_0/fraction_of_zero_values",
        "dnn/logits/activation",
        "dnn/logits/fraction_of_zero_values",
        "fraction_of_zero_weights",
        "linear/activation",
        "linear/fraction_of_zero_values",
        "loss",
    }


def test_warm_start_takes_the_weights_and_not_the_slots() -> None:
    first = MODELS["dnn"](config=est.RunConfig(tf_random_seed=1)).train(training_input, steps=20)
    second = MODELS["dnn"](warm_start_from=first.model_dir)
    assert second.evaluate(CASE.input_fn)["global_step"] == 0
    second.train(training_input, steps=1)
    name = "dnn/logits/kernel"
    difference = second.get_variable_value(name) - first.get_variable_value(name)
    assert 0 < np.abs(difference).max() < 0.0011  # one step of the rate 0.001
    slot = f"training/Adagrad/{name}/accumulator"
    assert second.get_variable_value(slot).max() < first.get_variable_value(slot).max()


def test_any_head_will_do() -> None:
    heads = [est.RegressionHead(name="a"), est.BinaryClassHead(name="b")]
    features, labels = cases.table()

    def input_fn() -> tf.data.Dataset:
        both = {"a": labels["number"], "b": labels["binary"]}
        return tf.data.Dataset.from_tensor_slices(({"x": features["x"]}, both)).repeat().batch(20)

    config = est.RunConfig(tf_random_seed=1)
    for estimator in (
        est.DNNEstimator(est.MultiHead(heads), [4], [C.x], config=config),
        est.LinearEstimator(est.MultiHead(heads), [C.x]),
        est.DNNLinearCombinedEstimator(
            est.MultiHead(heads),
            linear_feature_columns=[C.x],
            dnn_feature_columns=[C.x],
            dnn_hidden_units=[4],
            config=config,
        ),
        est.BaselineEstimator(est.MultiHead(heads)),
    ):
        before = estimator.evaluate(input_fn, steps=5)["loss"]
        estimator.train(input_fn, steps=100)
        result = estimator.evaluate(input_fn, steps=5)
        assert result["loss"] < before
        assert {"loss/a", "loss/b"} <= result.keys()


def test_a_single_column_and_a_generator_will_do() -> None:
    for columns in (C.x, (column for column in [C.x])):
        estimator = est.LinearClassifier(columns, optimizer=None)
        estimator.train(training_input, steps=1)
        assert estimator.evaluate(CASE.input_fn)["global_step"] == 1  # built once more


def test_embedding_used_by_both_parts_belongs_to_the_deep_one() -> None:
    shared = cases.shared(tf.feature_column.shared_embeddings)
    estimator = est.DNNLinearCombinedClassifier(
        linear_feature_columns=shared, dnn_feature_columns=shared, dnn_hidden_units=[4]
    )
    case = cases.Case(lambda use, c, more: None, features=("ids", "other_ids"))
    estimator.train(lambda: case.input_fn(repeat=True), steps=2)
    names = [n for n in estimator.get_variable_names() if "ids_other_ids_shared_embedding" in n]
    slots = [n for n in names if n.startswith("training/") and n.count("shared_embedding") == 1]
    assert [n for n in slots if n.endswith("/ids_other_ids_shared_embedding/accumulator")] == [
        "training/Adagrad/ids_other_ids_shared_embedding/accumulator"
    ]


# Defaults


def default(model: type, argument: str) -> Any:
    return inspect.signature(model).parameters[argument].default


@pytest.mark.parametrize(
    "name",
    [
        "BaselineClassifier",
        "BaselineRegressor",
        "DNNClassifier",
        "DNNRegressor",
        "DNNLinearCombinedClassifier",
        "DNNLinearCombinedRegressor",
        "LinearClassifier",
        "LinearRegressor",
    ],
)
def test_losses_are_averaged_today_and_were_summed_in_v1(name: str) -> None:
    assert default(getattr(est, name), "loss_reduction") == "sum_over_batch_size"
    v1 = default(getattr(est.compat.v1, name), "loss_reduction")
    assert v1 == tf.compat.v1.losses.Reduction.SUM


def test_v1_sums_the_loss_and_takes_fifty_times_larger_steps() -> None:
    config = est.RunConfig(tf_random_seed=1)
    today = est.DNNClassifier([4], [C.x], config=config)
    v1 = est.compat.v1.DNNClassifier([4], [C.x], config=config)
    assert v1.evaluate(CASE.input_fn)["loss"] == pytest.approx(
        20 * today.evaluate(CASE.input_fn)["loss"], rel=1e-4
    )
    today.train(training_input, steps=1)
    rate = today.get_variable_value("training/Adagrad/learning_rate")
    assert rate == pytest.approx(0.001)
    start = v1.train(training_input, steps=1)
    before = start.get_variable_value("dnn/logits/bias/t_0/Adagrad")
    # accumulator = 0.1 + g², and the first step is 0.05 g / sqrt(accumulator)
    step = 0.05 * np.sqrt((before - 0.1) / before)
    np.testing.assert_allclose(np.abs(v1.get_variable_value("dnn/logits/bias")), step, rtol=1e-3)


def test_v1_module_has_the_rest_of_the_names_too() -> None:
    assert issubclass(est.compat.v1.estimator.Estimator, est.Estimator)
    with pytest.raises(AttributeError, match="has no attribute 'Estimater'"):
        est.compat.v1.estimator.Estimater  # noqa: B018


@pytest.mark.parametrize("v1", [True, False])
@pytest.mark.parametrize("part", ["dnn", "linear"])
def test_operations_of_a_head_are_where_users_look_for_them(part: str, v1: bool) -> None:
    head = est.BinaryClassHead()
    if part == "dnn":
        model_fn = dnn_model_fn(head, [2], [C.x], "SGD", tf.nn.relu, None, False, v1=v1)
    else:
        model_fn = linear_model_fn(head, [C.x], "SGD", "sum", v1=v1)
    with tf.Graph().as_default():
        spec = model_fn({"x": tf.zeros([1, 2])}, None, est.ModeKeys.PREDICT, None)
    scope = f"{part}/head" if v1 else "head"
    assert spec.predictions["probabilities"].name == f"{scope}/predictions/probabilities:0"
    assert spec.predictions["classes"].name == f"{scope}/predictions/str_classes:0"
