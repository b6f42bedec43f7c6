"""What a process does in a cluster: one function for each role."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from estimand.core.config import RunConfig
from estimand.core.errors import ConfigError
from estimand.core.handles import EstimatorHandle
from estimand.core.spec import EvalSpec, TrainSpec
from estimand.engine.checkpoints import api as checkpoints
from estimand.estimator.lifecycle.continuous import evaluate_continuously
from estimand.estimator.lifecycle.evaluator import evaluators_of, last_results
from estimand.estimator.lifecycle.local import run_local
from estimand.estimator.training import cluster
from estimand.estimator.workspace import Workspace
from estimand.hooks import stop_record
from estimand.hooks.early_stopping import EarlyStoppingHook

CHIEF, MASTER, WORKER, PS, EVALUATOR = "chief", "master", "worker", "ps", "evaluator"

_log = logging.getLogger("tensorflow")

Role = Callable[[Any, TrainSpec, Any], Any]


def role(config: RunConfig) -> Role:
    """What to call for the task of this process."""
    if config.task_type == EVALUATOR and config.task_id > 0:
        raise ConfigError(
            "For distributed training, there can only be one `evaluator` task (with task id 0). "
            f"Given task id {config.task_id}"
        )
    role = _ROLES.get(config.task_type)
    if role is None:
        raise ConfigError(
            f"Task type {config.task_type} is not supported. Supported task types are "
            f"{sorted(_ROLES)}. It comes from TF_CONFIG."
        )
    return role


def run_chief(
    estimator: EstimatorHandle, train_spec: TrainSpec, eval_spec: EvalSpec | None
) -> None:
    """Train and save; evaluating is the evaluator's part."""
    del eval_spec
    stop_record.remove(estimator.model_dir)
    estimator.train(
        input_fn=train_spec.input_fn,
        max_steps=train_spec.max_steps,
        hooks=list(train_spec.hooks),
        saving_listeners=list(train_spec.saving_listeners),
    )
    _tell_that_training_ended(estimator, train_spec)


def run_master(estimator: EstimatorHandle, train_spec: TrainSpec, eval_spec: EvalSpec) -> Any:
    """The chief of old clusters, which evaluates as well."""
    return run_local(estimator, train_spec, eval_spec)


def run_worker(
    estimator: EstimatorHandle, train_spec: TrainSpec, eval_spec: EvalSpec | None
) -> None:
    """Train together with the others; where there are parameter servers, serve the chief.

    In a cluster that names no chief, worker 0 is it.
    """
    if estimator.config.is_chief:
        return run_chief(estimator, train_spec, eval_spec)
    estimator.train(
        input_fn=train_spec.input_fn,
        max_steps=train_spec.max_steps,
        hooks=list(train_spec.hooks),
        saving_listeners=[],  # of what the chief saves, it hears
    )
    return None


def run_ps(estimator: EstimatorHandle, train_spec: TrainSpec, eval_spec: EvalSpec | None) -> None:
    """Hold variables for chief and workers, until the chief has ended the training."""
    del train_spec, eval_spec
    if estimator.config.num_ps_replicas == 0:
        raise ConfigError(
            "There is nobody to serve: TF_CONFIG does not make this process part of a cluster "
            f"with parameter servers. It is {estimator.config.task_type} "
            f"{estimator.config.task_id}."
        )
    workspace = Workspace.of(estimator)
    if workspace is None:
        raise ConfigError(
            f"{estimator!r} cannot serve as parameter server or worker: it is no est.Estimator."
        )
    cluster.serve_chief(workspace)


def run_evaluator(
    estimator: EstimatorHandle, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[Any, Any]:
    """Evaluate new checkpoints, and export, until training has ended."""
    evaluators = evaluators_of(estimator, eval_spec)
    evaluate_continuously(estimator, evaluators, max_steps=train_spec.max_steps)
    return last_results(evaluators, several=not isinstance(eval_spec, EvalSpec))


_ROLES: dict[str, Role] = {
    CHIEF: run_chief,
    MASTER: run_master,
    WORKER: run_worker,
    PS: run_ps,
    EVALUATOR: run_evaluator,
}


def _tell_that_training_ended(estimator: EstimatorHandle, train_spec: TrainSpec) -> None:
    """So that the evaluator ends, also where there is no `max_steps` to end at."""
    if any(isinstance(h, EarlyStoppingHook) and h.reason for h in train_spec.hooks):
        return  # it has said so itself
    newest = estimator.latest_checkpoint()
    if newest is not None:
        step = checkpoints.checkpoint_step(newest)
        stop_record.write(estimator.model_dir, step=step, reason="training ended")
