"""What a user reads when a running step fails: the sentence, not the graph it came from."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimand as est


def model_fn(features, labels, mode):
    w = tf.compat.v1.get_variable("w", [1, 1])
    y = features["x"] @ w
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions={"y": y})
    with tf.control_dependencies([tf.debugging.assert_less(labels, 5.0, message="Too large")]):
        loss = tf.reduce_mean(tf.square(y - labels))
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.01)
    return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss))


def breaking_generator():
    def batches():
        for index in range(9):
            if index == 7:
                raise KeyError("row without a price")
            yield {"x": np.ones((4, 1), "float32")}, np.ones((4, 1), "float32")

    return batches()


def nan_in_a_map():
    values = np.ones((40, 1), "float32")
    values[30] = np.nan

    def checked(x):
        return {"x": tf.debugging.check_numerics(x, "broken row")}, x

    return tf.data.Dataset.from_tensor_slices(values).map(checked).batch(4)


def label_out_of_range():
    labels = np.ones((40, 1), "float32")
    labels[30] = 7
    return tf.data.Dataset.from_tensor_slices(({"x": np.ones((40, 1), "float32")}, labels)).batch(4)


def run(verb, input_fn, model_dir):
    return asked(est.Estimator(model_fn, model_dir), verb, input_fn)


def asked(estimator, verb, input_fn):
    if verb == "predict":
        return list(estimator.predict(input_fn, untrained=True))
    return getattr(estimator, verb)(input_fn)


@pytest.mark.parametrize("verb", ["train", "evaluate", "predict"])
def test_an_error_of_a_generator_is_told_with_its_batch_and_cause(verb, tmp_path):
    with pytest.raises(est.errors.InputError) as caught:
        run(verb, breaking_generator, tmp_path)
    assert str(caught.value) == (
        "input_fn breaking_generator raised KeyError after 7 batches: 'row without a price'"
    )
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("verb", ["train", "evaluate", "predict"])
def test_an_error_of_a_pipeline_is_one_sentence_of_the_same_class(verb, tmp_path):
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        run(verb, nan_in_a_map, tmp_path)
    assert str(caught.value) == "broken row : Tensor had NaN values"


@pytest.mark.parametrize("verb", ["train", "evaluate"])
def test_a_failed_assertion_of_the_model_is_told_without_graph_names(verb, tmp_path):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"assertion failed: \[Too large\]"
    ) as e:
        run(verb, label_out_of_range, tmp_path)
    assert "{{" not in str(e.value)
    assert "[Op:" not in str(e.value)


def test_an_eager_error_stays_as_it_is_at_the_users_line(tmp_path):
    config = est.RunConfig(run_eagerly=True)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        est.Estimator(model_fn, tmp_path, config).train(label_out_of_range)
    frames = []
    trace = caught.value.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert "model_fn" in frames


@pytest.mark.parametrize("block_mode", ["plain", "single_thread"])
@pytest.mark.parametrize("verb", ["train", "evaluate", "predict"])
def test_an_error_inside_a_block_tells_no_names_of_nodes(verb, block_mode, tmp_path):
    def looks_up(features, labels, mode):
        w = tf.compat.v1.get_variable("w", [3])
        y = tf.gather(w, features["place"])
        if mode == est.ModeKeys.PREDICT:
            return est.EstimatorSpec(mode, predictions={"y": y})
        loss = tf.reduce_mean(tf.square(y - labels))
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.01)
        return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss))

    def late_fault():
        places = np.ones(40, "int32")
        places[30] = 7
        rows = ({"place": places}, np.ones(40, "float32"))
        unknown_length = tf.data.Dataset.from_tensor_slices(rows).filter(lambda *_: True)
        return unknown_length.batch(4)

    config = est.RunConfig(block_mode=block_mode, check_data=False, save_summary_steps=None)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        asked(est.Estimator(looks_up, tmp_path, config), verb, late_fault)
    assert str(caught.value) == "indices[2] = 7 is not in [0, 3)"


def _in_a_branch(check):
    return tf.cond(tf.random.uniform([]) < 2.0, check, lambda: 0.0)


def _in_a_loop(check):
    return tf.while_loop(lambda i, _: i < 2, lambda i, sum_: (i + 1, sum_ + check()), [0, 0.0])[1]


PLACES = {
    "branch": _in_a_branch,
    "loop": _in_a_loop,
    "function": lambda check: tf.function(check)(),
    "branch in a function": lambda check: tf.function(lambda: _in_a_branch(check))(),
    "branch in a loop": lambda check: _in_a_loop(lambda: _in_a_branch(check)),
    # Each of these once took a thread of a pool with as many as there are cores, and waited.
    "branch in a function in a loop": lambda check: _in_a_loop(
        lambda: tf.function(lambda: _in_a_branch(lambda: _in_a_branch(check)))()
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_an_error_of_code_that_a_step_calls_tells_no_names_of_nodes(place, tmp_path):
    def checks(features, labels, mode):
        def check():
            with tf.control_dependencies(
                [tf.debugging.Assert(labels[0] < 5, ["Too large:", labels])]
            ):
                return tf.constant(0.0)

        w = tf.compat.v1.get_variable("w", [])
        loss = tf.reduce_mean(w * features["x"]) + PLACES[place](check)
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.01)
        return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss))

    def late_fault():
        labels = np.ones(40, "int32")
        labels[30] = 7
        rows = ({"x": np.ones(40, "float32")}, labels)
        return tf.data.Dataset.from_tensor_slices(rows).batch(1)

    config = est.RunConfig(block_mode="plain", check_data=False, save_summary_steps=None)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        est.Estimator(checks, tmp_path, config).train(late_fault)
    assert str(caught.value) == "assertion failed: [Too large:] [7]"
