"""Keeping a copy of the best checkpoint, out of reach of the deletion of old ones."""

from __future__ import annotations

import glob
import os
import shutil

from estimand.core.files.atomic_files import remove_quietly, replace_text, replacing
from estimand.engine.checkpoints.api import checkpoint_files

_STATE_FILE = "checkpoint"


def keep(checkpoint: str, folder: str) -> str:
    """Let `folder` hold this checkpoint, and no other one; returns its path there.

    The folder is a `model_dir` like any other: it may be given to an Estimator, to
    `warm_start_from` or, with the name of the checkpoint, as `checkpoint_path`.
    """
    os.makedirs(folder, exist_ok=True)
    name = os.path.basename(checkpoint)
    model_dir = os.path.dirname(os.path.abspath(checkpoint))
    for source in checkpoint_files(checkpoint):
        destination = os.path.join(folder, os.path.relpath(source, model_dir))
        os.makedirs(os.path.dirname(destination), exist_ok=True)
        _place(source, destination)
    state = f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n'
    replace_text(os.path.join(folder, _STATE_FILE), state)
    for old in glob.glob(os.path.join(glob.escape(folder), "**"), recursive=True):
        base = os.path.basename(old)
        if ".ckpt" in base and not base.startswith(f"{name}."):
            remove_quietly(old)
    return os.path.join(folder, name)


def _place(source: str, destination: str) -> None:
    """The same file under a second name, or a copy where that cannot be."""
    with replacing(destination) as temporary:
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copy2(source, temporary)
