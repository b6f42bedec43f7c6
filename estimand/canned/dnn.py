"""Deep models: dense layers over feature columns, trained with Adagrad unless told otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.canned.deep_and_linear import DeepPart, refuse_columns
from estimand.canned.linear import head_scope, tuple_of
from estimand.canned.optimizers import for_many_models
from estimand.canned.optimizers.v1 import V1Naming
from estimand.canned.training import (
    OptimizerChoice,
    regression_head,
    scope_of_head,
)
from estimand.core.config import RunConfig
from estimand.core.handles import FeatureColumn, Optimizer
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.engine.warm_start.settings import WarmStartSettings
from estimand.estimator.estimator import Estimator
from estimand.heads import Head, binary_or_multi_class_head
from estimand.heads.losses import SUM_OVER_BATCH_SIZE

_V1_LEARNING_RATE = 0.05


def dnn_model_fn(
    head: Head,
    hidden_units: Any,
    feature_columns: Any,
    optimizer: Any,
    activation_fn: Any,
    dropout: float | None,
    batch_norm: bool,
    v1: bool = False,
) -> Callable[..., EstimatorSpec]:
    """The model function of a deep model."""
    units: Any = None if hidden_units is None else tuple_of(hidden_units)
    columns, scope = tuple_of(feature_columns), "dnn/" if v1 else ""
    part = DeepPart(units, columns, activation_fn, dropout, batch_norm, scope)
    naming = V1Naming("t_0", f"dnn/{head_scope(head)}")
    rate = _V1_LEARNING_RATE if v1 else None
    choice = OptimizerChoice(for_many_models(optimizer), rate, naming, v1)

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        del config
        refuse_columns(part.feature_columns, v1)
        logits = part.logits(features, mode, head.logits_dimension)
        optimizer = choice.make() if mode == ModeKeys.TRAIN else None
        with scope_of_head("dnn/", v1):
            return head.create_estimator_spec(
                features=features,
                mode=mode,
                labels=labels,
                optimizer=optimizer,
                trainable_variables=logits.variables,
                logits=logits.tensor,
                update_ops=logits.update_ops,
            )

    return model_fn


class DNNClassifier(Estimator):
    """Deep network for two classes or more.

    `hidden_units` are the sizes of the layers. After each come dropout and batch normalization,
    if wanted, in this order.

    Args:
      hidden_units: sizes of the hidden layers, the first one first.
      feature_columns: the columns that the model reads.
      model_dir: where checkpoints and event files live; training continues from there.
      n_classes: how many classes there are.
      weight_column: name of the feature, or numeric column, that weighs examples.
      label_vocabulary: the words that labels are, in the order of the class numbers.
      optimizer: a name, a Keras or v1 optimizer, or a function that returns one.
      activation_fn: the activation of hidden layers.
      dropout: the part of each hidden layer that is dropped in training; None: nothing.
      config: a RunConfig.
      warm_start_from: a checkpoint, SavedModel or WarmStartSettings to begin from.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".
      batch_norm: whether to normalize batches after each hidden layer.

    >>> import estimand as est, numpy as np, tensorflow as tf
    >>> def input_fn():
    ...     x = np.linspace(-1, 1, 64, dtype="float32")
    ...     labels = (np.abs(x) > 0.5).astype("int64")
    ...     return tf.data.Dataset.from_tensor_slices(({"x": x}, labels)).repeat().batch(16)
    >>> classifier = est.DNNClassifier(
    ...     hidden_units=[16],
    ...     feature_columns=[tf.feature_column.numeric_column("x")],
    ...     optimizer=tf.compat.v1.train.AdamOptimizer(0.05),
    ...     config=est.RunConfig(tf_random_seed=1),
    ... )
    >>> classifier = classifier.train(input_fn, steps=100)
    >>> bool(classifier.evaluate(input_fn, steps=4)["accuracy"] > 0.9)
    True
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Sequence[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: str | FeatureColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Optimizer = "Adagrad",
        activation_fn: Callable[..., Any] | None = tf.nn.relu,
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        batch_norm: bool = False,
    ) -> None:
        head = binary_or_multi_class_head(
            n_classes, weight_column, label_vocabulary, loss_reduction
        )
        model_fn = dnn_model_fn(
            head, hidden_units, feature_columns, optimizer, activation_fn, dropout, batch_norm
        )
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNRegressor(Estimator):
    """Deep network for numbers, trained on squared error.

    Args:
      hidden_units: sizes of the hidden layers, the first one first.
      feature_columns: the columns that the model reads.
      model_dir: where checkpoints and event files live; training continues from there.
      label_dimension: how many numbers a label has.
      weight_column: name of the feature, or numeric column, that weighs examples.
      optimizer: a name, a Keras or v1 optimizer, or a function that returns one.
      activation_fn: the activation of hidden layers.
      dropout: the part of each hidden layer that is dropped in training; None: nothing.
      config: a RunConfig.
      warm_start_from: a checkpoint, SavedModel or WarmStartSettings to begin from.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".
      batch_norm: whether to normalize batches after each hidden layer.

    >>> import estimand as est, numpy as np
    >>> x = np.linspace(-1, 1, 64, dtype="float32")
    >>> read = est.inputs.numpy_input_fn({"x": x}, np.abs(x), num_epochs=None, shuffle=True)
    >>> columns = [est.feature_column.numeric_column("x")]
    >>> regressor = est.DNNRegressor([8], columns, optimizer="Adam")
    >>> regressor = regressor.train(read, max_steps=20)
    >>> next(regressor.predict(read))["predictions"].shape
    (1,)
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Sequence[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        label_dimension: int = 1,
        weight_column: str | FeatureColumn | None = None,
        optimizer: Optimizer = "Adagrad",
        activation_fn: Callable[..., Any] | None = tf.nn.relu,
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        batch_norm: bool = False,
    ) -> None:
        head = regression_head(label_dimension, weight_column, loss_reduction)
        model_fn = dnn_model_fn(
            head, hidden_units, feature_columns, optimizer, activation_fn, dropout, batch_norm
        )
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNEstimator(Estimator):
    """Deep network with any head, for instance `est.MultiLabelHead(n_classes=3)`.

    Args:
      head: what makes loss, predictions and metrics of the logits.
      hidden_units: sizes of the hidden layers, the first one first.
      feature_columns: the columns that the model reads.
      model_dir: where checkpoints and event files live; training continues from there.
      optimizer: a name, a Keras or v1 optimizer, or a function that returns one.
      activation_fn: the activation of hidden layers.
      dropout: the part of each hidden layer that is dropped in training; None: nothing.
      config: a RunConfig.
      warm_start_from: a checkpoint, SavedModel or WarmStartSettings to begin from.
      batch_norm: whether to normalize batches after each hidden layer.

    >>> import estimand as est, numpy as np
    >>> x = np.linspace(-1, 1, 64, dtype="float32")
    >>> read = est.inputs.numpy_input_fn({"x": x}, np.ones([64, 2]), num_epochs=None, shuffle=True)
    >>> columns = [est.feature_column.numeric_column("x")]
    >>> both = est.DNNEstimator(est.MultiLabelHead(n_classes=2), [8], columns)
    >>> both = both.train(read, max_steps=20)
    >>> next(both.predict(read))["probabilities"].shape
    (2,)
    """

    def __init__(
        self,
        head: Head,
        hidden_units: Sequence[int],
        feature_columns: Sequence[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        optimizer: Optimizer = "Adagrad",
        activation_fn: Callable[..., Any] | None = tf.nn.relu,
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        batch_norm: bool = False,
    ) -> None:
        model_fn = dnn_model_fn(
            head, hidden_units, feature_columns, optimizer, activation_fn, dropout, batch_norm
        )
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)
