"""Cells with long short-term memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from estimand.compat.v1.layers import identifiers
from estimand.compat.v1.layers.errors import LayerTypeError
from estimand.compat.v1.rnn_cell.base import RNNCell, activation_of, input_depth


class LSTMStateTuple(NamedTuple):
    """The state of an LSTM cell: its memory `c` and its output `h`."""

    c: Any
    h: Any

    @property
    def dtype(self) -> Any:
        if self.c.dtype != self.h.dtype:
            raise LayerTypeError(f"Inconsistent internal state: {self.c.dtype} vs {self.h.dtype}")
        return self.c.dtype


class _MemoryCell(RNNCell):
    """The state as a pair or, if asked for, as one tensor with the two side by side."""

    _num_units: int
    _state_is_tuple: bool

    @property
    def output_size(self) -> int:
        return self._num_units

    @property
    def state_size(self) -> Any:
        if self._state_is_tuple:
            return LSTMStateTuple(self._num_units, self.output_size)
        return self._num_units + self.output_size

    def _taken_apart(self, state: Any) -> tuple[Any, Any]:
        if self._state_is_tuple:
            return state
        return tf.split(state, [self._num_units, self.output_size], axis=1)

    def _put_together(self, c: Any, h: Any) -> Any:
        return LSTMStateTuple(c, h) if self._state_is_tuple else tf.concat([c, h], 1)


class BasicLSTMCell(_MemoryCell):
    """An LSTM without peepholes, projection or clipping (Zaremba et al. 2014)."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = activation_of(activation)

    def build(self, input_shape: Any) -> None:
        units = self._num_units
        rows = input_depth(input_shape) + units
        zeros = tf.compat.v1.zeros_initializer()
        self._kernel = self.add_weight("kernel", [rows, 4 * units])
        self._bias = self.add_weight("bias", [4 * units], initializer=zeros)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        c, h = self._taken_apart(state)
        sums = tf.matmul(tf.concat([inputs, h], 1), self._kernel)
        sums = tf.nn.bias_add(sums, self._bias)
        write, candidate, forget, read = tf.split(sums, num_or_size_splits=4, axis=1)
        keep = tf.sigmoid(forget + tf.cast(self._forget_bias, forget.dtype))
        new_c = c * keep + tf.sigmoid(write) * self._activation(candidate)
        new_h = self._activation(new_c) * tf.sigmoid(read)
        return new_h, self._put_together(new_c, new_h)


class LSTMCell(_MemoryCell):
    """An LSTM with optional peepholes, projection and clipping (Sak et al. 2014)."""

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = identifiers.initializer(initializer)
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._unit_shards = num_unit_shards
        self._proj_shards = num_proj_shards
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = activation_of(activation)

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def build(self, input_shape: Any) -> None:
        units, made = self._num_units, self._initializer
        rows = input_depth(input_shape) + self.output_size
        zeros = tf.compat.v1.zeros_initializer()
        self._kernel = self.add_weight(
            "kernel", [rows, 4 * units], initializer=made, partitioner=_shards(self._unit_shards)
        )
        self._bias = self.add_weight("bias", [4 * units], initializer=zeros)
        if self._use_peepholes:
            self._forget_peep = self.add_weight("w_f_diag", [units], initializer=made)
            self._write_peep = self.add_weight("w_i_diag", [units], initializer=made)
            self._read_peep = self.add_weight("w_o_diag", [units], initializer=made)
        if self._num_proj:
            self._projection = self.add_weight(
                "projection/kernel",
                [units, self._num_proj],
                initializer=made,
                partitioner=_shards(self._proj_shards),
            )

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        c, h = self._taken_apart(state)
        sums = tf.matmul(tf.concat([inputs, h], 1), self._kernel)
        sums = tf.nn.bias_add(sums, self._bias)
        write, candidate, forget, read = tf.split(sums, num_or_size_splits=4, axis=1)
        forget = forget + self._forget_bias
        if self._use_peepholes:
            forget, write = forget + self._forget_peep * c, write + self._write_peep * c
        new_c = tf.sigmoid(forget) * c + tf.sigmoid(write) * self._activation(candidate)
        if self._cell_clip is not None:
            new_c = tf.clip_by_value(new_c, -self._cell_clip, self._cell_clip)
        if self._use_peepholes:
            read = read + self._read_peep * new_c
        new_h = tf.sigmoid(read) * self._activation(new_c)
        if self._num_proj:
            new_h = tf.matmul(new_h, self._projection)
            if self._proj_clip is not None:
                new_h = tf.clip_by_value(new_h, -self._proj_clip, self._proj_clip)
        return new_h, self._put_together(new_c, new_h)


def _shards(count: int | None) -> Any:
    return tf.compat.v1.fixed_size_partitioner(count) if count else None
