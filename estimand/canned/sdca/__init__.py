"""Stochastic dual coordinate ascent: a solver for linear models with L2, and L1, regularization.

Each example has a dual variable, kept by the example's id from one pass over the data to the next.
There is no learning rate. After Shalev-Shwartz and Zhang, "Stochastic Dual Coordinate Ascent
Methods for Regularized Loss Minimization" (2013); the arithmetic is TensorFlow's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import tensorflow as tf

from estimand.canned.deep_and_linear import LinearPart, check_features
from estimand.canned.sdca.state import ExampleStates
from estimand.canned.training import scope_of_head
from estimand.core.config import RunConfig
from estimand.core.errors import ConfigError, InputError
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.core.tf_private import feature_columns as fc
from estimand.engine.minimize import minimize
from estimand.features.cache import FeatureTensors
from estimand.features.state import GraphState
from estimand.heads import (
    BinaryClassHead,
    Head,
    HingeHead,
    LogisticRegressionHead,
    PoissonRegressionHead,
    RegressionHead,
)
from estimand.heads.logits import checked_logits
from estimand.heads.single import SingleHead
from estimand.heads.weights import weights_for

_v1 = tf.compat.v1
# The kind of head -> what TensorFlow calls its loss. The most special first.
_LOSSES = (
    (BinaryClassHead, "logistic_loss"),
    (HingeHead, "hinge_loss"),
    (PoissonRegressionHead, "poisson_loss"),
    (RegressionHead, "squared_loss"),
)


@dataclass(frozen=True)
class LinearSDCA:
    """Solver for `LinearClassifier` and `LinearRegressor`: stochastic dual coordinate ascent.

    `example_id_column` is the feature that identifies an example, the same in every epoch.
    Minimized is the sum of the weighted losses plus l2 / 2 times the sum of squared weights plus
    l1 times the sum of absolute weights, the bias among them. `num_loss_partitions` is the number
    of workers that train at once. `num_table_shards` is accepted; what is kept of examples is in
    one table.

    Two classes, or labels of one dimension; categorical columns and numeric ones.

    Args:
      example_id_column: the feature that identifies an example.
      num_loss_partitions: how many workers train at once.
      num_table_shards: accepted for old code.
      symmetric_l1_regularization: strength of the L1 penalty.
      symmetric_l2_regularization: strength of the L2 penalty.
      adaptive: whether to take examples more often that are further from their optimum.

    >>> import estimand as est, numpy as np, tensorflow as tf
    >>> def input_fn():
    ...     x = np.linspace(-1, 1, 64, dtype="float32")
    ...     ids = np.arange(64).astype("S4")
    ...     rows = ({"x": x, "id": ids}, 3.0 * x + 1.0)
    ...     return tf.data.Dataset.from_tensor_slices(rows).repeat().batch(64)
    >>> regressor = est.LinearRegressor(
    ...     [tf.feature_column.numeric_column("x")],
    ...     optimizer=est.experimental.LinearSDCA("id", symmetric_l2_regularization=0.01),
    ... )
    >>> regressor = regressor.train(input_fn, steps=20)
    >>> bool(abs(regressor.get_variable_value("linear/linear_model/x/weights") - 3.0) < 0.01)
    True
    """

    example_id_column: str
    num_loss_partitions: int = 1
    num_table_shards: int | None = None
    symmetric_l1_regularization: float = 0.0
    symmetric_l2_regularization: float = 1.0
    adaptive: bool = False

    def __post_init__(self) -> None:
        if self.symmetric_l2_regularization <= 0.0:
            raise ConfigError(
                "symmetric_l2_regularization should be non zero and positive: without it SDCA does "
                f"not converge. Given: {self.symmetric_l2_regularization!r}."
            )
        if self.symmetric_l1_regularization < 0.0:
            raise ConfigError(
                "symmetric_l1_regularization should be non-negative. Given: "
                f"{self.symmetric_l1_regularization!r}."
            )

    def loss_type(self, head: Head, sparse_combiner: str) -> str:
        """TensorFlow's name of the loss to minimize for a head; refuses what SDCA cannot train."""
        if sparse_combiner != "sum":
            raise ConfigError(
                'sparse_combiner must be "sum" when optimizer is a LinearSDCA object. '
                f"Given: {sparse_combiner!r}."
            )
        if head.logits_dimension > 1:
            raise ConfigError(
                "LinearSDCA cannot be used in a multi-class setting. LinearSDCA can only be used "
                f"with one-dimensional label. Given: {head.logits_dimension} logits. Use another "
                "optimizer, such as 'Ftrl'."
            )
        loss = next((loss for kind, loss in _LOSSES if isinstance(head, kind)), None)
        custom = isinstance(head, LogisticRegressionHead) or (
            isinstance(head, SingleHead) and head._loss_fn is not None
        )
        if loss is None or (custom and loss in ("logistic_loss", "squared_loss")):
            raise ConfigError(
                f"Unsupported head type: {head}. LinearSDCA trains the losses of BinaryClassHead, "
                "HingeHead, RegressionHead and PoissonRegressionHead, without a loss_fn of one's "
                "own."
            )
        return loss


