"""`tf.contrib.rnn`: cells with few gates, or whose units see only their own state."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.compat.v1.layers import identifiers
from estimand.compat.v1.layers.errors import LayerError
from estimand.compat.v1.rnn_cell import LSTMStateTuple
from estimand.compat.v1.rnn_cell.base import activation_of, input_depth
from estimand.compat.v1.rnn_cell.lstm import _MemoryCell
from estimand.compat.v1.rnn_cell.simple import _PlainCell

v1 = tf.compat.v1


class UGRNNCell(_PlainCell):
    """A cell with one gate (Collins et al. 2017)."""

    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        forget_bias: float = 1.0,
        activation: Any = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(num_units, activation, reuse, None, None)
        self._initializer = identifiers.initializer(initializer)
        self._forget_bias = forget_bias

    def build(self, input_shape: Any) -> None:
        rows, many = input_depth(input_shape) + self._num_units, 2 * self._num_units
        zeros = v1.zeros_initializer()
        self._kernel = self.add_weight("kernel", [rows, many], initializer=self._initializer)
        self._bias = self.add_weight("bias", [many], initializer=zeros)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        sums = tf.matmul(tf.concat([inputs, state], 1), self._kernel) + self._bias
        gate, candidate = tf.split(sums, 2, axis=1)
        keep = tf.sigmoid(gate + self._forget_bias)
        new = keep * state + (1.0 - keep) * self._activation(candidate)
        return new, new


class IntersectionRNNCell(_PlainCell):
    """A cell with a gate in time and one in depth (Collins et al. 2017)."""

    def __init__(
        self,
        num_units: int,
        num_in_proj: int | None = None,
        initializer: Any = None,
        forget_bias: float = 1.0,
        y_activation: Any = tf.nn.relu,
        reuse: Any = None,
    ) -> None:
        super().__init__(num_units, y_activation, reuse, None, None)
        self._initializer = identifiers.initializer(initializer)
        self._projects, self._forget_bias = num_in_proj, forget_bias

    def build(self, input_shape: Any) -> None:
        units, depth, zeros = self._num_units, input_depth(input_shape), v1.zeros_initializer()
        self._projection: Any = None
        made = self._initializer
        if depth != units:
            if not self._projects:
                raise LayerError(
                    "Must have input size == output size for Intersection RNN. To fix, "
                    "num_in_proj should be set to num_units at cell init."
                )
            self._projection = (
                self.add_weight("in_projection/kernel", [depth, units], initializer=made),
                self.add_weight("in_projection/bias", [units], initializer=zeros),
            )
        self._kernel = self.add_weight("kernel", [2 * units, 4 * units], initializer=made)
        self._bias = self.add_weight("bias", [4 * units], initializer=zeros)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        if self._projection is not None:
            inputs = tf.matmul(inputs, self._projection[0]) + self._projection[1]
        sums = tf.matmul(tf.concat([inputs, state], 1), self._kernel) + self._bias
        in_time, h, in_depth, y = tf.split(sums, 4, axis=1)
        keep = tf.sigmoid(in_time + self._forget_bias)
        passed = tf.sigmoid(in_depth + self._forget_bias)
        new_state = keep * state + (1.0 - keep) * tf.tanh(h)
        return passed * inputs + (1.0 - passed) * self._activation(y), new_state


class IndRNNCell(_PlainCell):
    """Each unit sees the input, and of the state only itself (Li et al. 2018)."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype)

    def build(self, input_shape: Any) -> None:
        units = self._num_units
        self._kernel = self.add_weight("kernel_w", [input_depth(input_shape), units])
        self._own = self.add_weight("kernel_u", [1, units], initializer=_between_ones())
        self._bias = self.add_weight("bias", [units], initializer=v1.zeros_initializer())

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        sums = tf.matmul(inputs, self._kernel) + state * self._own + self._bias
        output = self._activation(sums)
        return output, output


class IndyGRUCell(_PlainCell):
    """A GRU whose units see of the state only themselves."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype)
        self._made = identifiers.initializer(kernel_initializer)
        self._bias_made = identifiers.initializer(bias_initializer)

    def build(self, input_shape: Any) -> None:
        depth, units = input_depth(input_shape), self._num_units

        def weights(scope: str, size: int, start: float) -> tuple[Any, Any, Any]:
            bias = self._bias_made or v1.constant_initializer(start)
            return (
                self.add_weight(f"{scope}/kernel_w", [depth, size], initializer=self._made),
                self.add_weight(f"{scope}/kernel_u", [1, size], initializer=_between_ones()),
                self.add_weight(f"{scope}/bias", [size], initializer=bias),
            )

        self._gates = weights("gates", 2 * units, 1.0)
        self._candidate = weights("candidate", units, 0.0)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        w, u, b = self._gates
        gates = tf.sigmoid(tf.matmul(inputs, w) + tf.tile(state, [1, 2]) * u + b)
        reset, update = tf.split(gates, 2, axis=1)
        w, u, b = self._candidate
        candidate = self._activation(tf.matmul(inputs, w) + reset * state * u + b)
        new = update * state + (1 - update) * candidate
        return new, new


class IndyLSTMCell(_MemoryCell):
    """An LSTM whose units see of the output only themselves."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        activation: Any = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self._num_units, self._state_is_tuple = num_units, True
        self._forget_bias, self._activation = forget_bias, activation_of(activation)
        self._made = identifiers.initializer(kernel_initializer)
        self._bias_made = identifiers.initializer(bias_initializer)

    def build(self, input_shape: Any) -> None:
        many = 4 * self._num_units
        zeros = self._bias_made or v1.zeros_initializer()
        shape = [input_depth(input_shape), many]
        self._kernel = self.add_weight("kernel_w", shape, initializer=self._made)
        self._own = self.add_weight("kernel_u", [1, many], initializer=_between_ones())
        self._bias = self.add_weight("bias", [many], initializer=zeros)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        c, h = state
        sums = tf.matmul(inputs, self._kernel) + tf.tile(h, [1, 4]) * self._own + self._bias
        write, candidate, forget, read = tf.split(sums, 4, axis=1)
        keep = tf.sigmoid(forget + self._forget_bias)
        new_c = c * keep + tf.sigmoid(write) * self._activation(candidate)
        new_h = self._activation(new_c) * tf.sigmoid(read)
        return new_h, LSTMStateTuple(new_c, new_h)


class SRUCell(_PlainCell):
    """A simple recurrent unit (Lei et al. 2017)."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        **of_a_layer: Any,
    ) -> None:
        dtype = of_a_layer.pop("dtype", None)
        super().__init__(num_units, activation, reuse, name, dtype, **of_a_layer)

    def build(self, input_shape: Any) -> None:
        units, zeros = self._num_units, v1.zeros_initializer()
        self._kernel = self.add_weight("kernel", [input_depth(input_shape), 4 * units])
        self._bias = self.add_weight("bias", [2 * units], initializer=zeros)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        units = self._num_units
        sums = tf.matmul(inputs, self._kernel)
        candidate, gates, passed = tf.split(sums, [units, 2 * units, units], axis=1)
        forget, reset = tf.split(tf.sigmoid(gates + self._bias), 2, axis=1)
        c = forget * state + (1.0 - forget) * candidate
        return reset * self._activation(c) + (1.0 - reset) * passed, c


def _between_ones() -> Any:
    return v1.random_uniform_initializer(-1.0, 1.0)
