"""Evaluating all checkpoints that have not been evaluated yet."""

from __future__ import annotations

import logging
from typing import Any

from estimand.core.handles import EstimatorHandle
from estimand.core.spec import EvalSpec
from estimand.engine.checkpoints.api import checkpoint_candidates
from estimand.estimator.lifecycle.evaluator import SpecEvaluator, step_of
from estimand.evaluation.checkpoints_to_evaluate import not_yet_evaluated

_log = logging.getLogger("tensorflow")


def evaluate_all(
    estimator: EstimatorHandle, eval_spec: EvalSpec, *, again: bool = False
) -> dict[int, dict[str, Any]]:
    """Evaluate every checkpoint of model_dir that has no results yet; metrics by step.

    Args:
      estimator: whose checkpoints.
      eval_spec: input, steps, name and hooks of the evaluations; exporters are left alone.
      again: evaluate also those that have results.

    >>> import estimand as est, numpy as np
    >>> x = np.linspace(-1, 1, 64, dtype="float32")
    >>> read = est.inputs.numpy_input_fn({"x": x}, 3 * x + 1, num_epochs=None, shuffle=True)
    >>> config = est.RunConfig(save_checkpoints_steps=10)
    >>> columns = [est.feature_column.numeric_column("x")]
    >>> line = est.LinearRegressor(columns, config=config).train(read, max_steps=20)
    >>> test = est.inputs.numpy_input_fn({"x": x}, 3 * x + 1, shuffle=False)
    >>> sorted(est.evaluate_all(line, est.EvalSpec(test)))
    [0, 10, 20]
    """
    evaluator = SpecEvaluator(estimator, eval_spec)
    if again:
        paths = sorted(checkpoint_candidates(estimator.model_dir), key=step_of)
    else:
        paths = not_yet_evaluated(estimator.model_dir, evaluator.eval_dir)
    if not paths:
        _log.info("Nothing to evaluate: all checkpoints in %s have results.", estimator.model_dir)
    results = {}
    for path in paths:
        evaluator.evaluate(path)
        assert evaluator.metrics is not None and evaluator.step is not None
        results[evaluator.step] = evaluator.metrics
    return results
