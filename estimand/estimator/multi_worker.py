"""Training in several processes: one of them, the chief, decides and writes; the others follow."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core.errors import ClusterError
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.distributed.team import Team
from estimand.engine.model_dir import ModelDirLock, RunRecord, ensure_writable
from estimand.engine.running.interrupts import Interrupts
from estimand.engine.tracing.trace import Trace
from estimand.estimator.workspace import Workspace

_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


@contextlib.contextmanager
def model_dir_of(workspace: Workspace, team: Team | None) -> Iterator[str | None]:
    """The latest checkpoint, with model_dir locked; only the chief has anything to do with it."""
    if team is not None and not team.is_chief:
        yield None
        return
    model_dir = ensure_writable(workspace.model_dir)
    with ModelDirLock(model_dir):
        checkpoints.clear_up(model_dir)  # what a killed run left
        yield workspace.latest_checkpoint()


def chief_says(team: Team | None, answer: bool) -> bool:
    return answer if team is None else bool(team.from_chief([answer])[0])


@dataclass(frozen=True)
class Plan:
    """What a follower needs to know of the chief's model_dir."""

    seed: int
    resumes: bool
    forget: bool
    record: RunRecord


def lead(team: Team, workspace: Workspace, record: RunRecord, seed: int, *, resumes: bool) -> None:
    """Tell the others from where training goes on; in the input, that is told later."""
    input_seed = int(record.extra.get("input_seed", seed))
    team.from_chief([seed, input_seed, resumes, workspace.is_gone()])


def follow(team: Team) -> Plan:
    """What the chief told."""
    seed, input_seed, resumes, forget = team.from_chief([0] * 4)
    record = RunRecord()
    record.extra["input_seed"] = input_seed
    return Plan(seed, bool(resumes), bool(forget), record)


def saves_nothing(step: int, **options: Any) -> str:
    """What a follower's hooks get as the path of a checkpoint: the chief writes it."""
    del step, options
    return ""


def ended(team: Team | None, trace: Trace, interrupts: Interrupts) -> None:
    """All have finished their steps, and the chief has saved: now each may go its way."""
    if team is None:
        return
    if trace.stop is not None and trace.stop.interrupted and interrupts.received is None:
        interrupts.received = signal.SIGTERM  # another process was told to end
    team.wait()


@contextlib.contextmanager
def losses_told(team: Team | None) -> Iterator[None]:
    """Say in one sentence that another process of the team was lost."""
    try:
        yield
    except _LOST as error:
        if team is None:
            raise
        reason = error.message.strip().splitlines()[0][:300]
        raise ClusterError(
            f"Process {team.number} of {team.size} cannot go on: another one that trains with it "
            f"was lost ({reason}). The last checkpoint is intact: start all of them again and "
            "training continues from there."
        ) from error
