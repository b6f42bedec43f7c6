"""When a metric says that training should stop."""

from __future__ import annotations

import glob
import logging
import math
import os
from dataclasses import dataclass, field

from estimand.core.errors import ConfigError
from estimand.engine.events import event_files
from estimand.hooks.eval_metrics import EvalMetrics

_log = logging.getLogger("tensorflow")


@dataclass
class Criterion:
    """Looks at one metric; called, it answers with a reason to stop, or None."""

    metrics: EvalMetrics
    metric_name: str
    min_steps: int
    _warned: bool = field(default=False, init=False, compare=False)

    def values(self) -> list[tuple[int, float]]:
        """Step and value, in the order of steps."""
        results = self.metrics.read()
        values = [(s, m[self.metric_name]) for s, m in results.items() if self.metric_name in m]
        if results and not values:
            known = sorted({name for metrics in results.values() for name in metrics})
            raise ConfigError(
                f"Early stopping looks at the metric {self.metric_name!r}, but the evaluations in "
                f"{self.metrics.eval_dir} have: {', '.join(known)}. Pass one of these as "
                "metric_name."
            )
        return [(step, value) for step, value in values if step >= self.min_steps]

    def warn_if_blind(self) -> None:
        """Say, once, that there is nothing to judge by."""
        if self._warned or self.metrics.read():
            return
        self._warned = True
        model_dir = os.path.dirname(os.path.abspath(self.metrics.eval_dir))
        folders = sorted(f for f in glob.glob(os.path.join(model_dir, "eval*")) if event_files(f))
        _log.warning(
            "Early stopping looks for %r in %s, where there are no results of evaluations%s.",
            self.metric_name,
            self.metrics.eval_dir,
            f"; there are in {', '.join(folders)}: pass eval_dir=" if folders else "",
        )


@dataclass
class Threshold(Criterion):
    threshold: float
    sign: int  # +1: stop when higher, -1: when lower

    def __call__(self) -> str | None:
        for step, value in self.values():
            if self.sign * (value - self.threshold) > 0:
                return (
                    f'At step {step}, metric "{self.metric_name}" has value {value:g} which is '
                    f"{'greater' if self.sign > 0 else 'less'} than the configured threshold "
                    f"({self.threshold:g}) for early stopping."
                )
        return None


@dataclass
class NoImprovement(Criterion):
    max_steps: int
    min_delta: float
    sign: int  # +1: an increase is an improvement, -1: a decrease

    def __call__(self) -> str | None:
        best, best_step = math.nan, None
        for step, value in self.values():
            # Nothing compares with NaN: whatever comes after it is better, and it never is.
            better = math.isnan(best) or self.sign * (value - best) > self.min_delta
            if best_step is None or (better and not math.isnan(value)):
                best, best_step = value, step
            if step - best_step >= self.max_steps:
                word = "increase" if self.sign > 0 else "decrease"
                return (
                    f'No {word} in metric "{self.metric_name}" for {step - best_step} steps (best '
                    f"{best:g} at step {best_step}), which is greater than or equal to max steps "
                    f"({self.max_steps}) configured for early stopping."
                )
        return None
