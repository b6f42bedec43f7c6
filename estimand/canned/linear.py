"""Linear models: a weighted sum of feature columns, trained with FTRL unless told otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from estimand.canned.deep_and_linear import LinearPart, refuse_columns
from estimand.canned.optimizers import for_many_models
from estimand.canned.optimizers.ftrl import Ftrl
from estimand.canned.optimizers.v1 import V1Naming
from estimand.canned.sdca import LinearSDCA, sdca_model_fn
from estimand.canned.training import (
    OptimizerChoice,
    rate_for_columns,
    regression_head,
    scope_of_head,
)
from estimand.core.config import RunConfig
from estimand.core.errors import ConfigError
from estimand.core.handles import FeatureColumn, Optimizer
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.engine.warm_start.settings import WarmStartSettings
from estimand.estimator.estimator import Estimator
from estimand.heads import Head, binary_or_multi_class_head
from estimand.heads.losses import SUM_OVER_BATCH_SIZE

_LEARNING_RATE = 0.2


def linear_model_fn(
    head: Head, feature_columns: Any, optimizer: Any, sparse_combiner: str, v1: bool = False
) -> Callable[..., EstimatorSpec]:
    """The model function of a linear model."""
    if isinstance(optimizer, LinearSDCA):
        head_scope(head)  # that it is one
        return sdca_model_fn(head, tuple_of(feature_columns), optimizer, sparse_combiner, v1)
    part = LinearPart(tuple_of(feature_columns), sparse_combiner, "linear/" if v1 else "")
    naming = V1Naming("part_0", f"linear/{head_scope(head)}")
    optimizer = for_many_models(optimizer)

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        del config
        refuse_columns(part.feature_columns, v1)
        logits = part.logits(features, mode, head.logits_dimension)
        chosen = None
        if mode == ModeKeys.TRAIN:
            given = optimizer
            if given is None:
                given = Ftrl(rate_for_columns(_LEARNING_RATE, part.feature_columns))
            chosen = OptimizerChoice(given, _LEARNING_RATE, naming, v1).make()
        with scope_of_head("linear/", v1):
            return head.create_estimator_spec(
                features=features,
                mode=mode,
                labels=labels,
                optimizer=chosen,
                trainable_variables=logits.variables,
                logits=logits.tensor,
            )

    return model_fn


def tuple_of(feature_columns: Any) -> Any:
    """Columns may come from a generator, but are needed once per mode; a single one is taken."""
    if feature_columns is None:
        return ()
    if hasattr(feature_columns, "_fields"):  # a column is a named tuple: not to be taken apart
        return (feature_columns,)
    return tuple(feature_columns) if hasattr(feature_columns, "__iter__") else feature_columns


def head_scope(head: Head) -> str:
    """The name scope in which v1 heads built their ops."""
    if not hasattr(head, "create_estimator_spec") or isinstance(head, type):
        raise ConfigError(f"head must be a head, such as est.RegressionHead(). Given: {head!r}.")
    return getattr(head, "name", None) or "head"


class LinearClassifier(Estimator):
    """Linear model for two classes (logistic) or more (softmax).

    Args:
      feature_columns: the columns that the model reads.
      model_dir: where checkpoints and event files live; training continues from there.
      n_classes: how many classes there are.
      weight_column: name of the feature, or numeric column, that weighs examples.
      label_vocabulary: the words that labels are, in the order of the class numbers.
      optimizer: a name, a Keras or v1 optimizer, or a function that returns one.
      config: a RunConfig.
      warm_start_from: a checkpoint, SavedModel or WarmStartSettings to begin from.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".
      sparse_combiner: how several values of one feature are summed up: "sum", "mean", "sqrtn".

    >>> import estimand as est, numpy as np, tensorflow as tf
    >>> def input_fn():
    ...     x = np.linspace(-1, 1, 64, dtype="float32")
    ...     return tf.data.Dataset.from_tensor_slices(({"x": x}, x > 0)).repeat().batch(16)
    >>> columns = [tf.feature_column.numeric_column("x")]
    >>> classifier = est.LinearClassifier(columns).train(input_fn, steps=20)
    >>> bool(classifier.evaluate(input_fn, steps=4)["accuracy"] > 0.9)
    True
    """

    def __init__(
        self,
        feature_columns: Sequence[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: str | FeatureColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Optimizer = "Ftrl",
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        sparse_combiner: str = "sum",
    ) -> None:
        head = binary_or_multi_class_head(
            n_classes, weight_column, label_vocabulary, loss_reduction
        )
        model_fn = linear_model_fn(head, feature_columns, optimizer, sparse_combiner)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class LinearRegressor(Estimator):
    """Linear model for numbers, trained on squared error.

    Args:
      feature_columns: the columns that the model reads.
      model_dir: where checkpoints and event files live; training continues from there.
      label_dimension: how many numbers a label has.
      weight_column: name of the feature, or numeric column, that weighs examples.
      optimizer: a name, a Keras or v1 optimizer, or a function that returns one.
      config: a RunConfig.
      warm_start_from: a checkpoint, SavedModel or WarmStartSettings to begin from.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".
      sparse_combiner: how several values of one feature are summed up: "sum", "mean", "sqrtn".

    >>> import estimand as est, numpy as np
    >>> x = np.linspace(-1, 1, 64, dtype="float32")
    >>> read = est.inputs.numpy_input_fn({"x": x}, 3 * x + 1, num_epochs=None, shuffle=True)
    >>> regressor = est.LinearRegressor([est.feature_column.numeric_column("x")])
    >>> regressor = regressor.train(read, max_steps=200)
    >>> round(float(regressor.get_variable_value("linear/linear_model/bias_weights")[0]), 1)
    1.0
    """

    def __init__(
        self,
        feature_columns: Sequence[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        label_dimension: int = 1,
        weight_column: str | FeatureColumn | None = None,
        optimizer: Optimizer = "Ftrl",
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        sparse_combiner: str = "sum",
    ) -> None:
        head = regression_head(label_dimension, weight_column, loss_reduction)
        model_fn = linear_model_fn(head, feature_columns, optimizer, sparse_combiner)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class LinearEstimator(Estimator):
    """Linear model with any head, for instance `est.PoissonRegressionHead()`.

    Args:
      head: what makes loss, predictions and metrics of the logits.
      feature_columns: the columns that the model reads.
      model_dir: where checkpoints and event files live; training continues from there.
      optimizer: a name, a Keras or v1 optimizer, or a function that returns one.
      config: a RunConfig.
      sparse_combiner: how several values of one feature are summed up: "sum", "mean", "sqrtn".
      warm_start_from: a checkpoint, SavedModel or WarmStartSettings to begin from.

    >>> import estimand as est, numpy as np
    >>> x = np.linspace(-1, 1, 64, dtype="float32")
    >>> read = est.inputs.numpy_input_fn({"x": x}, np.ones(64), num_epochs=None, shuffle=True)
    >>> columns = [est.feature_column.numeric_column("x")]
    >>> counts = est.LinearEstimator(est.PoissonRegressionHead(), columns)
    >>> counts = counts.train(read, max_steps=100)
    >>> "average_loss" in counts.evaluate(read, steps=1)
    True
    """

    def __init__(
        self,
        head: Head,
        feature_columns: Sequence[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        optimizer: Optimizer = "Ftrl",
        config: RunConfig | None = None,
        sparse_combiner: str = "sum",
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
    ) -> None:
        model_fn = linear_model_fn(head, feature_columns, optimizer, sparse_combiner)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)
