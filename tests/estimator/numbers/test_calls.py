"""How often a model function is called, what hooks see of a step, what modes share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.estimator.conftest import (
    START,
    X,
    Y,
    eval_input_fn,
    input_fn,
    numpy_gradients,
    run_config,
    v1,
    v1_logits,
)

RATE = 0.3


class Fetches(est.SessionRunHook):
    """Keeps what it fetched at each step."""

    def __init__(self, fetches: Any) -> None:
        self.fetches = fetches
        self.seen: list[Any] = []

    def before_run(self, run_context: Any) -> Any:
        return est.SessionRunArgs(self.fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen.append(run_values.results)


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    logits = v1_logits(features["x"])
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions=logits)
    loss = tf.identity(v1.losses.sparse_softmax_cross_entropy(labels, logits), name="the_loss")
    step = v1.train.get_global_step()
    train_op = v1.train.GradientDescentOptimizer(RATE).minimize(loss, global_step=step)
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_model_function_is_called_once_per_mode(model_dir: str) -> None:
    calls: list[str] = []
    eager: list[bool] = []

    def counting(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        calls.append(mode)
        eager.append(tf.executing_eagerly())
        return model_fn(features, labels, mode)

    estimator = est.Estimator(counting, model_dir, run_config())
    for _ in range(2):
        estimator.train(input_fn, steps=3)
        estimator.evaluate(eval_input_fn)
        estimator.evaluate(eval_input_fn, name="again")
        list(estimator.predict(eval_input_fn))
    assert sorted(calls) == ["eval", "infer", "train"]
    assert eager == [False] * 3


def test_repeated_evaluation_sees_the_newest_weights(model_dir: str) -> None:
    estimator = est.Estimator(model_fn, model_dir, run_config())
    losses = []
    for _ in range(3):
        estimator.train(input_fn, steps=2)
        losses.append(estimator.evaluate(eval_input_fn)["loss"])
    fresh = est.Estimator(model_fn, model_dir, run_config())
    assert fresh.evaluate(eval_input_fn)["loss"] == losses[-1]
    assert losses[0] > losses[1] > losses[2]


def test_evaluation_of_an_older_checkpoint_and_back(model_dir: str) -> None:
    estimator = est.Estimator(model_fn, model_dir, run_config(save_checkpoints_steps=2))
    estimator.train(input_fn, steps=4)
    newest = estimator.evaluate(eval_input_fn)
    older = estimator.evaluate(eval_input_fn, checkpoint_path=f"{model_dir}/model.ckpt-2")
    assert (older["global_step"], newest["global_step"]) == (2, 4)
    assert older["loss"] > newest["loss"]
    assert estimator.evaluate(eval_input_fn) == newest


def test_fetched_global_step_is_the_value_before_the_update(model_dir: str) -> None:
    class Steps(Fetches):
        def begin(self) -> None:
            self.fetches = {
                "variable": v1.train.get_global_step(),
                "name": "global_step:0",
                "loss": "the_loss:0",
            }

    hook = Steps(None)
    est.Estimator(model_fn, model_dir, run_config()).train(input_fn, steps=4, hooks=[hook])
    assert [int(values["variable"]) for values in hook.seen] == [0, 1, 2, 3]
    assert [int(values["name"]) for values in hook.seen] == [0, 1, 2, 3]


def test_fetched_assignment_is_done_and_its_value_returned(model_dir: str) -> None:
    class Counts(est.SessionRunHook):
        def begin(self) -> None:
            counter = v1.get_variable("counter", [], initializer=v1.zeros_initializer())
            self.given = v1.placeholder(tf.float32, [])
            self.reset, self.add = counter.assign(self.given), v1.assign_add(counter, 1.0)
            self.seen: list[float] = []

        def after_create_session(self, session: Any, coord: Any) -> None:
            assert session.run(self.reset, feed_dict={self.given: 10.0}) == 10

        def before_run(self, run_context: Any) -> Any:
            return est.SessionRunArgs(self.add)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.seen.append(float(run_values.results))

    hook = Counts()
    est.Estimator(model_fn, model_dir, run_config()).train(input_fn, steps=3, hooks=[hook])
    assert hook.seen == [11, 12, 13]


def test_fed_default_holds_for_the_steps_of_the_hook_only(model_dir: str) -> None:
    class Feeds(est.SessionRunHook):
        def before_run(self, run_context: Any) -> Any:
            return est.SessionRunArgs(None, feed_dict={"scale:0": 10.0})

    def scaled(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
        loss = weight * v1.placeholder_with_default(1.0, [], name="scale")
        step = v1.train.get_global_step()
        train_op = v1.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=step)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = est.Estimator(scaled, model_dir, run_config())
    estimator.train(input_fn, steps=2, hooks=[Feeds()])
    estimator.train(input_fn, steps=3)
    assert estimator.get_variable_value("weight") == -23


def test_fetched_weights_and_gradients_are_those_of_the_same_step(model_dir: str) -> None:
    def with_gradient(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = model_fn(features, labels, mode)
        kernel = v1.trainable_variables()[0]
        tf.identity(tf.gradients(spec.loss, kernel)[0], name="gradient")
        return spec

    hook = Fetches({"kernel": "hidden/kernel", "gradient": "gradient:0"})
    estimator = est.Estimator(with_gradient, model_dir, run_config())
    estimator.train(input_fn, steps=3, hooks=[hook])
    kernels = [values["kernel"] for values in hook.seen]
    np.testing.assert_array_equal(kernels[0], START["hidden/kernel"])
    expected = numpy_gradients(START, X[:12], Y[:12])["hidden/kernel"]
    np.testing.assert_allclose(hook.seen[0]["gradient"], expected, atol=1e-6)
    for before, after, values in zip(kernels, kernels[1:], hook.seen, strict=False):
        np.testing.assert_allclose(after, before - RATE * values["gradient"], atol=1e-6)


def test_modes_share_variables_by_name(model_dir: str) -> None:
    """Prediction uses `logits` only, evaluation asks for them in another order."""

    def shared(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        if mode == est.ModeKeys.EVAL:
            with v1.variable_scope("", reuse=v1.AUTO_REUSE):
                v1.get_variable("logits/bias", [3])
                spec = model_fn(features, labels, mode)
            return spec
        return model_fn(features, labels, mode)

    estimator = est.Estimator(shared, model_dir, run_config()).train(input_fn, steps=5)
    plain = est.Estimator(model_fn, model_dir, run_config())
    assert estimator.evaluate(eval_input_fn) == plain.evaluate(eval_input_fn)
    np.testing.assert_array_equal(
        list(estimator.predict(eval_input_fn)), list(plain.predict(eval_input_fn))
    )


def test_train_op_that_forgets_the_global_step_is_told(model_dir: str, warnings_logged) -> None:
    def forgetful(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        loss = v1.losses.sparse_softmax_cross_entropy(labels, v1_logits(features["x"]))
        train_op = v1.train.GradientDescentOptimizer(RATE).minimize(loss)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def few() -> tf.data.Dataset:
        return input_fn().take(3)

    est.Estimator(forgetful, model_dir, run_config()).train(few)
    assert len(warnings_logged("did not advance the global step")) == 1


@pytest.mark.parametrize("mode", ["train", "eval", "infer"])
def test_collections_of_the_graph_are_there_to_be_read(model_dir: str, mode: str) -> None:
    seen: dict[str, Any] = {}

    def looking(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        with v1.variable_scope("reg", regularizer=lambda w: 0.01 * tf.reduce_sum(w**2)):
            v1.get_variable("w", [2])
        v1.get_local_variable("counter", shape=[], initializer=v1.zeros_initializer())
        v1.metrics.mean(features["x"])
        v1.summary.scalar("s", tf.reduce_sum(features["x"]))
        tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), 0)
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, tf.no_op())
        spec = model_fn(features, labels, mode)
        keys = v1.GraphKeys
        for key in (
            keys.GLOBAL_VARIABLES, keys.TRAINABLE_VARIABLES, keys.LOCAL_VARIABLES,
            keys.METRIC_VARIABLES, keys.GLOBAL_STEP,
        ):  # fmt: skip
            seen[key] = [v.op.name for v in v1.get_collection(key)]
        for key in (
            keys.UPDATE_OPS, keys.REGULARIZATION_LOSSES, keys.SUMMARIES, keys.LOSSES,
            keys.TABLE_INITIALIZERS,
        ):  # fmt: skip
            seen[key] = len(v1.get_collection(key))
        return spec

    estimator = est.Estimator(looking, model_dir, run_config())
    if mode == "train":
        estimator.train(input_fn, steps=1)
    elif mode == "eval":
        estimator.evaluate(eval_input_fn)
    else:
        next(estimator.predict(eval_input_fn, untrained=True))
    weights = ["reg/w", *START]
    assert seen == {
        "variables": ["global_step", *weights],
        "trainable_variables": weights,
        "local_variables": ["counter", "mean/total", "mean/count"],
        "metric_variables": ["mean/total", "mean/count"],
        "global_step": ["global_step"],
        "update_ops": 1,
        "regularization_losses": 1,
        "summaries": 1,
        "losses": 0 if mode == "infer" else 1,
        "table_initializer": 1,
    }
