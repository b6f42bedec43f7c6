"""What a call of train, evaluate or predict runs in: eager mode, its seed, its checkpoints."""

from __future__ import annotations

import contextlib
import functools
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from estimand.core import tf_private, voice
from estimand.engine.checkpoints.api import CheckpointWriter
from estimand.engine.checkpoints.saving import ModelSaver
from estimand.engine.model_dir import RunRecord
from estimand.engine.progress.screens import is_live_terminal
from estimand.engine.running.interrupts import Interrupts

if TYPE_CHECKING:
    from estimand.estimator.estimator import Estimator

NO_STEPS = "Training with estimator made no steps. Perhaps input is empty or misspecified."


def make_writer(
    estimator: Estimator, directory: str, basename: str = "model.ckpt", saver: Any = None
) -> CheckpointWriter:
    """A writer that keeps as many checkpoints as a v1 Saver says, or else the configuration."""
    config = estimator._config
    keep_max, hours = config.keep_checkpoint_max, config.keep_checkpoint_every_n_hours
    limits = tf_private.saver_limits(saver)
    if limits is not None:
        keep_max, hours = limits
    return CheckpointWriter(
        directory, basename=basename, keep_max=keep_max, keep_every_n_hours=hours or 10000.0
    )


@contextlib.contextmanager
def engine_scope(estimator: Estimator) -> Iterator[None]:
    """Eager mode, with a global seed of our own; if we drew it, ops with seeds ignore it.

    What the run tells is heard, and TensorFlow's own lines do not get in between.
    """
    with contextlib.ExitStack() as stack:
        speaks = estimator._config.progress is not False
        ours = stack.enter_context(voice.speaking(speaks))
        on_screen = speaks and (is_live_terminal() or voice.in_notebook())
        if (ours or on_screen) and not voice.is_verbose():
            _look_for_devices_quietly()
            stack.enter_context(tf_private.native_log_from(tf_private.ERROR))
        stack.enter_context(tf_private.eager_mode())
        stack.enter_context(tf_private.global_seed_restored())
        if estimator._config.tf_random_seed is None:
            stack.enter_context(tf_private.explicit_seeds_stand())
        else:
            stack.enter_context(_seed_of_the_graph(int(estimator._config.tf_random_seed)))
        yield


@contextlib.contextmanager
def _seed_of_the_graph(seed: int) -> Iterator[None]:
    """What an input function reads as `tf.compat.v1.get_default_graph().seed`."""
    graph = tf.compat.v1.get_default_graph()
    before, graph.seed = graph.seed, seed
    try:
        yield
    finally:
        graph.seed = before


@functools.cache
def _look_for_devices_quietly() -> None:
    """Where there is no GPU, its driver says that it failed: this is no error here."""
    with tf_private.native_log_from(tf_private.FATAL):
        tf.config.list_physical_devices()


def model_seed(estimator: Estimator, record: RunRecord) -> int:
    """The user's seed, or one drawn at the first start and kept in model_dir."""
    if estimator._config.tf_random_seed is not None:
        return int(estimator._config.tf_random_seed)
    if record.random_seed is None:
        record.random_seed = secrets.randbits(31)
    return record.random_seed


@contextlib.contextmanager
def in_use(estimator: Estimator, saver: ModelSaver, interrupts: Interrupts) -> Iterator[None]:
    """Make these known to evaluations during training, and in the end let the saver finish.

    It does so also when training fails; the first error is the one told.
    """
    live = estimator._live_model
    live.saver, live.interrupts = saver, interrupts
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            saver.close()
        raise
    finally:
        live.saver = live.interrupts = None
    saver.close()
