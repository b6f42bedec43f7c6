"""Several objectives on one network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import HeadError
from estimand.core.export_output import ExportOutput, PredictOutput
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.heads import losses, training
from estimand.heads.base import Head, check_mode
from estimand.heads.keys import MetricKeys, ServingKeys
from estimand.heads.labels import given_labels
from estimand.heads.logits import split_logits
from estimand.heads.metrics import Mean


class MultiHead(Head):
    """Several heads at once: the loss is the sum of theirs, weighted by `head_weights`.

    Every head has a name. Labels are a dict by head name; logits are, too, or one tensor that is
    split along its last dimension in the order of heads. Metrics carry the suffix `/<name>`,
    predictions have keys (name, key), and an export serves the first head by default.

    Args:
      heads: each with a name, under which its labels and metrics go.
      head_weights: what the loss of each counts in the sum; None: 1 for all.

    >>> import estimand as est
    >>> head = MultiHead(
    ...     [est.RegressionHead(name="height"), est.RegressionHead(name="weight")],
    ...     head_weights=[1.0, 0.5],
    ... )
    >>> labels = {"height": [[1.0]], "weight": [[5.0]]}
    >>> float(head.loss(labels, logits=[[3.0, 7.0]]))
    6.0
    """

    def __init__(self, heads: Sequence[Head], head_weights: Sequence[float] | None = None) -> None:
        if not heads:
            raise HeadError(f"Must specify heads. Given: {heads}")
        if head_weights and len(head_weights) != len(heads):
            raise HeadError(
                "heads and head_weights must have the same size. "
                f"Given len(heads): {len(heads)}. Given len(head_weights): {len(head_weights)}."
            )
        for head in heads:
            if head.name is None:
                raise HeadError(
                    f"All given heads must have name specified. Given: {head}. Make it with "
                    "name='...'."
                )
        names = [head.name for head in heads]
        if len(set(names)) < len(names):
            raise HeadError(f"All given heads must have different names. Given: {names}.")
        self._heads = tuple(heads)
        self._head_weights = tuple(head_weights) if head_weights else ()

    @property
    def heads(self) -> tuple[Head, ...]:
        return self._heads

    @property
    def name(self) -> str:
        return "_".join(str(head.name) for head in self._heads)

    @property
    def logits_dimension(self) -> int:
        return sum(head.logits_dimension for head in self._heads)

    @property
    def loss_reduction(self) -> str:
        reductions = [head.loss_reduction for head in self._heads]
        if len(set(reductions)) > 1:
            raise HeadError(
                f"The loss_reduction must be the same for different heads. Given: {reductions}"
            )
        return reductions[0]

    @property
    def label_range(self) -> dict[str, Any]:
        """The range of every head, by its name."""
        return {str(head.name): head.label_range for head in self._heads}

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: str | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> tf.Tensor:
        of_head = self._logits_by_head(logits)
        self._check_labels(labels)
        each = [
            head.loss(
                logits=of_head[head.name], labels=labels[head.name], features=features, mode=mode
            )
            for head in self._heads
        ]
        with tf.name_scope("merge_losses"):
            if self._head_weights:
                each = [loss * w for loss, w in zip(each, self._head_weights, strict=True)]
            return losses.with_regularization(tf.add_n(each), regularization_losses)

    def predictions(self, logits: Any, keys: Sequence[Any] | None = None) -> dict[Any, tf.Tensor]:
        """By (head name, key); `keys` may hold such pairs, or keys of any head."""
        of_head = self._logits_by_head(logits)
        with tf.name_scope("merge_pred"):
            made = {
                (head.name, key): value
                for head in self._heads
                for key, value in head.predictions(logits=of_head[head.name]).items()
            }
        if not keys:
            return made
        return {pair: v for pair, v in made.items() if pair in keys or pair[1] in keys}

    def metrics(self, regularization_losses: Sequence[Any] | None = None) -> dict[str, Any]:
        made = {}
        with tf.name_scope("merge_eval"):
            if regularization_losses:
                key = MetricKeys.LOSS_REGULARIZATION
                made[self._summary_key(key)] = Mean(key)
            for head in self._heads:
                made[_loss_key(head)] = Mean(_loss_key(head))
        for head in self._heads:
            with tf.name_scope(str(head.name)):
                made.update(head.metrics())
        return made

    def update_metrics(
        self,
        eval_metrics: dict[str, Any],
        features: Any,
        logits: Any,
        labels: Any,
        regularization_losses: Sequence[Any] | None = None,
    ) -> dict[str, Any]:
        of_head = self._logits_by_head(logits)
        self._check_labels(labels)
        regularization = losses.regularization_loss(regularization_losses)
        if regularization is not None:
            key = self._summary_key(MetricKeys.LOSS_REGULARIZATION)
            eval_metrics[key].update_state(regularization)
        for head in self._heads:
            given = {"logits": of_head[head.name], "labels": labels[head.name]}
            with tf.name_scope(str(head.name)):
                eval_metrics[_loss_key(head)].update_state(head.loss(features=features, **given))
                updated = head.update_metrics(eval_metrics, features=features, **given)
            eval_metrics.update(updated or {})
        return eval_metrics

    def create_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        trainable_variables: Sequence[Any] | None = None,
        train_op_fn: Callable[[tf.Tensor], Any] | None = None,
        update_ops: Sequence[Any] | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> EstimatorSpec:
        check_mode(mode)
        with tf.name_scope(self.name):
            predictions = self.predictions(logits)
            if mode == ModeKeys.PREDICT:
                outputs = self._merged_outputs(features, self._logits_by_head(logits))
                return EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
            loss = self.loss(labels, logits, features, mode, regularization_losses)
            if mode == ModeKeys.EVAL:
                metrics = self.update_metrics(
                    self.metrics(regularization_losses=regularization_losses),
                    features,
                    logits,
                    labels,
                    regularization_losses=regularization_losses,
                )
                return EstimatorSpec(
                    mode, predictions=predictions, loss=loss, eval_metric_ops=metrics
                )
            self._let_heads_summarise(features, self._logits_by_head(logits), labels)
            train_op = training.make_train_op(
                loss,
                self.loss_reduction,
                optimizer=optimizer,
                trainable_variables=trainable_variables,
                train_op_fn=train_op_fn,
                update_ops=update_ops,
                # The original opened a scope "training" for each head before its own.
                scope=f"training_{len(self._heads)}",
            )
        training.summarise(loss, regularization_losses)
        return EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=train_op)

    def _logits_by_head(self, logits: Any) -> Mapping[Any, Any]:
        if not isinstance(logits, Mapping):
            return split_logits(logits, self._heads)
        missing = [head.name for head in self._heads if head.name not in logits]
        if missing:
            raise HeadError(
                f"logits has missing values for head(s): {missing}. It has: {list(logits)}."
            )
        return logits

    def _check_labels(self, labels: Any) -> None:
        if labels is None:
            given_labels(labels)
        if not isinstance(labels, Mapping):
            names = ", ".join(f"{head.name!r}: ..." for head in self._heads)
            raise HeadError(
                f"labels must be a dict. Given: {labels}. Let input_fn return {{{names}}}."
            )
        missing = [head.name for head in self._heads if head.name not in labels]
        if missing:
            raise HeadError(
                f"labels has missing values for head(s): {missing}. It has: {list(labels)}."
            )

    def _let_heads_summarise(
        self, features: Any, of_head: Mapping[Any, Any], labels: Mapping[Any, Any]
    ) -> None:
        """In training each head writes its own summaries, such as loss/<name>."""
        for head in self._heads:
            head.create_estimator_spec(
                features=features,
                mode=ModeKeys.TRAIN,
                logits=of_head[head.name],
                labels=labels[head.name],
                train_op_fn=_does_nothing,
            )

    def _merged_outputs(self, features: Any, of_head: Mapping[Any, Any]) -> dict[str, ExportOutput]:
        merged: dict[str, ExportOutput] = {}
        everything: dict[str, tf.Tensor] = {}
        for head in self._heads:
            spec = head.create_estimator_spec(
                features=features, mode=ModeKeys.PREDICT, logits=of_head[head.name]
            )
            for key, output in spec.export_outputs.items():
                by_default = key == ServingKeys.DEFAULT
                merged[str(head.name) if by_default else f"{head.name}/{key}"] = output
                if key == ServingKeys.PREDICT and isinstance(output, PredictOutput):
                    everything.update({f"{head.name}/{k}": v for k, v in output.outputs.items()})
        default = {ServingKeys.DEFAULT: merged[str(self._heads[0].name)]}
        return {**default, **merged, ServingKeys.PREDICT: PredictOutput(everything)}


def _loss_key(head: Head) -> str:
    return f"{MetricKeys.LOSS}/{head.name}"


def _does_nothing(loss: tf.Tensor) -> Any:
    del loss
    return tf.constant(True) if tf.executing_eagerly() else tf.no_op()
