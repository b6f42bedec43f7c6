"""`tf.contrib.rnn`: cells as one op, and cells that are called with whole sequences."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.compat.v1.layers import Layer
from estimand.compat.v1.layers.errors import LayerError
from estimand.compat.v1.rnn_cell import GRUCell, LSTMStateTuple, RNNCell

_PEEPHOLES = ("w_i_diag", "w_f_diag", "w_o_diag")
_GRU_BLOCK_NAMES = {
    "gates/kernel": "w_ru",
    "gates/bias": "b_ru",
    "candidate/kernel": "w_c",
    "candidate/bias": "b_c",
}


class _Weights(Layer):
    """The variables of an LSTM, under contrib's names, and its settings."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float,
        cell_clip: float | None,
        use_peephole: bool,
        **of_a_layer: Any,
    ) -> None:
        super().__init__(**of_a_layer)
        self._units, self._use_peephole = num_units, use_peephole
        self._forget_bias, self._clip = forget_bias, -1.0 if cell_clip is None else cell_clip

    def build(self, input_shape: Any) -> None:
        depth = int(input_shape[-1])
        zeros = tf.compat.v1.zeros_initializer()
        self._kernel = self.add_weight("kernel", [depth + self._units, 4 * self._units])
        self._bias = self.add_weight("bias", [4 * self._units], initializer=zeros)
        self._diagonals = [
            self.add_weight(name, [self._units]) for name in _PEEPHOLES if self._use_peephole
        ]
        self.built = True

    def _arguments(self, c: Any, h: Any) -> dict[str, Any]:
        """Of either op: the state before, the variables and the settings."""
        names = ("wci", "wcf", "wco")
        # Made at each call: the first may be in a loop, out of which no tensor leads.
        diagonals = self._diagonals or [tf.zeros([self._units], self.dtype)] * len(names)
        return {
            "cs_prev": c,
            "h_prev": h,
            "w": self._kernel,
            "b": self._bias,
            **dict(zip(names, diagonals, strict=True)),
            "forget_bias": self._forget_bias,
            "cell_clip": self._clip,
            "use_peephole": self._use_peephole,
        }


class LSTMBlockFusedCell(_Weights):
    """An LSTM over a whole sequence, [time, batch, depth], in one op.

    The variables are those of a `BasicLSTMCell`.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: Any = None,
        dtype: Any = None,
        name: str = "lstm_fused_cell",
    ) -> None:
        lstm = num_units, forget_bias, cell_clip, use_peephole
        super().__init__(*lstm, _reuse=reuse, name=name, dtype=dtype)

    @property
    def num_units(self) -> int:
        return self._units

    def call(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
    ) -> tuple[tf.Tensor, LSTMStateTuple]:
        """The outputs, [time, batch, units], and the state at the end of each sequence."""
        x = tf.stack(inputs) if isinstance(inputs, list) else tf.convert_to_tensor(inputs)
        time, batch = tf.shape(x)[0], tf.shape(x)[1]
        if initial_state is None:
            initial_state = (tf.zeros([batch, self._units], dtype or x.dtype),) * 2
        c, h = initial_state
        longest = time if sequence_length is None else tf.reduce_max(sequence_length)
        _, memory, _, _, _, _, outputs = tf.raw_ops.BlockLSTM(
            seq_len_max=tf.cast(longest, tf.int64),
            x=x,
            **self._arguments(c, h),
        )
        if sequence_length is None:
            return outputs, LSTMStateTuple(memory[-1], outputs[-1])
        lengths = tf.cast(sequence_length, tf.int32)
        mask = tf.transpose(tf.sequence_mask(lengths, time, outputs.dtype))[:, :, tf.newaxis]
        place = tf.stack([lengths, tf.range(batch)], 1)
        states = [
            tf.gather_nd(tf.concat([first[tf.newaxis], later], 0), place)
            for first, later in ((c, memory), (h, outputs))
        ]
        return outputs * mask, LSTMStateTuple(*states)


class LSTMBlockCell(_Weights, RNNCell):
    """One step of the same."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        dtype: Any = None,
        reuse: Any = None,
        name: str = "lstm_cell",
    ) -> None:
        lstm = num_units, forget_bias, cell_clip, use_peephole
        super().__init__(*lstm, _reuse=reuse, name=name, dtype=dtype)

    @property
    def state_size(self) -> LSTMStateTuple:
        return LSTMStateTuple(self._units, self._units)

    @property
    def output_size(self) -> int:
        return self._units

    def call(self, inputs: Any, state: Any) -> tuple[tf.Tensor, LSTMStateTuple]:
        c, h = state
        # A sequence of one step: TensorFlow has no gradient for the op of a step.
        one = tf.constant(1, tf.int64)
        _, memory, _, _, _, _, output = tf.raw_ops.BlockLSTM(
            seq_len_max=one, x=inputs[tf.newaxis], **self._arguments(c, h)
        )
        return output[0], LSTMStateTuple(memory[0], output[0])


class TimeReversedFusedRNN:
    """A fused cell that reads each sequence from its end."""

    def __init__(self, cell: Any) -> None:
        self._cell = cell

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[tf.Tensor, Any]:
        x = tf.stack(inputs) if isinstance(inputs, list) else tf.convert_to_tensor(inputs)
        more = {} if scope is None else {"scope": scope}
        outputs, state = self._cell(
            _reversed(x, sequence_length),
            initial_state=initial_state,
            dtype=dtype,
            sequence_length=sequence_length,
            **more,
        )
        return _reversed(outputs, sequence_length), state


def _reversed(x: tf.Tensor, lengths: Any) -> tf.Tensor:
    """Time, the first dimension, backwards; what is behind the end of a sequence stays there."""
    if lengths is None:
        return tf.reverse(x, [0])
    return tf.reverse_sequence(x, lengths, seq_axis=0, batch_axis=1)


class FusedRNNCellAdaptor:
    """An ordinary cell, called with whole sequences as a fused one is."""

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False) -> None:
        self._cell, self._dynamic = cell, use_dynamic_rnn

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        as_list = isinstance(inputs, list)
        given = {
            "sequence_length": sequence_length,
            "initial_state": initial_state,
            "dtype": dtype,
            "scope": scope,
        }
        nn = tf.compat.v1.nn
        if not self._dynamic:
            steps = inputs if as_list else tf.unstack(inputs)
            outputs, state = nn.static_rnn(self._cell, steps, **given)
            return outputs if as_list else tf.stack(outputs), state
        x = tf.stack(inputs) if as_list else inputs
        outputs, state = nn.dynamic_rnn(self._cell, x, time_major=True, **given)
        return tf.unstack(outputs) if as_list else outputs, state


class GRUBlockCellV2(GRUCell):
    """A GRU with the variables of `GRUCell`."""

    def __init__(
        self,
        num_units: int | None = None,
        cell_size: int | None = None,
        reuse: Any = None,
        name: str = "gru_cell",
    ) -> None:
        units = num_units or cell_size
        if units is None:
            raise LayerError(f"{type(self).__name__} was given no num_units.")
        super().__init__(units, reuse=reuse, name=name)


class GRUBlockCell(GRUBlockCellV2):
    """The same with the names of its first release."""

    def add_weight(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return super().add_weight(_GRU_BLOCK_NAMES[name], *args, **kwargs)
