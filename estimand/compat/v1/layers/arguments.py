"""Reading the arguments that many layers share: sizes, paddings, layouts, switches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from estimand.compat.v1.layers.errors import LayerError

CHANNELS_FIRST = "channels_first"
CHANNELS_LAST = "channels_last"

_TF_LAYOUTS = {
    CHANNELS_LAST: {1: "NWC", 2: "NHWC", 3: "NDHWC"},
    CHANNELS_FIRST: {1: "NCW", 2: "NCHW", 3: "NCDHW"},
}


def positive_ints(value: Any, length: int, argument: str) -> tuple[int, ...]:
    """One int for all dimensions, or one for each: `3` and `(3, 3)` mean the same in 2-D.

    >>> positive_ints(3, 2, "kernel_size"), positive_ints([2, 1], 2, "strides")
    ((3, 3), (2, 1))
    """
    wanted = f"The `{argument}` argument must be a tuple of {length} integers. Received: {value!r}"
    try:
        numbers = _ints(value, length)
    except (TypeError, ValueError):
        raise LayerError(f"{wanted}. Give one integer for all dimensions, or a tuple.") from None
    if len(numbers) != length:
        raise LayerError(
            f"{wanted}, which has {len(numbers)}. Give {length}, or one integer for all."
        )
    if any(number <= 0 for number in numbers):
        raise LayerError(f"{wanted}; every one of them must be greater than 0.")
    return numbers


def _ints(value: Any, length: int) -> tuple[int, ...]:
    if isinstance(value, str):
        raise TypeError
    if isinstance(value, Iterable):
        return tuple(_exact_int(item) for item in value)
    return (_exact_int(value),) * length


def _exact_int(value: Any) -> int:
    number = int(value)
    if isinstance(value, str) or number != value:
        raise ValueError
    return number


def positive_count(value: Any, argument: str) -> int:
    """The number of units or filters."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if number <= 0:
        raise LayerError(
            f"Received an invalid value for `{argument}`, expected a positive integer. "
            f"Received: {argument}={value!r}"
        )
    return number


def padding_name(value: Any, *, causal: bool = False) -> str:
    """`valid` or `same` in any case; `causal` where the layer knows it."""
    accepted = ("valid", "same", "causal") if causal else ("valid", "same")
    name = value.lower() if isinstance(value, str) else value
    if name in accepted:
        return name
    if name == "causal":
        raise LayerError("Causal padding is only supported for `Conv1D` and `SeparableConv1D`.")
    listed = ", ".join(f'"{choice}"' for choice in accepted)
    raise LayerError(f"The `padding` argument must be one of {listed}. Received: {value!r}")


def layout_name(value: Any) -> str:
    """`channels_last` or `channels_first`, in any case; `None` means `channels_last`."""
    name = CHANNELS_LAST if value is None else str(value).lower()
    if name not in _TF_LAYOUTS:
        hint = _layout_hint(name)
        raise LayerError(
            'The `data_format` argument must be one of "channels_first", "channels_last". '
            f"Received: {value!r}{hint}"
        )
    return name


def _layout_hint(name: str) -> str:
    for layout, spellings in _TF_LAYOUTS.items():
        if name.upper() in spellings.values():
            return f'. Write data_format="{layout}".'
    return ""


def tf_layout(data_format: str, rank: int) -> str:
    """TensorFlow's own name of a layout: `NHWC` for channels_last in 2-D."""
    return _TF_LAYOUTS[data_format][rank]


def in_a_supported_layout(
    inputs: Any, data_format: str, run: Callable[[Any, str], Any], *, rank: int
) -> Any:
    """Run `run(inputs, layout)`, going through channels_last where channels_first has no kernel.

    TensorFlow's CPU convolutions and pools only know channels_last, so without a GPU the input
    is transposed on the way in and the result on the way out.
    """
    if data_format == CHANNELS_LAST or tf.config.list_physical_devices("GPU"):
        return run(inputs, tf_layout(data_format, rank))
    spatial = list(range(1, rank + 1))
    outputs = run(
        tf.transpose(inputs, [0, *(axis + 1 for axis in spatial), 1]),
        tf_layout(CHANNELS_LAST, rank),
    )
    return tf.transpose(outputs, [0, rank + 1, *spatial])


def spatial_shape(shape: tf.TensorShape, data_format: str) -> list[int | None]:
    """The sizes between batch and channels."""
    sizes = shape.as_list()
    return sizes[1:-1] if data_format == CHANNELS_LAST else sizes[2:]


def shape_with(
    batch: int | None, spatial: list[int | None], channels: int | None, data_format: str
) -> tf.TensorShape:
    """Batch, spatial sizes and channels put together in the order of `data_format`."""
    if data_format == CHANNELS_LAST:
        return tf.TensorShape([batch, *spatial, channels])
    return tf.TensorShape([batch, channels, *spatial])


def window_output_length(
    length: int | None, window: int, padding: str, stride: int, dilation: int = 1
) -> int | None:
    """How many places a window of a convolution or pool has along one dimension.

    >>> window_output_length(7, 3, "valid", 2), window_output_length(7, 3, "same", 2)
    (3, 4)
    """
    if length is None:
        return None
    covered = (window - 1) * dilation if padding == "valid" else 0
    return -(-(length - covered) // stride)


def static_truth(value: Any) -> bool | None:
    """The truth of a switch if it is known while building, `None` if only a run can tell.

    >>> static_truth(1), static_truth(tf.constant(False))
    (True, False)
    """
    if not tf.is_tensor(value):
        return bool(value)
    known = tf.get_static_value(value)
    return None if known is None else bool(known)


def choose(condition: Any, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> Any:
    """`tf.cond` that builds only the one branch when the condition is already known."""
    known = static_truth(condition)
    if known is None:
        return tf.cond(tf.cast(condition, tf.bool), if_true, if_false)
    return if_true() if known else if_false()
