"""What the child processes of the tests do, each in its role."""

from __future__ import annotations

import logging
import os
from typing import Any

import tensorflow as tf

import estimand as est
from estimand.cluster import servers, strategy


def take_role(tf_config: str, timeout: float = 60.0) -> None:
    os.environ["TF_CONFIG"] = tf_config
    os.environ["ESTIMAND_CLUSTER_TIMEOUT_SECS"] = str(timeout)
    tf.get_logger().setLevel("INFO")


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    raise AssertionError("servers build no model")


def input_fn() -> tf.data.Dataset:
    raise AssertionError("servers read no input")


def play(tf_config: str, model_dir: str, **settings: Any) -> None:
    """A program as a user writes it."""
    take_role(tf_config, **settings)
    estimator = est.Estimator(model_fn, model_dir)
    est.train_and_evaluate(estimator, est.TrainSpec(input_fn, max_steps=1), est.EvalSpec(input_fn))
    print("the program goes on")


def only_train(tf_config: str, model_dir: str) -> None:
    take_role(tf_config)
    est.Estimator(model_fn, model_dir).train(input_fn, max_steps=1)
    print("the program goes on")


def drive(tf_config: str) -> None:
    """The chief's part, without a model."""
    take_role(tf_config)
    logging.getLogger().handlers.clear()
    config = est.RunConfig()
    made = strategy.make_strategy(config)
    assert isinstance(made, tf.distribute.ParameterServerStrategy)
    assert strategy.make_strategy(config) is made
    assert not logging.getLogger().handlers  # each line of the log would come twice
    coordinator = tf.distribute.coordinator.ClusterCoordinator(made)
    answer = coordinator.schedule(tf.function(lambda: tf.constant(41) + 1)).fetch()
    print(f"a worker says {answer}")
    servers.tell_servers(config._cluster, config._cluster["worker"])


def join_workers(tf_config: str) -> None:
    take_role(tf_config)
    made = est.join_cluster()
    assert made is strategy.make_strategy(est.RunConfig())
    ones = made.run(
        tf.function(
            lambda: tf.distribute.get_replica_context().all_reduce(
                tf.distribute.ReduceOp.SUM, tf.constant(1)
            )
        )
    )
    print(f"{ones.numpy()} of {made.num_replicas_in_sync}")


def join_too_late(tf_config: str) -> None:
    take_role(tf_config)
    tf.constant(1) + 1
    try:
        strategy.make_strategy(est.RunConfig())
    except est.errors.ClusterError as error:
        print(error)
