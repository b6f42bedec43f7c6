"""Cells around cells: dropout, residual connections, devices. They add no variables or scopes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.compat.v1.layers.errors import LayerError
from estimand.compat.v1.rnn_cell.base import RNNCell, check_cell
from estimand.compat.v1.rnn_cell.lstm import LSTMStateTuple


class _Wrapper(RNNCell):
    """What all wrappers pass on to the cell inside."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        check_cell(cell)
        self.cell = cell

    @property
    def wrapped_cell(self) -> Any:
        return self.cell

    @property
    def state_size(self) -> Any:
        return self.cell.state_size

    @property
    def output_size(self) -> Any:
        return self.cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        return self.cell.zero_state(batch_size, dtype)

    @property
    def trainable_variables(self) -> list[Any]:
        return self.cell.trainable_variables

    @property
    def non_trainable_variables(self) -> list[Any]:
        return self.cell.non_trainable_variables

    trainable_weights = trainable_variables
    non_trainable_weights = non_trainable_variables

    def __call__(self, inputs: Any, state: Any, scope: Any = None, **kwargs: Any) -> Any:
        return self._step(inputs, state, lambda x, s: self.cell(x, s, scope=scope, **kwargs))

    def _step(self, inputs: Any, state: Any, cell: Callable[[Any, Any], Any]) -> Any:
        raise NotImplementedError


class ResidualWrapper(_Wrapper):
    """Adds the inputs to the outputs, or combines them by `residual_fn(inputs, outputs)`."""

    def __init__(self, cell: Any, residual_fn: Callable[[Any, Any], Any] | None = None) -> None:
        super().__init__(cell)
        self._residual_fn = residual_fn

    def _step(self, inputs: Any, state: Any, cell: Callable[[Any, Any], Any]) -> Any:
        outputs, new_state = cell(inputs, state)
        if self._residual_fn is not None:
            return self._residual_fn(inputs, outputs), new_state
        tf.nest.assert_same_structure(inputs, outputs)
        tf.nest.map_structure(
            lambda given, made: given.shape.assert_is_compatible_with(made.shape), inputs, outputs
        )
        return tf.nest.map_structure(lambda given, made: given + made, inputs, outputs), new_state


class DeviceWrapper(_Wrapper):
    """Runs the cell on a device."""

    def __init__(self, cell: Any, device: Any) -> None:
        super().__init__(cell)
        self._device = device

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with tf.device(self._device):
            return super().zero_state(batch_size, dtype)

    def _step(self, inputs: Any, state: Any, cell: Callable[[Any, Any], Any]) -> Any:
        with tf.device(self._device):
            return cell(inputs, state)


class DropoutWrapper(_Wrapper):
    """Dropout on inputs, outputs and states; probabilities are those of keeping a value.

    With `variational_recurrent` the same values are dropped at every step (Gal and Ghahramani
    2015); it needs `dtype` and, if inputs are dropped, `input_size`.
    """

    def __init__(
        self,
        cell: Any,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Any = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(cell)
        self._keep = {
            "input": _checked("input_keep_prob", input_keep_prob),
            "state": _checked("state_keep_prob", state_keep_prob),
            "output": _checked("output_keep_prob", output_keep_prob),
        }
        self._seed = seed
        self._filter = dropout_state_filter_visitor or _all_but_memory
        self._noise: dict[str, Any] = {}
        if variational_recurrent:
            self._noise = self._make_noise(input_size, dtype)

    def _make_noise(self, input_size: Any, dtype: Any) -> dict[str, Any]:
        if dtype is None:
            raise LayerError("When variational_recurrent=True, dtype must be provided")
        noise = {
            "state": self._noise_like(self.cell.state_size, "state", dtype),
            "output": self._noise_like(self.cell.output_size, "output", dtype),
        }
        if _drops(self._keep["input"]):
            if input_size is None:
                raise LayerError(
                    "When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, "
                    "input_size must be provided"
                )
            noise["input"] = self._noise_like(input_size, "input", dtype)
        return noise

    def _noise_like(self, sizes: Any, what: str, dtype: Any) -> Any:
        def draw(index: int, size: Any) -> Any:
            shape = tf.concat([[1], tf.TensorShape(size).as_list()], 0)
            return tf.compat.v1.random_uniform(shape, seed=self._seed_of(what, index), dtype=dtype)

        flat = tf.nest.flatten(sizes)
        return tf.nest.pack_sequence_as(sizes, [draw(i, size) for i, size in enumerate(flat)])

    def _seed_of(self, what: str, index: int) -> int | None:
        """A seed for each tensor, the same as ever: old runs with a seed can be repeated."""
        if self._seed is None:
            return None
        text = f"{self._seed}{what}_{index}".encode()
        return int(hashlib.md5(text).hexdigest()[:8], 16) & 0x7FFFFFFF

    def _step(self, inputs: Any, state: Any, cell: Callable[[Any, Any], Any]) -> Any:
        inputs = self._dropped(inputs, "input")
        outputs, new_state = cell(inputs, state)
        new_state = self._dropped(new_state, "state", self._filter)
        return self._dropped(outputs, "output"), new_state

    def _dropped(self, values: Any, what: str, chosen: Any = None) -> Any:
        keep = self._keep[what]
        if not _drops(keep):
            return values
        chosen = [True] * len(tf.nest.flatten(values)) if chosen is None else _flags(chosen, values)
        noise = self._noise.get(what)
        drawn = tf.nest.flatten(noise) if noise is not None else [None] * len(chosen)
        kept = [
            self._one(value, keep, what, index, drawn[index]) if chosen[index] else value
            for index, value in enumerate(tf.nest.flatten(values))
        ]
        return tf.nest.pack_sequence_as(values, kept)

    def _one(self, value: Any, keep: Any, what: str, index: int, noise: Any) -> Any:
        if noise is None:
            return tf.nn.dropout(value, rate=1 - keep, seed=self._seed_of(what, index))
        mask = tf.floor(tf.cast(keep, value.dtype) + noise)
        result = tf.divide(value, tf.cast(keep, value.dtype)) * mask
        result.set_shape(value.shape)
        return result


def _all_but_memory(state: Any) -> Any:
    """Which parts of a state may be dropped: not the memory of an LSTM."""
    if isinstance(state, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    return not isinstance(state, tf.TensorArray)


def _flags(visitor: Callable[[Any], Any], state: Any) -> list[bool]:
    """One truth value per tensor: the visitor answers for whole parts or looks inside."""
    answer = visitor(state)
    if isinstance(answer, bool):
        if tf.nest.is_nested(state) and answer:
            return [flag for part in state for flag in _flags(visitor, part)]
        return [answer] * len(tf.nest.flatten(state))
    return [bool(flag) for flag in tf.nest.flatten(answer)]


def _drops(keep: Any) -> bool:
    return not isinstance(keep, float) or keep < 1


def _checked(name: str, probability: Any) -> Any:
    static = probability
    if tf.is_tensor(probability):
        static = tf.get_static_value(probability)
        if static is None:
            return probability
    if not 0 <= float(static) <= 1:
        raise LayerError(f"Parameter {name} must be between 0 and 1: {float(static):g}")
    return float(static)
