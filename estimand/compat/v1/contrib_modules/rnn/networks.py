"""`tf.contrib.rnn`: networks that read in both directions, layer upon layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


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


def stack_bidirectional_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Sequence[Any],
    initial_states_fw: Any = None,
    initial_states_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """The same of a list with one tensor for each step."""
    states_fw, states_bw = [], []
    with v1.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (forward, backward) in enumerate(zip(cells_fw, cells_bw, strict=True)):
            with v1.variable_scope(f"cell_{i}"):
                inputs, state_fw, state_bw = v1.nn.static_bidirectional_rnn(
                    forward,
                    backward,
                    inputs,
                    initial_state_fw=initial_states_fw[i] if initial_states_fw else None,
                    initial_state_bw=initial_states_bw[i] if initial_states_bw else None,
                    sequence_length=sequence_length,
                    dtype=dtype,
                )
                states_fw.append(state_fw)
                states_bw.append(state_bw)
    return inputs, tuple(states_fw), tuple(states_bw)


def transpose_batch_time(x: Any) -> Any:
    """The first two dimensions the other way round."""
    x = tf.convert_to_tensor(x)
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
