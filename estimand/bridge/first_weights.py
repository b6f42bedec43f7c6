"""The weights that a Keras model brought, kept in `model_dir/keras` as tf.estimator keeps them.

A program that is started again before its first checkpoint begins with the same weights, though
its model was made anew with others; and whoever looks for `keras/keras_model.ckpt` finds it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ConfigError
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.warm_start.source import Source, open_source

FOLDER = "keras"
_BASENAME = "keras_model.ckpt"


def write(path: str, values: Mapping[str, Any], step: int = 0) -> str:
    """A checkpoint by name of these values and a global step."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tf_private.eager_mode():
        entries = {**values, "global_step": tf.constant(step, tf.int64)}
        names = sorted(entries)
        tensors = [tf.convert_to_tensor(entries[name]) for name in names]
        tf.raw_ops.SaveV2(
            prefix=path, tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors
        )
    # Last: a checkpoint that is not listed is written again.
    tf.compat.v1.train.update_checkpoint_state(os.path.dirname(path), os.path.basename(path))
    return path


def kept(model_dir: str, model_fn: Any) -> str:
    """A checkpoint of the weights that the model function begins with: those of the first time."""
    folder = os.path.join(model_dir, FOLDER)
    there: str | None = tf.train.latest_checkpoint(folder)
    if there is None:
        return write(os.path.join(folder, _BASENAME), model_fn.first_values)
    model_fn.begin_with(_read(there, model_fn.first_values))
    return there


def _read(path: str, values: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """What a checkpoint has of these, also one that `model.save_weights` of Keras 2 wrote."""
    with tf_private.eager_mode():
        source = open_source(path)
        keys = {name: key for name in values if (key := source.key(name)) is not None}
        wanted = [_wanted(source, key, name, values[name]) for name, key in keys.items()]
        return dict(zip(keys, checkpoints.read_tensors(path, wanted), strict=True))


def _wanted(source: Source, key: str, name: str, value: Any) -> checkpoints.Wanted:
    if list(source.shapes[key]) != list(value.shape):
        raise ConfigError(
            f"{source.path} has the first weights of another model: {name} has the shape "
            f"{list(source.shapes[key])} there and {list(value.shape)} in this one. Remove "
            f"{os.path.dirname(source.path)}, or give another model_dir."
        )
    return checkpoints.Wanted(key, tf.as_dtype(value.dtype), tuple(value.shape))
