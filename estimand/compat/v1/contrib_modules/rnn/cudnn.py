"""`tf.contrib.cudnn_rnn`: networks of several layers, run by ordinary kernels.

Variables have the names that contrib gave them in checkpoints, which are those of
`CudnnCompatibleLSTMCell` in `MultiRNNCell` or `stack_bidirectional_dynamic_rnn`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.compat.v1.contrib_modules.rnn.fused import LSTMBlockCell
from estimand.compat.v1.contrib_modules.rnn.networks import stack_bidirectional_dynamic_rnn
from estimand.compat.v1.layers.errors import LayerError
from estimand.compat.v1.rnn_cell import (
    BasicRNNCell,
    DropoutWrapper,
    GRUCell,
    LSTMStateTuple,
    MultiRNNCell,
)
from estimand.compat.v1.rnn_cell.base import input_depth

v1 = tf.compat.v1
_DIRECTIONS = {"unidirectional": 1, "bidirectional": 2}


class CudnnCompatibleLSTMCell(LSTMBlockCell):
    """An LSTM that computes what cuDNN's does: the bias of its forget gate is a variable."""

    def __init__(self, num_units: int, reuse: Any = None) -> None:
        name = "cudnn_compatible_lstm_cell"
        super().__init__(num_units, forget_bias=0.0, reuse=reuse, name=name)


class CudnnCompatibleGRUCell(GRUCell):
    """A GRU that computes what cuDNN's does: the reset gate comes after the product."""

    def __init__(self, num_units: int, reuse: Any = None, kernel_initializer: Any = None) -> None:
        name = "cudnn_compatible_gru_cell"
        made = kernel_initializer
        super().__init__(num_units, reuse=reuse, kernel_initializer=made, name=name)

    def build(self, input_shape: Any) -> None:
        depth, units, made = input_depth(input_shape), self._num_units, self._kernel_initializer
        zeros, ones = v1.zeros_initializer(), v1.constant_initializer(1.0)
        gates = [depth + units, 2 * units]
        self._gate_kernel = self.add_weight("gates/kernel", gates, initializer=made)
        self._gate_bias = self.add_weight("gates/bias", [2 * units], initializer=ones)
        self._projections = [
            (
                self.add_weight(f"candidate/{name}/kernel", [rows, units], initializer=made),
                self.add_weight(f"candidate/{name}/bias", [units], initializer=zeros),
            )
            for name, rows in (("input_projection", depth), ("hidden_projection", units))
        ]

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        sums = tf.matmul(tf.concat([inputs, state], 1), self._gate_kernel)
        gates = tf.sigmoid(tf.nn.bias_add(sums, self._gate_bias))
        reset, update = tf.split(gates, 2, axis=1)
        (w_x, b_x), (w_h, b_h) = self._projections
        recurrent = tf.matmul(state, w_h) + b_h
        candidate = self._activation(tf.matmul(inputs, w_x) + b_x + reset * recurrent)
        new_state = (1 - update) * candidate + update * state
        return new_state, new_state


