"""One trial: a training that reports its evaluations, and may be ended by them."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorboard.plugins.hparams import api as hparams_api

from estimand.core.errors import ConfigError, SpecTypeError
from estimand.core.names import did_you_mean
from estimand.core.spec import EvalSpec
from estimand.engine.events import EventWriter
from estimand.engine.hook_calls.cadence import NEVER
from estimand.estimator.estimator import Estimator
from estimand.estimator.lifecycle.experiment import Experiment
from estimand.estimator.lifecycle.train_and_evaluate import train_and_evaluate
from estimand.hooks.evaluation_watcher import EvaluationWatcher
from estimand.tuning.space import optuna
from estimand.tuning.studies import Claim

_STEP = "global_step"
Make = Callable[[dict[str, Any], str], Any]


class TrialHook(EvaluationWatcher):
    """Reports the metric of each evaluation, and ends a training that is not worth its time."""

    def __init__(
        self, trial: Any, metric: str, minimize: bool, evaluations: Sequence[str | None] = (None,)
    ) -> None:
        self._look(NEVER)
        self._trial = trial
        self.evaluation, self.metric = meant(metric, evaluations)
        self._better = min if minimize else max
        module = optuna()
        [frozen] = [t for t in trial.study.get_trials(deepcopy=False) if t.number == trial.number]
        self._known: dict[int, float] = dict(frozen.intermediate_values)
        self._prunes = not isinstance(trial.study.pruner, module.pruners.NopPruner)
        self.is_pruned = False

    @property
    def best(self) -> float | None:
        """Of all evaluations: it is the one a BestExporter keeps."""
        values = [value for value in self._known.values() if math.isfinite(value)]
        return self._better(values) if values else None

    @property
    def last_step(self) -> int:
        return max(self._known, default=0)

    @property
    def has_reported(self) -> bool:
        return bool(self._known)

    def evaluated(self, name: str | None, metrics: Mapping[str, Any]) -> bool:
        if name != self.evaluation:
            return False
        key = self.metric
        if key not in metrics:
            there = [metric for metric in metrics if metric != _STEP]
            which = "evaluation" if name is None else f"evaluation {name!r}"
            raise ConfigError(
                f"The {which} has no metric {key!r} to search by; it has "
                f"{', '.join(sorted(there))}.{did_you_mean(key, there)}"
            )
        step, value = int(metrics[_STEP]), float(metrics[key])
        if step not in self._known:  # a trial that goes on evaluates its last checkpoint again
            self._known[step] = value
            self._trial.report(value, step)
        self.is_pruned = self._prunes and bool(self._trial.should_prune())
        return self.is_pruned


def meant(metric: str, evaluations: Sequence[str | None]) -> tuple[str | None, str]:
    """The evaluation that a metric is of, by its name, and what it is called there.

    >>> meant("test/accuracy/baseline", ["train", "test"]), meant("accuracy", ["test"])
    (('test', 'accuracy/baseline'), ('test', 'accuracy'))
    """
    named = [name for name in evaluations if name and metric.startswith(f"{name}/")]
    if named:
        name = max(named, key=len)
        return name, metric.removeprefix(f"{name}/")
    if None in evaluations:
        return None, metric
    if len(evaluations) == 1:
        return evaluations[0], metric
    raise ConfigError(
        f"The metric {metric!r} to search by is of none of the evaluations "
        f"{', '.join(map(str, evaluations))}: say of which, as in '{evaluations[0]}/{metric}'."
    )


def run(
    claim: Claim, values: Mapping[str, Any], make: Make, metric: str, minimize: bool
) -> tuple[Any, float | None]:
    """Train; the state that the trial has come to, and its value."""
    states = optuna().trial.TrialState
    note_parameters(claim.model_dir, values, str(claim.trial.number))
    made = _checked(make(dict(values), claim.model_dir), claim.model_dir)
    hook = TrialHook(claim.trial, metric, minimize, _evaluations(made))
    note_metric(os.path.dirname(claim.model_dir), list(values), hook)
    target = _train(made, hook)
    gc.collect()  # its variables, before the next trial makes its own
    if not hook.has_reported:
        of = "" if hook.evaluation is None else f" of the evaluation {hook.evaluation!r}"
        raise ConfigError(
            f"The trial in {claim.model_dir} ended without an evaluation, so that there is no "
            f"{hook.metric!r}{of} to search by; evaluate in the process that trains."
        )
    if hook.is_pruned and not (target is not None and hook.last_step >= target):
        return states.PRUNED, None
    return (states.FAIL, None) if hook.best is None else (states.COMPLETE, hook.best)


def _evaluations(made: Any) -> list[str | None]:
    """Their names."""
    specs = made.eval_spec if isinstance(made, Experiment) else made[2]
    several = isinstance(specs, Sequence) and not isinstance(specs, EvalSpec)  # which is a tuple
    return [getattr(spec, "name", None) for spec in (specs if several else [specs])]


def _train(made: Any, hook: TrialHook) -> int | None:
    """Train what was made; the step it was meant to reach."""
    if isinstance(made, Experiment):
        made.extend_train_hooks([hook])
        made.train_and_evaluate()
        return made.train_steps
    estimator, train_spec, eval_spec = made
    train_spec = train_spec._replace(hooks=[*train_spec.hooks, hook])
    train_and_evaluate(estimator, train_spec, eval_spec)
    return train_spec.max_steps


def _checked(made: Any, model_dir: str) -> Any:
    if isinstance(made, Experiment):
        estimator = made.estimator
    elif isinstance(made, tuple) and len(made) == 3 and isinstance(made[0], Estimator):
        estimator = made[0]
    else:
        raise SpecTypeError(
            "What a search trains has to be (estimator, train_spec, eval_spec) or an "
            f"est.Experiment; make returned {made!r}."
        )
    if estimator.model_dir != model_dir:
        raise ConfigError(
            f"A trial has its own model_dir, {model_dir}, and was made with "
            f"{estimator.model_dir}: hand on the model_dir that make is called with."
        )
    return made


# ------------------------------------------------------------------ for TensorBoard


def note_parameters(model_dir: str, values: Mapping[str, Any], trial_id: str) -> None:
    """For the table of hyperparameters in TensorBoard."""
    plain = {n: v if isinstance(v, bool | int | float | str) else str(v) for n, v in values.items()}
    _write(model_dir, hparams_api.hparams_pb(plain, trial_id=trial_id))


def note_metric(folder: str, names: list[str], hook: TrialHook) -> None:
    """Which columns that table has; once for all trials."""
    if any(name.startswith("events.") for name in os.listdir(folder)):
        return
    group = "eval" if hook.evaluation is None else f"eval_{hook.evaluation}"
    shown = hparams_api.Metric(hook.metric, group=group)
    parameters = [hparams_api.HParam(name) for name in names]
    _write(folder, hparams_api.hparams_config_pb(parameters, [shown]))


def _write(directory: str, summary: Any) -> None:
    events = EventWriter.get(directory)
    events.summary(summary, 0)
    events.flush()
