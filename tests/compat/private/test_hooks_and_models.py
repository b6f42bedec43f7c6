"""Private names of tf.estimator that are used with graphs and sessions of TensorFlow itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.canned.optimizers import LegacyOptimizer
from estimand.compat.private import canned_model_fns, early_stopping

v1 = tf.compat.v1


@pytest.mark.parametrize("answer", [False, True])
def test_a_predicate_stops_a_session_and_leaves_its_mark(answer: bool) -> None:
    hook = early_stopping._StopOnPredicateHook(lambda: answer, run_every_secs=0)
    with tf.Graph().as_default():
        v1.train.create_global_step()
        nothing = tf.no_op()
        with v1.train.SingularMonitoredSession(hooks=[hook]) as session:
            session.run(nothing)
            assert session.should_stop() == answer
            assert session.raw_session().run(hook._stop_var) == answer


def test_a_worker_stops_once_the_mark_is_set() -> None:
    with tf.Graph().as_default():
        nothing = tf.no_op()
        mark = v1.assign(early_stopping._get_or_create_stop_var(), True)
        hooks = [early_stopping._CheckForStoppingHook()]
        with v1.train.SingularMonitoredSession(hooks=hooks) as session:
            session.run(nothing)
            assert not session.should_stop()
            session.run(mark)
            if not session.should_stop():  # the mark may have been read before it was set
                session.run(nothing)
            assert session.should_stop()


class CountsItself(LegacyOptimizer):
    """An optimizer of the Keras 2 kind, which says itself what a step consists of."""

    def get_updates(self, loss: tf.Tensor, params: Any) -> list[Any]:
        del loss, params
        return [self.iterations.assign_add(2)]  # type: ignore[union-attr]


def test_an_optimizer_may_say_its_updates_itself() -> None:
    columns = [tf.feature_column.numeric_column("x")]
    model = est.LinearRegressor(columns, optimizer=CountsItself(name="mine"))
    rows = np.ones([8, 1], np.float32)
    data = tf.data.Dataset.from_tensor_slices(({"x": rows}, rows)).batch(4)
    model.train(lambda: data)
    assert model.get_variable_value("global_step:0") == 4
    assert not model.get_variable_value("linear/linear_model/x/weights").any()


def test_deep_logits_of_tf_estimator_2_live_in_a_scope_of_their_own() -> None:
    columns = [tf.feature_column.numeric_column("x")]
    build = canned_model_fns.dnn_logit_fn_builder_v2(1, [2], columns, tf.nn.relu, None, False)
    with tf.Graph().as_default():
        build({"x": tf.constant([[1.0]])}, "infer")
        names = {variable.op.name for variable in v1.global_variables()}
    assert names == {
        "dnn/hiddenlayer_0/kernel",
        "dnn/hiddenlayer_0/bias",
        "dnn/logits/kernel",
        "dnn/logits/bias",
    }


def test_the_fraction_of_zeros_counts_over_all_tensors() -> None:
    tensors = [tf.constant([0.0, 0.0, 1.0, 1.0, 1.0]), [tf.constant([0, 0, 0, 0, 1])]]
    assert float(canned_model_fns._compute_fraction_of_zero(tensors)) == pytest.approx(0.6)
    assert np.isnan(canned_model_fns._compute_fraction_of_zero([tf.constant([])]))


def test_columns_as_layers_come_back_from_their_configuration() -> None:
    words = est.feature_column.categorical_column_with_vocabulary_list("b", ["x", "y"])
    columns = [tf.feature_column.numeric_column("a"), tf.feature_column.embedding_column(words, 2)]
    layer = est.feature_column.DenseFeatures(columns, name="columns")
    again = type(layer).from_config(layer.get_config())
    features = {"a": [1.0, 2.0], "b": ["x", "y"]}
    expected = layer(features)
    again(features)
    again.set_weights(layer.get_weights())
    np.testing.assert_allclose(again(features), expected)
    assert again.name == "columns"
