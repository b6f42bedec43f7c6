"""`tf.contrib.seq2seq`: cells that look back at a memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from estimand.compat.v1 import layers
from estimand.compat.v1.rnn_cell import RNNCell

v1 = tf.compat.v1


class AttentionWrapperState(NamedTuple):
    """The state of an `AttentionWrapper`."""

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any

    def clone(self, **changes: Any) -> AttentionWrapperState:
        """The same with some parts replaced."""
        return self._replace(**changes)


class _Mechanism:
    """Scores of the places of a memory, [batch, time, depth], for a query."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any,
        probability_fn: Any,
        score_mask_value: float | None,
        name: str,
    ) -> None:
        self._units, self._name = num_units, name
        memory = tf.convert_to_tensor(memory)
        self._mask = None
        if memory_sequence_length is not None:
            size = tf.shape(memory)[1]
            self._mask = tf.sequence_mask(memory_sequence_length, size)
            memory *= tf.cast(self._mask, memory.dtype)[:, :, tf.newaxis]
        self._value = score_mask_value
        self._probability = probability_fn or tf.nn.softmax
        self.values = memory
        self.keys = layers.Dense(num_units, use_bias=False, name="memory_layer")(memory)
        self.batch_size = tf.shape(memory)[0]
        self.alignments_size = memory.shape[1] or tf.shape(memory)[1]

    def __call__(self, query: Any, state: Any = None) -> tuple[Any, Any]:
        del state
        with v1.variable_scope(None, self._name, [query]):
            scores = self._scores(query)
        if self._mask is not None:
            low = scores.dtype.min if self._value is None else self._value
            scores = tf.where(self._mask, scores, tf.fill(tf.shape(scores), low))
        alignments = self._probability(scores)
        return alignments, alignments

    def _scores(self, query: Any) -> Any:
        raise NotImplementedError

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        return tf.zeros([batch_size, self.alignments_size], dtype)


class LuongAttention(_Mechanism):
    """By the product of query and memory (Luong et al. 2015)."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        probability_fn: Any = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        name: str = "LuongAttention",
    ) -> None:
        del dtype
        super().__init__(
            num_units, memory, memory_sequence_length, probability_fn, score_mask_value, name
        )
        self._scale = scale

    def _scores(self, query: Any) -> Any:
        scores = tf.squeeze(tf.matmul(query[:, tf.newaxis], self.keys, transpose_b=True), 1)
        if self._scale:
            scores *= v1.get_variable("attention_g", [], query.dtype, v1.ones_initializer())
        return scores


class BahdanauAttention(_Mechanism):
    """By a layer over query and memory (Bahdanau et al. 2015)."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        probability_fn: Any = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        name: str = "BahdanauAttention",
    ) -> None:
        del dtype
        super().__init__(
            num_units, memory, memory_sequence_length, probability_fn, score_mask_value, name
        )
        self._normalize = normalize
        self._query_layer = layers.Dense(num_units, use_bias=False, name="query_layer")

    def _scores(self, query: Any) -> Any:
        asked = self._query_layer(query)[:, tf.newaxis]
        v = v1.get_variable("attention_v", [self._units], query.dtype)
        if not self._normalize:
            return tf.reduce_sum(v * tf.tanh(self.keys + asked), 2)
        start = v1.constant_initializer((1.0 / self._units) ** 0.5)
        g = v1.get_variable("attention_g", [], query.dtype, start)
        b = v1.get_variable("attention_b", [self._units], query.dtype, v1.zeros_initializer())
        direction = g * v * tf.math.rsqrt(tf.reduce_sum(v**2))
        return tf.reduce_sum(direction * tf.tanh(self.keys + asked + b), 2)


class AttentionWrapper(RNNCell):
    """A cell that sees, beside its input, what it looked at one step before."""

    def __init__(
        self,
        cell: Any,
        attention_mechanism: Any,
        attention_layer_size: float | None = None,
        alignment_history: bool = False,
        cell_input_fn: Any = None,
        output_attention: bool = True,
        initial_cell_state: Any = None,
        name: str | None = None,
        attention_layer: Any = None,
    ) -> None:
        super().__init__(name=name)
        self._cell, self._mechanism = cell, attention_mechanism
        self._layer = attention_layer
        if attention_layer_size is not None:
            attention_layer_size = int(attention_layer_size)  # num_units / 2 is a float today
            self._layer = layers.Dense(attention_layer_size, use_bias=False, name="attention_layer")
        depth = attention_mechanism.values.shape[-1]
        self._size = attention_layer_size or int(depth)
        self._history, self._output_attention = alignment_history, output_attention
        self._join = cell_input_fn or (lambda inputs, attention: tf.concat([inputs, attention], -1))
        self._initial = initial_cell_state

    @property
    def output_size(self) -> Any:
        return self._size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> AttentionWrapperState:
        places = self._mechanism.alignments_size
        return AttentionWrapperState(self._cell.state_size, self._size, 1, places, (), places)

    def zero_state(self, batch_size: Any, dtype: Any) -> AttentionWrapperState:
        """The state to begin with."""
        state = self._initial
        if state is None:
            state = self._cell.zero_state(batch_size, dtype)
        nowhere = self._mechanism.initial_alignments(batch_size, dtype)
        history: Any = ()
        if self._history:
            history = tf.TensorArray(
                dtype, 0, dynamic_size=True, element_shape=nowhere.shape, clear_after_read=False
            )
        attention = tf.zeros([batch_size, self._size], dtype)
        return AttentionWrapperState(
            state, attention, tf.zeros([], tf.int32), nowhere, history, nowhere
        )

    def call(self, inputs: Any, state: Any) -> tuple[Any, AttentionWrapperState]:
        made, cell_state = self._cell(self._join(inputs, state.attention), state.cell_state)
        alignments, attention_state = self._mechanism(made, state.attention_state)
        context = tf.squeeze(tf.matmul(alignments[:, tf.newaxis], self._mechanism.values), 1)
        attention = context
        if self._layer is not None:
            attention = self._layer(tf.concat([made, context], 1))
        history = state.alignment_history
        if self._history:
            history = history.write(state.time, alignments)
        following = AttentionWrapperState(
            cell_state, attention, state.time + 1, alignments, history, attention_state
        )
        return attention if self._output_attention else made, following
