"""Evaluation during training, of the variables as they are, with no checkpoint involved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ConfigError
from estimand.core.handles import EstimatorHandle
from estimand.engine.hook_calls.cadence import Cadence
from estimand.estimator import checks
from estimand.estimator.calls import evaluate
from estimand.estimator.run_context import engine_scope
from estimand.estimator.workspace import Workspace
from estimand.hooks.base import LoopHook


class InMemoryEvaluatorHook(LoopHook):
    """Evaluates before the first step, every so many steps, and at the end of training.

    Results go where those of `evaluate` go.

    Args:
      estimator: the estimator that is trained with this hook.
      input_fn: the evaluation input.
      steps: how many batches; None for all.
      hooks: hooks for the evaluation.
      name: results go to `model_dir/eval_<name>`.
      every_n_iter: how many training steps lie between two evaluations.

    >>> import estimand as est
    >>> estimator = est.Estimator(lambda features, labels, mode: None, model_dir="unused")
    >>> hook = est.experimental.InMemoryEvaluatorHook(estimator, lambda: None, every_n_iter=500)
    """

    def __init__(
        self,
        estimator: EstimatorHandle,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[Any] | None = None,
        name: str | None = None,
        every_n_iter: int | None = 100,
    ) -> None:
        if every_n_iter is None or every_n_iter <= 0:
            raise ConfigError(f"invalid every_n_iter={every_n_iter}. Pass a number of steps.")
        config = estimator.config
        if config.num_ps_replicas > 0 or config.num_worker_replicas > 1:
            raise ConfigError(
                "InMemoryEvaluator supports only single machine (aka Local) setting. TF_CONFIG "
                f"has {config.num_worker_replicas} workers and {config.num_ps_replicas} parameter "
                "servers; use est.train_and_evaluate with an evaluator."
            )
        checks.positive("steps", steps)
        workspace = Workspace.of(estimator)
        if workspace is None:
            raise ConfigError(f"InMemoryEvaluatorHook needs an est.Estimator, got {estimator!r}.")
        self._workspace = workspace
        self._estimator = estimator
        self._input_fn = input_fn
        self._steps = steps
        self._hooks = checks.hooks(hooks)
        self._name = name
        self._evaluated_step: int | None = None
        self.cadence = Cadence(every_n_iter, at_start=False)
        self._every_n_iter = every_n_iter

    def begin(self) -> None:
        super().begin()
        self._evaluated_step = None
        self._find_global_step()

    def after_create_session(
        self, session: tf.compat.v1.Session, coord: tf.compat.v1.train.Coordinator
    ) -> None:
        self._evaluate(self._step_now(session))

    def after_run(
        self,
        run_context: tf.compat.v1.train.SessionRunContext,
        run_values: tf.compat.v1.train.SessionRunValues,
    ) -> None:
        step = self._step_now(run_context.session)
        last = self._evaluated_step
        if last is None or step - last >= self._every_n_iter:
            self._evaluate(step)

    def end(self, session: tf.compat.v1.Session) -> None:
        step = self._step_now(session)
        if step != self._evaluated_step:
            self._evaluate(step)

    def _evaluate(self, step: int) -> None:
        self._evaluated_step = step
        workspace = self._workspace
        with tf_private.eager_mode(), engine_scope(workspace):
            evaluate.evaluate(
                workspace,
                self._input_fn,
                self._steps,
                self._hooks,
                None,
                self._estimator.eval_dir(self._name),
                self._name,
                as_they_are=True,
            )
