"""The model functions inside the canned estimators, under the names that code in the wild calls.

Each makes the model function that the estimator of the same kind has, and calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.canned import baseline
from estimand.canned.deep_and_linear import DeepPart, LinearPart
from estimand.canned.dnn import dnn_model_fn
from estimand.canned.dnn_linear_combined import CombinedModel
from estimand.canned.linear import linear_model_fn, tuple_of
from estimand.canned.logit_fns import dnn_logit_fn_builder
from estimand.canned.optimizers import for_many_models
from estimand.canned.sdca import LinearSDCA
from estimand.core.spec import EstimatorSpec


def dnn_model_fn_v2(
    features: Any,
    labels: Any,
    mode: str,
    head: Any,
    hidden_units: Any,
    feature_columns: Any,
    optimizer: Any = "Adagrad",
    activation_fn: Any = tf.nn.relu,
    dropout: float | None = None,
    config: Any = None,
    use_tpu: bool = False,
    batch_norm: bool = False,
) -> EstimatorSpec:
    del use_tpu
    model_fn = dnn_model_fn(
        head, hidden_units, feature_columns, optimizer, activation_fn, dropout, batch_norm
    )
    return model_fn(features, labels, mode, config)


def _dnn_model_fn(
    features: Any,
    labels: Any,
    mode: str,
    head: Any,
    hidden_units: Any,
    feature_columns: Any,
    optimizer: Any = "Adagrad",
    activation_fn: Any = tf.nn.relu,
    dropout: float | None = None,
    input_layer_partitioner: Any = None,
    config: Any = None,
    use_tpu: bool = False,
    batch_norm: bool = False,
) -> EstimatorSpec:
    del input_layer_partitioner, use_tpu
    model_fn = dnn_model_fn(
        head, hidden_units, feature_columns, optimizer, activation_fn, dropout, batch_norm, v1=True
    )
    return model_fn(features, labels, mode, config)


def dnn_logit_fn_builder_v2(
    units: int,
    hidden_units: Any,
    feature_columns: Any,
    activation_fn: Any,
    dropout: float | None,
    batch_norm: bool,
) -> Callable[..., tf.Tensor]:
    """As `dnn_logit_fn_builder`, with the variables in a scope `dnn` of their own."""
    logit_fn = dnn_logit_fn_builder(
        units, hidden_units, feature_columns, activation_fn, dropout, None, batch_norm
    )

    def dnn_logit_fn(features: Any, mode: str) -> tf.Tensor:
        with tf.compat.v1.variable_scope("dnn"):
            return logit_fn(features, mode)

    return dnn_logit_fn


def _linear_model_fn_v2(
    features: Any,
    labels: Any,
    mode: str,
    head: Any,
    feature_columns: Any,
    optimizer: Any,
    config: Any,
    sparse_combiner: str = "sum",
) -> EstimatorSpec:
    model_fn = linear_model_fn(head, feature_columns, optimizer, sparse_combiner)
    return model_fn(features, labels, mode, config)


def _linear_model_fn(
    features: Any,
    labels: Any,
    mode: str,
    head: Any,
    feature_columns: Any,
    optimizer: Any,
    partitioner: Any,
    config: Any,
    sparse_combiner: str = "sum",
) -> EstimatorSpec:
    del partitioner
    model_fn = linear_model_fn(head, feature_columns, optimizer, sparse_combiner, v1=True)
    return model_fn(features, labels, mode, config)


def _combined(v1: bool) -> Callable[..., EstimatorSpec]:
    def model_fn(
        features: Any,
        labels: Any,
        mode: str,
        head: Any,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
        loss_reduction: Any = None,
    ) -> EstimatorSpec:
        del input_layer_partitioner, loss_reduction  # the head knows its reduction
        deep = DeepPart(
            dnn_hidden_units,
            tuple_of(dnn_feature_columns),
            dnn_activation_fn,
            dnn_dropout,
            batch_norm,
        )
        model = CombinedModel(
            head,
            LinearPart(tuple_of(linear_feature_columns), linear_sparse_combiner),
            for_many_models(linear_optimizer),
            deep,
            for_many_models(dnn_optimizer),
            v1,
        )
        return model(features, labels, mode, config)

    return model_fn


_dnn_linear_combined_model_fn = _combined(v1=True)
_dnn_linear_combined_model_fn_v2 = _combined(v1=False)


def _compute_fraction_of_zero(variables: Any) -> tf.Tensor:
    """How many of all numbers in nested lists of variables are zero.

    >>> float(_compute_fraction_of_zero([tf.constant([0, 0, 0, 1])]))
    0.75
    """
    tensors = [tf.convert_to_tensor(v) for v in tf.nest.flatten(variables)]
    zeros = tf.add_n([tf.math.count_nonzero(tf.equal(t, tf.zeros([], t.dtype))) for t in tensors])
    sizes = tf.add_n([tf.size(t, out_type=tf.int64) for t in tensors])
    return tf.cast(tf.cast(zeros, tf.float64) / tf.cast(sizes, tf.float64), tf.float32)


def _baseline_model_fn_builder_v2(
    features: Any, num_outputs: int, weight_column: Any = None
) -> tuple[list[Any], tf.Tensor]:
    """The bias of a baseline, and the logits of a batch, which are all the same."""
    bias, logits = baseline.bias_and_logits(features, num_outputs, weight_column)
    return [bias], logits


def _baseline_model_fn_v2(
    features: Any,
    labels: Any,
    mode: str,
    head: Any,
    optimizer: Any,
    weight_column: Any = None,
    config: Any = None,
    loss_reduction: Any = None,
) -> EstimatorSpec:
    del loss_reduction  # the head has it
    model_fn = baseline.baseline_model_fn(head, optimizer, weight_column)
    return model_fn(features, labels, mode, config)


def _validate_linear_sdca_optimizer_for_linear_classifier(
    feature_columns: Any, n_classes: int, optimizer: Any, sparse_combiner: str
) -> None:
    """SDCA knows two classes and sums: it refuses others by itself, with a sentence of its own."""
    if not isinstance(optimizer, LinearSDCA):
        return
    if n_classes > 2:
        raise ValueError(
            f"LinearSDCA is for two classes; n_classes={n_classes}. Use another optimizer."
        )
    if sparse_combiner != "sum":
        raise ValueError(
            f"LinearSDCA adds up columns; sparse_combiner={sparse_combiner!r}. Use 'sum'."
        )
    del feature_columns
