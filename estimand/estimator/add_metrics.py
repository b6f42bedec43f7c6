"""`add_metrics`: an estimator like another one that measures more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from estimand.core.config import RunConfig
from estimand.core.errors import ModelFnError, SpecTypeError
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.estimator.estimator import Estimator
from estimand.estimator.model_fn import argument_names

_KNOWN = ("features", "labels", "predictions", "config")


def add_metrics(estimator: Estimator, metric_fn: Callable[..., dict[str, Any]]) -> Estimator:
    """An estimator that is like `estimator` in all but its evaluation, which has more metrics.

    It shares the model_dir, so it evaluates, predicts with and exports what was trained before.

    Args:
      estimator: stays as it is.
      metric_fn: takes any of `features`, `labels`, `predictions`, `config`, by name; returns a
        dict of metrics by name, as in `EstimatorSpec(eval_metric_ops=...)`. One of the same name
        as a metric of the estimator takes its place.

    >>> import estimand as est, tensorflow as tf
    >>> def metric_fn(labels, predictions):
    ...     return {"bias": tf.compat.v1.metrics.mean(predictions["y"] - labels)}
    >>> estimator = est.Estimator(lambda features, labels, mode: None, model_dir="unused")
    >>> measured = est.add_metrics(estimator, metric_fn)
    """
    if not isinstance(estimator, Estimator):
        raise SpecTypeError(
            f"`estimator` must have type `tf.estimator.Estimator`. Got: {type(estimator)}."
        )
    names = _checked_arguments(metric_fn)

    def model_fn(
        features: Any, labels: Any, mode: str, config: RunConfig | None = None
    ) -> EstimatorSpec:
        spec = estimator._call_model_fn(features, labels, mode, config)
        if mode != ModeKeys.EVAL:
            return spec
        known = {
            "features": features,
            "labels": labels,
            "predictions": spec.predictions,
            "config": config,
        }
        more = metric_fn(**{name: known[name] for name in names}) or {}
        return spec._replace(eval_metric_ops={**(spec.eval_metric_ops or {}), **more})

    return estimator._with_model_fn(model_fn)


def _checked_arguments(metric_fn: Any) -> tuple[str, ...]:
    if not callable(metric_fn):
        raise SpecTypeError(
            f"metric_fn must be callable, given: {metric_fn!r}. Write a function of any of "
            f"{', '.join(_KNOWN)} that returns a dict of metrics."
        )
    names = argument_names(metric_fn)
    unknown = sorted(set(names) - set(_KNOWN))
    if unknown:
        raise ModelFnError(
            f"metric_fn ({metric_fn}) has following not expected args: {unknown}. It may have any "
            f"of {list(_KNOWN)}; bind others with functools.partial."
        )
    return names
