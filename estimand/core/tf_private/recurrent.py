"""Recurrent layers of Keras that are built without a loop while a model function runs."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from estimand.core import recurrent
from estimand.core.interpreter.swapping import Swap, swapped

LONGEST = 100  # steps; more of them make a graph that takes long to build


@contextlib.contextmanager
def short_sequences_without_loop() -> Iterator[None]:
    """Inside, LSTM and GRU layers of either Keras go over short sequences in one graph."""
    with swapped([*_swaps_of_keras_3(), *_swaps_of_keras_2()]):
        yield


def _swaps_of_keras_3() -> list[Swap]:
    if "keras" not in sys.modules:
        return []
    import keras

    return [
        (keras.layers.LSTM, "inner_loop", _lstm_of_keras_3),
        (keras.layers.GRU, "inner_loop", _gru_of_keras_3),
    ]


def _swaps_of_keras_2() -> list[Swap]:
    """Where its layers choose between their loop and a kernel of GPUs."""
    if "tf_keras" not in sys.modules:
        return []
    from tf_keras.src.layers.rnn import gru, lstm

    return [
        (lstm, "lstm_with_backend_selection", functools.partial(_of_keras_2, recurrent.lstm)),
        (gru, "gru_with_backend_selection", functools.partial(_of_keras_2, recurrent.gru)),
    ]


def _lstm_of_keras_3(original: Callable[..., Any]) -> Callable[..., Any]:
    import keras

    def inner_loop(
        self: Any, sequences: Any, initial_state: Any, mask: Any, training: bool = False
    ) -> Any:
        if type(self.cell) is keras.layers.LSTMCell and _fits_keras_3(self, sequences):
            return _call_keras_3(recurrent.lstm, self, sequences, initial_state, mask, training)
        return original(self, sequences, initial_state, mask, training=training)

    return inner_loop


def _gru_of_keras_3(original: Callable[..., Any]) -> Callable[..., Any]:
    import keras

    def inner_loop(
        self: Any, sequences: Any, initial_state: Any, mask: Any, training: bool = False
    ) -> Any:
        known = type(self.cell) is keras.layers.GRUCell and self.cell.reset_after
        if known and _fits_keras_3(self, sequences):
            return _call_keras_3(recurrent.gru, self, sequences, initial_state, mask, training)
        return original(self, sequences, initial_state, mask, training=training)

    return inner_loop


def _fits_keras_3(layer: Any, sequences: Any) -> bool:
    import keras

    cell = layer.cell
    return (
        _fits(sequences)
        and not layer.unroll
        and not cell.recurrent_dropout
        and cell.implementation == 2
        and cell.activation is keras.activations.tanh
        and cell.recurrent_activation is keras.activations.sigmoid
    )


def _fits(inputs: Any) -> bool:
    steps = inputs.shape[1]
    return (
        isinstance(inputs, tf.Tensor)
        and steps is not None
        and 0 < steps <= LONGEST
        and not tf.config.list_logical_devices("GPU")  # which has kernels of its own
    )


def _call_keras_3(
    layer_fn: Callable[..., recurrent.Result],
    layer: Any,
    sequences: tf.Tensor,
    initial_state: Any,
    mask: Any,
    training: bool,
) -> recurrent.Result:
    cell = layer.cell
    if training and cell.dropout:
        sequences *= cell.get_dropout_mask(sequences[:, 0, :])[:, tf.newaxis]
    weights = recurrent.Weights(
        _read(cell.kernel),
        _read(cell.recurrent_kernel),
        _read(cell.bias) if cell.use_bias else None,
    )
    way = recurrent.Way(
        mask[0] if isinstance(mask, (list, tuple)) else mask,
        layer.go_backwards,
        layer.return_sequences,
        layer.zero_output_for_mask,
    )
    return layer_fn(sequences, initial_state, weights, way)


def _read(variable: Any) -> tf.Tensor:
    """A variable of Keras 3, once for all steps, in the layer's dtype, which may be another."""
    return tf.convert_to_tensor(variable.value)


def _of_keras_2(
    layer_fn: Callable[..., recurrent.Result], original: Callable[..., Any]
) -> Callable[..., Any]:
    """It comes here with `tanh` and `sigmoid`, a bias, and no dropout of states."""
    from tf_keras.src.layers.rnn import gru_lstm_utils

    def selected(**arguments: Any) -> Any:
        given = SimpleNamespace(**arguments)
        if given.time_major or given.sequence_lengths is not None or not _fits(given.inputs):
            return original(**arguments)
        states = [getattr(given, name) for name in ("init_h", "init_c") if name in arguments]
        weights = recurrent.Weights(given.kernel, given.recurrent_kernel, given.bias)
        way = recurrent.Way(
            given.mask, given.go_backwards, given.return_sequences, given.zero_output_for_mask
        )
        last_output, outputs, states = layer_fn(given.inputs, states, weights, way)
        runtime = gru_lstm_utils.runtime(gru_lstm_utils.RUNTIME_CPU)
        return last_output, outputs, *states, runtime

    return selected
