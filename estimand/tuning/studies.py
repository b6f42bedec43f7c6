"""A study on disk, and which process runs which of its trials.

Trials are numbered in a SQLite file. Each has a folder beside it, its model_dir, and a lock there
that its process holds: when that process is gone, however it ended, the lock is free, and the next
one that asks for work goes on with the trial where it was.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

try:
    import fcntl
except ImportError:  # Windows has no such locks: there, what was broken off is not found
    fcntl = None  # type: ignore[assignment]

from estimand.core.errors import ConfigError
from estimand.tuning.space import Space, optuna

METHODS = ("tpe", "random", "grid")
PRUNERS = ("median", "halving", "hyperband", "none")
_SECONDS_TO_WAIT_FOR_THE_DATABASE = 60


@dataclass
class Claim:
    """A trial that this process runs, and what keeps others from it."""

    trial: Any
    model_dir: str
    lock: int | None
    resumed: bool = False

    def release(self) -> None:
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None


class StudyOnDisk:
    """The study in a file `runs/study.db`, or `runs/study`; its trials train in `runs/study/`."""

    def __init__(self, path: str, *, minimize: bool, pruner: str) -> None:
        self.folder, ending = os.path.splitext(os.path.abspath(path))
        self.path = self.folder + (ending or ".db")
        if os.path.isdir(self.path):
            raise ConfigError(
                f"The study {path} is a folder, and has to be a SQLite file: give one, as in "
                "runs/study.db."
            )
        os.makedirs(self.folder, exist_ok=True)
        module = optuna()
        direction = "minimize" if minimize else "maximize"
        with self._alone():  # the first one makes the tables
            storage = module.storages.RDBStorage(
                f"sqlite:///{self.path}",
                engine_kwargs={"connect_args": {"timeout": _SECONDS_TO_WAIT_FOR_THE_DATABASE}},
            )
            self.study = module.create_study(
                study_name=os.path.basename(self.folder), storage=storage, load_if_exists=True,
                direction=direction, pruner=_pruner(module, pruner),
            )  # fmt: skip
        if self.study.direction.name.lower() != direction:
            raise ConfigError(
                f"The study {path} was begun to {self.study.direction.name.lower()} its metric, "
                f"and is now to {direction} it; give it another file."
            )

    def claims(
        self, space: Space, trials: int, method: str, seed: int | None
    ) -> Generator[Claim, None, None]:
        """One after another, until the study has so many trials: those that were broken off first.

        A claim is released when the next one is asked for.
        """
        while True:
            with self._alone():
                claim = self._broken_off(space) or self._new(space, trials, method, seed)
            if claim is None:
                return
            try:
                yield claim
            finally:
                claim.release()

    def model_dir(self, number: int) -> str:
        return os.path.join(self.folder, f"trial-{number:04d}")

    def _broken_off(self, space: Space) -> Claim | None:
        module = optuna()
        states = module.trial.TrialState
        for frozen in self.study.get_trials(deepcopy=False, states=(states.RUNNING,)):
            model_dir = self.model_dir(frozen.number)
            lock = _try_lock(model_dir)
            if lock is None:
                continue
            trial = module.trial.Trial(self.study, frozen._trial_id)
            claim = Claim(trial, model_dir, lock, resumed=True)
            if not self._still_runs(frozen.number):
                claim.release()  # its process told the end, and let go, since the list was read
                continue
            if _searches(frozen, space):
                return claim
            # Begun with a name that was misspelt, say: nobody can go on with it.
            trial.set_user_attr("error", "broken off, and then other parameters were searched")
            self.study.tell(trial, state=states.FAIL)
            claim.release()
        return None

    def _still_runs(self, number: int) -> bool:
        states = (optuna().trial.TrialState.RUNNING,)
        running = self.study.get_trials(deepcopy=False, states=states)
        return number in {trial.number for trial in running}

    def _new(self, space: Space, trials: int, method: str, seed: int | None) -> Claim | None:
        # Those that wait were put there by hand, with values to be tried.
        waiting = optuna().trial.TrialState.WAITING
        all_trials = self.study.get_trials(deepcopy=False)
        there = sum(t.state != waiting and _searches(t, space) for t in all_trials)
        if there >= trials:
            return None
        # A new one each time: with a seed, a trial's parameters depend on its number alone and
        # on what came before, however often the search was broken off.
        self.study.sampler = _sampler(method, space, seed, there)
        trial = self.study.ask(space.distributions)
        # Told of its last trial, Optuna's grid wants to stop a loop of Optuna's, and there is none.
        self.study.sampler = optuna().samplers.RandomSampler()
        model_dir = self.model_dir(trial.number)
        return Claim(trial, model_dir, _try_lock(model_dir))

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Inside, no other process hands out trials of this study."""
        lock = None
        while fcntl is not None and (lock := _try_lock(self.folder)) is None:
            time.sleep(0.05)
        try:
            yield
        finally:
            if lock is not None:
                os.close(lock)


def _searches(frozen: Any, space: Space) -> bool:
    """Whether the trial is one of these parameters."""
    return set(frozen.params) == set(space.distributions)


def _try_lock(folder: str) -> int | None:
    """A lock that ends with the process; None if another one holds it."""
    if fcntl is None:
        return None
    os.makedirs(folder, exist_ok=True)
    descriptor = os.open(os.path.join(folder, ".sweep.lock"), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _sampler(method: str, space: Space, seed: int | None, number: int) -> Any:
    samplers = optuna().samplers
    if method == "grid":
        # The seed shuffles the points, and trials name theirs by its place: all need one order.
        return samplers.GridSampler(space.grid(), seed=seed)
    seed = None if seed is None else seed + number
    if method == "random":
        return samplers.RandomSampler(seed=seed)
    # Those that run elsewhere count as bad ones, so that two processes do not try the same.
    return samplers.TPESampler(seed=seed, constant_liar=True)


def _pruner(module: Any, name: str) -> Any:
    pruners = module.pruners
    made = {
        "median": lambda: pruners.MedianPruner(n_startup_trials=4),
        "halving": pruners.SuccessiveHalvingPruner,
        "hyperband": pruners.HyperbandPruner,
        "none": pruners.NopPruner,
    }
    return made[name]()
