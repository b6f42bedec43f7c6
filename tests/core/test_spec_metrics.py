from __future__ import annotations

import pytest
import tensorflow as tf

from estimand.core import metric_objects
from estimand.core.errors import SpecError, SpecTypeError
from estimand.core.spec import EstimatorSpec


def metrics_of(eval_metric_ops):
    return EstimatorSpec("eval", loss=tf.constant(1.0), eval_metric_ops=eval_metric_ops)[4]


def in_function(function):
    results = []
    tf.function(lambda: results.append(function())).get_concrete_function()
    return results[-1]


def in_v1_graph(function):
    with tf.Graph().as_default():
        return function()


def wrapped(function):
    results = []
    tf.compat.v1.wrap_function(lambda: results.append(function()), [])
    return results[-1]


def make_mean(name="mean"):
    import keras

    return keras.metrics.Mean(name=name)


where_variables_can_be_made = pytest.mark.parametrize("build", [in_v1_graph, wrapped])
everywhere = pytest.mark.parametrize("build", [in_v1_graph, in_function, wrapped])
NOT_UPDATED = r'Please call update_state\(\.\.\.\) on the "mean" metric'


@pytest.mark.parametrize(
    ("metrics", "sentence"),
    [
        ([1], r"eval_metric_ops must be a dict, given: \[1\]"),
        (
            {"a": 3},
            r"Values of eval_metric_ops must be \(metric_value, update_op\) tuples, "
            "given: 3 for key: a",
        ),
        ({"a": [1, 2]}, r"tuples, given: \[1, 2\] for key: a"),
        ({"a": (1, 2, 3)}, r"tuples, given: \(1, 2, 3\) for key: a"),
        ({"a": (1.0, 2.0)}, "Tensors or Operations, given: 1.0 for key: a"),
    ],
)
def test_metrics_of_another_kind(metrics, sentence):
    with tf.Graph().as_default(), pytest.raises(SpecTypeError, match=sentence):
        metrics_of(metrics)


@where_variables_can_be_made
def test_pairs_of_v1_metrics(build):
    def make():
        pair = tf.compat.v1.metrics.mean([1.0, 2.0])
        return metrics_of({"m": pair})["m"] == pair

    assert build(make)


def test_variables_in_a_pair_become_value_and_assignment():
    total = tf.Variable(0.0)

    def make():
        value, update = metrics_of({"m": (total, total.assign_add(1.0))})["m"]
        return isinstance(value, tf.Tensor), update.type

    assert in_function(make) == (True, "AssignAddVariableOp")


def test_keras_metric_made_and_updated_in_the_model_function():
    def make():
        metric = make_mean()
        metric.update_state(tf.constant([1.0]))
        return metrics_of({"m": metric})["m"] is metric

    assert wrapped(make)


def test_keras_metric_of_a_graph_for_sessions_becomes_a_pair():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        metric = make_mean()
        metric.update_state(tf.constant([1.0, 3.0]))
        value, update = metrics_of({"m": metric})["m"]
        session.run(tf.compat.v1.local_variables_initializer())
        session.run(update)
        assert session.run(value) == 2.0


@pytest.mark.parametrize("build", [in_function, wrapped])
def test_keras_metric_made_outside_and_updated_inside(build):
    metric = make_mean()

    def make():
        metric.update_state(tf.constant([1.0]))
        return metrics_of({"m": metric})["m"] is metric

    assert build(make)


@everywhere
def test_keras_metric_never_updated(build):
    outside = make_mean()

    def make():
        metric = outside if build is in_function else make_mean()
        with pytest.raises(SpecError, match=NOT_UPDATED):
            metrics_of({"m": metric})
        return True

    assert build(make)


def test_reading_a_metric_is_no_update():
    metric = make_mean()

    def make():
        metric.result()
        with pytest.raises(SpecError, match=NOT_UPDATED):
            metrics_of({"m": metric})
        return True

    assert in_function(make)


def test_update_inside_a_nested_function_counts():
    metric = make_mean()

    def make():
        tf.function(lambda: metric.update_state(tf.constant([1.0])))()
        return metrics_of({"m": metric})

    assert in_function(make)


def test_update_inside_a_condition_counts():
    metric = make_mean()

    def make():
        def update():
            metric.update_state(tf.constant([1.0]))
            return tf.constant(0)

        tf.cond(tf.random.uniform([]) > 0.5, update, lambda: tf.constant(0))
        return metrics_of({"m": metric})

    assert in_function(make)


def test_spec_made_inside_a_loop_body_sees_the_update():
    metric = make_mean()

    def make():
        def body(i):
            metric.update_state(tf.constant([1.0]))
            assert metrics_of({"m": metric})
            return i + 1

        return tf.while_loop(lambda i: i < 3, body, [0])

    assert in_function(make)


def test_update_under_a_mirrored_strategy():
    strategy = tf.distribute.MirroredStrategy(["cpu:0"])
    with strategy.scope():
        metric = make_mean()

    def replica():
        metric.update_state(tf.constant([1.0]))
        assert metrics_of({"m": metric})
        return tf.constant(0)

    tf.function(lambda: strategy.run(replica)).get_concrete_function()


def test_metric_that_makes_its_state_at_the_first_update_counts_as_never_updated():
    import keras

    with pytest.raises(SpecError, match=r'Please call update_state\(\.\.\.\) on the "f1_score"'):
        metrics_of({"m": keras.metrics.F1Score(name="f1_score")})


def test_keras_metric_is_taken_on_trust_when_executing_eagerly():
    metric = make_mean()
    assert metrics_of({"m": metric}) == {"m": metric}


def test_a_metric_of_ones_own_needs_three_methods_only():
    class Mine:
        name = "mine"

        def update_state(self, value): ...
        def result(self): ...
        def reset_state(self): ...

    metric = Mine()
    assert metrics_of({"m": metric}) == {"m": metric}


def test_update_operations_leave_out_the_initializer():
    with tf.Graph().as_default():
        metric = make_mean()
        assert metric_objects.update_operations(metric) == []
        metric.update_state(tf.constant([1.0]))
        kinds = [operation.type for operation in metric_objects.update_operations(metric)]
        assert kinds == ["AssignVariableOp", "AssignVariableOp"]
