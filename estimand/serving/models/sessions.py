"""Sessions that hold a SavedModel, with the executor that suits it.

The single-threaded executor answers small requests in a third of the time. It is for CPUs, and for
graphs without TF1's control flow and reference variables.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.compat.v1 import GraphDef

from estimand.core import tf_private
from estimand.serving.rows import graph_scan

log = logging.getLogger("estimand.serving")


@dataclass(frozen=True)
class LoadOptions:
    """How sessions are made."""

    tags: tuple[str, ...] = ("serve",)
    intra_op_threads: int = 0
    inter_op_threads: int = 0
    session_config: bytes = b""  # a ConfigProto; the numbers above go before it
    single_threaded: bool = True  # where the graph suits that executor
    rows_are_independent: bool = False  # somebody says so; else it has to be proven
    run_seconds: float = 0.0  # for a call that may take any time; 0 for no bound


@dataclass(frozen=True)
class Loaded:
    """A session with its variables restored and its tables filled, and what it was made from."""

    session: Any
    meta_graph: Any
    single_threaded: bool


def load(directory: str, options: LoadOptions) -> Loaded:
    reader = tf_private.SavedModelReader(directory, options.tags)
    graph = reader.meta_graph.graph_def
    config = _config(options)
    # A loop that does not end keeps its threads: not those of other models.
    config.use_per_session_threads = graph_scan.has_loops(graph)
    if options.single_threaded and suits_single_threaded(graph):
        try:
            session = _load(reader, _single_threaded(config))
            return Loaded(session, reader.meta_graph, True)
        except tf.errors.ResourceExhaustedError:
            raise
        except tf.errors.OpError as error:
            # It may be what that executor refuses; if not, the same error comes again.
            log.info("%s: not with the single-threaded executor: %s", directory, error)
    return Loaded(_load(reader, config), reader.meta_graph, False)


def suits_single_threaded(graph: GraphDef) -> bool:
    return not (
        _has_other_devices()
        or graph_scan.places_beside_the_cpu(graph)
        or graph_scan.needs_default_executor(graph)
    )


def _has_other_devices() -> bool:
    """Whether TensorFlow may place operations elsewhere than on CPUs, as it does by itself."""
    return any(device.device_type != "CPU" for device in tf.config.get_visible_devices())


def _config(options: LoadOptions) -> Any:
    config = tf.compat.v1.ConfigProto()
    config.allow_soft_placement = True  # what was trained on another machine's devices
    config.MergeFromString(options.session_config)
    if options.intra_op_threads:
        config.intra_op_parallelism_threads = options.intra_op_threads
    if options.inter_op_threads:
        config.inter_op_parallelism_threads = options.inter_op_threads
    return config


def _single_threaded(ordinary: tf.compat.v1.Session) -> Any:
    config = tf.compat.v1.ConfigProto()
    config.CopyFrom(ordinary)
    config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
    # Here loops are calls of functions, and folding constants evaluates them with a stack frame or
    # more for each turn: a loop of 20,000 turns ends the process. All else of the level remains.
    optimizer = config.graph_options.optimizer_options
    optimizer.do_constant_folding = False
    if optimizer.opt_level == optimizer.L1:
        optimizer.opt_level = optimizer.L0
        optimizer.do_common_subexpression_elimination = True
        optimizer.do_function_inlining = True
    return config


def _load(reader: Any, config: tf.compat.v1.ConfigProto) -> Any:
    session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
    try:
        reader.load_into(session)
    except BaseException:
        session.close()
        raise
    return session
