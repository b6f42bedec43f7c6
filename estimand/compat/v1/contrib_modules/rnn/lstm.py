"""`tf.contrib.rnn`: more cells with a memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.compat.v1.layers.errors import LayerError
from estimand.compat.v1.rnn_cell import LSTMStateTuple, RNNCell
from estimand.compat.v1.rnn_cell.base import activation_of, input_depth
from estimand.compat.v1.rnn_cell.lstm import _MemoryCell

v1 = tf.compat.v1


class _NormalizingCell(_MemoryCell):
    """Parts of the sums, and the memory, with the mean and the spread of `beta` and `gamma`."""

    _norm_gain: float
    _norm_shift: float

    def _build_norms(self, parts: Sequence[str]) -> None:
        gain = v1.constant_initializer(self._norm_gain)
        shift = v1.constant_initializer(self._norm_shift)
        self._norms = {
            part: [
                self.add_weight(f"{part}/gamma", [self._num_units], initializer=gain),
                self.add_weight(f"{part}/beta", [self._num_units], initializer=shift),
            ]
            for part in parts
        }

    def _normal(self, x: Any, part: str) -> tf.Tensor:
        if part not in self._norms:
            return x
        gamma, beta = self._norms[part]
        mean, variance = tf.nn.moments(x, [1], keepdims=True)
        epsilon = 1e-3 if x.dtype == tf.float16 else 1e-12
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)


class LayerNormBasicLSTMCell(_NormalizingCell):
    """An LSTM with layer normalization and recurrent dropout (Ba et al. 2016)."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: Any = None,
        activation: Any = None,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None,
        reuse: Any = None,
    ) -> None:
        del input_size
        super().__init__(_reuse=reuse)
        self._num_units, self._state_is_tuple = num_units, True
        self._forget_bias, self._activation = forget_bias, activation_of(activation)
        self._layer_norm, self._norm_gain, self._norm_shift = layer_norm, norm_gain, norm_shift
        self._keep, self._seed = dropout_keep_prob, dropout_prob_seed

    def build(self, input_shape: Any) -> None:
        units = self._num_units
        self._kernel = self.add_weight("kernel", [input_depth(input_shape) + units, 4 * units])
        self._bias = None if self._layer_norm else self.add_weight("bias", [4 * units])
        parts = ("input", "transform", "forget", "output", "state")
        self._build_norms(parts if self._layer_norm else ())

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        c, h = state
        sums = tf.matmul(tf.concat([inputs, h], 1), self._kernel)
        if self._bias is not None:
            sums = tf.nn.bias_add(sums, self._bias)
        write, candidate, forget, read = (
            self._normal(part, name)
            for part, name in zip(
                tf.split(sums, 4, axis=1), ("input", "transform", "forget", "output"), strict=True
            )
        )
        candidate = self._activation(candidate)
        if not isinstance(self._keep, float) or self._keep < 1:
            candidate = v1.nn.dropout(candidate, rate=1 - self._keep, seed=self._seed)
        new_c = c * tf.sigmoid(forget + self._forget_bias) + tf.sigmoid(write) * candidate
        new_c = self._normal(new_c, "state")
        new_h = self._activation(new_c) * tf.sigmoid(read)
        return new_h, LSTMStateTuple(new_c, new_h)


class CoupledInputForgetGateLSTMCell(_NormalizingCell):
    """An LSTM that writes what it forgets (Greff et al. 2015)."""

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int = 1,
        num_proj_shards: int = 1,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        layer_norm: bool = False,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
    ) -> None:
        del initializer  # contrib took it, and did not use it
        super().__init__(_reuse=reuse)
        self._num_units, self._state_is_tuple = num_units, state_is_tuple
        self._use_peepholes, self._num_proj, self._proj_clip = use_peepholes, num_proj, proj_clip
        self._shards = num_unit_shards, num_proj_shards
        self._forget_bias, self._activation = forget_bias, activation_of(activation)
        self._layer_norm, self._norm_gain, self._norm_shift = layer_norm, norm_gain, norm_shift

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def build(self, input_shape: Any) -> None:
        units = self._num_units
        rows = input_depth(input_shape) + self.output_size
        self._kernel = self._in_shards("W", [rows, 3 * units], self._shards[0])
        self._bias = self.add_weight("B", [3 * units], initializer=v1.zeros_initializer())
        parts = ("transform", "forget", "output", "state")
        self._build_norms(parts if self._layer_norm else ())
        if self._use_peepholes:
            self._forget_peep = self.add_weight("W_F_diag", [units])
            self._read_peep = self.add_weight("W_O_diag", [units])
        if self._num_proj:
            self._projection = self._in_shards("W_P", [units, self._num_proj], self._shards[1])

    def _in_shards(self, name: str, shape: list[int], count: int) -> list[Any]:
        """Variables `W_0`, `W_1`, ..., which are one with its rows in parts."""
        small, more = divmod(shape[0], count)
        return [
            self.add_weight(f"{name}_{i}", [small + (i < more), shape[1]]) for i in range(count)
        ]

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        c, h = self._taken_apart(state)
        sums = tf.matmul(tf.concat([inputs, h], 1), tf.concat(self._kernel, 0))
        if not self._layer_norm:
            sums = tf.nn.bias_add(sums, self._bias)
        candidate, forget, read = tf.split(sums, 3, axis=1)
        candidate, forget = self._normal(candidate, "transform"), self._normal(forget, "forget")
        read = self._normal(read, "output")
        forget = forget + self._forget_bias
        if self._use_peepholes:
            forget = forget + self._forget_peep * c
        keep = tf.sigmoid(forget)
        new_c = self._normal(keep * c + (1 - keep) * self._activation(candidate), "state")
        if self._use_peepholes:
            read = read + self._read_peep * new_c
        new_h = tf.sigmoid(read) * self._activation(new_c)
        if self._num_proj:
            new_h = tf.matmul(new_h, tf.concat(self._projection, 0))
            if self._proj_clip is not None:
                new_h = tf.clip_by_value(new_h, -self._proj_clip, self._proj_clip)
        return new_h, self._put_together(new_c, new_h)


