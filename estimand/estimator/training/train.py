"""`Estimator.train`: look where it begins, make it ready, run it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from estimand.core.errors import ConfigError
from estimand.engine import time_spent
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.model_dir import anchored
from estimand.engine.running import faults
from estimand.estimator.run_context import NO_STEPS
from estimand.estimator.training import eagerly, in_process, multi_worker, parameter_servers
from estimand.estimator.training.prepared import Prepared, TrainArguments
from estimand.estimator.training.run import run
from estimand.estimator.training.starting_point import (
    StartingPoint,
    TrainingInput,
    find_starting_point,
)
from estimand.estimator.workspace import Workspace

_log = logging.getLogger("tensorflow")


def train(workspace: Workspace, input_fn: Callable[..., Any], arguments: TrainArguments) -> None:
    """One call; the disk is in order however it ends."""
    strategy, eager = workspace.config.train_distribute, workspace.config.run_eagerly
    if strategy is not None and eager:
        raise ConfigError(
            "RunConfig(run_eagerly=True) runs model_fn in this process alone; it does not go "
            f"together with train_distribute={strategy!r}. Leave one of them out."
        )
    distribution = workspace.live.distribution
    with (
        multi_worker.model_dir_of(workspace, distribution) as latest,
        distribution.lost_processes_named(),
    ):
        done = _is_done(latest, arguments.max_steps)
        if distribution.team.from_chief([done])[0]:
            _tell_that_all_is_done(workspace, latest, arguments.max_steps)
            return
        where = anchored(workspace.model_dir) if distribution.leads else None
        start = find_starting_point(workspace, distribution, latest)
        given = TrainingInput(start, input_fn)
        with (
            time_spent.counted(where) as spent,
            workspace.live.training(),
            faults.told_plainly(lambda: given.given, eager=eager),
        ):
            try:
                prepared = _prepare(start, given)
            except eagerly.NoBatchError:
                _log.warning(NO_STEPS)
                return
            run(prepared, arguments, spent)


def _prepare(start: StartingPoint, given: TrainingInput) -> Prepared:
    if start.workspace.config.run_eagerly:
        return eagerly.prepare(start, given)
    if start.distribution.has_servers:
        return parameter_servers.prepare(start, given)
    return in_process.prepare(start, given)


def _is_done(latest: str | None, max_steps: int | None) -> bool:
    """Whether the checkpoint that there is already stands at the last step asked for."""
    return bool(max_steps and latest and checkpoints.checkpoint_step(latest) >= max_steps)


def _tell_that_all_is_done(workspace: Workspace, latest: str | None, max_steps: Any) -> None:
    _log.info("Skipping training since max_steps has already saved.")
    step = checkpoints.checkpoint_step(latest) if latest else max_steps
    logging.getLogger("estimand").warning(
        "train: nothing to do, %s stands at step %s already (max_steps=%s). To train on, give a "
        "larger max_steps, or steps=...; to begin anew, another model_dir.",
        workspace.model_dir,
        step,
        max_steps,
    )
