"""The two parts of which canned models consist: a deep one and a linear one.

Each gives logits together with the variables that are to be trained for them. Those are found by
what the logits depend on, not by where they were made: shared embeddings live outside of the
part's scope, and are trained all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from estimand.canned import layers, v1_names
from estimand.core import tf_private
from estimand.core.errors import ConfigError, InputError
from estimand.core.modes import ModeKeys
from estimand.core.tf_private import feature_columns
from estimand.engine.variables import effects
from estimand.engine.variables.traced_variables import traced_variables
from estimand.features import input_layer, linear_model

_v1 = tf.compat.v1


@dataclass(frozen=True)
class Logits:
    """What a part of a model says, and what has to be done to train it."""

    tensor: tf.Tensor
    variables: list[tf.Variable]
    update_ops: list[Any] = field(default_factory=list)


def refuse_columns(columns: Any, v1: bool) -> None:
    """Models with the defaults of TensorFlow 2 take no columns of TensorFlow 1, as ever.

    What is no column at all they take as little.
    """
    if not v1:
        _refuse_what_is_no_column(columns)
    old = [] if v1 else feature_columns.of_version_1(columns)
    if old:
        raise ConfigError(
            "Received a feature column from TensorFlow v1, but this is a TensorFlow v2 Estimator. "
            f"Make it with tf.feature_column.*, or take the class of tf.compat.v1.estimator. "
            f"Given: {old[0]!r}."
        )


def _refuse_what_is_no_column(columns: Any) -> None:
    given = columns if isinstance(columns, list | tuple) else [columns]
    for column in given:
        if isinstance(column, str):
            raise ConfigError(
                f"feature_columns must be a list of feature columns. Given: the string {column!r}. "
                f"Make a column of it: est.feature_column.numeric_column({column!r}) for numbers, "
                f"est.feature_column.categorical_column_with_vocabulary_list({column!r}, [...]) "
                "for words."
            )
        if isinstance(column, int | float):
            raise ConfigError(
                f"feature_columns must be a list of feature columns. Given: the number {column!r}. "
                "If it is the size of a hidden layer, say which is which: "
                f"hidden_units=[{column!r}], feature_columns=[...]."
            )


@dataclass(frozen=True)
class DeepPart:
    """A stack of dense layers over dense feature columns."""

    hidden_units: Sequence[int]
    feature_columns: Any
    activation_fn: Any = tf.nn.relu
    dropout: float | None = None
    batch_norm: bool = False
    tag_scope: str = ""  # what tf.compat.v1.estimator had before the tags of its summaries

    def logits(self, features: Any, mode: str, units: int, scope: str = "dnn") -> Logits:
        """Builds the part in a variable scope of its own."""
        check_features(features)
        updates: list[Any] = []

        def build() -> tf.Tensor:
            with _v1.variable_scope(scope):
                return self.build(features, mode, units, updates)

        tensor, variables = with_variables(build)
        v1_names.note_shared_embeddings()
        return Logits(tensor, variables, updates)

    def build(self, features: Any, mode: str, units: int, updates: list[Any]) -> tf.Tensor:
        """Builds the part in the current variable scope."""
        training = mode == ModeKeys.TRAIN
        activation = layers.activation_function(self.activation_fn)
        with _v1.variable_scope("input_from_feature_columns"):
            net = input_layer(features, self.feature_columns)
        for i, size in enumerate(_sizes(self.hidden_units)):
            with _v1.variable_scope(f"hiddenlayer_{i}"):
                net = layers.dense(net, size, activation)
                if self.dropout is not None and training:
                    net = tf.nn.dropout(net, rate=self.dropout)
                if self.batch_norm:
                    with _v1.variable_scope(f"batchnorm_{i}"):
                        net, moved = layers.batch_norm(net, training)
                    updates += moved
            layers.summarise(net, f"{self.tag_scope}hiddenlayer_{i}")
        with _v1.variable_scope("logits"):
            logits = layers.dense(net, units)
        layers.summarise(logits, f"{self.tag_scope}logits")
        return logits


@dataclass(frozen=True)
class LinearPart:
    """A weighted sum of feature columns."""

    feature_columns: Any
    sparse_combiner: str = "sum"
    tag_scope: str = ""

    def __post_init__(self) -> None:
        if self.sparse_combiner not in ("sum", "mean", "sqrtn"):
            raise ConfigError(
                "sparse_combiner must be 'sum', 'mean' or 'sqrtn'. "
                f"Given: {self.sparse_combiner!r}."
            )

    def logits(
        self,
        features: Any,
        mode: str,
        units: int,
        scope: str = "linear",
        variables_by_column: dict[Any, Any] | None = None,
    ) -> Logits:
        """Builds the part in a variable scope of its own."""
        del mode  # a linear model is the same in all
        check_features(features)
        bias: list[Any] = []

        def build() -> tf.Tensor:
            with _v1.variable_scope(scope):
                return self.build(features, units, bias, variables_by_column)

        tensor, variables = with_variables(build)
        v1_names.note_shared_embeddings()
        self.summarise(bias, variables)
        return Logits(tensor, variables)

    def build(
        self,
        features: Any,
        units: int,
        bias: list[Any],
        variables_by_column: dict[Any, Any] | None = None,
    ) -> tf.Tensor:
        """Builds the part in the current variable scope; gives out its bias."""
        cols_to_vars = {} if variables_by_column is None else variables_by_column
        logits = linear_model(
            features,
            self.feature_columns,
            units=units,
            sparse_combiner=self.sparse_combiner,
            cols_to_vars=cols_to_vars,
        )
        bias += _v1.nest.flatten(cols_to_vars.get("bias", []))
        return logits

    def summarise(self, bias: Sequence[tf.Variable], variables: Sequence[tf.Variable]) -> None:
        """The bias, and how many of the weights are zero."""
        tag = f"{self.tag_scope}bias"
        for variable in bias:
            if variable.shape == [1]:
                _v1.summary.scalar(tag, variable.read_value()[0])
            else:
                _v1.summary.histogram(tag, variable.read_value())
        biases = {id(variable) for variable in bias}
        weights = [v for v in variables if id(v) not in biases]
        if weights:
            tag = f"{self.tag_scope}fraction_of_zero_weights"
            _v1.summary.scalar(tag, _fraction_of_zeros(weights))


def _fraction_of_zeros(weights: Sequence[tf.Variable]) -> tf.Tensor:
    zeros = [tf.math.count_nonzero(tf.equal(v.read_value(), 0)) for v in weights]
    sizes = [tf.size(v.read_value(), out_type=tf.int64) for v in weights]
    return tf.cast(tf.add_n(zeros) / tf.add_n(sizes), tf.float32)


def _sizes(hidden_units: Any) -> list[int]:
    try:
        # Numbers as text, too: `"64 32".split()` of a flag.
        if all(int(size) == float(size) > 0 for size in hidden_units):
            return [int(size) for size in hidden_units]
    except (TypeError, ValueError):
        pass
    raise ConfigError(
        "hidden_units must be the numbers of units of the hidden layers, such as [64, 32]. "
        f"Given: {hidden_units!r}. They come before feature_columns."
    )


def check_features(features: Any) -> None:
    """Canned models look their columns up by name."""
    if not isinstance(features, Mapping):
        raise InputError(
            f"features should be a dictionary of `Tensor`s. Given type: {type(features)}. "
            'Let input_fn return ({"name": tensor, ...}, labels), with a name for each column.'
        )


# ------------------------------------------------------------------ which variables


def with_variables(build: Callable[[], tf.Tensor]) -> tuple[tf.Tensor, list[tf.Variable]]:
    """What `build` gives, and the trainable variables that it depends on."""
    if not tf.executing_eagerly():
        tensor = build()
        return tensor, _trainable_behind(tensor)
    # Nothing remembers what an eager tensor came from; what was made or found meanwhile is it.
    traced = traced_variables(_v1.get_default_graph())
    before = set(traced.by_name)
    tensor = build()
    made = [v for name, v in traced.by_name.items() if name not in before]
    return tensor, [v for v in made if v.trainable]


def _trainable_behind(tensor: tf.Tensor) -> list[tf.Variable]:
    graph = tensor.graph
    needed = effects.ancestors([tensor.op])
    captured = {id(outer): inner for outer, inner in getattr(graph, "captures", ())}
    known = list(_v1.trainable_variables())
    if captured:
        known += tf_private.variables_read_in(graph)
    tensors = {}
    for variable in known:
        handle = captured.get(id(variable.handle), variable.handle)
        if variable.trainable and getattr(handle, "op", None) and handle.op.name in needed:
            tensors[id(variable)] = variable
    return list(tensors.values())
