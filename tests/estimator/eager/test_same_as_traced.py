"""A model function that runs eagerly does what it does when it is traced, checkpoints included."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.v1 import layers
from tests.estimator.conftest import run_config

v1 = tf.compat.v1
X = np.random.RandomState(0).randn(32, 4).astype("float32")
Y = (X @ np.arange(4, dtype="float32")[:, None] / 4).astype("float32")
RATE = 0.05
ModelFn = Callable[..., est.EstimatorSpec]


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(({"x": X}, Y)).repeat()


def weights() -> Any:
    return v1.get_variable("w", [4, 1], initializer=v1.ones_initializer())


def loss_of(prediction: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.square(prediction - labels))


def sgd() -> Any:
    return v1.train.GradientDescentOptimizer(RATE)


def descent(updates: int) -> np.ndarray:
    w = np.ones((4, 1))
    for _ in range(updates):
        w -= RATE * 2 * X.T @ (X @ w - Y) / len(X)
    return w


def estimator(model_fn: ModelFn, model_dir: Path, *, eager: bool) -> est.Estimator:
    config = run_config(tf_random_seed=1, run_eagerly=eager, save_checkpoints_steps=1)
    return est.Estimator(model_fn, str(model_dir), config)


def trained(
    model_fn: ModelFn, model_dir: Path, *steps: int, eager: bool = True, hooks: Any = ()
) -> dict[str, np.ndarray]:
    """What the last checkpoint holds after calls of `train` in estimators of their own."""
    for number in steps:
        one = estimator(model_fn, model_dir, eager=eager)
        one.train(input_fn, steps=number, hooks=hooks)
    return {name: one.get_variable_value(name) for name in one.get_variable_names()}


def assert_same(model_fn: ModelFn, folder: Path, *steps: int) -> dict[str, np.ndarray]:
    traced = trained(model_fn, folder / "traced", *steps, eager=False)
    eager = trained(model_fn, folder / "eager", *steps)
    assert eager.keys() == traced.keys()
    for name, value in traced.items():
        np.testing.assert_allclose(eager[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    return eager


class Fetch(est.SessionRunHook):
    def __init__(self, fetches: Any) -> None:
        self.fetches, self.seen = fetches, []

    def before_run(self, run_context: Any) -> Any:
        return est.SessionRunArgs(self.fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen.append(run_values.results)


# What hooks see


@pytest.mark.parametrize("eager", [False, True])
def test_a_fetched_variable_is_the_one_before_the_step(tmp_path: Path, eager: bool) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        loss = loss_of(features["x"] @ weights(), labels)
        step = v1.train.get_global_step()
        return est.EstimatorSpec(mode, loss=loss, train_op=sgd().minimize(loss, step))

    class Step(Fetch):
        def begin(self) -> None:
            self.fetches = {"step": v1.train.get_global_step(), "w": "w:0"}

        def after_run(self, run_context: Any, run_values: Any) -> None:
            now = run_context.session.run(v1.train.get_global_step())
            self.seen.append((run_values.results, int(now)))

    hook = Step(None)
    trained(model_fn, tmp_path, 3, eager=eager, hooks=[hook])
    assert [(int(seen["step"]), now) for seen, now in hook.seen] == [(0, 1), (1, 2), (2, 3)]
    for done, (seen, _) in enumerate(hook.seen):
        np.testing.assert_allclose(seen["w"], descent(done), atol=1e-5)


def test_what_stands_for_the_value_after_an_assignment_is_seen_so(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        loss = loss_of(features["x"] @ weights(), labels)
        count = v1.get_variable("count", [], initializer=v1.zeros_initializer(), trainable=False)
        counted = count.assign_add(2.0)
        tf.identity(counted, name="counted")
        tf.identity(count, name="plain")
        op = sgd().minimize(loss, v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=tf.group(op, counted))

    seen = {}
    for eager in (False, True):
        hook = Fetch(["counted:0", "count:0"])
        trained(model_fn, tmp_path / str(eager), 3, eager=eager, hooks=[hook])
        seen[eager] = [[float(v) for v in values] for values in hook.seen]
    assert seen[True] == seen[False] == [[2, 0], [4, 2], [6, 4]]


def test_summaries_of_variables_are_those_before_the_step(tmp_path: Path) -> None:
    from estimand.engine.events import read_scalars

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        w = weights()
        loss = loss_of(features["x"] @ w, labels)
        op = sgd().minimize(loss, v1.train.get_global_step())
        v1.summary.scalar("first", tf.reshape(w, [-1])[0])
        return est.EstimatorSpec(mode, loss=loss, train_op=op)

    config = run_config(run_eagerly=True, save_summary_steps=1)
    est.Estimator(model_fn, str(tmp_path), config).train(input_fn, steps=3)
    found = [value for _, value in read_scalars(tmp_path)["first"]]
    assert found == [pytest.approx(descent(n)[0, 0], abs=1e-5) for n in range(3)]


# Names in checkpoints


def nadam(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    import keras

    loss = loss_of(keras.layers.Dense(1)(features["x"]), labels)
    op = est.minimize(keras.optimizers.Nadam(0.01), loss)
    return est.EstimatorSpec(mode, loss=loss, train_op=op)


def test_a_keras_optimizer_s_own_variables_have_the_same_names(tmp_path: Path) -> None:
    assert "variable" in assert_same(nadam, tmp_path, 2, 1)


def test_a_canned_model_s_keras_optimizer_leaves_nothing_of_its_own(tmp_path: Path) -> None:
    import keras

    names = {}
    for eager in (False, True):
        config = run_config(run_eagerly=eager, tf_random_seed=1)
        columns = [est.feature_column.numeric_column("x", shape=[4])]
        one = est.DNNRegressor(
            [3], columns, str(tmp_path / str(eager)), config=config,
            optimizer=lambda: keras.optimizers.Adam(0.01),
        )  # fmt: skip
        names[eager] = one.train(input_fn, steps=2).get_variable_names()
    assert sorted(names[True]) == sorted(names[False])


def slots_in_a_branch(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    loss = loss_of(features["x"] @ weights(), labels)
    step = v1.train.get_global_step()
    optimizer = v1.train.MomentumOptimizer(RATE, 0.9)
    pairs = optimizer.compute_gradients(loss)
    op = tf.cond(
        tf.equal((step + 1) % 3, 0),
        lambda: tf.group(optimizer.apply_gradients(pairs)),
        lambda: tf.no_op(),
    )
    with tf.control_dependencies([op]):
        counted = v1.assign_add(step, 1).op
    return est.EstimatorSpec(mode, loss=loss, train_op=counted)


def test_variables_made_by_a_later_step_are_saved_and_continued(tmp_path: Path) -> None:
    # At the 4th step a new process goes on, in which the branch is not taken before the 6th.
    found = assert_same(slots_in_a_branch, tmp_path, 4, 1, 2)
    assert np.abs(found["w/Momentum"]).max() > 0


# Collections


@pytest.mark.parametrize("scope", [None, "tower"])
def test_the_total_loss_is_the_sum(tmp_path: Path, scope: str | None) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        def l2(w: Any) -> tf.Tensor:
            return 0.1 * tf.reduce_sum(tf.square(w))

        with v1.variable_scope("tower"):
            hidden = layers.dense(features["x"], 2, kernel_regularizer=l2)
            w = v1.get_variable("w", [2, 1], regularizer=l2)
            v1.losses.mean_squared_error(labels, hidden @ w)
        v1.losses.absolute_difference(labels, hidden @ w, weights=0.5)
        loss = v1.losses.get_total_loss(scope=scope)
        op = sgd().minimize(loss, v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=op)

    assert_same(model_fn, tmp_path, 3)


# Train ops


def averaged(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    loss = loss_of(features["x"] @ weights(), labels)
    average = v1.train.ExponentialMovingAverage(0.5)
    with tf.control_dependencies([sgd().minimize(loss, v1.train.get_global_step())]):
        op = average.apply(v1.trainable_variables())
    return est.EstimatorSpec(mode, loss=loss, train_op=op)


def test_a_moving_average_starts_from_the_initial_value(tmp_path: Path) -> None:
    found = assert_same(averaged, tmp_path, 2, 1)
    expected = np.ones((4, 1))
    for n in (1, 2, 3):
        expected = 0.5 * expected + 0.5 * descent(n)
    np.testing.assert_allclose(found["w/ExponentialMovingAverage"], expected, atol=1e-5)


def test_an_average_made_by_hand_starts_from_the_initial_value(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        w = weights()
        loss = loss_of(features["x"] @ w, labels)
        descended = sgd().minimize(loss, v1.train.get_global_step())
        mean = v1.Variable(w.initialized_value(), trainable=False, name="slow_w")
        with tf.control_dependencies([descended]):
            op = v1.assign(mean, 0.5 * mean + 0.5 * w)
        return est.EstimatorSpec(mode, loss=loss, train_op=op)

    assert_same(model_fn, tmp_path, 2)


def assign_op(step: tf.Variable, loss: tf.Tensor) -> Any:
    return tf.group(sgd().minimize(loss), v1.assign_add(step, 1).op)


def assign_value(step: tf.Variable, loss: tf.Tensor) -> Any:
    with tf.control_dependencies([sgd().minimize(loss)]):
        return step.assign_add(1)


def nothing_after(step: tf.Variable, loss: tf.Tensor) -> Any:
    with tf.control_dependencies([sgd().minimize(loss, step)]):
        return tf.no_op()


def by_minimize(step: tf.Variable, loss: tf.Tensor) -> Any:
    return est.minimize(sgd(), loss)


def scattered(step: tf.Variable, loss: tf.Tensor) -> Any:
    [(gradient, w)] = sgd().compute_gradients(loss)
    rows = v1.scatter_sub(w, [0, 1, 2, 3], RATE * gradient)
    return tf.group(rows, step.assign_add(1))


@pytest.mark.parametrize("make", [assign_op, assign_value, nothing_after, by_minimize, scattered])
def test_a_train_op_of_any_kind_runs(tmp_path: Path, make: Any) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        loss = loss_of(features["x"] @ weights(), labels)
        op = make(v1.train.get_global_step(), loss)
        return est.EstimatorSpec(mode, loss=loss, train_op=op)

    found = trained(model_fn, tmp_path, 3)
    assert found["global_step"] == 3
    np.testing.assert_allclose(found["w"], descent(3), atol=1e-5)


class ByAssigning(v1.train.Optimizer):
    def __init__(self) -> None:
        super().__init__(False, "Mine")

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None
    ) -> Any:
        return tf.group(*(v.assign(v - RATE * g) for g, v in grads_and_vars))


def layer(features: Any) -> Any:
    import keras

    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", name="net")
    return dense(features["x"])


@pytest.mark.parametrize("make", [sgd, ByAssigning, lambda: v1.train.AdamOptimizer(RATE)])
@pytest.mark.parametrize("keras_layer", [False, True])
def test_what_nobody_asks_for_is_not_run(tmp_path: Path, make: Any, keras_layer: bool) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        loss = loss_of(layer(features) if keras_layer else features["x"] @ weights(), labels)
        make().minimize(loss)
        v1.train.get_global_step().assign_add(5)
        op = v1.train.get_global_step().assign_add(1)
        return est.EstimatorSpec(mode, loss=loss, train_op=op)

    found = assert_same(model_fn, tmp_path, 2)
    assert (found["net/kernel" if keras_layer else "w"] == 1).all()
    assert found["global_step"] == 2


@pytest.mark.parametrize("wired", [False, True])
def test_averages_of_v1_batch_norm_move_if_they_are_asked_for(
    tmp_path: Path, wired: bool, caplog: Any
) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        x = layers.batch_normalization(features["x"] + 1, training=True)
        loss = loss_of(x @ weights(), labels)
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS) if wired else []
        with tf.control_dependencies(updates):
            op = sgd().minimize(loss, v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=op)

    found = assert_same(model_fn, tmp_path, 2)
    assert (np.abs(found["batch_normalization/moving_mean"]).max() > 0) == wired
    told = [r for r in caplog.records if "UPDATE_OPS" in r.getMessage()]
    assert len(told) == (0 if wired else 2)  # once traced, once eagerly


def with_own_op(hook: Callable[[Any], Any]) -> ModelFn:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        loss = loss_of(features["x"] @ weights(), labels)
        hooks = [hook(sgd().minimize(loss))]
        op = v1.train.get_global_step().assign_add(1)
        return est.EstimatorSpec(mode, loss=loss, train_op=op, training_hooks=hooks)

    return model_fn


def test_an_op_that_a_hook_fetches_is_run_with_the_step(tmp_path: Path) -> None:
    found = assert_same(with_own_op(Fetch), tmp_path, 3)
    np.testing.assert_allclose(found["w"], descent(3), atol=1e-5)


def test_an_op_that_a_hook_runs_between_steps_is_refused(tmp_path: Path) -> None:
    class RunsIt(Fetch):
        def before_run(self, run_context: Any) -> Any:
            run_context.session.run(self.fetches)

    with pytest.raises(est.errors.ModelFnError, match=r"between steps.*before_run"):
        trained(with_own_op(RunsIt), tmp_path, 2)


def test_evaluating_changes_nothing_that_training_writes(tmp_path: Path) -> None:
    one = estimator(averaged, tmp_path, eager=True)
    one.train(input_fn, steps=2)
    names = one.get_variable_names()
    before = {v.name: v.numpy() for v in one._workspace.live.store.variables()}
    one.evaluate(input_fn, steps=2)
    after = {v.name: v.numpy() for v in one._workspace.live.store.variables()}
    assert before.keys() == after.keys() and len(before) == len(names)
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)


# Random numbers


def noisy(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    """Two batches to a step, with noise at the top, in a branch and in a function."""
    x = tf.nn.dropout(features["x"], 0.5) + tf.random.uniform([4], seed=3)
    late = v1.get_variable("late", [4, 1])  # its initial value does not depend on noise
    x = tf.function(lambda x: tf.nn.dropout(x, 0.5))(x)
    x = tf.cond(tf.constant(True), lambda: x + tf.random.normal([1]), lambda: x)
    tf.identity(tf.reduce_sum(x), name="noise")
    loss = loss_of(x @ weights() + x @ late, labels)
    batches = v1.get_variable("batches", [], initializer=v1.zeros_initializer(), trainable=False)
    with tf.control_dependencies([sgd().minimize(loss)]):
        counted = batches.assign_add(1)
    op = v1.train.get_global_step().assign(tf.cast(counted // 2, tf.int64))
    return est.EstimatorSpec(mode, loss=loss, train_op=op)


def test_noise_is_new_in_each_batch_and_the_same_after_a_resume(tmp_path: Path) -> None:
    found, seen = {}, {}
    for stops in ([3], [1, 3]):
        hook = Fetch("noise:0")
        for stop in stops:
            one = estimator(noisy, tmp_path / str(len(stops)), eager=True)
            one.train(input_fn, max_steps=stop, hooks=[hook])
        found[len(stops)] = {n: one.get_variable_value(n) for n in one.get_variable_names()}
        seen[len(stops)] = [float(value) for value in hook.seen]
    assert len(set(seen[1])) == 6
    assert seen[2] == seen[1]
    for name, value in found[1].items():
        np.testing.assert_array_equal(found[2][name], value)


def test_initial_values_are_those_of_a_trace(tmp_path: Path) -> None:
    values = []
    for eager in (False, True):
        estimator(noisy, tmp_path / str(eager), eager=eager).train(input_fn, max_steps=1)
        reader = tf.train.load_checkpoint(str(tmp_path / str(eager) / "model.ckpt-0"))
        values.append(reader.get_tensor("late"))
        assert sorted(reader.get_variable_to_shape_map()) == ["batches", "global_step", "late", "w"]
    np.testing.assert_array_equal(*values)
