"""What every head offers."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core import expectations
from estimand.core.errors import HeadError
from estimand.core.export_output import ExportOutput, PredictOutput
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.heads import training
from estimand.heads.keys import ServingKeys

LabelRange = tuple[float, float]


class Head(abc.ABC):
    """The top of a model: from logits to loss, predictions, metrics and export signatures.

    A head of one's own implements the abstract members; `create_estimator_spec` then makes of
    them whatever a model function has to return. Heads work on tensors of a graph that is being
    built and on eager ones alike.

    >>> import estimand as est
    >>> head = est.BinaryClassHead()
    >>> round(float(head.loss(labels=[[1], [0]], logits=[[2.0], [0.0]])), 4)
    0.41
    """

    @property
    @abc.abstractmethod
    def name(self) -> str | None:
        """The name of this head: suffix of its metric keys, and scope of its operations."""

    @property
    @abc.abstractmethod
    def logits_dimension(self) -> int:
        """The size of the last dimension of logits: how wide the last layer has to be."""

    @property
    @abc.abstractmethod
    def loss_reduction(self) -> str:
        """How the losses of a batch become one number: 'sum', 'sum_over_batch_size', ..."""

    @abc.abstractmethod
    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: str | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> tf.Tensor:
        """The number to minimize, `regularization_losses` included."""

    @abc.abstractmethod
    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[Any, tf.Tensor]:
        """Predictions by key; all that there are unless `keys` names some."""

    @abc.abstractmethod
    def metrics(self, regularization_losses: Sequence[Any] | None = None) -> dict[str, Any]:
        """New metric objects by key, each with update_state, result and reset_state."""

    @abc.abstractmethod
    def update_metrics(
        self,
        eval_metrics: dict[str, Any],
        features: Any,
        logits: Any,
        labels: Any,
        mode: str | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> dict[str, Any]:
        """Updates the objects that `metrics` made with one batch, and returns them."""

    @property
    def label_range(self) -> LabelRange | dict[str, Any] | None:
        """The smallest and largest label that is accepted; None where any number, or a string."""
        return None

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
        """What a model function returns, in any mode.

        Training takes exactly one of `optimizer` (Keras or v1) and `train_op_fn`, a function
        from the loss to a train_op. `trainable_variables` are by default all of the model.
        `update_ops` run with the step; what Keras layers update runs by itself.
        """
        if type(self)._create_tpu_estimator_spec is not Head._create_tpu_estimator_spec:
            given = {
                "labels": labels,
                "optimizer": optimizer,
                "trainable_variables": trainable_variables,
                "train_op_fn": train_op_fn,
                "update_ops": update_ops,
                "regularization_losses": regularization_losses,
            }
            given = {name: value for name, value in given.items() if value is not None}
            spec = self._create_tpu_estimator_spec(features, mode, logits, **given)
            return spec.as_estimator_spec()
        return self._make_spec(
            features,
            mode,
            logits,
            labels,
            regularization_losses,
            optimizer=optimizer,
            trainable_variables=trainable_variables,
            train_op_fn=train_op_fn,
            update_ops=update_ops,
        )

    def _make_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any,
        regularization_losses: Sequence[Any] | None,
        **step: Any,
    ) -> EstimatorSpec:
        """The spec; `step` is what `make_train_op` takes."""
        check_mode(mode)
        _note_label_range(self.label_range, None)
        with tf.name_scope(self.name or "head"):
            predictions = self.predictions(logits)
            if mode == ModeKeys.PREDICT:
                outputs = self._export_outputs(predictions)
                return EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
            loss = self.loss(
                labels=labels,
                logits=logits,
                features=features,
                mode=mode,
                regularization_losses=regularization_losses,
            )
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
            train_op = training.make_train_op(loss, self.loss_reduction, **step)
        training.summarise(loss, regularization_losses, self._summary_key)
        return EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=train_op)

    def _create_tpu_estimator_spec(
        self, features: Any, mode: str, logits: Any, labels: Any = None, **others: Any
    ) -> Any:
        """For heads written elsewhere that make their spec here, whatever it is to run on."""
        raise NotImplementedError("TPUEstimatorSpec not available for this model head.")

    def _export_outputs(self, predictions: dict[Any, tf.Tensor]) -> dict[str, ExportOutput]:
        """The signatures of an export."""
        return {ServingKeys.DEFAULT: PredictOutput(predictions)}

    def _summary_key(self, key: str) -> str:
        return f"{key}/{self.name}" if self.name else key


def _note_label_range(accepted: Any, head: str | None) -> None:
    """For the check of the first batch; a head of several has a range by head."""
    if isinstance(accepted, dict):
        for name, of_head in accepted.items():
            _note_label_range(of_head, name)
    elif accepted is not None:
        low, high = accepted
        expectations.expect_labels(low, high, head)


def check_mode(mode: Any) -> None:
    if mode not in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT):
        raise HeadError(f"mode={mode} unrecognized. Pass on the `mode` argument of model_fn.")
