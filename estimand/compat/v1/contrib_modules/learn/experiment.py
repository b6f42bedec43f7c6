"""`tf.contrib.learn.Experiment`: metrics may be given beside the estimator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from estimand.compat.v1.contrib_modules.learn.estimator import FitsArrays
from estimand.compat.v1.contrib_modules.learn.monitors import replace_monitors_with_hooks
from estimand.estimator.lifecycle import experiment


class Experiment(experiment.Experiment):
    """An `est.Experiment` with the arguments of contrib.learn.

    `local_eval_frequency`, `delay_workers_by_global_step` and `checkpoint_and_export` are accepted
    and have no effect: each new checkpoint is evaluated.
    """

    def __init__(
        self,
        estimator: Any,
        train_input_fn: Callable[..., Any],
        eval_input_fn: Callable[..., Any],
        eval_metrics: Mapping[Any, Any] | None = None,
        train_steps: int | None = None,
        eval_steps: int | None = 100,
        train_monitors: Iterable[Any] | None = None,
        eval_hooks: Iterable[Any] | None = None,
        eval_delay_secs: float = 120,
        continuous_eval_throttle_secs: float = 60,
        min_eval_frequency: int | None = None,
        delay_workers_by_global_step: bool = False,
        export_strategies: Any = None,
        train_steps_per_iteration: int | None = None,
        checkpoint_and_export: bool = False,
        saving_listeners: Iterable[Any] | None = None,
        local_eval_frequency: int | None = None,
    ) -> None:
        del delay_workers_by_global_step, checkpoint_and_export, local_eval_frequency
        if isinstance(estimator, FitsArrays):
            estimator = estimator._with_metrics(eval_metrics) if eval_metrics else estimator
            eval_metrics = None
        super().__init__(
            estimator,
            train_input_fn,
            eval_input_fn,
            eval_metrics,  # type: ignore[arg-type]
            train_steps,
            eval_steps,
            replace_monitors_with_hooks(train_monitors, estimator),
            eval_hooks,
            eval_delay_secs,
            continuous_eval_throttle_secs,
            min_eval_frequency,
            export_strategies,
            train_steps_per_iteration,
            saving_listeners,
        )
