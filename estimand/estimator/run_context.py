"""What a call of train, evaluate or predict runs in: eager mode, its seed, its checkpoints."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator

import tensorflow as tf

from estimand.core import lines_of_old, tf_private, voice
from estimand.core.config import RunConfig
from estimand.engine.checkpoints.keep_policy import KeepPolicy
from estimand.engine.interrupts import Interrupts
from estimand.engine.model_dir import RunRecord
from estimand.engine.saving.model_saver import ModelSaver
from estimand.estimator.workspace import Workspace

NO_STEPS = "Training with estimator made no steps. Perhaps input is empty or misspecified."


def keep_policy(config: RunConfig, saver: tf.compat.v1.train.Saver | None = None) -> KeepPolicy:
    """As many checkpoints as a v1 Saver says, or else the configuration."""
    of_config = config.keep_checkpoint_max, config.keep_checkpoint_every_n_hours
    keep_max, hours = tf_private.saver_limits(saver) or of_config
    return KeepPolicy(keep_max, hours or 10000.0)


@contextlib.contextmanager
def engine_scope(workspace: Workspace) -> Iterator[None]:
    """Eager mode, with a global seed of our own; if we drew it, ops with seeds ignore it.

    What the run tells is heard, and TensorFlow's own lines do not get in between.
    """
    with contextlib.ExitStack() as stack:
        speaks = workspace.config.progress is not False
        stack.enter_context(voice.speaking(speaks))
        if speaks and not lines_of_old.is_verbose():
            tf_private.look_for_devices_quietly()
            stack.enter_context(tf_private.native_log_from(tf_private.ERROR))
        stack.enter_context(tf_private.eager_mode())
        stack.enter_context(tf_private.global_seed_restored())
        if workspace.config.tf_random_seed is None:
            stack.enter_context(tf_private.explicit_seeds_stand())
        else:
            stack.enter_context(_seed_of_the_graph(int(workspace.config.tf_random_seed)))
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


def model_seed(workspace: Workspace, record: RunRecord) -> int:
    """The user's seed, or one drawn at the first start and kept in model_dir."""
    if workspace.config.tf_random_seed is not None:
        return int(workspace.config.tf_random_seed)
    if record.random_seed is None:
        record.random_seed = secrets.randbits(31)
    return record.random_seed


def block_mode_of_training(workspace: Workspace) -> str | None:
    """How steps of the training are run: as pinned, or as it chose; None: it did not yet."""
    pinned = workspace.config.block_mode
    return RunRecord.load(workspace.model_dir).block_mode if pinned == "auto" else pinned


@contextlib.contextmanager
def in_use(workspace: Workspace, saver: ModelSaver, interrupts: Interrupts) -> Iterator[None]:
    """Make these known to evaluations during training, and in the end let the saver finish.

    It does so also when training fails; the first error is the one told.
    """
    live = workspace.live
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
