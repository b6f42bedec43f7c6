"""What programs of tf.estimator count on in a run, and in modules below it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.install import supplied_modules
from estimand.compat.private import canned_layers
from estimand.compat.private.fake_summary_writer import FakeSummaryWriter

v1 = tf.compat.v1


def counting_model(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    del labels
    step = v1.assign_add(v1.train.get_global_step(), 1)
    return est.EstimatorSpec(mode, loss=tf.reduce_sum(features["x"]), train_op=step)


@pytest.fixture
def estimator(tmp_path: Path) -> est.Estimator:
    return est.Estimator(counting_model, model_dir=tmp_path)


def test_an_input_fn_of_tensors_that_cannot_change_is_called_once(estimator):
    calls = []

    def input_fn() -> Any:
        calls.append(1)
        return {"x": tf.constant([1.0]) * 2.0}, tf.constant([0.0])

    estimator.train(input_fn, steps=3)
    assert len(calls) == 1
    assert estimator.evaluate(input_fn, steps=1)["loss"] == 2.0


def test_half_a_step_is_a_step(estimator):
    def input_fn() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors({"x": [1.0]}).repeat()

    estimator.train(input_fn, steps=5 / 2)
    assert estimator.get_variable_value("global_step") == 3


def test_a_hook_makes_its_variable_in_every_run(estimator):
    class Makes(est.SessionRunHook):
        def begin(self) -> None:
            v1.get_variable("made_by_a_hook", [1])

    def input_fn() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors({"x": [1.0]}).repeat()

    estimator.train(input_fn, steps=1, hooks=[Makes()])
    estimator.train(input_fn, steps=1, hooks=[Makes()])
    assert estimator.get_variable_value("global_step") == 2


def test_a_fake_writer_keeps_what_a_hook_of_sessions_writes(tmp_path):
    FakeSummaryWriter.install()
    try:
        writer = v1.summary.FileWriterCache.get(str(tmp_path))
        assert isinstance(writer, FakeSummaryWriter)
        with tf.Graph().as_default(), v1.Session() as session:
            step = v1.train.get_or_create_global_step()
            summary = v1.summary.scalar("s", 2.0)
            hook = v1.train.SummarySaverHook(1, summary_writer=writer, summary_op=summary)
            session.run(v1.global_variables_initializer())
            with v1.train.SingularMonitoredSession(hooks=[hook]) as monitored:
                monitored.run(step)
        with pytest.raises(ValueError, match="already installed"):
            FakeSummaryWriter.install()
    finally:
        FakeSummaryWriter.uninstall()
        v1.summary.FileWriterCache.clear()
    assert [value.simple_value for value in writer.summaries[0][-1].value] == [2.0]


def test_hooks_below_tf_estimator_are_those_of_tensorflow():
    modules = supplied_modules()
    hooks = modules["tensorflow_estimator.python.estimator.hooks.basic_session_run_hooks"]

    assert hooks.StopAtStepHook is v1.train.StopAtStepHook


def test_points_out_of_a_dict_by_columns():
    columns = [tf.feature_column.numeric_column(key) for key in "xy"]
    features = {"x": [[1.0], [3.0]], "other": "text", "y": [[2.0], [4.0]]}
    points = canned_layers._parse_features_if_necessary(features, columns)
    np.testing.assert_array_equal(points, [[1.0, 2.0], [3.0, 4.0]])


def test_layers_of_cells_by_name():
    import keras

    layer = canned_layers._make_rnn_layer(units=[1, 2], cell_type="gru")
    assert [type(cell) for cell in layer.cell.cells] == [keras.layers.GRUCell] * 2
    with pytest.raises(ValueError, match="should be a class producing a RNN cell, or a string"):
        canned_layers._make_rnn_layer(units=[1], cell_type="unknown")


def test_a_chief_stops_at_a_step_by_a_hook_of_tensorflow(estimator):
    from estimand.compat.private.early_stopping import make_stop_at_checkpoint_step_hook

    hook = make_stop_at_checkpoint_step_hook(estimator, 2)
    assert isinstance(hook, v1.train.StopAtStepHook)
    estimator.train(lambda: tf.data.Dataset.from_tensors({"x": [1.0]}).repeat(9), hooks=[hook])
    assert estimator.get_variable_value("global_step") == 2


def test_a_canned_optimizer_tells_its_learning_rate():
    from estimand.canned.optimizers import Adagrad

    optimizer = Adagrad(learning_rate=0.25)
    assert optimizer.learning_rate == 0.25
    with pytest.raises(AttributeError, match="'Adagrad' object has no attribute 'momentum'"):
        optimizer.momentum  # noqa: B018
