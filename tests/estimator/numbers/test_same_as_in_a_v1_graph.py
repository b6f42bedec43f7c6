"""What model functions may do in a v1 graph, they may do here, and it does the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.estimator.conftest import run_config

v1 = tf.compat.v1
X = np.random.RandomState(0).randn(32, 8).astype("float32")
Y = (X @ np.arange(8, dtype="float32")[:, None] / 4).astype("float32")
RATE = 0.05
MODES = ["plain", "single_thread"]


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(({"x": X}, Y)).repeat()


def weights() -> Any:
    return v1.get_variable("w", [8, 1], initializer=v1.zeros_initializer())


def loss_of(prediction: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.square(prediction - labels))


def descent(updates: int) -> np.ndarray:
    w = np.zeros((8, 1))
    for _ in range(updates):
        w -= RATE * 2 * X.T @ (X @ w - Y) / len(X)
    return w


def sgd() -> Any:
    return v1.train.GradientDescentOptimizer(RATE)


def train(
    model_fn: Any, model_dir: Any, steps: int = 6, mode: str = "plain", hooks: Any = ()
) -> Any:
    config = run_config(block_mode=mode, tf_random_seed=1)
    return est.Estimator(model_fn, str(model_dir), config).train(input_fn, steps=steps, hooks=hooks)


# tf.function


def called(features: Any, w: tf.Variable) -> tf.Tensor:
    return tf.function(lambda x: x @ w)(features["x"])


def nested(features: Any, w: tf.Variable) -> tf.Tensor:
    inner = tf.function(lambda x: x @ w)
    return tf.function(lambda x: inner(x) * 1.0)(features["x"])


def with_effects(features: Any, w: tf.Variable) -> tf.Tensor:
    count = v1.get_variable("count", [], initializer=v1.zeros_initializer(), trainable=False)

    @tf.function
    def note(x: tf.Tensor) -> tf.Tensor:
        count.assign_add(1.0)
        return tf.identity(x)

    return note(features["x"]) @ w


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("predict", [called, nested, with_effects])
def test_a_tf_function_over_variables_trains_them(tmp_path: Path, predict: Any, mode: str) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        w = weights()
        y = predict(features, w)
        if mode == est.ModeKeys.PREDICT:
            return est.EstimatorSpec(mode, predictions={"y": y})
        loss = loss_of(y, labels)
        op = sgd().minimize(loss, v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=op)

    estimator = train(model_fn, tmp_path, mode=mode)
    expected = descent(6)
    np.testing.assert_allclose(estimator.get_variable_value("w"), expected, atol=1e-5)
    if predict is with_effects:
        assert estimator.get_variable_value("count") == 6
    rows = tf.data.Dataset.from_tensors({"x": X})
    predicted = [row["y"] for row in estimator.predict(lambda: rows)]
    np.testing.assert_allclose(predicted, X @ expected, atol=1e-4)
    measured = estimator.evaluate(lambda: input_fn().take(1))
    assert measured["loss"] == pytest.approx(np.mean((X @ expected - Y) ** 2), rel=1e-4)


@pytest.mark.parametrize("by_keras", [True, False])
def test_a_keras_model_whose_call_is_a_tf_function_trains(tmp_path: Path, by_keras: bool) -> None:
    import keras

    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")

        @tf.function
        def call(self, x: tf.Tensor) -> tf.Tensor:
            return self.dense(x)

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        loss = loss_of(Net()(features["x"]), labels)
        step = v1.train.get_global_step()
        if by_keras:
            op = est.minimize(keras.optimizers.SGD(RATE), loss)
        else:
            op = sgd().minimize(loss, step)
        return est.EstimatorSpec(mode, loss=loss, train_op=op)

    estimator = train(model_fn, tmp_path)
    np.testing.assert_allclose(
        estimator.get_variable_value("net/dense/kernel"), descent(6), atol=1e-5
    )
    assert not tf.config.functions_run_eagerly()


# Train ops that nobody returned


def layer(features: Any) -> Any:
    import keras

    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", name="net")
    return dense(features["x"])


class Optimizer(v1.train.Optimizer):
    """As found in published code: it writes with `assign`, and no kernel of TensorFlow."""

    def __init__(self) -> None:
        super().__init__(False, "Mine")

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None
    ) -> Any:
        return tf.group(*(v.assign(v - RATE * g) for g, v in grads_and_vars))


@pytest.mark.parametrize("make", [sgd, Optimizer, lambda: v1.train.AdamOptimizer(RATE)])
def test_a_v1_train_op_nobody_returns_does_not_train_a_keras_layer(
    tmp_path: Path, make: Any
) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        loss = loss_of(layer(features), labels)
        make().minimize(loss)
        op = v1.train.get_global_step().assign_add(1)
        return est.EstimatorSpec(mode, loss=loss, train_op=op)

    estimator = train(model_fn, tmp_path)
    assert np.abs(estimator.get_variable_value("net/kernel")).max() == 0


@pytest.mark.parametrize("make", [sgd, Optimizer])
@pytest.mark.parametrize("keras_layer", [True, False])
def test_a_train_op_that_a_hook_runs_is_run_once(
    tmp_path: Path, make: Any, keras_layer: bool
) -> None:
    class RunsIt(est.SessionRunHook):
        def __init__(self, op: Any) -> None:
            self.op = op

        def before_run(self, run_context: Any) -> None:
            run_context.session.run(self.op)

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        y = layer(features) if keras_layer else features["x"] @ weights()
        loss = loss_of(y, labels)
        op = make().minimize(loss)
        counting = v1.train.get_global_step().assign_add(1)
        return est.EstimatorSpec(mode, loss=loss, train_op=counting, training_hooks=[RunsIt(op)])

    estimator = train(model_fn, tmp_path)
    found = estimator.get_variable_value("net/kernel" if keras_layer else "w")
    np.testing.assert_allclose(found, descent(6), atol=1e-5)


# Optimizers in branches, averages of tensors, resources of one's own


@pytest.mark.parametrize("mode", MODES)
def test_minimize_in_a_branch_trains_when_the_branch_is_taken(tmp_path: Path, mode: str) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        loss = loss_of(features["x"] @ weights(), labels)
        step = v1.train.get_global_step()
        op = tf.cond(
            tf.equal(step % 2, 0),
            lambda: sgd().minimize(loss, step),
            lambda: v1.assign_add(step, 1).op,
        )
        return est.EstimatorSpec(mode, loss=loss, train_op=op)

    estimator = train(model_fn, tmp_path, steps=6, mode=mode)
    np.testing.assert_allclose(estimator.get_variable_value("w"), descent(3), atol=1e-5)


def test_a_moving_average_of_the_loss(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        loss = loss_of(features["x"] @ weights(), labels)
        average = v1.train.ExponentialMovingAverage(0.5)
        update = average.apply([loss])
        op = sgd().minimize(loss, v1.train.get_global_step())
        tf.identity(average.average(loss), name="average")
        return est.EstimatorSpec(mode, loss=loss, train_op=tf.group(op, update))

    estimator = train(model_fn, tmp_path, steps=1)
    [name] = [n for n in estimator.get_variable_names() if "ExponentialMovingAverage" in n]
    # Without a correction it starts at zero; with it (TensorFlow's choice for tensors) at the loss.
    first = np.mean(Y**2)
    assert float(estimator.get_variable_value(name)) in (
        pytest.approx(first / 2, rel=1e-5),
        pytest.approx(first, rel=1e-5),
    )


def test_a_queue_of_the_model_lives_as_long_as_its_graph(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        loss = loss_of(features["x"] @ weights(), labels)
        queue = v1.FIFOQueue(4, [tf.float32], [[]])
        with tf.control_dependencies([queue.enqueue([loss])]):
            back = queue.dequeue()
        op = sgd().minimize(loss, v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=tf.group(op, back))

    estimator = train(model_fn, tmp_path)
    np.testing.assert_allclose(estimator.get_variable_value("w"), descent(6), atol=1e-5)


def test_a_summary_writer_of_the_model_writes_once_per_step(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        loss = loss_of(features["x"] @ weights(), labels)
        writer = tf.summary.create_file_writer(str(tmp_path / "mine"), max_queue=1)
        with writer.as_default(step=v1.train.get_global_step()):
            written = tf.summary.scalar("mine", loss)
        op = sgd().minimize(loss, v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=tf.group(op, written, writer.flush()))

    train(model_fn, tmp_path / "model")
    [file] = (tmp_path / "mine").iterdir()
    events = [e for e in v1.train.summary_iterator(str(file)) if e.HasField("summary")]
    assert len(events) == 6


def test_a_saved_model_loaded_inside_is_trained_saved_and_shared(tmp_path: Path) -> None:
    module = tf.Module()
    module.w = tf.Variable(np.zeros((8, 1), "float32"), name="inner")
    module.f = tf.function(lambda x: x @ module.w, [tf.TensorSpec([None, 8])])
    tf.saved_model.save(module, str(tmp_path / "saved"))

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        loaded = tf.saved_model.load(str(tmp_path / "saved"))
        y = loaded.f(features["x"])
        if mode == est.ModeKeys.PREDICT:
            return est.EstimatorSpec(mode, predictions={"y": y})
        loss = loss_of(y, labels)
        op = sgd().minimize(loss, v1.train.get_global_step(), var_list=[loaded.w])
        return est.EstimatorSpec(mode, loss=loss, train_op=op)

    def predicted(estimator: Any) -> np.ndarray:
        rows = tf.data.Dataset.from_tensors({"x": X})
        return np.array([row["y"] for row in estimator.predict(lambda: rows)])

    config = run_config(tf_random_seed=1)
    estimator = est.Estimator(model_fn, str(tmp_path / "model"), config)
    estimator.train(input_fn, steps=3)
    np.testing.assert_allclose(predicted(estimator), X @ descent(3), atol=1e-4)
    again = est.Estimator(model_fn, str(tmp_path / "model"), config)
    again.train(input_fn, steps=3)
    np.testing.assert_allclose(predicted(again), X @ descent(6), atol=1e-4)