class _CudnnRNN:
    """Layers of one kind of cell; states are [layers * directions, batch, units]."""

    _name = ""
    _state_parts = 1

    def __init__(
        self,
        num_layers: int,
        num_units: int,
        input_mode: str = "linear_input",
        direction: str = "unidirectional",
        dropout: float = 0.0,
        seed: int | None = None,
        dtype: Any = tf.float32,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
    ) -> None:
        if direction not in _DIRECTIONS:
            raise LayerError(f"direction is {direction!r}, and can be {' or '.join(_DIRECTIONS)}.")
        if input_mode not in ("linear_input", "auto_select"):
            raise LayerError(f"input_mode is {input_mode!r}; here it can only be 'linear_input'.")
        self.num_layers, self.num_units, self.num_dirs = (
            num_layers,
            num_units,
            _DIRECTIONS[direction],
        )
        self.direction, self.input_mode, self.dtype = direction, input_mode, tf.as_dtype(dtype)
        self._dropout, self._seed = dropout, seed
        self._made = kernel_initializer, bias_initializer
        self.name, self._scope = name or self._name, None
        self.built = False

    def state_shape(self, batch_size: Any) -> tuple[list[Any], ...]:
        """The shapes of the state for a batch of this size."""
        shape = [self.num_layers * self.num_dirs, batch_size, self.num_units]
        return (shape,) * self._state_parts

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        sequence_lengths: Any = None,
        time_major: bool = True,
        training: bool = True,
        scope: Any = None,
    ) -> tuple[Any, tuple[Any, ...]]:
        """Outputs, [time, batch, directions * units], and the last states."""
        inputs = tf.convert_to_tensor(inputs)
        with self._opened(scope):
            states = self._taken_apart(initial_state)
            given: dict[str, Any] = {
                "dtype": self.dtype,
                "sequence_length": sequence_lengths,
                "time_major": time_major,
            }
            cells = [self._cells(training) for _ in range(self.num_dirs)]
            if self.num_dirs == 1:
                outputs, last = v1.nn.dynamic_rnn(
                    MultiRNNCell(cells[0]), inputs, initial_state=states and tuple(states), **given
                )
            else:
                forward = states and states[0::2]
                backward = states and states[1::2]
                outputs, *both = stack_bidirectional_dynamic_rnn(
                    cells[0], cells[1], inputs, forward, backward, **given
                )
                last = [state for pair in zip(*both, strict=True) for state in pair]
        self.built = True
        return outputs, self._put_together(last)

    call = apply = __call__

    def _opened(self, scope: Any) -> Any:
        if self._scope is None:
            with v1.variable_scope(scope, default_name=self.name) as opened:
                self._scope = opened
        return v1.variable_scope(
            self._scope, reuse=True if self.built else None, custom_getter=self._getter
        )

    @property
    def trainable_variables(self) -> list[Any]:
        return v1.trainable_variables(f"{self._scope.name}/") if self._scope else []

    variables = weights = trainable_weights = trainable_variables

    def _cells(self, training: bool) -> list[Any]:
        """One for each layer; what goes from one layer to the next is dropped."""
        cells = [self._cell() for _ in range(self.num_layers)]
        if not (training and self._dropout):
            return cells
        keep = 1.0 - self._dropout
        below = [DropoutWrapper(c, output_keep_prob=keep, seed=self._seed) for c in cells[:-1]]
        return [*below, cells[-1]]

    def _getter(self, getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """Lets the given initializers come before those of the cells."""
        kernel, bias = self._made
        given = (bias or v1.zeros_initializer()) if name.endswith("bias") else kernel
        if given is not None:
            kwargs["initializer"] = given
        return getter(name, *args, **kwargs)

    def _cell(self) -> Any:
        raise NotImplementedError

    def _taken_apart(self, state: Any) -> list[Any] | None:
        """The state of each cell."""
        if state is None:
            return None
        return tf.unstack(state[0] if isinstance(state, (list, tuple)) else state)

    def _put_together(self, states: Any) -> tuple[Any, ...]:
        return (tf.stack(states),)


class CudnnLSTM(_CudnnRNN):
    """LSTMs; the state is (h, c)."""

    _name = "cudnn_lstm"
    _state_parts = 2

    def _cell(self) -> Any:
        return CudnnCompatibleLSTMCell(self.num_units)

    def _taken_apart(self, state: Any) -> list[Any] | None:
        if state is None:
            return None
        h, c = (tf.unstack(part) for part in state)
        return [LSTMStateTuple(*pair) for pair in zip(c, h, strict=True)]

    def _put_together(self, states: Any) -> tuple[Any, ...]:
        return tf.stack([state.h for state in states]), tf.stack([state.c for state in states])


class CudnnGRU(_CudnnRNN):
    """GRUs; the state is (h,)."""

    _name = "cudnn_gru"

    def _cell(self) -> Any:
        return CudnnCompatibleGRUCell(self.num_units)


class CudnnRNNTanh(_CudnnRNN):
    """Plain cells; the state is (h,)."""

    _name = "cudnn_rnn_tanh"

    def _cell(self) -> Any:
        return BasicRNNCell(self.num_units)


class CudnnRNNRelu(_CudnnRNN):
    """Plain cells with ReLUs; the state is (h,)."""

    _name = "cudnn_rnn_relu"

    def _cell(self) -> Any:
        return BasicRNNCell(self.num_units, activation=tf.nn.relu)
