"""`tf.contrib.seq2seq.AttentionWrapper`: a cell that looks back at a memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from estimand.compat.v1 import layers
from estimand.compat.v1.rnn_cell import RNNCell
from estimand.core.errors import ConfigError

v1 = tf.compat.v1


class AttentionWrapperState(NamedTuple):
    """The state of an `AttentionWrapper`; of several mechanisms, tuples of what each has."""

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any

    def clone(self, **changes: Any) -> AttentionWrapperState:
        """The same with some parts replaced."""
        return self._replace(**changes)


def _compute_attention(
    attention_mechanism: Any, cell_output: Any, attention_state: Any, attention_layer: Any
) -> tuple[Any, Any, Any]:
    """What is seen, where was looked for it, and the next state of a mechanism."""
    alignments, following = attention_mechanism(cell_output, attention_state)
    context = tf.squeeze(tf.matmul(alignments[:, tf.newaxis], attention_mechanism.values), 1)
    if attention_layer is None:
        return context, alignments, following
    return attention_layer(tf.concat([cell_output, context], 1)), alignments, following


class AttentionWrapper(RNNCell):
    """A cell that sees, beside its input, what it looked at one step before.

    Args:
        cell: the cell.
        attention_mechanism: one mechanism, or a list of them.
        attention_layer_size: of a layer over output and what is seen, for each mechanism.
        alignment_history: whether the state keeps where was looked at each step.
        cell_input_fn: joins input and what was seen; they are put side by side by default.
        output_attention: whether what is seen is given out, or what the cell gives.
        initial_cell_state: of the cell inside.
        name: of the layer.
        attention_layer: a layer in the place of `attention_layer_size`, for each mechanism.
    """

    def __init__(
        self,
        cell: Any,
        attention_mechanism: Any,
        attention_layer_size: Any = None,
        alignment_history: bool = False,
        cell_input_fn: Any = None,
        output_attention: bool = True,
        initial_cell_state: Any = None,
        name: str | None = None,
        attention_layer: Any = None,
        attention_fn: Any = None,
    ) -> None:
        super().__init__(name=name)
        self._is_multi = isinstance(attention_mechanism, (list, tuple))
        self._cell, self._mechanisms = cell, _listed(attention_mechanism)
        count = len(self._mechanisms)
        self._layers = _listed(attention_layer) or [None] * count
        sizes = _listed(attention_layer_size)
        if sizes:
            # num_units / 2 is a float today
            self._layers = [
                layers.Dense(
                    int(size), use_bias=False, name="attention_layer" + (f"_{i}" if i else "")
                )
                for i, size in enumerate(sizes)
            ]
        if len(self._layers) != count:
            raise ConfigError(f"{count} attention mechanisms, but {len(self._layers)} layers.")
        depths = [tf.compat.dimension_value(m.values.shape[-1]) for m in self._mechanisms]
        self._size = sum(
            int(layer.units) if layer is not None else int(depth)
            for layer, depth in zip(self._layers, depths, strict=True)
        )
        self._history, self._output_attention = alignment_history, output_attention
        self._join = cell_input_fn or (lambda inputs, attention: tf.concat([inputs, attention], -1))
        self._initial, self._compute = initial_cell_state, attention_fn or _compute_attention

    def _one_or_all(self, parts: Any) -> Any:
        return tuple(parts) if self._is_multi else next(iter(parts))

    @property
    def output_size(self) -> Any:
        return self._size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> AttentionWrapperState:
        places = self._one_or_all([m.alignments_size for m in self._mechanisms])
        # The length of the history is not known.
        history = places if self._history else self._one_or_all([()] * len(self._mechanisms))
        states = self._one_or_all([m.state_size for m in self._mechanisms])
        return AttentionWrapperState(
            self._cell.state_size, self._size, tf.TensorShape([]), places, history, states
        )

    def zero_state(self, batch_size: Any, dtype: Any) -> AttentionWrapperState:
        """The state to begin with."""
        state = self._initial
        if state is None:
            state = self._cell.zero_state(batch_size, dtype)
        nowhere = [m.initial_alignments(batch_size, dtype) for m in self._mechanisms]
        history: list[Any] = [
            tf.TensorArray(
                dtype, 0, dynamic_size=True, element_shape=alignment.shape, clear_after_read=False
            )
            if self._history
            else ()
            for alignment in nowhere
        ]
        return AttentionWrapperState(
            state,
            tf.zeros([batch_size, self._size], dtype),
            tf.zeros([], tf.int32),
            self._one_or_all(nowhere),
            self._one_or_all(history),
            self._one_or_all([m.initial_state(batch_size, dtype) for m in self._mechanisms]),
        )

    def call(self, inputs: Any, state: Any) -> tuple[Any, AttentionWrapperState]:
        made, cell_state = self._cell(self._join(inputs, state.attention), state.cell_state)
        before = state.attention_state if self._is_multi else [state.attention_state]
        looks = [
            self._compute(mechanism, made, past, layer)
            for mechanism, past, layer in zip(self._mechanisms, before, self._layers, strict=True)
        ]
        seen, alignments, states = zip(*looks, strict=True)
        history = state.alignment_history if self._is_multi else [state.alignment_history]
        if self._history:
            history = [
                array.write(state.time, alignment)
                for array, alignment in zip(history, alignments, strict=True)
            ]
        attention = tf.concat(seen, 1)
        following = AttentionWrapperState(
            cell_state,
            attention,
            state.time + 1,
            self._one_or_all(alignments),
            self._one_or_all(history),
            self._one_or_all(states),
        )
        return attention if self._output_attention else made, following


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]
