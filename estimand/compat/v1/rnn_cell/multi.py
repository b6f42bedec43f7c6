"""Cells on top of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.compat.v1.layers.errors import LayerError, LayerTypeError
from estimand.compat.v1.rnn_cell.base import RNNCell, check_cell

v1 = tf.compat.v1


class MultiRNNCell(RNNCell):
    """The output of each cell is the input of the next; variables below `cell_0`, `cell_1`, ...

    >>> from estimand.compat.v1 import rnn_cell
    >>> rnn_cell.MultiRNNCell([rnn_cell.GRUCell(3), rnn_cell.GRUCell(4)]).state_size
    (3, 4)
    """

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise LayerError("Must specify at least one cell for MultiRNNCell.")
        if not isinstance(cells, list | tuple):
            raise LayerTypeError(f"cells must be a list or tuple, but saw: {cells}.")
        if len({id(cell) for cell in cells}) < len(cells):
            tf.get_logger().warning(
                "At least two cells provided to MultiRNNCell are the same object and will share "
                "weights."
            )
        for index, cell in enumerate(cells):
            check_cell(cell, f"cells[{index}]")
            if not state_is_tuple and tf.nest.is_nested(cell.state_size):
                raise LayerError(
                    "Some cells return tuples of states, but the flag state_is_tuple is not set.  "
                    f"State sizes are: {[cell.state_size for cell in cells]}"
                )
        self._cells = list(cells)
        self._state_is_tuple = state_is_tuple

    @property
    def state_size(self) -> Any:
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        return self._cells[-1].output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        if not self._state_is_tuple:
            return super().zero_state(batch_size, dtype)
        return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)

    @property
    def trainable_variables(self) -> list[Any]:
        return [v for cell in self._cells for v in getattr(cell, "trainable_variables", [])]

    @property
    def non_trainable_variables(self) -> list[Any]:
        return [v for cell in self._cells for v in getattr(cell, "non_trainable_variables", [])]

    trainable_weights = trainable_variables
    non_trainable_weights = non_trainable_variables

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        new_states = []
        for index, (cell, current) in enumerate(
            zip(self._cells, self._taken_apart(state), strict=True)
        ):
            with v1.variable_scope(f"cell_{index}"):
                inputs, new_state = cell(inputs, current)
                new_states.append(new_state)
        return inputs, tuple(new_states) if self._state_is_tuple else tf.concat(new_states, 1)

    def _taken_apart(self, state: Any) -> Sequence[Any]:
        if not self._state_is_tuple:
            return tf.split(state, [cell.state_size for cell in self._cells], axis=1)
        if len(state) != len(self._cells):
            raise LayerError(
                f"Expected state to be a tuple of length {len(self._cells)}, but received: {state}"
            )
        return state
