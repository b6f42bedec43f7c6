"""Weights & Biases."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from estimand.core.errors import MissingExtraError
from estimand.tracking.tracker import FINISHED


class WeightsAndBiases:
    """Runs of Weights & Biases; steps are those of the training.

    Args:
      project: its name.
      entity: the user or team; None: yours.
      mode: "online", or "offline", which writes files that `wandb sync` sends later; None: what
        the environment says.
      directory: where its files are written; None: `wandb` below the current directory.

    >>> import estimand as est
    >>> tracker = est.tracking.WeightsAndBiases("census", mode="offline")
    """

    def __init__(
        self,
        project: str,
        entity: str | None = None,
        mode: str | None = None,
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        self.project = project
        self.entity = entity
        self.mode = mode
        self.directory = directory
        self._run: Any = None

    def start(self, run_id: str | None, name: str) -> str:
        self._run = _wandb().init(
            project=self.project, entity=self.entity, mode=self.mode, dir=self.directory,
            name=name, id=run_id, resume="allow", reinit="create_new",
        )  # fmt: skip
        return self._run.id

    def params(self, values: Mapping[str, Any]) -> None:
        self._run.config.update(dict(values), allow_val_change=True)

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def artifact(self, path: str, name: str) -> None:
        artifact = _wandb().Artifact(f"{self._run.id}-{name}", type="model")
        add = artifact.add_dir if os.path.isdir(path) else artifact.add_file
        add(path)
        self._run.log_artifact(artifact)

    def end(self, status: str) -> None:
        self._run.finish(exit_code=0 if status == FINISHED else 1)


def _wandb() -> Any:
    try:
        import wandb
    except ImportError as error:
        raise MissingExtraError("tracking with Weights & Biases", "wandb") from error
    return wandb
