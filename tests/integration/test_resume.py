"""A crashed and resumed run ends with the very bits of an uninterrupted one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.integration.programs import (
    CrashAt,
    Crashed,
    assert_every_epoch_is_whole,
    net_model_fn,
    remembering,
    seen_by,
    shuffled_ids,
    unseeded_waves,
    v1,
    weights,
)

STEPS = 60
CONFIG: dict[str, Any] = {"tf_random_seed": 7, "save_checkpoints_steps": 10, "progress": False}
ModelFn = Callable[..., est.EstimatorSpec]


def keras_model_fn(features: tf.Tensor, labels: tf.Tensor, mode: str) -> est.EstimatorSpec:
    import keras

    training = mode == est.ModeKeys.TRAIN
    hidden = keras.layers.Dense(16, activation="relu")(features)
    hidden = keras.layers.BatchNormalization()(hidden, training=training)
    hidden = keras.layers.Dropout(0.4)(hidden, training=training)
    loss = tf.reduce_mean(tf.square(keras.layers.Dense(1)(hidden) - labels))
    optimizer = keras.optimizers.Adam(0.01)
    return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss))


def noise_model_fn(features: tf.Tensor, labels: tf.Tensor, mode: str) -> est.EstimatorSpec:
    """Every kind of v1 random op, on the input and on the gradient."""
    shape = tf.shape(features)
    noisy = features + 0.1 * v1.random_normal(shape) + 0.1 * v1.truncated_normal(shape)
    noisy += 0.1 * tf.cast(v1.random_uniform(shape, 0, 3, tf.int32), tf.float32)
    weight = v1.get_variable("weight", [features.shape[1], 1])
    loss = tf.reduce_mean(tf.square(noisy @ weight - labels))
    optimizer = v1.train.MomentumOptimizer(0.01, 0.9)
    [(gradient, _)] = optimizer.compute_gradients(loss, [weight])
    gradient += 0.01 * v1.random_uniform(gradient.shape)
    train_op = optimizer.apply_gradients([(gradient, weight)], v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def train(model_dir: Path, model_fn: ModelFn, hooks: Any = (), **config: Any) -> None:
    run_config = est.RunConfig(str(model_dir), **{**CONFIG, **config})
    estimator = est.Estimator(model_fn, config=run_config)
    estimator.train(unseeded_waves, max_steps=STEPS, hooks=hooks)


def assert_crash_changes_nothing(tmp_path: Path, model_fn: ModelFn, **config: Any) -> None:
    train(tmp_path / "whole", model_fn, **config)
    for at in (27, 45):
        with pytest.raises(Crashed):
            train(tmp_path / "crashed", model_fn, [CrashAt(at)], **config)
    train(tmp_path / "crashed", model_fn, **config)
    whole, crashed = weights(tmp_path / "whole"), weights(tmp_path / "crashed")
    assert whole.keys() == crashed.keys()
    assert not [name for name in whole if whole[name].tobytes() != crashed[name].tobytes()]


@pytest.mark.parametrize("model_fn", [net_model_fn, keras_model_fn, noise_model_fn])
def test_random_ops_and_statistics_go_on_where_they_were(tmp_path: Path, model_fn: ModelFn) -> None:
    assert_crash_changes_nothing(tmp_path, model_fn)


@pytest.mark.parametrize("block_mode", ["plain", "single_thread", "xla"])
def test_each_way_of_running_blocks(tmp_path: Path, block_mode: str) -> None:
    assert_crash_changes_nothing(tmp_path, net_model_fn, block_mode=block_mode)


def test_eager_run_goes_on_with_the_next_unseen_batch(tmp_path: Path) -> None:
    config = {"save_checkpoints_steps": 5, "run_eagerly": True}
    with pytest.raises(Crashed):
        remembering(tmp_path, **config).train(shuffled_ids, max_steps=40, hooks=[CrashAt(13)])
    assert 5 < len(seen_by(tmp_path)) < 13
    remembering(tmp_path, **config).train(shuffled_ids, max_steps=40)
    assert len(seen_by(tmp_path)) == 40
    assert_every_epoch_is_whole(seen_by(tmp_path))


def test_chosen_way_of_running_blocks_is_kept_for_the_resumed_run(
    tmp_path: Path, monkeypatch
) -> None:
    from estimand.engine import block_mode

    monkeypatch.setattr(block_mode, "guess", lambda trace: "single_thread")
    with pytest.raises(Crashed):
        train(tmp_path, net_model_fn, [CrashAt(27)])
    monkeypatch.setattr(block_mode, "guess", lambda trace: pytest.fail("chosen anew"))
    train(tmp_path, net_model_fn)


def test_seed_drawn_at_the_first_start_is_kept(tmp_path: Path) -> None:
    """Without tf_random_seed the drop-out masks and the shuffling still go on as they would."""
    with pytest.raises(Crashed):
        train(tmp_path / "crashed", net_model_fn, [CrashAt(5)], tf_random_seed=None)
    shutil.copytree(tmp_path / "crashed", tmp_path / "whole")
    train(tmp_path / "whole", net_model_fn, tf_random_seed=None)
    with pytest.raises(Crashed):
        train(tmp_path / "crashed", net_model_fn, [CrashAt(33)], tf_random_seed=None)
    train(tmp_path / "crashed", net_model_fn, tf_random_seed=None)
    whole, crashed = weights(tmp_path / "whole"), weights(tmp_path / "crashed")
    assert all(np.array_equal(whole[name], crashed[name]) for name in whole)


class CrashBeforeTheFirstCheckpoint(est.SessionRunHook):
    def begin(self) -> None:
        raise Crashed


def test_call_that_ended_before_its_first_checkpoint_begins_as_it_did(tmp_path: Path) -> None:
    """Its seeds are drawn; whoever starts it again, and how often, gets the same model."""
    with pytest.raises(Crashed):
        hooks = [CrashBeforeTheFirstCheckpoint()]
        train(tmp_path / "crashed", net_model_fn, hooks, tf_random_seed=None)
    shutil.copytree(tmp_path / "crashed", tmp_path / "other")
    train(tmp_path / "crashed", net_model_fn, tf_random_seed=None)
    train(tmp_path / "other", net_model_fn, tf_random_seed=None)
    crashed, other = weights(tmp_path / "crashed"), weights(tmp_path / "other")
    assert all(np.array_equal(crashed[name], other[name]) for name in crashed)


def test_two_runs_without_a_seed_differ(tmp_path: Path) -> None:
    for name in ("first", "second"):
        train(tmp_path / name, net_model_fn, tf_random_seed=None)
    first, second = weights(tmp_path / "first"), weights(tmp_path / "second")
    assert not np.array_equal(first["layer0/kernel"], second["layer0/kernel"])


@pytest.mark.parametrize("tf_random_seed", [None, 7])
def test_random_numbers_of_the_program_are_its_own(
    tmp_path: Path, tf_random_seed: int | None
) -> None:
    tf.random.set_seed(1)
    tf.random.uniform([])
    expected = float(tf.random.uniform([]))
    tf.random.set_seed(1)
    tf.random.uniform([])
    train(tmp_path, net_model_fn, tf_random_seed=tf_random_seed)
    assert float(tf.random.uniform([])) == expected


def test_seed_given_to_an_initializer_holds_in_every_run(tmp_path: Path) -> None:
    def model_fn(features: tf.Tensor, labels: tf.Tensor, mode: str) -> est.EstimatorSpec:
        v1.get_variable("unused", [3], initializer=v1.random_normal_initializer(seed=1))
        return net_model_fn(features, labels, mode)

    train(tmp_path, model_fn, tf_random_seed=None)
    tf.random.set_seed(None)
    expected = v1.random_normal_initializer(seed=1)([3], tf.float32)
    assert np.array_equal(weights(tmp_path)["unused"], expected)
