"""`tf.contrib.rnn`: networks in both directions, and cells with a layer before or behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.compat.v1.rnn_cell import RNNCell

v1 = tf.compat.v1


class _Projection(RNNCell):
    """A cell and a dense layer, whose variables are `kernel` and `bias` of this cell's scope."""

    def __init__(self, cell: Any, size: int, activation: Any = None, reuse: Any = None) -> None:
        super().__init__(_reuse=reuse)
        self._cell, self._size = cell, size
        self._activation = activation or (lambda x: x)

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        return self._cell.zero_state(batch_size, dtype)

    def _projected(self, x: Any) -> tf.Tensor:
        depth = tf.compat.dimension_value(x.shape[-1])
        kernel = v1.get_variable("kernel", [depth, self._size], x.dtype)
        bias = v1.get_variable("bias", [self._size], x.dtype, v1.zeros_initializer())
        return self._activation(tf.nn.bias_add(tf.matmul(x, kernel), bias))


class OutputProjectionWrapper(_Projection):
    """What the cell gives, by a dense layer in `output_size` dimensions."""

    def __init__(
        self, cell: Any, output_size: int, activation: Any = None, reuse: Any = None
    ) -> None:
        super().__init__(cell, output_size, activation, reuse)

    @property
    def output_size(self) -> int:
        return self._size

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        output, new_state = self._cell(inputs, state)
        return self._projected(output), new_state


class InputProjectionWrapper(_Projection):
    """What the cell is given, by a dense layer in `num_proj` dimensions."""

    def __init__(self, cell: Any, num_proj: int, activation: Any = None, reuse: Any = None) -> None:
        super().__init__(cell, num_proj, activation, reuse)

    @property
    def output_size(self) -> int:
        return self._cell.output_size

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        return self._cell(self._projected(inputs), state)


def stack_bidirectional_dynamic_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Any,
    initial_states_fw: Any = None,
    initial_states_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """Each layer reads the outputs of both directions of the layer below, side by side."""
    states_fw, states_bw = [], []
    with v1.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (forward, backward) in enumerate(zip(cells_fw, cells_bw, strict=True)):
            with v1.variable_scope(f"cell_{i}"):
                outputs, (state_fw, state_bw) = v1.nn.bidirectional_dynamic_rnn(
                    forward,
                    backward,
                    inputs,
                    initial_state_fw=initial_states_fw[i] if initial_states_fw else None,
                    initial_state_bw=initial_states_bw[i] if initial_states_bw else None,
                    sequence_length=sequence_length,
                    parallel_iterations=parallel_iterations,
                    dtype=dtype,
                    time_major=time_major,
                )
                inputs = tf.concat(outputs, 2)
                states_fw.append(state_fw)
                states_bw.append(state_bw)
    return inputs, tuple(states_fw), tuple(states_bw)
