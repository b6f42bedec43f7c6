"""Keeping a copy of the best checkpoint, out of reach of the deletion of old ones."""

from __future__ import annotations

import glob
import os
import shutil

from estimand.core.atomic_files import remove_quietly, replace_text, replacing

_STATE_FILE = "checkpoint"


def keep(checkpoint: str, folder: str) -> str:
    """Let `folder` hold this checkpoint, and no other one; returns its path there.

    The folder is a `model_dir` like any other: it may be given to an Estimator, to
    `warm_start_from` or, with the name of the checkpoint, as `checkpoint_path`.
    """
    os.makedirs(folder, exist_ok=True)
    name = os.path.basename(checkpoint)
    files = sorted(glob.glob(f"{glob.escape(checkpoint)}.*"), key=_index_last)
    for source in files:
        _place(source, os.path.join(folder, os.path.basename(source)))
    state = f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n'
    replace_text(os.path.join(folder, _STATE_FILE), state)
    for old in os.listdir(folder):
        if ".ckpt" in old and not old.startswith((f"{name}.", ".")):
            remove_quietly(os.path.join(folder, old))
    return os.path.join(folder, name)


def _index_last(path: str) -> bool:
    return path.endswith(".index")  # a checkpoint is there when its index is


def _place(source: str, destination: str) -> None:
    """The same file under a second name, or a copy where that cannot be."""
    with replacing(destination) as temporary:
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copy2(source, temporary)
