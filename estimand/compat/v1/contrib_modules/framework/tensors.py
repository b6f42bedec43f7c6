"""`tf.contrib.framework`: checks of tensors, and the small tools beside them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError

v1 = tf.compat.v1
sort = tf.sort
argsort = tf.argsort


def get_name_scope() -> str:
    """The name scope that operations are made in here."""
    return v1.get_default_graph().get_name_scope()


def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> tf.Tensor:
    """A tensor with one number, else a ValueError."""
    tensor = tf.convert_to_tensor(tensor, name=name)
    if tensor.shape.rank not in (None, 0):
        said = message or f"Expected scalar shape for {getattr(tensor, 'name', 'a tensor')}"
        raise ConfigError(f"{said}, saw shape: {tensor.shape}.")
    return tensor


def assert_scalar_int(tensor: Any, name: str | None = None) -> tf.Tensor:
    """A tensor with one whole number."""
    tensor = tf.convert_to_tensor(tensor, name=name)
    if not tensor.dtype.is_integer:
        raise ConfigError(f"Expected integer type for a tensor, received type: {tensor.dtype}.")
    return assert_scalar(tensor)


def with_shape(expected_shape: Any, tensor: Any) -> tf.Tensor:
    """The tensor, which must have this shape."""
    tensor = tf.convert_to_tensor(tensor)
    if not tf.is_tensor(expected_shape):
        return tf.ensure_shape(tensor, expected_shape)
    with tf.control_dependencies([v1.assert_equal(tf.shape(tensor), expected_shape)]):
        return tf.identity(tensor)


def with_same_shape(expected_tensor: Any, tensor: Any) -> tf.Tensor:
    """The second tensor, which must have the shape of the first."""
    static = expected_tensor.shape
    return with_shape(static if static.is_fully_defined() else tf.shape(expected_tensor), tensor)


def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: Any = None) -> Any:
    """A tensor; sparse ones stay sparse."""
    if isinstance(value, v1.SparseTensorValue):
        value = tf.SparseTensor(*value)
    return value if isinstance(value, tf.SparseTensor) else tf.convert_to_tensor(value, dtype, name)


def remove_squeezable_dimensions(
    labels: Any, predictions: Any, expected_rank_diff: int = 0, name: str | None = None
) -> tuple[Any, Any]:
    """Without the last dimension of whichever has one of size one too many."""
    with v1.name_scope(name, "remove_squeezable_dimensions", [labels, predictions]):
        labels, predictions = tf.convert_to_tensor(labels), tf.convert_to_tensor(predictions)
        difference = predictions.shape.rank - labels.shape.rank - expected_rank_diff
        if difference == 1 and predictions.shape[-1:].is_compatible_with([1]):
            predictions = tf.squeeze(predictions, [-1])
        elif difference == -1 and labels.shape[-1:].is_compatible_with([1]):
            labels = tf.squeeze(labels, [-1])
        return labels, predictions


def reduce_sum_n(tensors: Sequence[Any], name: str | None = None) -> tf.Tensor:
    """The sum of all numbers of several tensors."""
    return tf.add_n([tf.reduce_sum(tensor) for tensor in tensors], name=name)


def get_graph_from_inputs(op_input_list: Sequence[Any], graph: Any = None) -> Any:
    """The graph of the first tensor."""
    graphs = [tensor.graph for tensor in op_input_list if hasattr(tensor, "graph")]
    return graph or (graphs[0] if graphs else v1.get_default_graph())


def smart_constant_value(pred: Any) -> bool | None:
    """What is known of a condition before anything runs."""
    if pred in (0, 1) if isinstance(pred, (bool, int)) else False:
        return bool(pred)
    if not tf.is_tensor(pred):
        raise TypeError(f"`pred` must be a Tensor, or a Python bool, or 1 or 0. Found {pred!r}.")
    static = tf.get_static_value(pred)
    return None if static is None else bool(static)


def smart_cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
    **old_names: Any,
) -> Any:
    """One of two branches: at once where it is known which."""
    then, otherwise = true_fn or old_names["fn1"], false_fn or old_names["fn2"]
    known = smart_constant_value(pred)
    if known is None:
        return v1.cond(pred, then, otherwise, name=name)
    return then() if known else otherwise()


static_cond = smart_cond


def smart_case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    name: str = "smart_case",
) -> Any:
    """The first branch whose condition holds."""
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, Mapping) else pred_fn_pairs)
    open_ones = [(pred, fn) for pred, fn in pairs if smart_constant_value(pred) is None]
    for pred, fn in pairs:
        if smart_constant_value(pred):
            return fn()
    if not open_ones:
        if default is None:
            raise ConfigError("smart_case: no condition holds, and there is no default.")
        return default()
    return v1.case(open_ones, default, exclusive=exclusive, name=name)


def deprecated(date: Any, instructions: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """Says at a call that a function is on its way out."""
    del date, args, kwargs

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def warned(*args: Any, **kwargs: Any) -> Any:
            name = function.__qualname__
            warnings.warn(f"{name}: {instructions}", DeprecationWarning, stacklevel=2)
            return function(*args, **kwargs)

        return warned

    return decorate


def deprecated_args(date: Any, instructions: str, *names: Any, **ok: Any) -> Callable[..., Any]:
    """The same of some arguments: nothing is said, as a call may do without them."""
    del date, instructions, names, ok
    return lambda function: function


deprecated_arg_values = deprecated_args
