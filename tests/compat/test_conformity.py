"""Small things that tf.estimator's own tests look at, and that went wrong here once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.private import export as private_export
from estimand.export import receivers

v1 = tf.compat.v1


def step() -> Any:
    return v1.assign_add(v1.train.get_global_step(), 1)


def one_row() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(({"x": [1.0]}, [1.0]))


def receiver() -> Any:
    return est.export.build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([None])})


def load(path: Any, tags: list[str], look: Any) -> Any:
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.saved_model.loader.load(session, tags, os.fsdecode(path))
        return look(graph, session)


def test_a_model_function_for_one_mode_need_not_say_which() -> None:
    def model_fn(features: Any) -> est.EstimatorSpec:
        return est.EstimatorSpec(None, loss=tf.reduce_sum(features["x"]), train_op=step())

    data = tf.data.Dataset.from_tensors({"x": [1.0]})
    estimator = est.Estimator(model_fn).train(lambda: data)
    assert estimator.get_variable_value("global_step") == 1


@pytest.mark.parametrize(("name", "shown"), [("loss", '"loss"'), ("global_step", "`global_step`")])
def test_taken_names_of_metrics_are_refused(name: str, shown: str) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        metrics = {name: v1.metrics.mean(labels)}
        return est.EstimatorSpec(mode, loss=tf.constant(0.0), eval_metric_ops=metrics)

    with pytest.raises(ValueError, match=f"Metric with name {shown} is not allowed"):
        est.Estimator(model_fn).evaluate(one_row)


def test_weighted_metrics_of_v1_check_shapes_by_a_conditional() -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        mean = v1.metrics.mean(values=labels, weights=features["w"])
        return est.EstimatorSpec(mode, loss=tf.constant(0.0), eval_metric_ops={"mean": mean})

    labels, weights = np.arange(10, dtype=np.float32), np.arange(10, dtype=np.float32) % 3
    data = tf.data.Dataset.from_tensor_slices(({"w": weights}, labels)).batch(4)
    result = est.Estimator(model_fn).evaluate(lambda: data)
    assert result["mean"] == pytest.approx(np.average(labels, weights=weights))


def test_a_tensor_as_prediction_is_exported_in_every_mode(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        v1.get_variable("weight", initializer=1.0)
        doubled = features["x"] * 2
        loss = tf.reduce_sum(doubled)
        return est.EstimatorSpec(mode, predictions=doubled, loss=loss, train_op=step())

    estimator = est.Estimator(model_fn).train(one_row)
    both = est.export.build_raw_supervised_input_receiver_fn(
        {"x": tf.TensorSpec([None])}, {"label": tf.TensorSpec([None])}
    )
    for mode in ("train", "eval"):
        path = estimator.export_saved_model(str(tmp_path), both, experimental_mode=mode)
        tags = private_export.EXPORT_TAG_MAP[mode]
        assert load(path, tags, lambda graph, _: graph.as_graph_element("weight")) is not None


def test_what_the_user_initializes_is_set_last_and_listed_files_travel(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("a\nb\n")

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        local = v1.get_variable(
            "mine", initializer=1, trainable=False, collections=[v1.GraphKeys.LOCAL_VARIABLES]
        )
        name = tf.constant(str(tmp_path / "words.txt"), name="file")
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, name)
        with tf.control_dependencies([v1.local_variables_initializer()]):
            init = tf.group(v1.assign(local, 12345))
        return est.EstimatorSpec(
            mode,
            predictions=features["x"],
            loss=tf.constant(0.0),
            train_op=step(),
            scaffold=v1.train.Scaffold(local_init_op=init),
        )

    estimator = est.Estimator(model_fn).train(one_row)
    path = estimator.export_saved_model(str(tmp_path / "export"), receiver())
    assert Path(os.fsdecode(path), "assets", "words.txt").read_text() == "a\nb\n"
    value = load(path, ["serve"], lambda g, s: s.run(g.get_collection("local_variables")[0]))
    assert value == 12345


def test_a_best_exporter_remembers_what_left_no_files(tmp_path: Path) -> None:
    estimator = mock.Mock(spec=est.Estimator, model_dir=str(tmp_path))
    estimator.export_saved_model.return_value = "somewhere else"
    exporter = est.BestExporter(serving_input_receiver_fn=lambda: None)
    folder = str(tmp_path / "export")
    os.makedirs(folder)
    results = [
        exporter.export(estimator, folder, "checkpoint", {"loss": loss}, False)
        for loss in (0.5, 0.6, 0.4)
    ]
    assert results == ["somewhere else", None, "somewhere else"]


def test_receivers_take_objects_that_wrap_a_tensor() -> None:
    class Labeled:
        tensor = tf.constant([1.0])

    tf.register_tensor_conversion_function(Labeled, lambda value, *a, **k: value.tensor)
    made = receivers.ServingInputReceiver(Labeled(), tf.constant(["x"]))
    assert list(made.features) == ["feature"]
    with pytest.raises(ValueError, match="must be a Tensor, SparseTensor, or RaggedTensor"):
        receivers.ServingInputReceiver(object(), tf.constant(["x"]))


def test_a_metric_object_of_another_graph_is_refused() -> None:
    import keras

    with tf.Graph().as_default():
        metric = keras.metrics.Mean()
        metric.update_state(tf.constant(1.0))
    with tf.Graph().as_default():
        loss = tf.constant(1.0)
        with pytest.raises(ValueError, match="must be from the default graph"):
            est.EstimatorSpec("eval", loss=loss, eval_metric_ops={"mean": metric})


def test_a_head_trains_in_a_graph_of_tensorflows_own() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        weight = v1.get_variable("w", initializer=[[0.0]])
        spec = est.RegressionHead().create_estimator_spec(
            features={},
            mode="train",
            logits=tf.constant([[1.0]]) @ weight,
            labels=tf.constant([[1.0]]),
            optimizer=v1.train.GradientDescentOptimizer(0.5),
            trainable_variables=[weight],
        )
        session.run(v1.global_variables_initializer())
        session.run(spec.train_op)
        # The loss is (w - 1) ** 2, so one step of 0.5 from 0 leads to 1.
        assert session.run(weight) == pytest.approx(1.0)
        assert session.run(v1.train.get_global_step()) == 1
