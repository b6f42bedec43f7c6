"""Whether a checkpoint gets a `.meta` file, and what is in it."""

from __future__ import annotations

import logging

import tensorflow as tf

from estimand.core import old_code
from estimand.core.config import RunConfig
from estimand.core.errors import EstimandError
from estimand.engine.checkpoints.keep_policy import KeepPolicy
from estimand.engine.tracing.built_model import BuiltModel
from estimand.engine.tracing.trace import Trace
from estimand.export.meta_graph import meta_graph

_log = logging.getLogger("estimand")


def graph_file(trace: BuiltModel, config: RunConfig, keep: KeepPolicy) -> bytes | None:
    """The contents of `model.ckpt-N.meta`; None if there is to be none, or cannot be one.

    Nothing here reads it, so a model that does not fit into one trains all the same.
    """
    wanted = config.save_meta_graph
    if wanted is None:  # what upstream did by default, for programs that may count on it
        wanted = old_code.expected and config.checkpoint_save_graph_def
    if not wanted or not isinstance(trace, Trace):
        return None
    try:
        return meta_graph(trace, keep_max=keep.keep_max or 0, keep_hours=keep.keep_every_n_hours)
    except (EstimandError, tf.errors.OpError, TypeError, ValueError) as error:
        level = logging.WARNING if config.save_meta_graph else logging.INFO
        _log.log(level, "No model.ckpt-N.meta is written for this model: %s", error)
        return None
