"""Where a training call begins: settled before anything is built, in chief and followers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from estimand.core.modes import ModeKeys
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.distribution import Distribution
from estimand.engine.model_dir import RunRecord
from estimand.estimator.run_context import model_seed
from estimand.estimator.workspace import Workspace
from estimand.export.deriving import TrainedOn
from estimand.inputs import permutation
from estimand.inputs.contract import ModelInput


@dataclass(frozen=True)
class StartingPoint:
    """What a call knows of the one before it.

    Args:
      latest: the checkpoint to go on from; None where there is none, and in a follower.
      meta: what was noted with it.
      resumes: whether the last call was interrupted, so that this one goes on in its place.
        Settled now: the seed of the input depends on it.
    """

    workspace: Workspace
    distribution: Distribution
    latest: str | None
    meta: Mapping[str, Any]
    record: RunRecord
    seed: int
    resumes: bool

    @property
    def input_seed(self) -> int:
        return self.seed if self.record.input_seed is None else self.record.input_seed

    @property
    def input_order(self) -> int:
        return self.record.input_order or 1  # as long as none was noted, there was only one

    def tell_checkpoint(self, latest: str | None) -> None:
        """A new call that goes on from a finished one starts its input from the beginning.

        Told to the checkpoint it starts from: killed before the next one, it does so again.
        """
        if latest is not None and not self.resumes:
            checkpoints.mark_meta(latest, complete=False, input={"kind": "start"})


def find_starting_point(
    workspace: Workspace, distribution: Distribution, latest: str | None
) -> StartingPoint:
    """The chief looks into model_dir and tells the others; these only listen."""
    if not distribution.leads:
        return _follow(workspace, distribution)
    record = RunRecord.load(workspace.model_dir)
    meta = (checkpoints.read_meta(latest) if latest else None) or {}
    seed = model_seed(workspace, record)
    if latest is None:  # a call that ended before its first checkpoint begins as it did
        interrupted = not workspace.live.store.only_in_memory
    else:
        interrupted = not meta.get("complete", True)
    resumes = interrupted and distribution.has_one_input and record.input_seed is not None
    if not resumes:
        # A new call begins its input anew, in an order of its own; a resumed one repeats the
        # order of the call that was interrupted.
        fixed = workspace.config.tf_random_seed is not None
        record.input_seed = seed if fixed else secrets.randbits(31)
        record.input_order = permutation.CURRENT_ORDER
        record.block_mode = record.block_mode_from_step = None
    record.params = workspace.noted_params() or None
    record.save(workspace.model_dir)
    start = StartingPoint(workspace, distribution, latest, meta, record, seed, resumes)
    told = [seed, start.input_seed, start.input_order, resumes, workspace.is_gone()]
    distribution.team.from_chief(told)
    return start


def _follow(workspace: Workspace, distribution: Distribution) -> StartingPoint:
    seed, input_seed, input_order, resumes, forget = distribution.team.from_chief([0] * 5)
    workspace.live.forget_if(bool(forget))
    record = RunRecord(input_seed=input_seed, input_order=input_order)
    return StartingPoint(workspace, distribution, None, {}, record, seed, bool(resumes))


class TrainingInput:
    """The input function of a training call, and what it gave last."""

    def __init__(self, start: StartingPoint, function: Callable[..., Any]) -> None:
        self.function = function
        self.given: ModelInput | None = None
        self._start = start

    def call(self) -> ModelInput:
        """This process's share of the batches, from the start, in the order of this call."""
        start, distribution = self._start, self._start.distribution
        workspace = start.workspace
        if distribution.leads:
            workspace.forget_what_is_gone()
        workspace.live.seed_input(ModeKeys.TRAIN, start.input_seed)
        with permutation.in_order(start.input_order):
            self.given = workspace.call_input_fn(
                self.function, ModeKeys.TRAIN, distribution.input_context()
            )
        workspace.trained_on = TrainedOn.of(self.given)
        self.given = distribution.own_share(self.given, self.function)
        return self.given
