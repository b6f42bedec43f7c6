"""`tf.contrib.learn.MetricSpec`: which predictions and labels a metric is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError
from estimand.estimator.model_fn import argument_names, takes_any_keyword

v1 = tf.compat.v1
# What metrics call their arguments.
_NAMES = {
    "predictions": ("predictions", "prediction", "values", "value", "output", "outputs", "logits"),
    "labels": ("labels", "label", "targets", "target", "y", "ys"),
    "weights": ("weights", "weight", "sample_weight"),
}


class MetricSpec:
    """A metric, and the keys of what it takes, where predictions, labels or features are dicts."""

    def __init__(
        self,
        metric_fn: Callable[..., Any],
        prediction_key: str | None = None,
        label_key: str | None = None,
        weight_key: str | None = None,
    ) -> None:
        if not callable(metric_fn):
            raise ConfigError(f"MetricSpec: metric_fn must be callable, given: {metric_fn!r}.")
        self._metric_fn = metric_fn
        self._prediction_key, self._label_key = prediction_key, label_key
        self._weight_key = weight_key

    @property
    def metric_fn(self) -> Callable[..., Any]:
        return self._metric_fn

    @property
    def prediction_key(self) -> str | None:
        return self._prediction_key

    @property
    def label_key(self) -> str | None:
        return self._label_key

    @property
    def weight_key(self) -> str | None:
        return self._weight_key

    def create_metric_ops(self, inputs: Any, labels: Any, predictions: Any) -> Any:
        """The metric of a batch; `inputs` are its features."""
        given = {
            "predictions": self._chosen(predictions, self._prediction_key, "prediction"),
            "labels": self._chosen(labels, self._label_key, "label"),
        }
        if self._weight_key is not None:
            given["weights"] = self._chosen(inputs, self._weight_key, "weight")
        return _called(self._metric_fn, given)

    def _chosen(self, values: Any, key: str | None, kind: str) -> Any:
        if not isinstance(values, Mapping):
            if key is not None and kind == "weight":
                raise ConfigError(
                    f"{self}: there is a weight_key, but the features are one tensor."
                )
            return values
        if key is None and len(values) == 1:
            return next(iter(values.values()))
        if key not in values:
            raise ConfigError(f"{self}: give {kind}_key, one of {sorted(values, key=str)}.")
        return values[key]

    def __str__(self) -> str:
        keys = (self._prediction_key, self._label_key, self._weight_key)
        given = zip(("prediction_key", "label_key", "weight_key"), keys, strict=True)
        shown = ", ".join(f"{name}={key!r}" for name, key in given if key is not None)
        name = getattr(self._metric_fn, "__name__", repr(self._metric_fn))
        return f"MetricSpec({', '.join(part for part in (name, shown) if part)})"


def metric_ops(
    metrics: Mapping[Any, Any], features: Any, labels: Any, predictions: Any
) -> dict[str, Any]:
    """The metrics that `evaluate(metrics=...)` was given, by name.

    Each is a `MetricSpec`, or a function of predictions and labels; a pair as its name has the
    name of the metric and the key of the prediction.
    """
    if not isinstance(metrics, Mapping):
        raise ConfigError(f"Metrics should be None or dict, got {metrics!r}.")
    made = {}
    for name, metric in metrics.items():
        key = None
        if isinstance(name, tuple):
            name, key = name
        spec = metric if isinstance(metric, MetricSpec) else MetricSpec(metric, key)
        made[name] = _streaming(spec.create_metric_ops(features, labels, predictions))
    return made


def _called(metric_fn: Callable[..., Any], given: dict[str, Any]) -> Any:
    """By name where the arguments tell what they are, else predictions and labels in order."""
    taken = argument_names(metric_fn)
    named = {}
    for kind, value in given.items():
        name = next((name for name in _NAMES[kind] if name in taken), None)
        if name is not None:
            named[name] = value
        elif kind == "weights" and takes_any_keyword(metric_fn):
            named["weights"] = value
    if len(named) == len(given):
        return metric_fn(**named)
    rest = {key: value for key, value in named.items() if key in _NAMES["weights"]}
    return metric_fn(given["predictions"], given["labels"], **rest)


def _streaming(metric: Any) -> Any:
    """What is the value of a batch only becomes the mean over batches."""
    return v1.metrics.mean(metric) if isinstance(metric, tf.Tensor) else metric
