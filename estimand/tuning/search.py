"""`search`: trial after trial in this process, until the study has as many as were asked for."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from estimand.core import voice
from estimand.core.errors import ConfigError
from estimand.hooks import NanLossDuringTrainingError
from estimand.report.runs import smaller_is_better
from estimand.tuning import studies, trials
from estimand.tuning.space import Space, optuna

_DEFAULT_TRIALS = 20
_log = logging.getLogger("tensorflow")


def search(
    make: Callable[[dict[str, Any], str], Any],
    space: Mapping[str, Any],
    study: str | os.PathLike[str],
    *,
    metric: str = "loss",
    minimize: bool | None = None,
    trials: int | None = None,
    method: str = "tpe",
    pruner: str = "median",
    seed: int | None = None,
) -> Any:
    """Train with many parameters, and find the best.

    Trials run one after another in this process: TensorFlow is imported once, and so are data that
    your program keeps. Start the same program several times, and the processes share the study.
    Killed at any moment and started again, a search goes on with the trials that were broken off,
    each from its last checkpoint.

    Args:
      make: called with the values of a trial and its model_dir; returns (estimator, train_spec,
        eval_spec) or an est.Experiment that trains there.
      space: by name a list of values; or a range as text: "0.1..0.5", "16..256" (whole numbers),
        "log:1e-4..1e-1"; or a distribution of Optuna.
      study: a SQLite file, `runs/study.db`; the trials have their model_dirs in `runs/study/`.
      metric: of the evaluation, whose best value counts; of several, "name/metric" of one.
      minimize: whether less is better; None: as the name of the metric tells (loss, error).
      trials: how many the study is to have, those included that it has already; None: 20, of a
        grid all.
      method: "tpe", "random", or "grid", which tries all values.
      pruner: what ends trials that fall behind: "median", "halving", "hyperband", "none".
      seed: makes the choice of parameters repeatable, in one process.

    Returns:
      The study of Optuna: `study.best_params`, `study.best_value`, `study.best_trial`.

    >>> study = est.tuning.search(
    ...     make, {"rate": "log:1e-4..1e-1", "units": [16, 32]}, "runs/study.db"
    ... )  # doctest: +SKIP
    """
    _check_one_of("method", method, studies.METHODS)
    _check_one_of("pruner", pruner, studies.PRUNERS)
    searched = Space.of(space)
    less = smaller_is_better(metric) if minimize is None else minimize
    count = _DEFAULT_TRIALS if trials is None else trials
    if method == "grid":
        count = _of_grid(searched.grid_size(), trials)
    kept = studies.StudyOnDisk(os.fspath(study), minimize=less, pruner=pruner)
    # Closed also on an error, whose traceback would keep the claim.
    with contextlib.closing(kept.claims(searched, count, method, seed)) as claims:
        for claim in claims:
            _run(claim, searched.values(claim.trial.params), make, metric, less)
    return kept.study


def _run(claim: studies.Claim, values: dict[str, Any], make: Any, metric: str, less: bool) -> None:
    number, states = claim.trial.number, optuna().trial.TrialState
    shown = ", ".join(f"{name}={value}" for name, value in values.items())
    voice.tell("trial %d%s: %s", number, " goes on" if claim.resumed else "", shown)
    study = claim.trial.study
    try:
        state, value = trials.run(claim, values, make, metric, less)
    except Exception as error:
        worked = study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED))
        if not worked and not isinstance(error, NanLossDuringTrainingError):
            raise  # the program is wrong, and not the parameters: once mended, it goes on with them
        claim.trial.set_user_attr("error", f"{type(error).__name__}: {error}")
        study.tell(claim.trial, state=states.FAIL)
        _log.warning("Trial %d (%s) failed: %s", number, shown, error)
    else:
        if state == states.FAIL:
            _log.warning("Trial %d (%s) failed: %s was never a number.", number, shown, metric)
        study.tell(claim.trial, value, state)


def _of_grid(points: int, wanted: int | None) -> int:
    if wanted is None or wanted >= points:
        return points
    if wanted > 0:
        voice.tell("%d of the %d points of the grid are tried", wanted, points)
    return wanted


def _check_one_of(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ConfigError(f"{what} must be one of {', '.join(known)}, given: {given!r}.")
