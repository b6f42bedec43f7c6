"""From `units`, `cell_type` and `rnn_cell_fn` to one Keras layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from estimand.core.errors import ConfigError

SIMPLE, LSTM, GRU = "simple_rnn", "lstm", "gru"
_NAMES = [SIMPLE, LSTM, GRU]


class _Default:
    def __repr__(self) -> str:
        return "'simple_rnn'"


USE_DEFAULT = _Default()  # not a name: with rnn_cell_fn, even naming the default is a mistake


def check_cells(units: Any, cell_type: Any, rnn_cell_fn: Callable[[], Any] | None) -> None:
    """Refuse what no layer can be made of, before anything is built."""
    if rnn_cell_fn is not None:
        if units or cell_type is not USE_DEFAULT:
            raise ConfigError(
                "units and cell_type must not be specified when using rnn_cell_fn. Given: "
                f"units={units!r}, cell_type={cell_type!r}."
            )
        return
    sizes = [units] if _is_size(units) else units
    if not isinstance(sizes, Iterable) or not sizes or not all(map(_is_size, sizes)):
        raise ConfigError(
            "units must be the size of the recurrent layer, such as 32, or of each of them, such "
            f"as [32, 16]; or give rnn_cell_fn. Given: units={units!r}."
        )
    if cell_type is not USE_DEFAULT and cell_type not in _NAMES and not callable(cell_type):
        raise ConfigError(
            "`cell_type` should be a class producing a RNN cell, or a string specifying the cell "
            f"type. Supported strings are: {_NAMES}. Given: {cell_type!r}."
        )


def recurrent_layer(
    units: Any, cell_type: Any, rnn_cell_fn: Callable[[], Any] | None, return_sequences: bool
) -> Any:
    """A new layer; its parts are named as those of `tf.estimator` were."""
    import keras

    layers = {SIMPLE: keras.layers.SimpleRNN, LSTM: keras.layers.LSTM, GRU: keras.layers.GRU}
    if rnn_cell_fn is None and cell_type in _NAMES and _is_size(units):
        return layers[cell_type](units, return_sequences=return_sequences, name=cell_type)
    if rnn_cell_fn is None:
        cell = _cells([units] if _is_size(units) else list(units), cell_type)
    else:
        cell = rnn_cell_fn()
        if isinstance(cell, (list, tuple)):
            cell = keras.layers.StackedRNNCells(list(cell), name="stacked_rnn_cells")
    _check_cell(cell)
    return keras.layers.RNN(cell, return_sequences=return_sequences, name="rnn")


def _cells(sizes: list[int], cell_type: Any) -> Any:
    import keras

    classes = {
        SIMPLE: keras.layers.SimpleRNNCell,
        LSTM: keras.layers.LSTMCell,
        GRU: keras.layers.GRUCell,
    }
    name = SIMPLE if cell_type is USE_DEFAULT else cell_type
    if isinstance(name, str):
        made = [
            classes[name](size, name=f"{name}_cell" + (f"_{i}" if i else ""))
            for i, size in enumerate(sizes)
        ]
    else:
        made = [name(units=size) for size in sizes]
    for cell in made:
        _check_cell(cell)
    if len(made) == 1:
        return made[0]
    return keras.layers.StackedRNNCells(made, name="stacked_rnn_cells")


def _check_cell(cell: Any) -> None:
    if not hasattr(cell, "call") or not hasattr(cell, "state_size"):
        raise ConfigError(
            "RNN cell should have a `call` and `state_size` method, as keras.layers.LSTMCell has. "
            f"Given: {cell!r}."
        )


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
