"""`tf.contrib.rnn`: cells around cells, with a layer before, behind or beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.compat.v1.contrib_modules.rnn.linear import _linear
from estimand.compat.v1.layers.errors import LayerError
from estimand.compat.v1.rnn_cell import RNNCell
from estimand.compat.v1.rnn_cell.base import check_cell, input_depth
from estimand.compat.v1.rnn_cell.wrappers import _Wrapper

v1 = tf.compat.v1


class _Projection(RNNCell):
    """A cell and a dense layer, whose variables are `kernel` and `bias` of this cell's scope."""

    def __init__(self, cell: Any, size: int, activation: Any = None, reuse: Any = None) -> None:
        super().__init__(_reuse=reuse)
        self._cell, self._size = cell, size
        self._activation = activation or (lambda x: x)

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        return self._cell.zero_state(batch_size, dtype)

    def _projected(self, x: Any) -> tf.Tensor:
        depth = tf.compat.dimension_value(x.shape[-1])
        kernel = v1.get_variable("kernel", [depth, self._size], x.dtype)
        bias = v1.get_variable("bias", [self._size], x.dtype, v1.zeros_initializer())
        return self._activation(tf.nn.bias_add(tf.matmul(x, kernel), bias))


class OutputProjectionWrapper(_Projection):
    """What the cell gives, by a dense layer in `output_size` dimensions."""

    def __init__(
        self, cell: Any, output_size: int, activation: Any = None, reuse: Any = None
    ) -> None:
        super().__init__(cell, output_size, activation, reuse)

    @property
    def output_size(self) -> int:
        return self._size

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        output, new_state = self._cell(inputs, state)
        return self._projected(output), new_state


class InputProjectionWrapper(_Projection):
    """What the cell is given, by a dense layer in `num_proj` dimensions."""

    def __init__(self, cell: Any, num_proj: int, activation: Any = None, reuse: Any = None) -> None:
        super().__init__(cell, num_proj, activation, reuse)

    @property
    def output_size(self) -> int:
        return self._cell.output_size

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        return self._cell(self._projected(inputs), state)


class HighwayWrapper(_Wrapper):
    """Lets a part of the inputs pass by the cell (Srivastava et al. 2015).

    How large a part is learned by `carry_w` and `carry_b`, and, unless the two gates are
    coupled, `transform_w` and `transform_b`.
    """

    def __init__(
        self, cell: Any, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0
    ) -> None:
        super().__init__(cell)
        self._coupled, self._bias = couple_carry_transform_gates, carry_bias_init

    def _step(self, inputs: Any, state: Any, cell: Callable[[Any, Any], Any]) -> Any:
        outputs, new_state = cell(inputs, state)
        return tf.nest.map_structure(self._mixed, inputs, outputs), new_state

    def _mixed(self, given: Any, made: Any) -> tf.Tensor:
        given.shape.assert_is_compatible_with(made.shape)
        carry = self._gate("carry", given, self._bias)
        transform = 1 - carry if self._coupled else self._gate("transform", given, -self._bias)
        return given * carry + made * transform

    def _gate(self, name: str, given: Any, bias: float) -> tf.Tensor:
        size = input_depth(given.shape)
        weights = v1.get_variable(f"{name}_w", [size, size], given.dtype)
        start = v1.constant_initializer(bias)
        biases = v1.get_variable(f"{name}_b", [size], given.dtype, start)
        return tf.sigmoid(tf.matmul(given, weights) + biases)


class EmbeddingWrapper(RNNCell):
    """A cell that is given ids, whose rows it looks up in `embedding`."""

    def __init__(
        self,
        cell: Any,
        embedding_classes: int,
        embedding_size: int,
        initializer: Any = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        check_cell(cell)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise LayerError(
                f"Both embedding_classes and embedding_size must be > 0: {embedding_classes}, "
                f"{embedding_size}."
            )
        self._cell, self._initializer = cell, initializer
        self._shape = [embedding_classes, embedding_size]

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        return self._cell.zero_state(batch_size, dtype)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        made = self._initializer or v1.get_variable_scope().initializer
        if made is None:  # the numbers have a variance of one
            made = v1.random_uniform_initializer(-(3**0.5), 3**0.5)
        dtype = tf.nest.flatten(state)[0].dtype
        table = v1.get_variable("embedding", self._shape, dtype, made)
        return self._cell(tf.nn.embedding_lookup(table, tf.reshape(inputs, [-1])), state)


class AttentionCellWrapper(RNNCell):
    """A cell that looks at its last `attn_length` outputs (Bahdanau et al. 2015)."""

    def __init__(
        self,
        cell: Any,
        attn_length: int,
        attn_size: int | None = None,
        attn_vec_size: int | None = None,
        input_size: int | None = None,
        state_is_tuple: bool = True,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        check_cell(cell)
        if tf.nest.is_nested(cell.state_size) and not state_is_tuple:
            raise LayerError(
                "Cell returns tuple of states, but the flag state_is_tuple is not set. "
                f"State size is: {cell.state_size}"
            )
        if attn_length <= 0:
            raise LayerError(f"attn_length should be greater than zero, got {attn_length}")
        self._cell, self._length, self._input_size = cell, attn_length, input_size
        self._size = attn_size or cell.output_size
        self._hidden = attn_vec_size or self._size
        self._is_tuple = state_is_tuple

    @property
    def state_size(self) -> Any:
        sizes = (self._cell.state_size, self._size, self._size * self._length)
        return sizes if self._is_tuple else sum(sizes)

    @property
    def output_size(self) -> int:
        return self._size

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        if not self._is_tuple:
            sizes = [self._cell.state_size, self._size, self._size * self._length]
            state = tf.split(state, sizes, axis=1)
        inner, seen, window = state
        window = tf.reshape(window, [-1, self._length, self._size])
        inputs = _linear([inputs, seen], self._input_size or input_depth(inputs.shape), True)
        made, inner = self._cell(inputs, inner)
        seen = self._looked_at(tf.concat(tf.nest.flatten(inner), 1), window)
        with v1.variable_scope("attn_output_projection"):
            output = _linear([made, seen], self._size, True)
        window = tf.concat([window[:, 1:], output[:, tf.newaxis]], 1)
        following = (inner, seen, tf.reshape(window, [-1, self._length * self._size]))
        return output, following if self._is_tuple else tf.concat(following, 1)

    def _looked_at(self, query: Any, window: Any) -> tf.Tensor:
        with v1.variable_scope("attention"):
            shape = [1, 1, self._size, self._hidden]
            weights = v1.get_variable("attn_w", shape, window.dtype)
            v = v1.get_variable("attn_v", [self._hidden], window.dtype)
            features = tf.tensordot(window, weights[0, 0], 1)
            asked = _linear(query, self._hidden, True)[:, tf.newaxis]
            share = tf.nn.softmax(tf.reduce_sum(v * tf.tanh(features + asked), 2))
            return tf.reduce_sum(share[:, :, tf.newaxis] * window, 1)