class NASCell(_MemoryCell):
    """The cell that a search for architectures found (Zoph and Le 2017)."""

    def __init__(
        self,
        num_units: int,
        num_proj: int | None = None,
        use_biases: bool = False,
        reuse: Any = None,
        **of_a_layer: Any,
    ) -> None:
        super().__init__(_reuse=reuse, **of_a_layer)
        self._num_units, self._state_is_tuple = num_units, True
        self._num_proj, self._use_biases = num_proj, use_biases

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def build(self, input_shape: Any) -> None:
        many, zeros = 8 * self._num_units, v1.zeros_initializer()
        self._recurrent = self.add_weight("recurrent_kernel", [self.output_size, many])
        self._kernel = self.add_weight("kernel", [input_depth(input_shape), many])
        self._bias = self.add_weight("bias", [many], initializer=zeros) if self._use_biases else 0.0
        if self._num_proj:
            shape = [self._num_units, self._num_proj]
            self._projection = self.add_weight("projection_weights", shape)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        c, h = state
        m = tf.split(tf.matmul(h, self._recurrent) + self._bias, 8, axis=1)
        x = tf.split(tf.matmul(inputs, self._kernel), 8, axis=1)
        sigmoid, tanh, relu = tf.sigmoid, tf.tanh, tf.nn.relu
        first = tanh(tanh(sigmoid(x[0] + m[0]) * relu(x[1] + m[1])) + c)
        new_c = first * tanh(sigmoid(x[2] + m[2]) + relu(x[3] * m[3]))
        third = tanh(tanh(x[4] + m[4]) * sigmoid(x[5] + m[5]))
        fourth = sigmoid(tanh(x[6] + m[6]) + sigmoid(x[7] + m[7]))
        new_h = tanh(new_c * tanh(third + fourth))
        if self._num_proj:
            new_h = tf.matmul(new_h, self._projection)
        return new_h, LSTMStateTuple(new_c, new_h)


class ConvLSTMCell(RNNCell):
    """An LSTM whose products are convolutions (Shi et al. 2015)."""

    def __init__(
        self,
        conv_ndims: int,
        input_shape: Sequence[int],
        output_channels: int,
        kernel_shape: Sequence[int],
        use_bias: bool = True,
        skip_connection: bool = False,
        forget_bias: float = 1.0,
        initializers: Any = None,
        name: str = "conv_lstm_cell",
    ) -> None:
        del initializers  # contrib took it, and did not use it
        super().__init__(name=name)
        if conv_ndims != len(input_shape) - 1:
            raise LayerError(f"Invalid input_shape {input_shape} for conv_ndims={conv_ndims}.")
        self._rank, self._shape, self._channels = conv_ndims, list(input_shape), output_channels
        self._window, self._use_bias = list(kernel_shape), use_bias
        self._skips, self._forget_bias = skip_connection, forget_bias

    @property
    def state_size(self) -> LSTMStateTuple:
        size = tf.TensorShape([*self._shape[:-1], self._channels])
        return LSTMStateTuple(size, size)

    @property
    def output_size(self) -> tf.TensorShape:
        channels = self._channels + (self._shape[-1] if self._skips else 0)
        return tf.TensorShape([*self._shape[:-1], channels])

    def build(self, input_shape: Any) -> None:
        channels, many = input_depth(input_shape) + self._channels, 4 * self._channels
        self._kernel = self.add_weight("kernel", [*self._window, channels, many])
        zeros = v1.zeros_initializer()
        self._bias = self.add_weight("biases", [many], initializer=zeros) if self._use_bias else 0.0

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        c, h = state
        sums = tf.nn.convolution(tf.concat([inputs, h], -1), self._kernel, padding="SAME")
        write, candidate, forget, read = tf.split(sums + self._bias, 4, axis=-1)
        new_c = tf.sigmoid(forget + self._forget_bias) * c
        new_c += tf.sigmoid(write) * tf.tanh(candidate)
        new_h = tf.tanh(new_c) * tf.sigmoid(read)
        output = tf.concat([new_h, inputs], -1) if self._skips else new_h
        return output, LSTMStateTuple(new_c, new_h)


class Conv1DLSTMCell(ConvLSTMCell):
    """Over one dimension."""

    def __init__(self, name: str = "conv_1d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(1, name=name, **kwargs)


class Conv2DLSTMCell(ConvLSTMCell):
    """Over two dimensions."""

    def __init__(self, name: str = "conv_2d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(2, name=name, **kwargs)


class Conv3DLSTMCell(ConvLSTMCell):
    """Over three dimensions."""

    def __init__(self, name: str = "conv_3d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(3, name=name, **kwargs)
