"""Which part of the input a process of several reads."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.engine.distributed.replicas import number_of_worker, workers
from estimand.inputs.call import takes_input_context
from estimand.inputs.contract import ModelInput

_log = logging.getLogger("tensorflow")
_Policy = tf.data.experimental.AutoShardPolicy


def input_context(strategy: tf.distribute.Strategy) -> tf.distribute.InputContext:
    """What an input function is told that wants to choose its part itself."""
    return tf.distribute.InputContext(
        num_input_pipelines=workers(strategy),
        input_pipeline_id=number_of_worker(strategy),
        num_replicas_in_sync=strategy.num_replicas_in_sync,
    )


def own_share(
    given: ModelInput, input_fn: Callable[..., Any], strategy: tf.distribute.Strategy
) -> ModelInput:
    """The batches for this process: every so manyth file or, where there are too few, batch.

    As it is, if the input function took an `input_context`, or the Dataset's options say
    `AutoShardPolicy.OFF`.
    """
    if takes_input_context(input_fn):
        return given
    return share_of(given, workers(strategy), number_of_worker(strategy))


def share_of(given: ModelInput, count: int, number: int) -> ModelInput:
    """The batches for one of `count` processes, unless the Dataset's options forbid to share."""
    if count == 1:
        return given
    policy = given.dataset.options().experimental_distribute.auto_shard_policy
    if policy == _Policy.OFF:
        return given
    mine = None
    if policy in (_Policy.AUTO, _Policy.FILE):
        mine = _by_file(given.dataset, count, number, must=policy == _Policy.FILE)
    if mine is None:
        mine = given.dataset.shard(count, number)
    return dataclasses.replace(given, dataset=mine, keep_alive=(*given.keep_alive, given.dataset))


def _by_file(
    dataset: tf.data.Dataset, count: int, number: int, *, must: bool
) -> tf.data.Dataset | None:
    """Every `count`th file of those the pipeline reads; None where it does not read enough."""
    leaves = tf.nest.flatten(dataset.element_spec)
    dense = [leaf if isinstance(leaf, tf.TensorSpec) else None for leaf in leaves]
    try:
        variant = tf.raw_ops.AutoShardDataset(
            input_dataset=tf.data.experimental.to_variant(dataset),
            num_workers=count,
            index=number,
            auto_shard_policy=_Policy.FILE.value,
            num_replicas=count,
            output_types=[tf.variant if s is None else s.dtype for s in dense],
            output_shapes=[tf.TensorShape(None) if s is None else s.shape for s in dense],
        )
        return tf.data.experimental.from_variant(variant, dataset.element_spec)
    except tf.errors.OpError:
        if must:
            raise
        return None
