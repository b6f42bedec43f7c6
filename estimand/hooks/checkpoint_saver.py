"""Checkpoints during training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ConfigError
from estimand.engine.hook_calls.runner import RunningLoop, asks_the_same_earlier
from estimand.engine.model_dir import anchored
from estimand.engine.saving.save_policy import SavePolicy
from estimand.engine.saving.taking import CheckpointTaker
from estimand.hooks.base import LoopHook
from estimand.hooks.event_file import EventFile

_train = tf.compat.v1.train


class LoopSaver:
    """What `CheckpointSaverHook._get_saver()` gives in a loop: saves through the loop's writer."""

    def __init__(self, loop: RunningLoop) -> None:
        self._loop = loop

    def save(
        self,
        sess: tf.compat.v1.Session,
        save_path: str,
        global_step: Any = None,
        *,
        synchronous: bool = True,
        **of_a_v1_saver: Any,
    ) -> str:
        """Save the model now; returns the path prefix. The arguments of a v1 `Saver.save`."""
        del of_a_v1_saver
        with tf_private.eager_mode():  # before and after the steps a graph is the default
            if global_step is None:
                step = self._loop.global_step()
            elif isinstance(global_step, tf.Variable) or tf.is_tensor(global_step):
                step = sess.run(global_step)
            else:
                step = global_step
            return self._loop.save_checkpoint(
                int(step),
                directory=os.path.dirname(save_path),
                basename=os.path.basename(save_path),
                synchronous=synchronous,
            )


class CheckpointSaverHook(LoopHook):
    """Saves a checkpoint at the start, every so many steps or seconds, and at the end.

    Training does so anyway, as `RunConfig(save_checkpoints_steps=...)` says; a hook of this kind
    takes the place of that. Files are written in the background, unless there are listeners, who
    may want to read them; one with an attribute `reads_files = False` says that it does not.

    >>> from estimand.hooks import CheckpointSaverHook
    >>> hook = CheckpointSaverHook("model", save_steps=1000)
    >>> hook.cadence.steps, hook.cadence.at_start
    (1000, False)

    Args:
      checkpoint_dir: where to save.
      save_secs: how many seconds lie between two checkpoints.
      save_steps: how many steps lie between two checkpoints.
      saver: a v1 Saver of your own to save with; it writes before training goes on.
      checkpoint_basename: the beginning of the file names.
      scaffold: the Scaffold of the model.
      listeners: `CheckpointSaverListener`s, told before and after each checkpoint; one that
        returns True from `after_save` stops training.
      save_graph_def: write `graph.pbtxt` as well.
    """

    def __init__(
        self,
        checkpoint_dir: str,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: tf.compat.v1.train.Saver | None = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: tf.compat.v1.train.Scaffold | None = None,
        listeners: Sequence[tf.compat.v1.train.CheckpointSaverListener] | None = None,
        save_graph_def: bool = True,
    ) -> None:
        if saver is not None and scaffold is not None:
            raise ConfigError(
                "You cannot provide both saver and scaffold. "
                "Write Scaffold(saver=...) to have both."
            )
        self._look_every(
            steps=save_steps, secs=save_secs, names=("save_steps", "save_secs"), at_start=False
        )
        self._saver = saver
        self._checkpoint_dir = anchored(checkpoint_dir)
        self._save_path = os.path.join(self._checkpoint_dir, checkpoint_basename)
        self._scaffold = scaffold
        self._taker = CheckpointTaker(
            SavePolicy(save_steps, save_secs),
            self._save_path,
            self._write,
            listeners or (),
            save_graph_def=save_graph_def,
        )
        self._listeners = self._taker.listeners
        self._steps_per_run = 1
        self._summary_writer: Any = None

    def begin(self) -> None:
        super().begin()
        self._summary_writer = EventFile(self._checkpoint_dir)
        self._find_global_step()
        self._taker.begin()

    def after_create_session(
        self, session: tf.compat.v1.Session, coord: tf.compat.v1.train.Coordinator
    ) -> None:
        step = self._step_now(session)
        if not self._run_eagerly:
            self._taker.record_graph(session.graph)
        self._save(session, step)
        self._timer.update_last_triggered_step(step)

    @asks_the_same_earlier
    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> Any:
        if self._called_when_due(run_context.session):
            return None
        return _train.SessionRunArgs(self._global_step_tensor)

    def after_run(
        self,
        run_context: tf.compat.v1.train.SessionRunContext,
        run_values: tf.compat.v1.train.SessionRunValues,
    ) -> None:
        if not self._called_when_due(run_context.session):
            # What was fetched is the step before the update; reading the new one costs a run.
            step = run_values.results + self._steps_per_run
            if not self._timer.should_trigger_for_step(step):
                return
        if self.save_now(run_context.session):
            run_context.request_stop()

    def save_now(self, session: tf.compat.v1.Session) -> bool:
        """Save, unless this step is saved; True if a listener wants to stop."""
        step = self._step_now(session)
        if step == self._timer.last_triggered_step():
            return False
        self._timer.update_last_triggered_step(step)
        return self._save(session, step)

    def end(self, session: tf.compat.v1.Session) -> None:
        last_step = self._step_now(session)
        moved = last_step != self._timer.last_triggered_step()
        if moved or self._taker.misses(self._motionless_steps):
            self._save(session, last_step)
        self._taker.end(session, last_step)

    @property
    def _motionless_steps(self) -> int:
        return 0 if self._loop is None else self._loop.motionless_steps

    def _save(self, session: tf.compat.v1.Session, step: int) -> bool:
        """Save a checkpoint and tell the listeners; True if one of them wants to stop."""
        return self._taker.take(session, step, self._motionless_steps)

    def _write(self, session: tf.compat.v1.Session, step: int, synchronous: bool) -> None:
        saver = self._get_saver()
        if isinstance(saver, LoopSaver):
            saver.save(session, self._save_path, step, synchronous=synchronous)
        else:
            saver.save(session, self._save_path, global_step=step, write_meta_graph=False)

    def _get_saver(self) -> Any:
        if self._saver is not None:
            return self._saver
        if self._loop is not None:
            of_model = None if self._scaffold is None else self._scaffold.saver
            if tf_private.saver_overrides(of_model, "save"):
                return of_model
            return LoopSaver(self._loop)  # it knows of the Scaffold's saver
        if self._scaffold is not None:
            return self._scaffold.saver
        savers = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SAVERS)
        if len(savers) != 1:
            problem = "More than one item" if savers else "No items"
            raise RuntimeError(
                f"{problem} in collection {tf.compat.v1.GraphKeys.SAVERS}. Please add a saver to "
                "the collection or provide a saver or scaffold: "
                "CheckpointSaverHook(..., saver=tf.compat.v1.train.Saver())."
            )
        self._saver = savers[0]
        return self._saver

    def _set_steps_per_run(self, steps_per_run: int) -> None:
        self._steps_per_run = steps_per_run