def sdca_model_fn(
    head: Head, feature_columns: Any, optimizer: LinearSDCA, sparse_combiner: str, v1: bool
) -> Callable[..., EstimatorSpec]:
    """The model function of a linear model that is trained by SDCA."""
    loss_type = optimizer.loss_type(head, sparse_combiner)
    part = LinearPart(feature_columns)

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        del config
        check_features(features)
        variables: dict[Any, Any] = {}
        logits = part.logits(features, mode, 1, variables_by_column=variables)

        def train_op_fn(loss: tf.Tensor) -> Any:
            step = _Step(optimizer, loss_type, v1)
            single = cast(SingleHead, head)  # loss_type refuses all others
            examples = _examples(optimizer, single, features, labels, logits.tensor)
            return minimize(_Solved(step.update(features, variables, examples)), loss, ())

        with scope_of_head("linear/", v1):
            return head.create_estimator_spec(
                features=features,
                mode=mode,
                labels=labels,
                train_op_fn=train_op_fn if mode == ModeKeys.TRAIN else None,
                logits=logits.tensor,
            )

    return model_fn


@dataclass(frozen=True)
class _Solved:
    """An update that is made already, as an optimizer: `minimize` adds the global step."""

    update: Any

    def make_train_op(self, loss: Any, variables: Any, global_step: Any) -> Any:
        del loss, variables, global_step
        return self.update


# ------------------------------------------------------------------ what a batch brings


@dataclass(frozen=True)
class _Examples:
    ids: tf.Tensor
    labels: tf.Tensor
    weights: tf.Tensor


def _examples(
    optimizer: LinearSDCA,
    head: SingleHead,
    features: Mapping[str, Any],
    labels: Any,
    logits: tf.Tensor,
) -> _Examples:
    key = optimizer.example_id_column
    if key not in features:
        raise InputError(
            f"LinearSDCA finds the ids of examples in feature {key!r}, but the features are: "
            f"{', '.join(map(str, features))}. Let input_fn return it among them: a string that "
            "is the same for an example in every epoch."
        )
    ids = tf.reshape(tf.convert_to_tensor(features[key]), [-1])
    logits = checked_logits(logits, 1)
    weights = weights_for(features, head._weight_column, logits)
    flat = [-1]
    return _Examples(
        ids if ids.dtype == tf.string else tf.strings.as_string(ids),
        tf.reshape(tf.cast(head._usable_labels(labels, logits), tf.float32), flat),
        tf.ones_like(tf.reshape(logits, flat)) if weights is None else tf.reshape(weights, flat),
    )


@dataclass(frozen=True)
class _SparseFeature:
    """Values of one categorical column: of which example, of which id, how much."""

    examples: tf.Tensor
    ids: tf.Tensor
    values: tf.Tensor


