"""A head on every step of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import HeadError, HeadTypeError
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.heads.base import Head
from estimand.heads.checks import after, require
from estimand.heads.labels import given_labels
from estimand.heads.multi_head import MultiHead

_MISFIT = "Tensor shape is incompatible with provided mask."


class SequentialHeadWrapper(Head):
    """Applies a head to the steps of padded sequences; padding counts for nothing.

    `features` hold, under `sequence_length_mask`, a boolean [batch_size, length] that is true
    where there is a step. Logits and labels are [batch_size, length, ...]; labels may be a
    SparseTensor with a value per step. Of the features, those named in `feature_columns`
    (weights, as a rule) are flattened alike and given to the head.

    Args:
      static_head: the head that judges each step.
      sequence_length_mask: name of the feature that is true where there is a step.
      feature_columns: names of the features to flatten with the labels.

    >>> import estimand as est
    >>> head = SequentialHeadWrapper(est.RegressionHead(), "mask")
    >>> features = {"mask": tf.constant([[True, True], [True, False]])}
    >>> logits = tf.constant([[[1.0], [2.0]], [[3.0], [99.0]]])
    >>> labels = tf.constant([[1.0, 2.0], [6.0, 0.0]])
    >>> float(head.loss(logits=logits, labels=labels, features=features))
    3.0
    """

    def __init__(
        self,
        static_head: Head,
        sequence_length_mask: str = "sequence_length_mask",
        feature_columns: str | Iterable[str] | None = None,
    ) -> None:
        if not isinstance(sequence_length_mask, str):
            raise HeadTypeError(
                "`sequence_mask` column must be a string. "
                f"Given type: {type(sequence_length_mask)}."
            )
        if isinstance(static_head, MultiHead):
            raise HeadError("`MultiHead` is not supported with `SequentialHeadWrapper`.")
        self._static_head = static_head
        self._sequence_length_mask = sequence_length_mask
        self._feature_columns = _names(feature_columns)

    @property
    def static_head(self) -> Head:
        """The head that is applied to each step."""
        return self._static_head

    @property
    def input_sequence_mask_key(self) -> str:
        """The name of the feature that tells steps from padding."""
        return self._sequence_length_mask

    @property
    def name(self) -> str | None:
        return f"{self._static_head.name}_sequential" if self._static_head.name else None

    @property
    def logits_dimension(self) -> int:
        return self._static_head.logits_dimension

    @property
    def loss_reduction(self) -> str:
        return self._static_head.loss_reduction

    @property
    def label_range(self) -> Any:
        return self._static_head.label_range

    def loss(
        self,
        logits: Any,
        labels: Any,
        features: Any = None,
        mode: str | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> tf.Tensor:
        """As of the wrapped head, over the steps. Mind the order: logits, then labels."""
        labels, logits, features = self._flatten(labels, logits, features)
        return self._static_head.loss(
            logits=logits,
            labels=labels,
            features=features,
            mode=mode,
            regularization_losses=regularization_losses,
        )

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[Any, tf.Tensor]:
        return self._static_head.predictions(logits, keys=keys)

    def metrics(self, regularization_losses: Sequence[Any] | None = None) -> dict[str, Any]:
        return self._static_head.metrics(regularization_losses)

    def update_metrics(
        self,
        eval_metrics: dict[str, Any],
        features: Any,
        logits: Any,
        labels: Any,
        regularization_losses: Sequence[Any] | None = None,
    ) -> dict[str, Any]:
        labels, logits, features = self._flatten(labels, logits, features)
        return self._static_head.update_metrics(
            eval_metrics=eval_metrics,
            features=features,
            logits=logits,
            labels=labels,
            regularization_losses=regularization_losses,
        )

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
        """As of the wrapped head; predictions keep their padding, with the mask beside them."""
        if mode == ModeKeys.PREDICT:
            mask = self._mask(features)
            spec = self._static_head.create_estimator_spec(
                features=features, mode=mode, logits=logits
            )
            predictions = {**spec.predictions, self._sequence_length_mask: mask}
            return spec._replace(predictions=predictions)
        labels, logits, features = self._flatten(labels, logits, features)
        return self._static_head.create_estimator_spec(
            features=features,
            mode=mode,
            logits=logits,
            labels=labels,
            optimizer=optimizer,
            trainable_variables=trainable_variables,
            train_op_fn=train_op_fn,
            update_ops=update_ops,
            regularization_losses=regularization_losses,
        )

    def _mask(self, features: Any) -> tf.Tensor:
        key = self._sequence_length_mask
        names = list(features) if isinstance(features, Mapping) else []
        if key not in names:
            raise HeadError(
                f"The provided sequence_length_mask key `{key}` should be included in the features "
                f"dictionary, but was not found. Found keys: {names}. Put it there in model_fn: "
                f"features[{key!r}] = tf.sequence_mask(lengths)."
            )
        return tf.convert_to_tensor(features[key])

    def _flatten(
        self, labels: Any, logits: Any, features: Any
    ) -> tuple[tf.Tensor, tf.Tensor, dict[str, tf.Tensor]]:
        """Steps of all sequences one after the other: [number of steps, ...]."""
        mask = self._mask(features)
        if mask.shape.rank != 2:
            raise HeadError(
                f"Mask is expected to have two dimensions, got {mask.shape.rank} instead."
            )
        with tf.name_scope("flatten"):
            mask = tf.cast(mask, tf.bool)
            count = tf.reduce_sum(tf.cast(mask, tf.int32))
            flat = {}
            for column in self._feature_columns:
                if column not in features:
                    raise HeadError(
                        f"`{column}` column expected in features dictionary. "
                        f"It has: {list(features)}."
                    )
                flat[column] = _steps_of(features[column], mask, count)
            flat_logits = _steps_of(logits, mask, count)
            return _steps_of(given_labels(labels), mask, count), flat_logits, flat


def _names(columns: Any) -> list[str]:
    if not columns:
        return []
    if isinstance(columns, str):
        return [columns]
    if not isinstance(columns, Iterable):
        raise HeadTypeError(
            "`feature_columns` must be either a string or an iterable of strings "
            f"got {type(columns)} instead."
        )
    names = list(columns)
    for name in names:
        if not isinstance(name, str):
            raise HeadTypeError(f"Column must a string. Given type: {type(name)}.")
    return names


def _steps_of(tensor: Any, mask: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """[number of steps, ...] out of [batch_size, length, ...], dense by mask or sparse."""
    if not isinstance(tensor, tf.SparseTensor):
        tensor = tf.convert_to_tensor(tensor)
    rank = tensor.shape.rank
    if rank is None or rank < 2:
        raise HeadError(f"Input tensor expected to have at least 2 dimensions, got {rank} instead.")
    if isinstance(tensor, tf.SparseTensor):
        steps = tf.sparse.reorder(tensor).values
        if rank > 2:
            steps = tf.reshape(steps, [-1, *tensor.shape[2:]])
    else:
        if not tensor.shape[:2].is_compatible_with(mask.shape):
            raise HeadError(
                f"{_MISFIT} The mask has shape {tuple(mask.shape)}, the tensor {tensor.shape}."
            )
        steps = tf.boolean_mask(tensor, mask)
    if rank == 2:
        steps = tf.expand_dims(steps, -1)
    # Of a dense tensor the mask itself has taken exactly so many.
    told = (f"{_MISFIT} Steps in the mask:", count, "steps in the tensor:", tf.shape(steps)[0])
    return after(require(tf.equal(tf.shape(steps)[0], count), *told), steps)
