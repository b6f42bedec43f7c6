"""Which signatures an export has, what they take and what they answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import SpecError
from tests.export.conftest import (
    FEATURE_SPEC,
    X,
    examples,
    expected,
    linear_model_fn,
    parsing_receiver_fn,
    raw_receiver_fn,
    run_config,
    v1,
)


def exported(estimator: est.Estimator, base: Path, receiver_fn: Any) -> dict[str, Any]:
    with est.load_model(estimator.export_saved_model(base, receiver_fn)) as model:
        return dict(model.signatures)


def with_outputs(linear: est.Estimator, outputs: Any) -> est.Estimator:
    """The trained model with other export outputs: a function of its answer to a dict."""

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = linear_model_fn(features, labels, mode)
        return spec._replace(export_outputs=outputs(spec.predictions["y"]))

    return est.Estimator(model_fn, linear.model_dir, run_config())


# Serialized examples


def test_serialized_examples_reach_all_three_kinds(linear: est.Estimator, base: Path) -> None:
    linear.export_saved_model(base, parsing_receiver_fn)
    with est.load_model(base) as model:
        methods = {n: s.method.rpartition("/")[2] for n, s in model.signatures.items()}
        assert methods == {
            "serving_default": "regress", "classes": "classify", "predict": "predict",
        }  # fmt: skip
        y = expected(linear)
        np.testing.assert_allclose(model(inputs=examples())["outputs"], y, rtol=1e-5)
        scores = model.signatures["classes"](inputs=examples())["scores"]
        np.testing.assert_allclose(scores, np.hstack([y, -y]), rtol=1e-5)
        answer = model.signatures["predict"](examples=examples())
        assert answer.keys() == {"y", "twice"}


def test_a_fixed_batch_size_is_kept(linear: est.Estimator, base: Path) -> None:
    receiver_fn = est.export.build_parsing_serving_input_receiver_fn(FEATURE_SPEC, 2)
    signature = exported(linear, base, receiver_fn)["predict"]
    assert signature.inputs["examples"].shape == (2,)


# Raw features: tf.estimator left such exports without a default


def test_raw_receivers_get_a_default_signature(linear: est.Estimator, base: Path) -> None:
    signatures = exported(linear, base, raw_receiver_fn)
    assert signatures.keys() == {"serving_default", "predict"}
    default = signatures["serving_default"]
    assert default.method == "tensorflow/serving/predict"
    assert default.outputs.keys() == {"y", "twice"}


@pytest.mark.parametrize(
    ("output", "keys"),
    [
        (lambda y: est.export.RegressionOutput(y), {"outputs"}),
        (lambda y: est.export.ClassificationOutput(scores=y), {"scores"}),
        (
            lambda y: est.export.ClassificationOutput(y, tf.strings.as_string(y)),
            {"scores", "classes"},
        ),
    ],
)
def test_a_model_that_only_classifies_or_regresses_answers_raw_features_too(
    linear: est.Estimator, base: Path, output: Any, keys: set[str]
) -> None:
    estimator = with_outputs(linear, lambda y: {"serving_default": output(y)})
    signatures = exported(estimator, base, raw_receiver_fn)
    assert signatures.keys() == {"serving_default"}
    assert signatures["serving_default"].outputs.keys() == keys


def test_a_bare_tensor_is_named_output(linear: est.Estimator, base: Path) -> None:
    estimator = with_outputs(linear, lambda y: {"any": est.export.PredictOutput(y)})
    signatures = exported(estimator, base, raw_receiver_fn)
    assert signatures.keys() == {"any", "serving_default"}
    assert signatures["any"].outputs.keys() == {"output"}


def test_predictions_are_served_where_no_outputs_are_given(
    linear: est.Estimator, base: Path
) -> None:
    estimator = with_outputs(linear, lambda y: None)
    signatures = exported(estimator, base, raw_receiver_fn)
    assert signatures.keys() == {"serving_default"}
    assert signatures["serving_default"].outputs.keys() == {"y"}


# Alternatives


def alternatives_receiver_fn() -> Any:
    serialized = v1.placeholder(tf.string, [None], name="input_example_tensor")
    features = tf.io.parse_example(serialized, FEATURE_SPEC)
    return est.export.ServingInputReceiver(
        features, {"examples": serialized}, {"raw": {"x": features["x"]}}
    )


def test_alternatives_feed_further_inside(linear: est.Estimator, base: Path) -> None:
    linear.export_saved_model(base, alternatives_receiver_fn)
    with est.load_model(base) as model:
        assert model.signatures.keys() == {
            "serving_default", "classes", "predict", "raw:predict",
        }  # fmt: skip
        answer = model.signatures["raw:predict"](x=X)
        np.testing.assert_allclose(answer["y"], expected(linear), rtol=1e-5)


def test_signatures_that_an_alternative_cannot_answer_are_left_out(
    linear: est.Estimator, base: Path
) -> None:
    def receiver_fn() -> Any:
        a = v1.placeholder(tf.float32, [None, 3], name="a")
        b = v1.placeholder(tf.float32, [None, 3], name="b")
        return est.export.ServingInputReceiver({"x": a + b}, {"a": a, "b": b}, {"only_a": {"a": a}})

    signatures = exported(linear, base, receiver_fn)
    assert signatures.keys() == {"serving_default", "predict"}


def test_two_signatures_of_one_name_are_refused(linear: est.Estimator, base: Path) -> None:
    def outputs(y: tf.Tensor) -> dict[str, Any]:
        return {
            "serving_default": est.export.PredictOutput(y),
            "predict": est.export.PredictOutput(y),
            "raw:predict": est.export.PredictOutput(y),
        }

    estimator = with_outputs(linear, outputs)
    with pytest.raises(SpecError, match="Two signatures have the name 'raw:predict'"):
        estimator.export_saved_model(base, alternatives_receiver_fn)
    assert not base.exists() or not list(base.iterdir())


def test_a_model_that_no_receiver_can_feed_is_refused(linear: est.Estimator, base: Path) -> None:
    def receiver_fn() -> Any:
        a = v1.placeholder(tf.float32, [None, 3], name="a")
        b = v1.placeholder(tf.float32, [None, 3], name="b")
        return est.export.ServingInputReceiver({"x": a + b}, {"a": a})

    with pytest.raises(SpecError, match=r"needs placeholder 'b', which is not among them"):
        linear.export_saved_model(base, receiver_fn)


def test_empty_export_outputs_are_refused(linear: est.Estimator, base: Path) -> None:
    estimator = with_outputs(linear, lambda y: {})
    with pytest.raises(SpecError, match="no export_outputs"):
        estimator.export_saved_model(base, raw_receiver_fn)


def test_signatures_of_ones_own(linear: est.Estimator, base: Path) -> None:
    class Doubled(est.export.ExportOutput):
        def __init__(self, value: tf.Tensor) -> None:
            self.value = value

        def as_signature_def(self, receiver_tensors: Any) -> Any:
            outputs = est.export.PredictOutput({"doubled": 2 * self.value})
            return outputs.as_signature_def(receiver_tensors)

    estimator = with_outputs(linear, lambda y: {"serving_default": Doubled(y)})
    estimator.export_saved_model(base, raw_receiver_fn)
    with est.load_model(base) as model:
        np.testing.assert_allclose(model(x=X)["doubled"], 2 * expected(linear), rtol=1e-5)