def _sparse_feature(column: Any, cache: FeatureTensors, state: GraphState) -> _SparseFeature:
    pair = column.get_sparse_tensors(cache, state)
    ids = tf.cast(pair.id_tensor.values, tf.int64)
    examples = pair.id_tensor.indices[:, 0]
    values = tf.ones_like(ids, tf.float32)
    if pair.weight_tensor is not None:
        values = tf.cast(pair.weight_tensor.values, tf.float32)
    known = ids >= 0  # what is in no vocabulary has -1, and no weight
    ids, examples, values = (tf.boolean_mask(t, known) for t in (ids, examples, values))
    # An id that an example has twice counts once, with both values.
    buckets = tf.cast(column.num_buckets, tf.int64)
    distinct, places = tf.unique(examples * buckets + ids)
    values = tf.math.unsorted_segment_sum(values, places, tf.size(distinct))
    return _SparseFeature(distinct // buckets, distinct % buckets, values)


def _dense_feature(column: Any, cache: FeatureTensors, state: GraphState) -> tf.Tensor:
    if isinstance(column, (fc.EmbeddingColumn, fc.SharedEmbeddingColumn)) or not hasattr(
        column, "get_dense_tensor"
    ):
        raise ConfigError(
            f"LinearSDCA does not support column type {type(column).__name__}. V2 feature columns "
            "required when optimizer is a LinearSDCA object: categorical or numeric ones of "
            f"tf.feature_column. Given: {column.name!r}."
        )
    if column.variable_shape.rank != 1:
        raise ConfigError(
            f"Column {type(column).__name__} has rank {column.variable_shape.rank}, larger than 1: "
            f"{column.name!r} has shape {column.variable_shape}."
        )
    return tf.cast(column.get_dense_tensor(cache, state), tf.float32)


# ------------------------------------------------------------------ the step


@dataclass(frozen=True)
class _Step:
    """One pass over the examples of a batch."""

    optimizer: LinearSDCA
    loss_type: str
    v1: bool

    def update(
        self, features: Any, variables: Mapping[Any, Any], examples: _Examples
    ) -> tf.Operation:
        """Updates the weights and what is kept of the examples."""
        cache, state = FeatureTensors(features), GraphState([], True)
        columns = sorted((c for c in variables if c != "bias"), key=lambda c: c.name)
        categorical = [c for c in columns if hasattr(c, "get_sparse_tensors")]
        sparse = [_sparse_feature(c, cache, state) for c in categorical]
        others = [c for c in columns if c not in categorical]
        dense = [_dense_feature(c, cache, state) for c in others]
        dense.append(tf.ones_like(examples.weights)[:, tf.newaxis])  # the bias is a weight, too
        sparse_weights = [variables[c][0] for c in categorical]
        dense_weights = [variables[c][0] for c in (*others, "bias")]
        before = [self._before_shrinking(v) for v in (*sparse_weights, *dense_weights)]
        made = self._solve(examples, sparse, dense, before)
        with tf.control_dependencies(made):
            pairs = zip((*sparse_weights, *dense_weights), before, strict=True)
            shrunk = [v.assign(self._shrunk(b.read_value()), read_value=False) for v, b in pairs]
            return tf.group(*shrunk)

    def _solve(
        self,
        examples: _Examples,
        sparse: Sequence[_SparseFeature],
        dense: Sequence[tf.Tensor],
        before: Sequence[tf.Variable],
    ) -> list[Any]:
        states = ExampleStates()
        keys = tf.raw_ops.SdcaFprint(input=examples.ids)
        rows = [tf.unique(feature.ids)[0] for feature in sparse]
        of_sparse, of_dense = before[: len(sparse)], before[len(sparse) :]
        new_states, sparse_deltas, dense_deltas = tf.raw_ops.SdcaOptimizerV2(
            sparse_example_indices=[feature.examples for feature in sparse],
            sparse_feature_indices=[feature.ids for feature in sparse],
            sparse_feature_values=[feature.values for feature in sparse],
            dense_features=list(dense),
            example_weights=examples.weights,
            example_labels=examples.labels,
            sparse_indices=rows,
            sparse_weights=[tf.gather(v, r) for v, r in zip(of_sparse, rows, strict=True)],
            dense_weights=[v.read_value() for v in of_dense],
            example_state_data=states.of(keys),
            loss_type=self.loss_type,
            l1=self.optimizer.symmetric_l1_regularization,
            l2=self.optimizer.symmetric_l2_regularization,
            num_loss_partitions=self.optimizer.num_loss_partitions,
            num_inner_iterations=1,
            adaptive=self.optimizer.adaptive,
        )
        _v1.summary.scalar("examples_seen", states.count())
        with tf.control_dependencies([new_states]):
            moved = [
                tf.raw_ops.ResourceScatterAdd(resource=v.handle, indices=r, updates=d)
                for v, r, d in zip(of_sparse, rows, sparse_deltas, strict=True)
            ]
            moved += [
                v.assign_add(d, read_value=False)
                for v, d in zip(of_dense, dense_deltas, strict=True)
            ]
            return [states.keep(keys, new_states), *moved]

    def _before_shrinking(self, variable: tf.Variable) -> tf.Variable:
        """The weights without L1: it is applied anew at every step."""
        name = variable.name.split(":")[0]
        name = f"linear/{name}/part_0_unshrunk" if self.v1 else f"{name}_unshrunk"
        shape = variable.shape
        with _v1.name_scope(None):
            return tf.Variable(lambda: tf.zeros(shape), name=name, trainable=False)

    def _shrunk(self, weights: tf.Tensor) -> tf.Tensor:
        by = self.optimizer.symmetric_l1_regularization / self.optimizer.symmetric_l2_regularization
        return tf.sign(weights) * tf.maximum(0.0, tf.abs(weights) - by) if by else weights
