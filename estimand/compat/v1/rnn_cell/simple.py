"""The two cells whose state is their output."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.compat.v1.layers import identifiers
from estimand.compat.v1.rnn_cell.base import RNNCell, activation_of, input_depth


class _PlainCell(RNNCell):
    """What the two share: one size for state and outputs."""

    def __init__(
        self,
        num_units: int,
        activation: Any,
        reuse: Any,
        name: str | None,
        dtype: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._activation = activation_of(activation)

    @property
    def state_size(self) -> int:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units


class BasicRNNCell(_PlainCell):
    """`output = new_state = activation(W * input + U * state + B)`."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)

    def build(self, input_shape: Any) -> None:
        rows = input_depth(input_shape) + self._num_units
        self._kernel = self.add_weight("kernel", [rows, self._num_units])
        self._bias = self.add_weight(
            "bias", [self._num_units], initializer=tf.compat.v1.zeros_initializer()
        )

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        sums = tf.matmul(tf.concat([inputs, state], 1), self._kernel)
        output = self._activation(tf.nn.bias_add(sums, self._bias))
        return output, output


class GRUCell(_PlainCell):
    """A gated recurrent unit (Cho et al. 2014)."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)
        self._kernel_initializer = identifiers.initializer(kernel_initializer)
        self._bias_initializer = identifiers.initializer(bias_initializer)

    def build(self, input_shape: Any) -> None:
        units = self._num_units
        rows = input_depth(input_shape) + units
        # Gates begin open, so that the state passes through until something is learned.
        ones = self._bias_initializer or tf.compat.v1.constant_initializer(1.0)
        zeros = self._bias_initializer or tf.compat.v1.zeros_initializer()
        made = self._kernel_initializer
        self._gate_kernel = self.add_weight("gates/kernel", [rows, 2 * units], initializer=made)
        self._gate_bias = self.add_weight("gates/bias", [2 * units], initializer=ones)
        self._candidate_kernel = self.add_weight(
            "candidate/kernel", [rows, units], initializer=made
        )
        self._candidate_bias = self.add_weight("candidate/bias", [units], initializer=zeros)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        sums = tf.matmul(tf.concat([inputs, state], 1), self._gate_kernel)
        gates = tf.sigmoid(tf.nn.bias_add(sums, self._gate_bias))
        reset, update = tf.split(gates, num_or_size_splits=2, axis=1)
        sums = tf.matmul(tf.concat([inputs, reset * state], 1), self._candidate_kernel)
        candidate = self._activation(tf.nn.bias_add(sums, self._candidate_bias))
        new_state = update * state + (1 - update) * candidate
        return new_state, new_state
