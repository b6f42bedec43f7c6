"""Training in several processes: one of them, the chief, decides and writes; the others follow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.distribution import Distribution
from estimand.engine.model_dir import ModelDirLock, ensure_writable
from estimand.estimator.workspace import Workspace


@contextlib.contextmanager
def model_dir_of(workspace: Workspace, distribution: Distribution) -> Iterator[str | None]:
    """The latest checkpoint, with model_dir locked; only the chief has anything to do with it."""
    if not distribution.leads:
        yield None
        return
    model_dir = ensure_writable(workspace.model_dir)
    with ModelDirLock(model_dir):
        checkpoints.clear_up(model_dir)  # what a killed run left
        yield workspace.latest_checkpoint()


def saves_nothing(step: int, **options: Any) -> str:
    """What a follower's hooks get as the path of a checkpoint: the chief writes it."""
    del step, options
    return ""
