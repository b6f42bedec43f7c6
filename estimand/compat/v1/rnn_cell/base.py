"""The base class of the cells: a layer from (inputs, state) to (outputs, new state)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.compat.v1.layers import Layer, identifiers
from estimand.compat.v1.layers.errors import LayerError, LayerTypeError

v1 = tf.compat.v1


class RNNCell(Layer):
    """One step of a recurrent network.

    Subclasses have `state_size` and `output_size` (numbers, shapes, or tuples of them), make
    their variables in `build(input_shape)` and compute in `call(inputs, state)`.
    """

    @property
    def state_size(self) -> Any:
        """The size of the state, or a nested tuple of sizes."""
        raise NotImplementedError(f"{type(self).__name__} does not tell its state_size.")

    @property
    def output_size(self) -> Any:
        """The size of the outputs."""
        raise NotImplementedError(f"{type(self).__name__} does not tell its output_size.")

    def __call__(self, inputs: Any, state: Any, scope: Any = None, **kwargs: Any) -> Any:
        """One step; `scope` names the variable scope of the first call."""
        if scope is None:
            return super().__call__(inputs, state, **kwargs)
        with v1.variable_scope(scope) as opened:
            return super().__call__(inputs, state, scope=opened, **kwargs)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The state to begin with: zeros, in the structure of `state_size`."""
        with tf.name_scope(f"{type(self).__name__}ZeroState"):
            return tf.nest.map_structure(
                lambda size: _zeros(batch_size, size, dtype), self.state_size
            )

    def get_initial_state(
        self, inputs: Any = None, batch_size: Any = None, dtype: Any = None
    ) -> Any:
        """`zero_state` for inputs of this batch size and dtype."""
        if inputs is not None:
            inputs = tf.convert_to_tensor(inputs)
            batch_size = tf.shape(inputs)[0]
            dtype = inputs.dtype
        if batch_size is None or dtype is None:
            raise LayerError(
                "batch_size and dtype cannot be None while constructing initial state: "
                f"batch_size={batch_size}, dtype={dtype}. Pass both, or inputs."
            )
        return self.zero_state(batch_size, dtype)


def _zeros(batch_size: Any, size: Any, dtype: Any) -> tf.Tensor:
    sizes = tf.TensorShape(size).as_list() if isinstance(size, tf.TensorShape) else [size]
    static = tf.get_static_value(batch_size) if tf.is_tensor(batch_size) else batch_size
    zeros = tf.zeros(tf.stack([batch_size, *sizes]), dtype=dtype)
    if not tf.executing_eagerly():
        zeros.set_shape([None if static is None else int(static), *sizes])
    return zeros


def input_depth(input_shape: Any) -> int:
    """The last dimension of the inputs, which the size of the variables follows from."""
    depth = tf.TensorShape(input_shape).as_list()[-1]
    if depth is None:
        raise LayerError(
            f"Expected inputs.shape[-1] to be known, saw shape: {input_shape}. Give the inputs a "
            "static last dimension, for example with tf.ensure_shape."
        )
    return depth


def activation_of(identifier: Any) -> Callable[[Any], Any]:
    """A callable; tanh if nothing is given."""
    if identifier is None:
        return tf.tanh
    return identifiers.activation(identifier) or tf.identity


def check_cell(cell: Any, what: str = "cell") -> None:
    """Anything that has sizes and can be called is a cell."""
    missing = [
        name for name in ("state_size", "output_size", "zero_state") if not hasattr(cell, name)
    ]
    if missing or not callable(cell):
        raise LayerTypeError(
            f"The argument '{what}' ({cell!r}) is not an RNNCell: it lacks "
            f"{', '.join(missing) or '__call__'}."
        )
