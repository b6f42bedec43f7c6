"""What a step does besides its loss: in which order, how often, and what hooks see of it."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.events import read_scalars

v1 = tf.compat.v1
X = np.random.RandomState(0).randn(64, 4).astype("float32")
Y = X @ np.array([[1.0], [-1.0], [0.5], [2.0]], "float32")


def input_fn():
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).batch(8).repeat()


def once():
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).batch(8)


def linear_model_fn(rate: float = 0.1):
    def model_fn(features, labels, mode):
        zeros = v1.zeros_initializer()
        weights = v1.get_variable("w", [4, 1], initializer=zeros)
        loss = tf.reduce_mean(tf.square(features["x"] @ weights - labels))
        optimizer = v1.train.GradientDescentOptimizer(rate)
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def numpy_sgd(steps: int, rate: float, scale: float = 1.0) -> np.ndarray:
    w = np.zeros([4, 1])
    for step in range(steps):
        x, y = X[step * 8 : step * 8 + 8], Y[step * 8 : step * 8 + 8]
        w -= scale * rate * 2 * x.T @ (x @ w - y) / 8
    return w


@pytest.mark.parametrize("eager", [False, True])
def test_keras_assignments_inside_a_cond_happen_in_program_order(tmp_path, eager: bool) -> None:
    import keras

    class Counting(keras.layers.Layer):
        def build(self, shape):
            options = {"shape": (), "initializer": "zeros", "trainable": False}
            self.a = self.add_weight(name="a", **options)
            self.b = self.add_weight(name="b", **options)

        def call(self, x):
            def count():
                self.a.assign_add(1.0)
                self.b.assign(self.a * 10.0)
                self.a.assign_add(1.0)

            keras.ops.cond(keras.ops.sum(x) > -1e9, count, lambda: None)
            return x

    def model_fn(features, labels, mode):
        y = keras.layers.Dense(1)(Counting(name="counting")(features["x"]))
        loss = tf.reduce_mean(tf.square(y - labels))
        return est.EstimatorSpec(
            mode, loss=loss, train_op=est.minimize(keras.optimizers.SGD(0.01), loss)
        )

    config = est.RunConfig(model_dir=str(tmp_path), run_eagerly=eager)
    estimator = est.Estimator(model_fn, config=config).train(input_fn, steps=5)
    assert estimator.get_variable_value("counting/a") == 10
    assert estimator.get_variable_value("counting/b") == 90


@pytest.mark.parametrize("eager", [False, True])
def test_loss_scaling_leaves_the_step_as_it_is(tmp_path, eager: bool) -> None:
    import keras

    def model_fn(features, labels, mode):
        layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        loss = tf.reduce_mean(tf.square(layer(features["x"]) - labels))
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01))
        return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss))

    config = est.RunConfig(model_dir=str(tmp_path), run_eagerly=eager)
    estimator = est.Estimator(model_fn, config=config).train(input_fn, steps=3)
    expected = numpy_sgd(3, 0.01)
    np.testing.assert_allclose(estimator.get_variable_value("dense/kernel"), expected, atol=1e-6)


def test_optimizer_overwrites_weights_with_their_average(tmp_path) -> None:
    import keras

    def model_fn(features, labels, mode):
        layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        loss = tf.reduce_mean(tf.square(layer(features["x"]) - labels))
        optimizer = keras.optimizers.SGD(
            0.01, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2
        )
        return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss))

    weights = {}
    for eager in (False, True):
        config = est.RunConfig(model_dir=str(tmp_path / str(eager)), run_eagerly=eager)
        estimator = est.Estimator(model_fn, config=config).train(input_fn, steps=2)
        weights[eager] = estimator.get_variable_value("dense/kernel")
    np.testing.assert_allclose(weights[False], weights[True], atol=1e-7)
    assert np.abs(weights[False] - numpy_sgd(2, 0.01)).max() > 1e-3


def test_waiting_for_an_input_tensor(tmp_path) -> None:
    def model_fn(features, labels, mode):
        spec = linear_model_fn()(features, labels, mode)
        with tf.control_dependencies([labels]):
            train_op = tf.group(spec.train_op)
        mean = {"mean": v1.metrics.mean(labels)}
        return est.EstimatorSpec(mode, loss=spec.loss, train_op=train_op, eval_metric_ops=mean)

    estimator = est.Estimator(model_fn, str(tmp_path)).train(input_fn, steps=2)
    np.testing.assert_allclose(estimator.evaluate(once)["mean"], Y.mean(), rtol=1e-5)


def test_reads_built_after_the_train_op_still_show_the_values_before_it(tmp_path) -> None:
    def model_fn(features, labels, mode):
        spec = linear_model_fn()(features, labels, mode)
        for variable in v1.trainable_variables():
            v1.summary.scalar("mean_of_" + variable.op.name, tf.reduce_mean(variable))
        v1.summary.scalar("step", v1.train.get_global_step())
        return spec

    config = est.RunConfig(model_dir=str(tmp_path), save_summary_steps=1)
    est.Estimator(model_fn, config=config).train(input_fn, steps=3)
    written = read_scalars(tmp_path)
    assert written["step"] == [(1, 0.0), (2, 1.0), (3, 2.0)]
    expected = [numpy_sgd(steps, 0.1).mean() for steps in range(3)]
    np.testing.assert_allclose([v for _, v in written["mean_of_w"]], expected, rtol=1e-5)


def test_keras_variable_of_another_shape_in_another_mode_is_refused(tmp_path) -> None:
    def model_fn(features, labels, mode):
        import keras

        if mode == est.ModeKeys.TRAIN:
            keras.layers.Dense(7)(features["x"])  # takes the name that the next one has in EVAL
        loss = tf.reduce_mean(tf.square(keras.layers.Dense(1)(features["x"]) - labels))
        return est.EstimatorSpec(
            mode, loss=loss, train_op=est.minimize(keras.optimizers.SGD(0.1), loss)
        )

    estimator = est.Estimator(model_fn, str(tmp_path)).train(input_fn, steps=1)
    with pytest.raises(ValueError, match=r"'dense/kernel' has shape \(4, 7\).*\(4, 1\)"):
        estimator.evaluate(once)


def test_what_is_on_disk_counts_not_what_was_in_memory(tmp_path) -> None:
    first = est.Estimator(linear_model_fn(0.1), str(tmp_path)).train(input_fn, steps=3)
    before = first.evaluate(once)["loss"]
    shutil.rmtree(tmp_path)
    assert first.evaluate(once)["global_step"] == 0
    shutil.rmtree(tmp_path)
    second = est.Estimator(linear_model_fn(0.001), str(tmp_path)).train(input_fn, steps=3)
    assert first.evaluate(once)["loss"] == second.evaluate(once)["loss"] != before


def test_optimizer_applied_inside_a_cond_keeps_the_names_of_a_v1_graph(tmp_path) -> None:
    def model_fn(features, labels, mode):
        weights = v1.get_variable("w", [4, 1], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(tf.square(features["x"] @ weights - labels))
        step = v1.train.get_global_step()
        optimizer = v1.train.AdamOptimizer(0.1)
        pairs = optimizer.compute_gradients(loss)
        apply = tf.cond(
            tf.equal(step % 2, 0), lambda: tf.group(optimizer.apply_gradients(pairs)), tf.no_op
        )
        with tf.control_dependencies([apply]):
            return est.EstimatorSpec(mode, loss=loss, train_op=v1.assign_add(step, 1))

    estimator = est.Estimator(model_fn, str(tmp_path)).train(input_fn, steps=3)
    names = ["beta1_power", "beta2_power", "global_step", "w", "w/Adam", "w/Adam_1"]
    assert estimator.get_variable_names() == names


class Adding(v1.train.SessionRunHook):
    """Builds ops of its own, as hooks may."""

    def begin(self):
        self.counter = v1.get_variable("seen", [], initializer=v1.zeros_initializer())
        self.count = v1.assign_add(self.counter, 1.0)
        self.values = []

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self.count)

    def after_run(self, run_context, run_values):
        self.values.append((run_values.results, self.counter.eval(run_context.session)))


def test_hook_that_builds_variables_can_be_used_again_and_goes_on(tmp_path) -> None:
    estimator = est.Estimator(linear_model_fn(), str(tmp_path))
    for start in (0, 3):
        hook = Adding()
        estimator.train(input_fn, hooks=[hook], steps=3)
        assert hook.values == [(start + n, start + n) for n in (1, 2, 3)]
    hook = Adding()
    est.Estimator(linear_model_fn(), str(tmp_path)).train(input_fn, hooks=[hook], steps=1)
    assert hook.values == [(7, 7)]  # another process would find the same


@pytest.mark.parametrize("error", [StopIteration(), tf.errors.OutOfRangeError(None, None, "end")])
def test_hook_ends_the_run_as_the_end_of_input_does(tmp_path, error: Exception) -> None:
    class Ending(est.SessionRunHook):
        calls = 0

        def after_run(self, run_context, run_values):
            self.calls += 1
            if self.calls == 3:
                raise error

    estimator = est.Estimator(linear_model_fn(), str(tmp_path))
    estimator.train(input_fn, hooks=[Ending()], steps=100)
    assert estimator.get_variable_value("global_step") == 3


def test_saver_of_the_scaffold_says_how_many_checkpoints_are_kept(tmp_path) -> None:
    def model_fn(features, labels, mode):
        spec = linear_model_fn()(features, labels, mode)
        return spec._replace(scaffold=v1.train.Scaffold(saver=v1.train.Saver(max_to_keep=2)))

    config = est.RunConfig(model_dir=str(tmp_path), save_checkpoints_steps=1)
    est.Estimator(model_fn, config=config).train(input_fn, steps=5)
    kept = {name for name in os.listdir(tmp_path) if name.endswith(".index")}
    assert kept == {"model.ckpt-4.index", "model.ckpt-5.index"}
