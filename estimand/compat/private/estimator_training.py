"""`tensorflow.python.distribute.estimator_training`: clusters, which Estimand drives by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def should_run_distribute_coordinator(config: Any) -> bool:
    """Whether somebody else has to start the parts of the cluster: no, `train` joins it."""
    del config
    return False


def init_run_config(config: Any, tf_config: dict[str, Any]) -> None:
    """What TF_CONFIG says is in the RunConfig already."""
    del config, tf_config


def train_and_evaluate(
    estimator: Any, train_spec: Any, eval_spec: Any, executor_cls: Any = None
) -> Any:
    """`est.train_and_evaluate`; there are no executors of other kinds."""
    from estimand.estimator.lifecycle.train_and_evaluate import train_and_evaluate as ours

    del executor_cls
    return ours(estimator, train_spec, eval_spec)


def estimator_train(estimator: Any, train_distributed_fn: Callable[..., Any], hooks: Any) -> Any:
    """Call the function that trains, with the strategy of the estimator."""
    return train_distributed_fn(estimator, estimator.config.train_distribute, hooks)


def estimator_evaluate(
    estimator: Any, evaluate_distributed_fn: Callable[..., Any], hooks: Any
) -> Any:
    """The same for evaluation."""
    return evaluate_distributed_fn(estimator, estimator.config.eval_distribute, hooks)
