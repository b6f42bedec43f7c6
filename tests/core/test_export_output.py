"""Texts, keys and signatures were read off tf.estimator 2.15."""

from __future__ import annotations

import re

import pytest
import tensorflow as tf

from estimand.core.errors import SpecError
from estimand.core.export_output import (
    ClassificationOutput,
    EvalOutput,
    ExportOutput,
    PredictOutput,
    RegressionOutput,
    TrainOutput,
)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def placeholder(dtype, name=None):
    return tf.compat.v1.placeholder(dtype, [None], name)


def names(tensor_infos):
    return {key: info.name for key, info in tensor_infos.items()}


# ------------------------------------------------------------------ predict


def test_bare_tensor_is_named_output():
    tensor = tf.constant([1.0])
    assert PredictOutput(tensor).outputs == {"output": tensor}


def test_tuple_keys_are_joined():
    tensor = tf.constant([1.0])
    assert PredictOutput({("head", "logits"): tensor, "x": tensor}).outputs == {
        "head/logits": tensor,
        "x": tensor,
    }


@pytest.mark.parametrize(
    ("outputs", "sentence"),
    [
        (lambda: {1: tf.constant(1)}, "Prediction output key must be a string; got 1."),
        (lambda: {("a", 1): tf.constant(1)}, "output key must be a string; got ('a', 1)."),
        (lambda: {"a": 1}, "Prediction output value must be a Tensor; got 1."),
        (lambda: 3, "Prediction output value must be a Tensor; got 3."),
    ],
)
def test_predict_outputs_of_another_kind(outputs, sentence):
    with pytest.raises(SpecError, match=re.escape(sentence)):
        PredictOutput(outputs())


def test_predict_signature_keeps_the_receivers_names():
    x = placeholder(tf.float32, "x")
    signature = PredictOutput({"y": tf.identity(x, "y")}).as_signature_def({"given": x})
    assert signature.method_name == "tensorflow/serving/predict"
    assert names(signature.inputs) == {"given": "x:0"}
    assert names(signature.outputs) == {"y": "y:0"}


# ------------------------------------------------------------------ classify and regress


def test_classify_signature():
    examples = placeholder(tf.string, "examples")
    output = ClassificationOutput(
        scores=tf.constant([[0.5]], name="scores"), classes=tf.constant([["a"]], name="classes")
    )
    signature = output.as_signature_def({"anything": examples})
    assert signature.method_name == "tensorflow/serving/classify"
    assert names(signature.inputs) == {"inputs": "examples:0"}
    assert names(signature.outputs) == {"classes": "classes:0", "scores": "scores:0"}


def test_regress_signature():
    examples = placeholder(tf.string, "examples")
    signature = RegressionOutput(tf.constant([0.5], name="value")).as_signature_def({"x": examples})
    assert signature.method_name == "tensorflow/serving/regress"
    assert names(signature.inputs) == {"inputs": "examples:0"}
    assert names(signature.outputs) == {"outputs": "value:0"}


@pytest.mark.parametrize(
    ("output", "label"),
    [
        (lambda: ClassificationOutput(scores=tf.constant([1.0])), "Classification"),
        (lambda: RegressionOutput(tf.constant([1.0])), "Regression"),
    ],
)
@pytest.mark.parametrize("dtypes", [[tf.float32], [tf.string, tf.string], []])
def test_other_receivers_than_one_string(output, label, dtypes):
    receivers = {str(i): placeholder(dtype) for i, dtype in enumerate(dtypes)}
    sentence = f"{label} signatures can only accept a single tensor input of type tf.string"
    with pytest.raises(SpecError, match=sentence):
        output().as_signature_def(receivers)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: ClassificationOutput(scores=tf.constant(["a"])),
            "Classification scores must be a float32 Tensor; got ",
        ),
        (
            lambda: ClassificationOutput(scores=1.0),
            "Classification scores must be a float32 Tensor; got 1.0",
        ),
        (
            lambda: ClassificationOutput(classes=tf.constant([1.0])),
            "Classification classes must be a string Tensor; got ",
        ),
        (
            lambda: ClassificationOutput(),
            "Cannot create a ClassificationOutput with empty arguments. "
            "At least one of `scores` and `classes` must be defined.",
        ),
        (
            lambda: RegressionOutput(tf.constant(1)),
            "Regression output value must be a float32 Tensor; got ",
        ),
        (
            lambda: RegressionOutput(1.0),
            "Regression output value must be a float32 Tensor; got 1.0",
        ),
    ],
)
def test_values_of_another_kind(make, sentence):
    with pytest.raises(SpecError, match=re.escape(sentence)):
        make()


