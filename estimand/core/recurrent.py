"""Layers of recurrent cells, step after step in one graph instead of in a loop.

In a loop a step waits for all of the step before, the next batch of small ops is started only when
the last one is done, and whatever a gradient needs goes through lists. In one graph only the states
are waited for: projections of inputs and gradients of weights run beside them on other cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from estimand.core.recurrent_cells import gru_cell, lstm_cell

# From the input of a step, projected to the gates, and the states to the new states, of which the
# first is the output.
Cell = Callable[[tf.Tensor, list[tf.Tensor]], list[tf.Tensor]]


class Result(NamedTuple):
    """What Keras wants of a layer: `outputs` has one step if not all of them are asked for."""

    last_output: tf.Tensor
    outputs: tf.Tensor
    states: list[tf.Tensor]


class Weights(NamedTuple):
    """Those of a cell as Keras has them; gates are i, f, c, o of LSTM and z, r, h of GRU."""

    kernel: tf.Tensor
    recurrent: tf.Tensor
    bias: tf.Tensor | None


class Way(NamedTuple):
    """How a layer goes over its inputs; `mask` is [batch, time], true where a step counts."""

    mask: tf.Tensor | None = None
    go_backwards: bool = False
    return_sequences: bool = False
    zero_output_for_mask: bool = False


def lstm(inputs: tf.Tensor, states: Sequence[tf.Tensor], weights: Weights, way: Way) -> Result:
    """tanh and sigmoid, from the states [h, c]; `inputs` is [batch, time, features]."""

    def cell(of_input: tf.Tensor, states: list[tf.Tensor]) -> list[tf.Tensor]:
        h, c = states
        return list(lstm_cell(of_input, tf.matmul(h, weights.recurrent), c))

    return _over_time(cell, inputs, list(states), weights.kernel, weights.bias, way)


def gru(inputs: tf.Tensor, states: Sequence[tf.Tensor], weights: Weights, way: Way) -> Result:
    """tanh and sigmoid, from the state [h], with Keras' `reset_after=True`."""
    of_inputs, of_states = (None, None) if weights.bias is None else tf.unstack(weights.bias)

    def cell(of_input: tf.Tensor, states: list[tf.Tensor]) -> list[tf.Tensor]:
        [h] = states
        return list(gru_cell(of_input, _projected(h, weights.recurrent, of_states), h))

    return _over_time(cell, inputs, list(states), weights.kernel, of_inputs, way)


def _over_time(
    cell: Cell,
    inputs: tf.Tensor,
    states: list[tf.Tensor],
    kernel: tf.Tensor,
    bias: tf.Tensor | None,
    way: Way,
) -> Result:
    """The inputs are projected step by step: all at once they are out of the processor's cache."""
    steps = tf.unstack(inputs, axis=1)
    masks = [None] * len(steps) if way.mask is None else _masks(way.mask, states[0])
    output = None if way.mask is None else tf.zeros_like(states[0])
    outputs = []
    order = range(len(steps))
    for t in reversed(order) if way.go_backwards else order:
        new = cell(_projected(steps[t], kernel, bias), states)
        if (mask := masks[t]) is None:
            output, states = new[0], new
        else:
            otherwise = tf.zeros_like(output) if way.zero_output_for_mask else output
            output = tf.where(mask, new[0], otherwise)
            states = [tf.where(mask, now, old) for now, old in zip(new, states, strict=True)]
        outputs.append(output)
    kept = outputs if way.return_sequences else outputs[-1:]
    return Result(outputs[-1], tf.stack(kept, axis=1), states)


def _projected(values: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None) -> tf.Tensor:
    product = tf.matmul(values, kernel)
    return product if bias is None else tf.nn.bias_add(product, bias)


def _masks(mask: tf.Tensor, state: tf.Tensor) -> list[tf.Tensor]:
    """The mask of each step in the shape of a state: choosing is slow where it has to be spread."""
    wide = tf.repeat(tf.cast(mask, tf.bool)[:, :, tf.newaxis], state.shape[1], axis=2)
    return tf.unstack(wide, axis=1)
