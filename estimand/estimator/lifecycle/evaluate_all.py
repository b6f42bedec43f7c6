"""Evaluating all checkpoints that have not been evaluated yet."""

from __future__ import annotations

import logging
from typing import Any

from estimand.core.spec import EvalSpec
from estimand.engine.checkpoints.api import checkpoint_candidates
from estimand.estimator.lifecycle.evaluator import SpecEvaluator, step_of
from estimand.evaluation.checkpoints_to_evaluate import not_yet_evaluated

_log = logging.getLogger("tensorflow")


def evaluate_all(
    estimator: Any, eval_spec: EvalSpec, *, again: bool = False
) -> dict[int, dict[str, Any]]:
    """Evaluate every checkpoint of model_dir that has no results yet; metrics by step.

    Args:
      estimator: whose checkpoints.
      eval_spec: input, steps, name and hooks of the evaluations; exporters are left alone.
      again: evaluate also those that have results.
    """
    one = SpecEvaluator(estimator, eval_spec)
    if again:
        paths = sorted(checkpoint_candidates(estimator.model_dir), key=step_of)
    else:
        paths = not_yet_evaluated(estimator.model_dir, one.eval_dir)
    if not paths:
        _log.info("Nothing to evaluate: all checkpoints in %s have results.", estimator.model_dir)
    results = {}
    for path in paths:
        one.evaluate(path)
        assert one.metrics is not None and one.step is not None
        results[one.step] = one.metrics
    return results
