"""`est.add_metrics`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.estimator.lifecycle import line


def trained(tmp_path: Path, model_fn: Any = line.model_fn) -> est.Estimator:
    return line.estimator(tmp_path, model_fn).train(line.train_input_fn, max_steps=5)


def test_adds_a_pair_to_what_was_trained_before(tmp_path: Path) -> None:
    def metric_fn(labels: Any, predictions: Any) -> dict[str, Any]:
        return {"error": tf.compat.v1.metrics.mean(tf.abs(predictions["y"] - labels))}

    metrics = est.add_metrics(trained(tmp_path), metric_fn).evaluate(line.eval_input_fn)
    expected = np.mean(np.abs(line.weight_after(5) * line.X - line.Y))
    np.testing.assert_allclose(metrics["error"], expected, rtol=1e-5)
    np.testing.assert_allclose(metrics["loss"], line.loss_after(5), rtol=1e-5)


def test_takes_keras_metrics_features_and_config(tmp_path: Path) -> None:
    configs: list[Any] = []

    def metric_fn(features: Any, config: Any) -> dict[str, Any]:
        import keras

        configs.append(config)
        mean = keras.metrics.Mean()
        mean.update_state(tf.square(features["x"]))
        return {"power": mean}

    metrics = est.add_metrics(trained(tmp_path), metric_fn).evaluate(line.eval_input_fn)
    np.testing.assert_allclose(metrics["power"], np.mean(line.X**2), rtol=1e-5)
    assert isinstance(configs[0], est.RunConfig)


def with_metrics(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    spec = line.model_fn(features, labels, mode)
    if mode != est.ModeKeys.EVAL:
        return spec
    one, two = (tf.compat.v1.metrics.mean(tf.constant(v)) for v in (1.0, 2.0))
    return spec._replace(eval_metric_ops={"kept": one, "replaced": two})


def test_new_metric_takes_the_place_of_one_with_its_name(tmp_path: Path) -> None:
    def metric_fn() -> dict[str, Any]:
        return {"replaced": tf.compat.v1.metrics.mean(tf.constant(7.0))}

    original = trained(tmp_path, with_metrics)
    metrics = est.add_metrics(original, metric_fn).evaluate(line.eval_input_fn)
    assert (metrics["kept"], metrics["replaced"]) == (1.0, 7.0)
    assert original.evaluate(line.eval_input_fn)["replaced"] == 2.0


def test_result_can_all_that_the_original_can(tmp_path: Path) -> None:
    class Special(est.Estimator):
        def double(self) -> float:
            return 2 * float(self.get_variable_value("w")[0, 0])

    model = Special(line.model_fn, config=est.RunConfig(model_dir=str(tmp_path)))
    measured = est.add_metrics(model, lambda labels: {"n": tf.compat.v1.metrics.mean(labels)})
    measured.train(line.train_input_fn, max_steps=5)
    assert isinstance(measured, Special)
    np.testing.assert_allclose(measured.double(), 2 * line.weight_after(5), rtol=1e-5)
    rows = list(measured.predict(line.eval_input_fn))
    np.testing.assert_allclose(rows[-1]["y"], line.weight_after(5), rtol=1e-5)
    metrics, _ = est.train_and_evaluate(measured, line.train_spec(8), line.eval_spec())
    assert metrics["n"] == pytest.approx(0, abs=1e-6)
    assert metrics["global_step"] == 8


def test_metrics_are_added_twice(tmp_path: Path) -> None:
    def constant(name: str, value: float) -> Any:
        return lambda: {name: tf.compat.v1.metrics.mean(tf.constant(value))}

    once = est.add_metrics(trained(tmp_path), constant("a", 1.0))
    metrics = est.add_metrics(once, constant("b", 2.0)).evaluate(line.eval_input_fn)
    assert (metrics["a"], metrics["b"]) == (1.0, 2.0)


def test_unknown_argument_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"metric_fn .* has following not expected args: \['lab'\]"
    ):
        est.add_metrics(line.estimator(tmp_path), lambda lab: {})


def test_something_else_than_a_function_or_an_estimator(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"metric_fn must be callable, given: 1"):
        est.add_metrics(line.estimator(tmp_path), 1)  # type: ignore
    with pytest.raises(TypeError, match=r"`estimator` must have type"):
        est.add_metrics(1, lambda: {})  # type: ignore
