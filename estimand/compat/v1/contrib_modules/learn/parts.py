"""What the ready-made models of `tf.contrib.learn` are made of: a deep part, a linear part."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.canned.deep_and_linear import with_variables
from estimand.compat.v1.contrib_modules.layers import column_variables
from estimand.compat.v1.contrib_modules.layers.dense import fully_connected
from estimand.compat.v1.contrib_modules.learn import columns as columns_of
from estimand.compat.v1.contrib_modules.learn.heads import Head
from estimand.compat.v1.contrib_modules.optimizing import optimize_loss
from estimand.core.errors import ConfigError
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec

v1 = tf.compat.v1
_DNN_RATE = 0.05
_LINEAR_RATE = 0.2


class Part(abc.ABC):
    """Gives logits, and trains the variables behind them."""

    scope: str

    def __init__(self, columns: Any, optimizer: Any, clip_norm: float | None) -> None:
        # Columns may come from a set or a generator, but are needed once per mode.
        self._columns = None if columns is None else _listed(columns)
        self._optimizer, self._clip_norm = optimizer, clip_norm

    def logits(self, features: Any, mode: str, units: int) -> tuple[tf.Tensor, list[Any]]:
        """The logits, and the variables that they depend on."""
        named, columns = columns_of.features_and_columns(features, self._columns)

        def build() -> tf.Tensor:
            with v1.variable_scope(self.scope):
                return self._build(named, columns, mode, units)

        return with_variables(build)

    def train_op(self, loss: tf.Tensor, variables: list[Any], counts: bool) -> Any:
        """A step of this part's optimizer; `counts` says whether it counts the global step."""
        return optimize_loss(
            loss,
            v1.train.get_global_step(),
            self._rate(),
            self._optimizer or self._default,
            clip_gradients=None if self._clip_norm is None else float(self._clip_norm),
            variables=variables,
            name=self.scope,
            summaries=[],
            increment_global_step=counts,
        )

    _default: str

    @abc.abstractmethod
    def _rate(self) -> float: ...

    @abc.abstractmethod
    def _build(self, features: Any, columns: list[Any], mode: str, units: int) -> tf.Tensor: ...


class Deep(Part):
    """Dense layers over columns."""

    scope, _default = "dnn", "Adagrad"

    def __init__(
        self,
        columns: Any,
        optimizer: Any,
        clip_norm: float | None,
        hidden_units: Any,
        activation_fn: Any,
        dropout: float | None,
    ) -> None:
        super().__init__(columns, optimizer, clip_norm)
        if not hidden_units:
            raise ConfigError(
                "hidden_units must be the sizes of the hidden layers, such as [64, 32], given: "
                f"{hidden_units!r}."
            )
        self._sizes = [int(size) for size in hidden_units]
        self._activation_fn, self._dropout = activation_fn, dropout

    def _rate(self) -> float:
        return _DNN_RATE

    def _build(self, features: Any, columns: list[Any], mode: str, units: int) -> tf.Tensor:
        with v1.variable_scope("input_from_feature_columns"):
            net = column_variables.dense_input(features, columns)
        for number, size in enumerate(self._sizes):
            scope = f"hiddenlayer_{number}"
            net = fully_connected(net, size, activation_fn=self._activation_fn, scope=scope)
            if self._dropout is not None and mode == ModeKeys.TRAIN:
                net = tf.nn.dropout(net, rate=self._dropout)
            _summarise(net, f"dnn/{scope}")
        logits = fully_connected(net, units, activation_fn=None, scope="logits")
        _summarise(logits, "dnn/logits")
        return logits


class Linear(Part):
    """A weighted sum of columns."""

    scope, _default = "linear", "Ftrl"

    def _rate(self) -> float:
        return min(_LINEAR_RATE, 1.0 / math.sqrt(len(self._columns or [0])))

    def _build(self, features: Any, columns: list[Any], mode: str, units: int) -> tf.Tensor:
        del mode
        return column_variables.weighted_sum(features, columns, units)


def model_fn_of(head: Head, parts: Sequence[Part]) -> Callable[..., EstimatorSpec]:
    """The model function of a head on the sum of the parts' logits."""

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        built = [part.logits(features, mode, head.logits_dimension) for part in parts]

        def train(loss: tf.Tensor) -> Any:
            steps = []
            for number, (part, (_, variables)) in enumerate(zip(parts, built, strict=True)):
                own = [*variables, *head.variables()] if number == 0 else variables
                steps.append(part.train_op(loss, own, counts=number == len(parts) - 1))
            return tf.group(*steps)

        logits = tf.add_n([tensor for tensor, _ in built])
        return head.create_model_fn_ops(features, mode, labels, train, logits)

    return model_fn


def _listed(columns: Any) -> list[Any]:
    if hasattr(columns, "_fields"):  # a single column is a named tuple
        return [columns]
    return sorted(columns, key=lambda column: column.name)


def _summarise(value: tf.Tensor, tag: str) -> None:
    v1.summary.scalar(f"{tag}/fraction_of_zero_values", tf.math.zero_fraction(value))
    v1.summary.histogram(f"{tag}/activation", value)
