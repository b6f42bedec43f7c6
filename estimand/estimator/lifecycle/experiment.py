"""`Experiment` and `run`: the entry points of TensorFlow 1's `contrib.learn`, on today's parts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from estimand.core.config import RunConfig
from estimand.core.errors import ConfigError, SpecError, SpecTypeError
from estimand.core.handles import EstimatorHandle
from estimand.core.spec import EvalSpec, TrainSpec
from estimand.engine.checkpoints import api as checkpoints
from estimand.estimator.estimator import Estimator
from estimand.estimator.lifecycle import roles
from estimand.estimator.lifecycle.continuous import evaluate_continuously
from estimand.estimator.lifecycle.evaluator import SpecEvaluator
from estimand.estimator.lifecycle.local import run_local

_log = logging.getLogger("tensorflow")

_STEPS_PER_ITERATION = 1000


class Experiment:
    """An estimator with everything that is needed to train and evaluate it.

    Args:
      estimator: what to train.
      train_input_fn: the training input.
      eval_input_fn: the evaluation input.
      eval_metrics: has to be None: metrics are the model function's, or `est.add_metrics`'s.
      train_steps: the global step to train to; None trains to the end of the input.
      eval_steps: batches per evaluation; None for the whole input.
      train_monitors: hooks for training.
      eval_hooks: hooks for evaluation.
      eval_delay_secs: how long `continuous_eval` waits before it begins.
      continuous_eval_throttle_secs: how long it waits between two evaluations.
      min_eval_frequency: evaluate a new checkpoint only if that many steps have been trained
        since the last evaluation; None evaluates each, 0 only the last.
      export_strategies: exporters, called after evaluations.
      train_steps_per_iteration: how far `continuous_train_and_eval` trains at a time.
      saving_listeners: told of each checkpoint.

    >>> import estimand as est
    >>> estimator = est.Estimator(lambda features, labels, mode: None, model_dir="unused")
    >>> experiment = est.Experiment(estimator, lambda: None, lambda: None, train_steps=1000)
    """

    def __init__(
        self,
        estimator: EstimatorHandle,
        train_input_fn: Callable[..., Any],
        eval_input_fn: Callable[..., Any],
        eval_metrics: None = None,
        train_steps: int | None = None,
        eval_steps: int | None = 100,
        train_monitors: Iterable[Any] | None = None,
        eval_hooks: Iterable[Any] | None = None,
        eval_delay_secs: float = 120,
        continuous_eval_throttle_secs: float = 60,
        min_eval_frequency: int | None = None,
        export_strategies: Any = None,
        train_steps_per_iteration: int | None = None,
        saving_listeners: Iterable[Any] | None = None,
    ) -> None:
        if not isinstance(estimator, Estimator):
            raise SpecTypeError(
                f"`estimator` must have type `tf.estimator.Estimator`. Got: {type(estimator)}. "
                "Pass an est.Estimator, or one of its subclasses."
            )
        if eval_metrics is not None:
            raise SpecError(
                "`eval_metrics` must be `None` with `tf.estimator.Estimator`. Return metrics from "
                "model_fn, or pass est.add_metrics(estimator, metric_fn) as the estimator."
            )
        if min_eval_frequency is not None and min_eval_frequency < 0:
            raise SpecError(f"min_eval_frequency must be >= 0, given: {min_eval_frequency}.")
        if train_steps_per_iteration is not None and train_steps_per_iteration < 1:
            raise SpecError(
                f"train_steps_per_iteration must be >= 1, given: {train_steps_per_iteration}."
            )
        self._estimator = estimator
        self._min_eval_frequency = min_eval_frequency
        self._train_steps_per_iteration = train_steps_per_iteration
        self._train_spec = TrainSpec(
            train_input_fn, train_steps, list(train_monitors or ()), list(saving_listeners or ())
        )
        self._eval_spec = EvalSpec(
            eval_input_fn,
            eval_steps,
            hooks=list(eval_hooks or ()),
            exporters=export_strategies,
            start_delay_secs=eval_delay_secs,
            throttle_secs=continuous_eval_throttle_secs,
        )

    @property
    def estimator(self) -> Any:
        return self._estimator

    @property
    def train_spec(self) -> TrainSpec:
        return self._train_spec

    @property
    def eval_spec(self) -> EvalSpec:
        return self._eval_spec

    @property
    def train_steps(self) -> int | None:
        return self._train_spec.max_steps

    @property
    def eval_steps(self) -> int | None:
        return self._eval_spec.steps

    def extend_train_hooks(self, additional_hooks: Sequence[Any]) -> None:
        """Add hooks for training."""
        hooks = [*self._train_spec.hooks, *additional_hooks]
        self._train_spec = self._train_spec._replace(hooks=hooks)

    # Schedules: what `run` calls by name

    def train(self, delay_secs: float | None = None) -> Any:
        """Train to `train_steps`; returns the estimator."""
        _delay(delay_secs, "training")
        return self._estimator.train(
            input_fn=self._train_spec.input_fn,
            max_steps=self._train_spec.max_steps,
            hooks=list(self._train_spec.hooks),
            saving_listeners=list(self._train_spec.saving_listeners),
        )

    def evaluate(self, delay_secs: float | None = None, name: str | None = None) -> dict[str, Any]:
        """Evaluate the newest checkpoint once."""
        _delay(delay_secs, "eval")
        spec = self._eval_spec
        return self._estimator.evaluate(
            input_fn=spec.input_fn, steps=spec.steps, hooks=spec.hooks, name=name
        )

    def continuous_eval(
        self,
        delay_secs: float | None = None,
        throttle_delay_secs: float | None = None,
        continuous_eval_predicate_fn: Callable[[Any], bool] | None = None,
        name: str | None = None,
    ) -> None:
        """Evaluate new checkpoints of another process's training, until it has ended."""
        spec = self._eval_spec._replace(name=name)
        if delay_secs is not None:
            spec = spec._replace(start_delay_secs=delay_secs)
        if throttle_delay_secs is not None:
            spec = spec._replace(throttle_secs=throttle_delay_secs)
        self._follow(spec, continuous_eval_predicate_fn)

    def continuous_eval_on_train_data(
        self,
        delay_secs: float | None = None,
        throttle_delay_secs: float | None = None,
        continuous_eval_predicate_fn: Callable[[Any], bool] | None = None,
        name: str | None = "on_train_data",
    ) -> None:
        """The same on the training input."""
        spec = self._eval_spec._replace(input_fn=self._train_spec.input_fn, exporters=None)
        spec = spec._replace(
            name=name,
            start_delay_secs=spec.start_delay_secs if delay_secs is None else delay_secs,
            throttle_secs=spec.throttle_secs
            if throttle_delay_secs is None
            else throttle_delay_secs,
        )
        self._follow(spec, continuous_eval_predicate_fn)

    def train_and_evaluate(self) -> tuple[Any, Any]:
        """Train to `train_steps`, evaluating on the way; (metrics, exports) of the last one."""
        return self._train_and_evaluate(self._train_spec)

    def continuous_train_and_eval(
        self, continuous_eval_predicate_fn: Callable[[Any], bool] | None = None
    ) -> tuple[Any, Any]:
        """Train some steps, evaluate, and so on, until `train_steps` or the function says False.

        The function is called with the last metrics, None at first.
        """
        evaluator = SpecEvaluator(self._estimator, self._eval_spec)
        target = self._train_spec.max_steps
        steps = self._steps_per_iteration()
        while continuous_eval_predicate_fn is None or continuous_eval_predicate_fn(
            evaluator.metrics
        ):
            newest = self._estimator.latest_checkpoint()
            start = 0 if newest is None else checkpoints.checkpoint_step(newest)
            if target is not None and start >= target and evaluator.metrics is not None:
                break
            upto = start + steps if target is None else min(start + steps, target)
            spec = self._train_spec._replace(max_steps=max(upto, 1))
            self._estimator.train(
                input_fn=spec.input_fn,
                max_steps=spec.max_steps,
                hooks=list(spec.hooks),
                saving_listeners=list(spec.saving_listeners),
            )
            newest = self._estimator.latest_checkpoint()
            if newest == evaluator.path:
                _log.info("No step was trained: the input has ended.")
                break
            evaluator.evaluate(newest)
            evaluator.export(final=target is not None and (evaluator.step or 0) >= target)
        return evaluator.metrics, evaluator.exports

    def run_std_server(self) -> None:
        """Serve variables to chief and workers."""
        roles.run_ps(self._estimator, self._train_spec, self._eval_spec)

    def test(self) -> tuple[Any, Any]:
        """One step of training and one of evaluation, to see that everything fits."""
        newest = self._estimator.latest_checkpoint()
        start = 0 if newest is None else checkpoints.checkpoint_step(newest)
        self._estimator.train(input_fn=self._train_spec.input_fn, max_steps=start + 1)
        evaluator = SpecEvaluator(self._estimator, self._eval_spec._replace(steps=1))
        evaluator.evaluate(self._estimator.latest_checkpoint())
        return evaluator.metrics, evaluator.exports

    local_run = train_and_evaluate

    def _train_and_evaluate(self, train_spec: TrainSpec) -> tuple[Any, Any]:
        frequency = self._min_eval_frequency
        # 0 evaluates at the end only: no checkpoint on the way is far enough.
        between = 2**62 if frequency == 0 else frequency or 0
        spec = self._eval_spec._replace(throttle_secs=0)
        return run_local(self._estimator, train_spec, spec, min_steps_between=between)

    def _steps_per_iteration(self) -> int:
        if self._train_steps_per_iteration is not None:
            return self._train_steps_per_iteration
        return self._min_eval_frequency or _STEPS_PER_ITERATION

    def _follow(self, spec: EvalSpec, predicate: Callable[[Any], bool] | None) -> None:
        evaluate_continuously(
            self._estimator,
            [SpecEvaluator(self._estimator, spec)],
            max_steps=self._train_spec.max_steps,
            predicate=predicate,
        )


