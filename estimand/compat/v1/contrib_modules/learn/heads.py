"""The heads of `tf.contrib.learn`: means over the batch, and the keys of 2016."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from estimand import heads
from estimand.compat.v1.contrib_modules.learn.keys import MetricKey, PredictionKey
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.heads.keys import MetricKeys, PredictionKeys

_HALF = (0.5,)
_CENTERED_BIAS = "centered_bias_weight"
_BINARY_METRICS = {
    MetricKeys.ACCURACY: MetricKey.ACCURACY,
    MetricKeys.ACCURACY_BASELINE: MetricKey.ACCURACY_BASELINE,
    MetricKeys.AUC: MetricKey.AUC,
    MetricKeys.AUC_PR: MetricKey.AUC_PR,
    MetricKeys.LABEL_MEAN: MetricKey.LABEL_MEAN,
    MetricKeys.PREDICTION_MEAN: MetricKey.PREDICTION_MEAN,
    MetricKeys.ACCURACY_AT_THRESHOLD % 0.5: MetricKey.ACCURACY_MEAN % 0.5,
    MetricKeys.PRECISION_AT_THRESHOLD % 0.5: MetricKey.PRECISION_MEAN % 0.5,
    MetricKeys.RECALL_AT_THRESHOLD % 0.5: MetricKey.RECALL_MEAN % 0.5,
}
_CLASS_PREDICTIONS = {
    PredictionKeys.LOGITS: PredictionKey.LOGITS,
    PredictionKeys.LOGISTIC: PredictionKey.LOGISTIC,
    PredictionKeys.PROBABILITIES: PredictionKey.PROBABILITIES,
}


class Head:
    """A head of today, with the names of then for what it predicts and measures.

    Of several labels it has one prediction each; of one, predictions are vectors.
    """

    def __init__(
        self,
        inner: Any,
        metrics: Mapping[str, str],
        predictions: Callable[[dict[str, Any]], dict[str, Any]] = dict,
        centered_bias: bool = False,
    ) -> None:
        self.inner, self._metrics, self._predictions = inner, metrics, predictions
        self._centered_bias = centered_bias

    def variables(self) -> list[Any]:
        """What is to be trained besides the variables behind the logits."""
        known = tf.compat.v1.trainable_variables() if self._centered_bias else []
        return [variable for variable in known if variable.name == f"{_CENTERED_BIAS}:0"]

    @property
    def logits_dimension(self) -> int:
        return self.inner.logits_dimension

    @property
    def head_name(self) -> str | None:
        return self.inner.name

    def create_model_fn_ops(
        self,
        features: Any,
        mode: str,
        labels: Any = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        logits: Any = None,
        logits_input: Any = None,
        scope: Any = None,
    ) -> EstimatorSpec:
        """What a model function returns; `logits_input` is put through one more dense layer."""
        if logits is None:
            from estimand.compat.v1.contrib_modules.layers.dense import fully_connected

            logits = fully_connected(
                logits_input, self.logits_dimension, activation_fn=None, scope=scope or "logits"
            )
        if self._centered_bias:
            logits = tf.nn.bias_add(logits, _centered_bias(self.logits_dimension))
        spec = self.inner.create_estimator_spec(
            features={} if features is None else features,
            mode=mode,
            logits=logits,
            labels=labels,
            train_op_fn=train_op_fn if mode == ModeKeys.TRAIN else None,
        )
        predictions = self._predictions(spec.predictions)
        metrics = None
        if spec.eval_metric_ops is not None:
            metrics = {
                then: spec.eval_metric_ops[now]
                for now, then in self._metrics.items()
                if now in spec.eval_metric_ops
            }
        return spec._replace(predictions=predictions, eval_metric_ops=metrics)


def multi_class_head(
    n_classes: int,
    label_name: str | None = None,
    weight_column_name: str | None = None,
    enable_centered_bias: bool = False,
    head_name: str | None = None,
    thresholds: Any = None,
    metric_class_ids: Any = None,
    loss_fn: Any = None,
    label_keys: Any = None,
) -> Head:
    """A head for two classes or more."""
    del label_name, thresholds, metric_class_ids
    words = None if label_keys is None else list(label_keys)
    settings: dict[str, Any] = {"weight_column": weight_column_name, "label_vocabulary": words}
    if n_classes == 2:
        inner: Any = heads.BinaryClassHead(
            thresholds=_HALF, loss_fn=loss_fn, name=head_name, **settings
        )
        return Head(inner, _BINARY_METRICS, _class_predictions(words), enable_centered_bias)
    inner = heads.MultiClassHead(n_classes, loss_fn=loss_fn, name=head_name, **settings)
    metrics = {MetricKeys.ACCURACY: MetricKey.ACCURACY}
    return Head(inner, metrics, _class_predictions(words), enable_centered_bias)


def binary_svm_head(**settings: Any) -> Head:
    """A head of two classes with a margin."""
    name = settings.get("head_name")
    weights = settings.get("weight_column_name")
    inner = heads.HingeHead(weight_column=weights, name=name)
    return Head(inner, {MetricKeys.ACCURACY: MetricKey.ACCURACY}, _class_predictions(None))


def multi_label_head(
    n_classes: int,
    label_name: str | None = None,
    weight_column_name: str | None = None,
    enable_centered_bias: bool = False,
    head_name: str | None = None,
    thresholds: Any = None,
    metric_class_ids: Any = None,
    loss_fn: Any = None,
) -> Head:
    """A head for several labels at once."""
    del label_name, metric_class_ids
    inner = heads.MultiLabelHead(
        n_classes, weight_column=weight_column_name, thresholds=thresholds, loss_fn=loss_fn,
        name=head_name,
    )  # fmt: skip
    metrics = {MetricKeys.AUC: MetricKey.AUC, MetricKeys.AUC_PR: MetricKey.AUC_PR}
    return Head(inner, metrics, centered_bias=enable_centered_bias)


def regression_head(
    label_name: str | None = None,
    weight_column_name: str | None = None,
    label_dimension: int = 1,
    enable_centered_bias: bool = False,
    head_name: str | None = None,
    link_fn: Any = None,
) -> Head:
    """A head for numbers."""
    del label_name
    inner = heads.RegressionHead(
        label_dimension=label_dimension,
        weight_column=weight_column_name,
        inverse_link_fn=link_fn,
        name=head_name,
    )
    return Head(inner, {}, _score_predictions, enable_centered_bias)


def poisson_regression_head(
    label_name: str | None = None,
    weight_column_name: str | None = None,
    label_dimension: int = 1,
    enable_centered_bias: bool = False,
    head_name: str | None = None,
) -> Head:
    """A head for counts."""
    del label_name
    inner = heads.PoissonRegressionHead(
        label_dimension=label_dimension, weight_column=weight_column_name, name=head_name
    )
    return Head(inner, {}, _score_predictions, enable_centered_bias)


def _class_predictions(words: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Classes are words where there are words for them, else numbers."""
    key = PredictionKeys.CLASS_IDS if words is None else PredictionKeys.CLASSES

    def renamed(made: dict[str, Any]) -> dict[str, Any]:
        result = {then: made[now] for now, then in _CLASS_PREDICTIONS.items() if now in made}
        return {**result, PredictionKey.CLASSES: tf.squeeze(made[key], -1)}

    return renamed


def _score_predictions(made: dict[str, Any]) -> dict[str, Any]:
    values = made[PredictionKeys.PREDICTIONS]
    return {PredictionKey.SCORES: tf.squeeze(values, -1) if values.shape[-1] == 1 else values}


def _centered_bias(size: int) -> Any:
    v1 = tf.compat.v1
    return v1.get_variable(_CENTERED_BIAS, [size], initializer=v1.zeros_initializer())
