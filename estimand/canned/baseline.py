"""Baselines: models that learn one number per class or label and look at no feature.

What they reach is what any other model has to beat.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimand.canned.linear import head_scope
from estimand.canned.optimizers import for_many_models
from estimand.canned.optimizers.v1 import V1Naming
from estimand.canned.training import (
    OptimizerChoice,
    regression_head,
)
from estimand.core.config import RunConfig
from estimand.core.errors import HeadTypeError, InputError
from estimand.core.handles import FeatureColumn, Optimizer
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.engine.minimize import minimize
from estimand.estimator.estimator import Estimator
from estimand.heads import Head, binary_or_multi_class_head
from estimand.heads.losses import SUM_OVER_BATCH_SIZE, over_batch

_LEARNING_RATE = 0.3
_v1 = tf.compat.v1


def baseline_model_fn(
    head: Head, optimizer: Any, weight_column: Any = None, v1: bool = False
) -> Callable[..., EstimatorSpec]:
    """The model function of a baseline."""
    naming = V1Naming("", head_scope(head))
    choice = OptimizerChoice(for_many_models(optimizer), _LEARNING_RATE, naming, v1)

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        del config
        bias, logits = bias_and_logits(features, head.logits_dimension, weight_column)
        chosen = choice.make() if mode == ModeKeys.TRAIN else None

        def train_op_fn(loss: tf.Tensor) -> tf.Operation:
            return minimize(chosen, loss, [bias], loss_reduction=over_batch(head.loss_reduction))

        return head.create_estimator_spec(
            features=features, mode=mode, labels=labels, train_op_fn=train_op_fn, logits=logits
        )

    return model_fn


def bias_and_logits(features: Any, units: int, weight_column: Any) -> tuple[Any, tf.Tensor]:
    """The only variable of a baseline, and the logits of a batch."""
    # Not under the size checks: a variable's first value must not wait for a batch.
    with _v1.variable_scope("baseline"):
        bias = _v1.get_variable("bias", [units], initializer=_v1.zeros_initializer())
    size = _batch_size(features, _key(weight_column))
    with _v1.name_scope("baseline/"):
        return bias, tf.multiply(bias.read_value(), tf.ones([size, units]), name="Mul")


def _batch_size(features: Any, weight_key: str | None) -> tf.Tensor:
    if not isinstance(features, Mapping):
        features = {"features": features}
    # The weights have to be left out: they are not there when the model is served.
    sizes = [_rows(feature) for key, feature in features.items() if key != weight_key]
    if not sizes:
        raise InputError(
            "A baseline learns from labels alone, but needs one feature at least to know how many "
            f"examples a batch has. Given: {sorted(features)}."
        )
    message = "The features of a batch must all have the same first dimension."
    checks = [_v1.assert_equal(sizes[0], size, message=message) for size in sizes[1:]]
    with tf.control_dependencies([check for check in checks if check is not None]):
        return tf.identity(sizes[0])


def _rows(feature: Any) -> tf.Tensor:
    if isinstance(feature, tf.RaggedTensor):
        return tf.cast(feature.nrows(), tf.int32)
    if isinstance(feature, tf.SparseTensor):
        return tf.cast(feature.dense_shape[0], tf.int32)
    return tf.shape(feature)[0]


def _key(weight_column: Any) -> str | None:
    if weight_column is None or isinstance(weight_column, str):
        return weight_column
    key = getattr(weight_column, "key", None)
    if not isinstance(key, str):
        raise HeadTypeError(
            "Weight column must be either a string or NumericColumn. "
            f"Given type: {type(weight_column)}."
        )
    return key


class BaselineClassifier(Estimator):
    """Predicts the share of each class in the labels.

    Args:
      model_dir: where checkpoints and event files live; training continues from there.
      n_classes: how many classes there are.
      weight_column: name of the feature, or numeric column, that weighs examples.
      label_vocabulary: the words that labels are, in the order of the class numbers.
      optimizer: a name, a Keras or v1 optimizer, or a function that returns one.
      config: a RunConfig.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".

    >>> import estimand as est, numpy as np, tensorflow as tf
    >>> def input_fn():
    ...     labels = np.array([1, 1, 1, 0])
    ...     features = {"x": np.zeros(4), "y": np.zeros([4, 2])}
    ...     return tf.data.Dataset.from_tensor_slices((features, labels)).repeat().batch(4)
    >>> classifier = est.BaselineClassifier().train(input_fn, steps=200)
    >>> row = next(classifier.predict(input_fn))
    >>> [round(float(p), 2) for p in row["probabilities"]]
    [0.25, 0.75]
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: str | FeatureColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Optimizer = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
    ) -> None:
        head = binary_or_multi_class_head(
            n_classes, weight_column, label_vocabulary, loss_reduction
        )
        super().__init__(baseline_model_fn(head, optimizer, weight_column), model_dir, config)


class BaselineRegressor(Estimator):
    """Predicts the mean of the labels.

    Args:
      model_dir: where checkpoints and event files live; training continues from there.
      label_dimension: how many numbers a label has.
      weight_column: name of the feature, or numeric column, that weighs examples.
      optimizer: a name, a Keras or v1 optimizer, or a function that returns one.
      config: a RunConfig.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".

    >>> import estimand as est, numpy as np
    >>> x = np.linspace(-1, 1, 64, dtype="float32")
    >>> read = est.inputs.numpy_input_fn({"x": x}, np.full(64, 2.0), num_epochs=None, shuffle=True)
    >>> average = est.BaselineRegressor().train(read, max_steps=200)
    >>> round(float(next(average.predict(read))["predictions"][0]), 1)
    2.0
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        label_dimension: int = 1,
        weight_column: str | FeatureColumn | None = None,
        optimizer: Optimizer = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
    ) -> None:
        head = regression_head(label_dimension, weight_column, loss_reduction)
        super().__init__(baseline_model_fn(head, optimizer, weight_column), model_dir, config)


class BaselineEstimator(Estimator):
    """A baseline for any head.

    Args:
      head: what makes loss, predictions and metrics of the logits.
      model_dir: where checkpoints and event files live; training continues from there.
      optimizer: a name, a Keras or v1 optimizer, or a function that returns one.
      config: a RunConfig.

    >>> import estimand as est, numpy as np
    >>> x = np.linspace(-1, 1, 64, dtype="float32")
    >>> read = est.inputs.numpy_input_fn({"x": x}, np.full(64, 2.0), num_epochs=None, shuffle=True)
    >>> average = est.BaselineEstimator(est.RegressionHead()).train(read, max_steps=200)
    >>> round(float(next(average.predict(read))["predictions"][0]), 1)
    2.0
    """

    def __init__(
        self,
        head: Head,
        model_dir: str | os.PathLike[str] | None = None,
        optimizer: Optimizer = "Ftrl",
        config: RunConfig | None = None,
    ) -> None:
        super().__init__(baseline_model_fn(head, optimizer), model_dir, config)