_SCHEDULES = {
    roles.CHIEF: "train",
    roles.EVALUATOR: "continuous_eval",
    roles.MASTER: "train_and_evaluate",
    roles.PS: "run_std_server",
    roles.WORKER: "train",
}


def run(
    experiment_fn: Callable[..., Experiment],
    output_dir: str | None = None,
    schedule: str | None = None,
    run_config: RunConfig | None = None,
    hparams: Any = None,
) -> Any:
    """Make an experiment and run one of its methods: `learn_runner.run` of TensorFlow 1.

    Args:
      experiment_fn: called as `experiment_fn(run_config, hparams)`; without a `run_config`, as
        `experiment_fn(output_dir)`.
      output_dir: the model_dir, if there is no `run_config`.
      schedule: the method; by default what the role in `TF_CONFIG` asks for, and
        "train_and_evaluate" for a process that works alone.
      run_config: handed on; its model_dir has to be set.
      hparams: handed on.

    >>> import tempfile, estimand as est, numpy as np
    >>> x = np.linspace(-1, 1, 64, dtype="float32")
    >>> read = est.inputs.numpy_input_fn({"x": x}, 3 * x + 1, num_epochs=None, shuffle=True)
    >>> def experiment_fn(run_config, hparams):
    ...     columns = [est.feature_column.numeric_column("x")]
    ...     line = est.LinearRegressor(columns, config=run_config)
    ...     return est.Experiment(line, read, read, train_steps=hparams.steps, eval_steps=1)
    >>> config = est.RunConfig(model_dir=tempfile.mkdtemp())
    >>> metrics, _ = est.learn_runner.run(
    ...     experiment_fn, run_config=config, hparams=est.HParams(steps=10)
    ... )
    >>> metrics["global_step"]
    10
    """
    if not callable(experiment_fn):
        raise ConfigError(f"Experiment builder {experiment_fn!r} is not callable.")
    if (output_dir is None) == (run_config is None):
        raise ConfigError(
            "Exactly one of run_config and output_dir is needed, given: "
            f"run_config={run_config!r}, output_dir={output_dir!r}."
        )
    if run_config is not None:
        if not run_config.model_dir:
            raise ConfigError(
                "Must specify a model directory in `run_config`: est.RunConfig(model_dir=...)."
            )
        # By position: real functions call the second one hparams, or params.
        experiment = experiment_fn(run_config, hparams)
    else:
        experiment = experiment_fn(output_dir)
    if not isinstance(experiment, Experiment):
        raise ConfigError(
            f"Experiment builder did not return an Experiment instance, got {experiment!r} instead."
        )
    return _method(experiment, schedule or _default_schedule(experiment.estimator.config))()


def _default_schedule(config: RunConfig) -> str:
    if not config.cluster_spec and config.task_type != roles.EVALUATOR:
        return "train_and_evaluate"
    return _SCHEDULES[config.task_type]


def _method(experiment: Experiment, name: str) -> Callable[[], Any]:
    kind = type(experiment)
    schedules = [n for n in dir(kind) if not n.startswith("_") and callable(getattr(kind, n))]
    if name not in schedules:
        raise ConfigError(
            f"Schedule references non-existent task {name!r}. There are: {', '.join(schedules)}."
        )
    return getattr(experiment, name)


def _delay(seconds: float | None, what: str) -> None:
    if seconds:
        _log.info("Waiting %d secs before starting %s.", seconds, what)
        time.sleep(seconds)
