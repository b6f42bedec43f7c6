"""Wide and deep: a linear model and a deep one whose logits are summed.

Each part is trained by an optimizer of its own: the linear one by FTRL, the deep one by Adagrad,
unless told otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from estimand.canned import layers
from estimand.canned.deep_and_linear import (
    DeepPart,
    LinearPart,
    Logits,
    check_features,
    refuse_columns,
)
from estimand.canned.linear import head_scope, tuple_of
from estimand.canned.optimizers import for_many_models
from estimand.canned.optimizers.v1 import V1Naming, V1Optimizer
from estimand.canned.training import (
    OptimizerChoice,
    rate_for_columns,
    regression_head,
)
from estimand.core.config import RunConfig
from estimand.core.errors import ConfigError
from estimand.core.handles import FeatureColumn, Optimizer
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.engine.minimize import minimize
from estimand.engine.warm_start.settings import WarmStartSettings
from estimand.estimator.estimator import Estimator
from estimand.heads import Head, binary_or_multi_class_head
from estimand.heads.losses import SUM_OVER_BATCH_SIZE, over_batch

_DEEP_LEARNING_RATE = 0.001
_LINEAR_LEARNING_RATE = 0.005


@dataclass(frozen=True)
class CombinedModel:
    """The model function of wide and deep."""

    head: Head
    linear: LinearPart
    linear_optimizer: Any
    deep: DeepPart
    deep_optimizer: Any
    v1: bool = False
    naming: V1Naming = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "naming", V1Naming("", head_scope(self.head)))

    def __call__(self, features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        del config
        check_features(features)
        require_columns(self.linear.feature_columns, self.deep.feature_columns)
        for part in (self.linear, self.deep):
            refuse_columns(part.feature_columns, self.v1)
        deep, deep_optimizer = self._build_deep(features, mode)
        linear, linear_optimizer = self._build_linear(features, mode, second=deep is not None)
        pairs = [(deep_optimizer, deep), (linear_optimizer, linear)]
        parts = [(optimizer, part) for optimizer, part in pairs if part is not None]

        def train_op_fn(loss: tf.Tensor) -> tf.Operation:
            reduction = over_batch(self.head.loss_reduction)
            train_ops = [
                minimize(o, loss, v, loss_reduction=reduction) for o, v in _without_overlap(parts)
            ]
            return tf.group(*train_ops, *[op for _, part in parts for op in part.update_ops])

        return self.head.create_estimator_spec(
            features=features,
            mode=mode,
            labels=labels,
            train_op_fn=train_op_fn,
            logits=_summed([part.tensor for _, part in parts]),
        )

    def _build_deep(self, features: Any, mode: str) -> tuple[Any, Any]:
        if not self.deep.feature_columns:
            return None, None
        choice = OptimizerChoice(self.deep_optimizer, _DEEP_LEARNING_RATE, self.naming, self.v1)
        optimizer = _checked(choice.make()) if mode == ModeKeys.TRAIN else None
        if not self.deep.hidden_units:
            raise ConfigError(
                "dnn_hidden_units must be defined when dnn_feature_columns is specified. "
                "Write for instance dnn_hidden_units=[64, 32]."
            )
        return self.deep.logits(features, mode, self.head.logits_dimension), optimizer

    def _build_linear(self, features: Any, mode: str, second: bool) -> tuple[Any, Any]:
        columns = self.linear.feature_columns
        if not columns:
            return None, None
        rate = rate_for_columns(_LINEAR_LEARNING_RATE, columns)
        choice = OptimizerChoice(self.linear_optimizer, rate, self.naming, self.v1)
        optimizer = None
        if mode == ModeKeys.TRAIN:
            optimizer = _checked(choice.make(counts_own_updates=second))
        logits = self.linear.logits(features, mode, self.head.logits_dimension)
        layers.summarise(logits.tensor, f"{self.linear.tag_scope}linear")
        return logits, optimizer


def _summed(logits: list[tf.Tensor]) -> tf.Tensor:
    # By this name tf.estimator exports them.
    return logits[0] if len(logits) == 1 else tf.add(*logits, name="add")


def _without_overlap(parts: list[tuple[Any, Logits]]) -> list[tuple[Any, list[tf.Variable]]]:
    """What each optimizer trains. An embedding that both parts use belongs to the deep one."""
    taken: set[int] = set()
    result = []
    for optimizer, part in parts:
        own = [v for v in part.variables if id(v) not in taken]
        taken |= {id(v) for v in own}
        if own:
            result.append((optimizer, own))
    return result


def _checked(optimizer: Any) -> Any:
    wrapped = optimizer.wrapped if isinstance(optimizer, V1Optimizer) else optimizer
    if isinstance(wrapped, tf.compat.v1.train.SyncReplicasOptimizer):
        raise ConfigError(
            "SyncReplicasOptimizer does not support multi optimizers case. Therefore, it is not "
            "supported in DNNLinearCombined model. If you want to use this optimizer, please use "
            "either DNN or Linear model."
        )
    return optimizer


def require_columns(linear_feature_columns: Any, dnn_feature_columns: Any) -> None:
    """At least one of the two parts has to be there."""
    if not linear_feature_columns and not dnn_feature_columns:
        raise ConfigError(
            "Either linear_feature_columns or dnn_feature_columns must be defined. "
            f"Given: linear_feature_columns={linear_feature_columns!r}, "
            f"dnn_feature_columns={dnn_feature_columns!r}."
        )


def combined_model_fn(
    head: Head,
    linear_feature_columns: Any,
    linear_optimizer: Any,
    linear_sparse_combiner: str,
    dnn_feature_columns: Any,
    dnn_optimizer: Any,
    dnn_hidden_units: Any,
    dnn_activation_fn: Any,
    dnn_dropout: float | None,
    batch_norm: bool,
    v1: bool = False,
) -> Callable[..., EstimatorSpec]:
    """The model function of wide and deep."""
    scopes = ("linear/", "dnn/") if v1 else ("", "")
    linear = LinearPart(tuple_of(linear_feature_columns), linear_sparse_combiner, scopes[0])
    units, columns = tuple_of(dnn_hidden_units), tuple_of(dnn_feature_columns)
    deep = DeepPart(units, columns, dnn_activation_fn, dnn_dropout, batch_norm, scopes[1])
    linear_optimizer, dnn_optimizer = map(for_many_models, (linear_optimizer, dnn_optimizer))
    return CombinedModel(head, linear, linear_optimizer, deep, dnn_optimizer, v1)


class DNNLinearCombinedClassifier(Estimator):
    """Wide and deep for two classes or more.

    Args:
      model_dir: where checkpoints and event files live; training continues from there.
      linear_feature_columns: columns of the linear part.
      linear_optimizer: its optimizer: a name, a Keras or v1 one, or a function that returns one.
      dnn_feature_columns: columns of the deep part.
      dnn_optimizer: its optimizer.
      dnn_hidden_units: sizes of its hidden layers.
      dnn_activation_fn: their activation.
      dnn_dropout: the part of each that is dropped in training; None: nothing.
      n_classes: how many classes there are.
      weight_column: name of the feature, or numeric column, that weighs examples.
      label_vocabulary: the words that labels are, in the order of the class numbers.
      config: a RunConfig.
      warm_start_from: a checkpoint, SavedModel or WarmStartSettings to begin from.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".
      batch_norm: whether to normalize batches after each hidden layer.
      linear_sparse_combiner: how several values of one feature are summed up: "sum", "mean",
        "sqrtn".

    >>> import estimand as est, numpy as np, tensorflow as tf
    >>> def input_fn():
    ...     x = np.linspace(-1, 1, 64, dtype="float32")
    ...     return tf.data.Dataset.from_tensor_slices(({"x": x}, x > 0)).repeat().batch(16)
    >>> x = tf.feature_column.numeric_column("x")
    >>> classifier = est.DNNLinearCombinedClassifier(
    ...     linear_feature_columns=[tf.feature_column.bucketized_column(x, [-0.5, 0.0, 0.5])],
    ...     linear_optimizer=tf.compat.v1.train.FtrlOptimizer(0.5),
    ...     dnn_feature_columns=[x],
    ...     dnn_hidden_units=[8],
    ... )
    >>> classifier = classifier.train(input_fn, steps=50)
    >>> bool(classifier.evaluate(input_fn, steps=4)["accuracy"] > 0.9)
    True
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        linear_feature_columns: Sequence[FeatureColumn] | None = None,
        linear_optimizer: Optimizer = "Ftrl",
        dnn_feature_columns: Sequence[FeatureColumn] | None = None,
        dnn_optimizer: Optimizer = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Callable[..., Any] | None = tf.nn.relu,
        dnn_dropout: float | None = None,
        n_classes: int = 2,
        weight_column: str | FeatureColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        require_columns(linear_feature_columns, dnn_feature_columns)
        model_fn = combined_model_fn(
            binary_or_multi_class_head(n_classes, weight_column, label_vocabulary, loss_reduction),
            linear_feature_columns,
            linear_optimizer,
            linear_sparse_combiner,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            batch_norm,
        )
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNLinearCombinedRegressor(Estimator):
    """Wide and deep for numbers, trained on squared error.

    Args:
      model_dir: where checkpoints and event files live; training continues from there.
      linear_feature_columns: columns of the linear part.
      linear_optimizer: its optimizer: a name, a Keras or v1 one, or a function that returns one.
      dnn_feature_columns: columns of the deep part.
      dnn_optimizer: its optimizer.
      dnn_hidden_units: sizes of its hidden layers.
      dnn_activation_fn: their activation.
      dnn_dropout: the part of each that is dropped in training; None: nothing.
      label_dimension: how many numbers a label has.
      weight_column: name of the feature, or numeric column, that weighs examples.
      config: a RunConfig.
      warm_start_from: a checkpoint, SavedModel or WarmStartSettings to begin from.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".
      batch_norm: whether to normalize batches after each hidden layer.
      linear_sparse_combiner: how several values of one feature are summed up: "sum", "mean",
        "sqrtn".

    >>> import estimand as est, numpy as np
    >>> x = np.linspace(-1, 1, 64, dtype="float32")
    >>> read = est.inputs.numpy_input_fn({"x": x}, 3 * x + 1, num_epochs=None, shuffle=True)
    >>> columns = [est.feature_column.numeric_column("x")]
    >>> regressor = est.DNNLinearCombinedRegressor(
    ...     linear_feature_columns=columns, dnn_feature_columns=columns, dnn_hidden_units=[8]
    ... )
    >>> regressor = regressor.train(read, max_steps=20)
    >>> next(regressor.predict(read))["predictions"].shape
    (1,)
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        linear_feature_columns: Sequence[FeatureColumn] | None = None,
        linear_optimizer: Optimizer = "Ftrl",
        dnn_feature_columns: Sequence[FeatureColumn] | None = None,
        dnn_optimizer: Optimizer = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Callable[..., Any] | None = tf.nn.relu,
        dnn_dropout: float | None = None,
        label_dimension: int = 1,
        weight_column: str | FeatureColumn | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        require_columns(linear_feature_columns, dnn_feature_columns)
        model_fn = combined_model_fn(
            regression_head(label_dimension, weight_column, loss_reduction),
            linear_feature_columns,
            linear_optimizer,
            linear_sparse_combiner,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            batch_norm,
        )
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNLinearCombinedEstimator(Estimator):
    """Wide and deep with any head, for instance `est.MultiHead([...])`.

    Args:
      head: what makes loss, predictions and metrics of the logits.
      model_dir: where checkpoints and event files live; training continues from there.
      linear_feature_columns: columns of the linear part.
      linear_optimizer: its optimizer: a name, a Keras or v1 one, or a function that returns one.
      dnn_feature_columns: columns of the deep part.
      dnn_optimizer: its optimizer.
      dnn_hidden_units: sizes of its hidden layers.
      dnn_activation_fn: their activation.
      dnn_dropout: the part of each that is dropped in training; None: nothing.
      config: a RunConfig.
      batch_norm: whether to normalize batches after each hidden layer.
      linear_sparse_combiner: how several values of one feature are summed up: "sum", "mean",
        "sqrtn".

    >>> import estimand as est, numpy as np
    >>> x = np.linspace(-1, 1, 64, dtype="float32")
    >>> read = est.inputs.numpy_input_fn({"x": x}, x > 0, num_epochs=None, shuffle=True)
    >>> columns = [est.feature_column.numeric_column("x")]
    >>> margin = est.DNNLinearCombinedEstimator(
    ...     est.HingeHead(),
    ...     linear_feature_columns=columns,
    ...     dnn_feature_columns=columns,
    ...     dnn_hidden_units=[8],
    ... )
    >>> margin = margin.train(read, max_steps=20)
    >>> "accuracy" in margin.evaluate(read, steps=1)
    True
    """

    def __init__(
        self,
        head: Head,
        model_dir: str | os.PathLike[str] | None = None,
        linear_feature_columns: Sequence[FeatureColumn] | None = None,
        linear_optimizer: Optimizer = "Ftrl",
        dnn_feature_columns: Sequence[FeatureColumn] | None = None,
        dnn_optimizer: Optimizer = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Callable[..., Any] | None = tf.nn.relu,
        dnn_dropout: float | None = None,
        config: RunConfig | None = None,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        require_columns(linear_feature_columns, dnn_feature_columns)
        model_fn = combined_model_fn(
            head,
            linear_feature_columns,
            linear_optimizer,
            linear_sparse_combiner,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            batch_norm,
        )
        super().__init__(model_fn, model_dir, config)
