"""`core_rnn_cell._linear` and `_Linear`: the layer that cells were made of."""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf

from estimand.compat.v1.rnn_cell.base import input_depth

v1 = tf.compat.v1


def _linear(
    args: Any,
    output_size: int,
    bias: bool,
    bias_initializer: Any = None,
    kernel_initializer: Any = None,
    *,
    bias_start: float = 0.0,
    scope: Any = None,
) -> tf.Tensor:
    """The product of tensors side by side with `kernel`, plus `bias`: variables of this scope."""
    if isinstance(bias_initializer, float):  # the fourth argument was `bias_start` once
        bias_initializer = v1.constant_initializer(bias_initializer)
    with v1.variable_scope(scope) if scope is not None else contextlib.nullcontext():
        return _Linear(
            args,
            output_size,
            bias,
            bias_initializer or v1.constant_initializer(bias_start),
            kernel_initializer,
        )(args)


class _Linear:
    """The same, with the variables made once."""

    def __init__(
        self,
        args: Any,
        output_size: int,
        build_bias: bool,
        bias_initializer: Any = None,
        kernel_initializer: Any = None,
    ) -> None:
        tensors = args if isinstance(args, (list, tuple)) else [args]
        rows, dtype = sum(input_depth(tensor.shape) for tensor in tensors), tensors[0].dtype
        shape = [rows, output_size]
        self._weights = v1.get_variable("kernel", shape, dtype, kernel_initializer)
        zeros = bias_initializer or v1.zeros_initializer()
        self._biases = v1.get_variable("bias", [output_size], dtype, zeros) if build_bias else None

    def __call__(self, args: Any) -> tf.Tensor:
        side_by_side = tf.concat(args, 1) if isinstance(args, (list, tuple)) else args
        sums = tf.matmul(side_by_side, self._weights)
        return sums if self._biases is None else tf.nn.bias_add(sums, self._biases)
