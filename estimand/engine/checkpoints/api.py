"""Checkpoints: atomic, name-based, written in the background, read with a fall-back.

One page in front of the modules that do it: `files` (names, and which there are),
`writer` and `publishing` (saving), `reader` (restoring), `keep_policy`
(what to keep).

>>> import tempfile
>>> import tensorflow as tf
>>> directory = tempfile.mkdtemp()
>>> with CheckpointWriter(directory) as writer:
...     path = writer.save(10, [Entry("w", tf.constant([1.0, 2.0]))], meta={"batches": 10})
>>> latest_checkpoint(directory) == path, checkpoint_step(path), read_meta(path)
(True, 10, {'batches': 10})
>>> path, [w] = restore_newest_intact(directory, [Wanted("w", tf.float32, (2,))])
>>> w.numpy().tolist()
[1.0, 2.0]
"""

from __future__ import annotations

from estimand.engine.checkpoints.files import (
    checkpoint_candidates,
    checkpoint_files,
    checkpoint_step,
    companion_prefix,
    latest_checkpoint,
    mark_meta,
    read_meta,
)
from estimand.engine.checkpoints.fitting import CheckpointMismatch, Wanted
from estimand.engine.checkpoints.keep_policy import KeepPolicy
from estimand.engine.checkpoints.publishing import Entry, delete_checkpoint
from estimand.engine.checkpoints.reader import (
    CheckpointDamaged,
    give_newest_intact,
    give_tensors,
    read_tensors,
    restore_newest_intact,
    warn_of_unusable,
)
from estimand.engine.checkpoints.writer import CheckpointWriter, clear_up

__all__ = [
    "CheckpointDamaged",
    "CheckpointMismatch",
    "CheckpointWriter",
    "Entry",
    "KeepPolicy",
    "Wanted",
    "checkpoint_candidates",
    "checkpoint_files",
    "checkpoint_step",
    "clear_up",
    "companion_prefix",
    "delete_checkpoint",
    "give_newest_intact",
    "give_tensors",
    "latest_checkpoint",
    "mark_meta",
    "read_meta",
    "read_tensors",
    "restore_newest_intact",
    "warn_of_unusable",
]