# ------------------------------------------------------------------ training and evaluation


def test_keys_of_an_evaluation():
    one = tf.constant(1.0)
    output = EvalOutput(
        loss=one, predictions={"a": one, ("b", "c"): one, "predictions_d": one}, metrics=(one, one)
    )
    assert list(output.loss) == ["loss"]
    assert list(output.predictions) == ["predictions/a", "predictions/b/c", "predictions_d"]
    assert list(output.metrics) == ["metrics/value", "metrics/update_op"]


def test_what_is_not_given_is_none():
    output = EvalOutput()
    assert (output.loss, output.predictions, output.metrics) == (None, None, None)


def test_update_that_is_an_operation_is_wrapped_in_a_tensor():
    update = tf.no_op()
    tensor = EvalOutput(metrics={"m": (tf.constant(1.0), update)}).metrics["metrics/m/update_op"]
    assert tensor.shape == [0]
    assert tensor.op.control_inputs == [update]


def test_keras_metrics_are_exported_with_their_updates():
    import keras

    metric = keras.metrics.Mean(name="mean")
    metric.update_state(tf.constant([1.0]))
    metrics = EvalOutput(metrics={"m": metric}).metrics
    assert list(metrics) == ["metrics/m/value", "metrics/m/update_op"]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (lambda: {"loss": 3}, "loss output value must be a Tensor; got 3."),
        (lambda: {"predictions": {1: tf.constant(1)}}, "predictions output key must be a string"),
        (
            lambda: {"metrics": {"a": (3, tf.no_op())}},
            "metrics/a output value must be a Tensor; got 3.",
        ),
        (
            lambda: {"metrics": {"a": (tf.constant(1.0), 3)}},
            "metrics/a update_op must be a Tensor or Operation; got 3.",
        ),
    ],
)
def test_supervised_values_of_another_kind(fields, sentence):
    with pytest.raises(SpecError, match=re.escape(sentence)):
        EvalOutput(**fields())


@pytest.mark.parametrize(
    ("output_type", "method"),
    [(TrainOutput, "tensorflow/supervised/training"), (EvalOutput, "tensorflow/supervised/eval")],
)
def test_supervised_signatures(output_type, method):
    x = placeholder(tf.float32, "x")
    signature = output_type(
        loss=tf.constant(1.0, name="l"),
        predictions=tf.constant(2.0, name="p"),
        metrics={"m": (tf.constant(3.0, name="v"), tf.constant(4.0, name="u"))},
    ).as_signature_def({"x": x})
    assert signature.method_name == method
    assert names(signature.inputs) == {"x": "x:0"}
    assert names(signature.outputs) == {
        "loss": "l:0",
        "predictions": "p:0",
        "metrics/m/value": "v:0",
        "metrics/m/update_op": "u:0",
    }


def test_predict_signature_without_outputs():
    with pytest.raises(SpecError, match="Prediction `outputs` cannot be None or empty"):
        PredictOutput({}).as_signature_def({"x": placeholder(tf.float32)})


def test_supervised_signature_without_inputs():
    with pytest.raises(SpecError, match="`inputs` cannot be None or empty"):
        EvalOutput(loss=tf.constant(1.0)).as_signature_def({})


@pytest.mark.parametrize(
    "receivers",
    [
        lambda: {"x": placeholder(tf.float32, "x")},
        lambda: {"x": tf.compat.v1.sparse_placeholder(tf.float32, name="x")},
        lambda: {"x": tf.compat.v1.placeholder(tf.int64, [2, None], "x")},
        lambda: {"x": tf.compat.v1.placeholder(tf.int64, None, "x")},
    ],
)
def test_signatures_equal_those_that_tensorflow_builds(receivers):
    receivers, outputs = receivers(), {"y": tf.constant([1.0])}
    expected = tf.compat.v1.saved_model.predict_signature_def(receivers, outputs)
    assert PredictOutput(outputs).as_signature_def(receivers) == expected


def test_signatures_are_valid_for_serving():
    examples, value = {"x": placeholder(tf.string)}, tf.constant([1.0])
    outputs = [PredictOutput(value), ClassificationOutput(scores=value), RegressionOutput(value)]
    for output in outputs:
        signature = output.as_signature_def(examples)
        assert tf.compat.v1.saved_model.is_valid_signature(signature)


def test_export_output_is_abstract():
    with pytest.raises(TypeError, match="as_signature_def"):
        ExportOutput()
