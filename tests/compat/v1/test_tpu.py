"""TPUEstimator with use_tpu=False: an Estimator that knows batch sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.v1 import layers, tpu

v1 = tf.compat.v1


def config(model_dir: Path, **kwargs: Any) -> tpu.RunConfig:
    return tpu.RunConfig(model_dir=str(model_dir), progress=False, **kwargs)


def input_fn(params: dict[str, Any]) -> tf.data.Dataset:
    x = np.linspace(-1, 1, 32).astype(np.float32)[:, None]
    dataset = tf.data.Dataset.from_tensor_slices(({"x": x}, 2 * x))
    return dataset.batch(params["batch_size"], drop_remainder=True)


class Model:
    """Notes the sizes it was called with."""

    def __init__(self) -> None:
        self.sizes: dict[str, Any] = {}

    def __call__(self, features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
        self.sizes[mode] = (params.get("batch_size"), features["x"].shape[0])
        y = layers.dense(features["x"], 1)
        if mode == est.ModeKeys.PREDICT:
            return tpu.TPUEstimatorSpec(mode, predictions={"y": y})
        loss = v1.losses.mean_squared_error(labels, y)
        optimizer = tpu.CrossShardOptimizer(v1.train.GradientDescentOptimizer(params["rate"]))
        train_op = optimizer.minimize(loss, v1.train.get_global_step())

        def metric_fn(labels: Any, y: Any) -> Any:
            return {"error": v1.metrics.mean_absolute_error(labels, y)}

        return tpu.TPUEstimatorSpec(
            mode,
            loss=loss,
            train_op=train_op,
            eval_metrics=(metric_fn, {"labels": labels, "y": y}),
            scaffold_fn=v1.train.Scaffold,
        )


def test_each_mode_has_its_batch_size(tmp_path: Path) -> None:
    model = Model()
    estimator = tpu.TPUEstimator(
        model_fn=model,
        config=config(tmp_path),
        params={"rate": 0.1},
        use_tpu=False,
        train_batch_size=8,
        eval_batch_size=4,
        predict_batch_size=2,
    )
    estimator.train(input_fn, steps=4)
    result = estimator.evaluate(input_fn)
    rows = list(estimator.predict(input_fn))
    assert model.sizes == {"train": (8, 8), "eval": (4, 4), "infer": (2, 2)}
    assert set(result) == {"error", "loss", "global_step"}
    assert result["global_step"] == 4
    assert len(rows) == 32
    truth = np.linspace(-1, 1, 32) * 2
    errors = [abs(row["y"][0] - value) for row, value in zip(rows, truth, strict=True)]
    assert result["error"] == pytest.approx(np.mean(errors), rel=1e-4)
    assert estimator.params == {"rate": 0.1}


def test_an_export_has_any_batch_size(tmp_path: Path) -> None:
    model = Model()
    estimator = tpu.TPUEstimator(
        model, config=config(tmp_path), params={"rate": 0.1}, use_tpu=False, train_batch_size=8
    )
    estimator.train(input_fn, steps=1)
    receiver = est.export.build_raw_serving_input_receiver_fn(
        {"x": tf.TensorSpec([None, 1], tf.float32)}
    )
    path = estimator.export_saved_model(str(tmp_path / "export"), receiver)
    assert model.sizes["infer"] == (None, None)
    answer = tf.saved_model.load(path.decode()).signatures["serving_default"]
    assert answer(x=tf.ones([5, 1]))["y"].shape == (5, 1)


def test_a_tpu_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match=r"needs a TPU.*pass use_tpu=False"):
        tpu.TPUEstimator(Model(), config=config(tmp_path), train_batch_size=8)
    with pytest.raises(NotImplementedError, match="EmbeddingConfigSpec"):
        tpu.EmbeddingConfigSpec()


def test_a_plain_run_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`config` must be provided with type"):
        tpu.TPUEstimator(Model(), config=est.RunConfig(str(tmp_path)), use_tpu=False)  # type: ignore[arg-type]


def test_reserved_params_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="are reserved keys but existed in params"):
        tpu.TPUEstimator(Model(), config=config(tmp_path), params={"batch_size": 3}, use_tpu=False)


def test_a_model_fn_without_params_is_refused(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        raise AssertionError

    estimator = tpu.TPUEstimator(
        model_fn, config=config(tmp_path), use_tpu=False, train_batch_size=8
    )
    with pytest.raises(ValueError, match="does not include params argument, required by"):
        estimator.train(input_fn, steps=1)


def test_metrics_that_are_no_pair_are_refused() -> None:
    with tf.Graph().as_default():
        spec = tpu.TPUEstimatorSpec("eval", loss=tf.constant(1.0), eval_metrics={"a": 1})
        with pytest.raises(
            ValueError, match=r"eval_metrics should be a tuple \(metric_fn, tensors"
        ):
            spec.as_estimator_spec()


def test_the_configuration_survives_replacing(tmp_path: Path) -> None:
    made = config(tmp_path, tpu_config=tpu.TPUConfig(7), master="grpc://a", save_summary_steps=3)
    changed = made.replace(save_summary_steps=5)
    assert changed.tpu_config.iterations_per_loop == 7
    assert (changed.master, changed.evaluation_master) == ("grpc://a", "grpc://a")
    assert made.replace(tpu_config=tpu.TPUConfig(9)).tpu_config.iterations_per_loop == 9


def test_settings_of_loops_are_checked() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        tpu.TPUConfig(num_shards=0)
    for wrong in (0, "-1h"):
        with pytest.raises(ValueError, match="must be positive"):
            tpu.TPUConfig(iterations_per_loop=wrong)
    with pytest.raises(ValueError, match=r"num_cores_per_replica must be .*; got 7"):
        tpu.TPUConfig(num_cores_per_replica=7)
    assert tpu.TPUConfig(iterations_per_loop="1h").iterations_per_loop == "1h"


def test_masters_and_job_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    service = {"tpu_worker_job_name": "job"}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"session_master": "m", "service": service}))
    found = tpu.RunConfig()
    assert (found.master, found.evaluation_master, found.tpu_config.tpu_job_name) == (
        "m",
        "m",
        "job",
    )
    assert tpu.RunConfig(evaluation_master="e").evaluation_master == "e"


def test_an_evaluator_has_no_master_to_go_to(monkeypatch: pytest.MonkeyPatch) -> None:
    task = {"type": "evaluator", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"chief": ["h:1"]}, "task": task}))
    assert tpu.RunConfig(master="m").evaluation_master == ""
