"""Operations that combine elements: along axes of one request, never along that of the requests."""

from __future__ import annotations

import math

from estimand.serving.rows.nodes import Node, Rule
from estimand.serving.rows.sizes import ONE, UNKNOWN, Size, product
from estimand.serving.rows.values import (
    INVARIANT,
    MIXED,
    Handle,
    Value,
    broadcast,
    is_varying,
    numbers,
    plain,
)


def _axes_of(value: Value, rank: int | None) -> set[int] | None:
    axes = value.integers()
    if axes is None or rank is None or not all(-rank <= axis < rank for axis in axes):
        return None
    return {axis % rank for axis in axes}


def _reduce(node: Node, values: list[Value]) -> Value:
    value, where = values
    if node.op == "Prod" and value.known is not None and value.rank == 1:
        return numbers(product(value.known), scalar=not node.flag("keep_dims"))
    dropped = _axes_of(where, value.rank)
    if value.axes is None or dropped is None or not value.is_plain:
        return MIXED
    for axis in dropped:
        size = value.axes[axis]
        nothing_added = node.op == "Sum" and value.pad == 0 and is_varying(size)
        if not size.is_fixed and not nothing_added:
            return MIXED
    keeps = node.flag("keep_dims")
    axes = [
        ONE if axis in dropped else size
        for axis, size in enumerate(value.axes)
        if keeps or axis not in dropped
    ]
    return plain(axes)


def _along_one_axis(node: Node, values: list[Value]) -> Value:
    """ArgMax and Cumsum with their axis: the result has it no more, or has it still."""
    value, where = values
    axis = _axes_of(where, value.rank)
    if value.axes is None or axis is None or len(axis) != 1 or _has_padding(value):
        return MIXED
    (axis_,) = axis
    if not value.axes[axis_].is_fixed:
        return MIXED
    if node.op.startswith("Arg"):
        return plain((*value.axes[:axis_], *value.axes[axis_ + 1 :]))
    return plain(value.axes)


def _has_padding(value: Value) -> bool:
    return not value.is_plain or value.is_padded


def _along_last(node: Node, values: list[Value]) -> Value | list[Value]:
    """Softmax, TopK and the like."""
    value = values[0]
    is_top = node.op.startswith("TopK")
    count = 2 if is_top else 1
    if not value.axes or _has_padding(value) or not value.axes[-1].is_fixed:
        return [MIXED] * count
    if not is_top:
        return plain(value.axes)
    if not all(more.is_invariant for more in values[1:]):
        return [MIXED] * count
    return [plain((*value.axes[:-1], UNKNOWN))] * count


def _bias_add(node: Node, values: list[Value]) -> Value:
    value, bias = values
    if not value.axes or len(value.axes) < 2 or _has_padding(value) or not bias.is_invariant:
        return MIXED
    axis = 1 if node.text("data_format").startswith("NC") else len(value.axes) - 1
    return plain(value.axes) if value.axes[axis].is_fixed else MIXED


def _matmul(node: Node, values: list[Value]) -> Value:
    """The last two axes are multiplied; those before them go together."""
    left, right = values
    if not left.axes or not right.axes or _has_padding(left) or _has_padding(right):
        return MIXED
    if min(len(left.axes), len(right.axes)) < 2:
        return MIXED
    flips = ("transpose_a", "transpose_b") if node.op == "MatMul" else ("adj_x", "adj_y")
    rows, inner = left.axes[-2:] if not node.flag(flips[0]) else left.axes[:-3:-1]
    inner_of_right, columns = right.axes[-2:] if not node.flag(flips[1]) else right.axes[:-3:-1]
    if not (inner.is_fixed and inner_of_right.is_fixed):
        return MIXED
    before = broadcast([plain(left.axes[:-2]), plain(right.axes[:-2])])
    if before.is_mixed or before.axes is None:
        return MIXED
    return plain((*before.axes, rows, columns))


def _einsum(node: Node, values: list[Value]) -> Value:
    terms, _, result = node.text("equation").partition("->")
    inputs = terms.split(",")
    if "." in terms or len(inputs) != len(values):
        return MIXED
    sizes: dict[str, Size] = {}
    for letters, value in zip(inputs, values, strict=True):
        if value.axes is None or _has_padding(value) or len(letters) != len(value.axes):
            return MIXED
        for letter, size in zip(letters, value.axes, strict=True):
            known = sizes.get(letter, size)
            both_fixed = known.is_fixed and size.is_fixed
            if known != size and not both_fixed:
                return MIXED
            sizes[letter] = size if known == size or size.is_number else known
    summed = set(sizes) - set(result)
    if not all(sizes[letter].is_fixed for letter in summed) or not set(result) <= set(sizes):
        return MIXED
    return plain([sizes[letter] for letter in result])


def _rows_first(value: Value) -> bool:
    return bool(value.axes) and not _has_padding(value) and value.joined_axis() == 0


def _window(size: Size, window: int, step: int, padding: str) -> Size:
    if not size.is_number or padding not in ("SAME", "VALID"):
        return UNKNOWN
    wide = size.number if padding == "SAME" else size.number - window + 1
    return Size(max(0, math.ceil(wide / step)))


def _convolution(node: Node, values: list[Value]) -> Value:
    value, filter_ = values
    if not _rows_first(value) or value.axes is None or not filter_.is_invariant:
        return MIXED
    last_is_channel = not node.text("data_format").startswith("NC")
    if not last_is_channel or filter_.axes is None or len(filter_.axes) != len(value.axes):
        return plain((value.axes[0], *[UNKNOWN] * (len(value.axes) - 1)))
    steps = node.integers("strides")
    spread = node.integers("dilations") or [1] * len(value.axes)
    axes = [value.axes[0]]
    for place in range(1, len(value.axes) - 1):
        kernel = filter_.axes[place - 1]
        wide = (kernel.number - 1) * spread[place] + 1
        known = _window(value.axes[place], wide, steps[place], node.text("padding"))
        axes.append(known if kernel.is_number else UNKNOWN)
    depth = filter_.axes[-1]
    if node.op.startswith("Depthwise"):
        depth = filter_.axes[-1] * filter_.axes[-2]
    return plain((*axes, depth))


def _transposed_convolution(node: Node, values: list[Value]) -> Value:
    sizes, filter_, value = values
    if not _rows_first(value) or value.axes is None or not filter_.is_invariant:
        return MIXED
    if sizes.known is None or sizes.known[0] != value.axes[0]:
        return MIXED
    return plain(sizes.known)


def _pool(node: Node, values: list[Value]) -> Value:
    value = values[0]
    windows, steps = node.integers("ksize"), node.integers("strides")
    if not _rows_first(value) or value.axes is None or len(windows) != len(value.axes):
        return MIXED
    if windows[0] != 1 or steps[0] != 1:
        return MIXED
    sized = zip(value.axes[1:], windows[1:], steps[1:], strict=True)
    padding = node.text("padding")
    return plain((value.axes[0], *(_window(*axis, padding) for axis in sized)))


def _batch_norm(node: Node, values: list[Value]) -> list[Value]:
    value, *more = values
    count = 6 if node.op.endswith("V3") else 5
    usable = _rows_first(value) and all(statistic.is_invariant for statistic in more)
    if node.flag("is_training", True) or not usable or value.axes is None:
        return [MIXED] * count
    return [plain(value.axes), *[MIXED] * (count - 1)]


def _images(node: Node, values: list[Value]) -> Value:
    """Resized, or with their pixels in other places: each picture for itself."""
    value, *more = values
    if not _rows_first(value) or value.axes is None or len(value.axes) != 4:
        return MIXED
    if not all(setting.is_invariant for setting in more):
        return MIXED
    sizes = more[0].known if more else None
    if node.op == "LRN":
        return plain(value.axes)
    if node.op.startswith("Resize"):
        height, width = sizes if sizes is not None and len(sizes) == 2 else (UNKNOWN, UNKNOWN)
        return plain((value.axes[0], height, width, value.axes[3]))
    return plain((value.axes[0], UNKNOWN, UNKNOWN, UNKNOWN))


def _one_hot(node: Node, values: list[Value]) -> Value:
    places, depth, on, off = values
    if places.axes is None or not places.is_plain:
        return MIXED
    if depth.known is None or not all(setting.is_invariant for setting in (depth, on, off)):
        return MIXED
    rank = len(places.axes)
    axis = node.integer("axis", -1)
    axis = rank if axis == -1 else axis
    axes = (*places.axes[:axis], depth.known[0], *places.axes[axis:])
    nothing = off.array()
    pad = None
    if places.pad is not None and places.pad < 0 and nothing is not None and nothing.size == 1:
        pad = float(nothing.ravel()[0])
    return plain(axes, pad if any(is_varying(size) for size in axes) else None)


def _read(node: Node, values: list[Value]) -> Value:
    content = values[0].content
    return Value(content.shape) if isinstance(content, Handle) and content.shape else INVARIANT


def _resource_gather(node: Node, values: list[Value]) -> Value:
    """Rows of a variable."""
    handle, places = values
    shape = handle.content.shape if isinstance(handle.content, Handle) else None
    if shape is None or places.axes is None or not places.is_plain or node.integer("batch_dims"):
        return MIXED
    return plain((*places.axes, *shape[1:]))


RULES: dict[str, Rule] = dict.fromkeys(
    ("Sum", "Mean", "Max", "Min", "Prod", "All", "Any", "EuclideanNorm"), _reduce
)
RULES |= dict.fromkeys(
    ("ArgMax", "ArgMin", "Cumsum", "Cumprod", "CumulativeLogsumexp"), _along_one_axis
)
RULES |= dict.fromkeys(("Softmax", "LogSoftmax", "TopK", "TopKV2"), _along_last)
RULES |= dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _matmul)
RULES |= dict.fromkeys(("Conv2D", "Conv3D", "DepthwiseConv2dNative"), _convolution)
RULES |= dict.fromkeys(("Conv2DBackpropInput", "Conv3DBackpropInputV2"), _transposed_convolution)
RULES |= dict.fromkeys(("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D"), _pool)
RULES |= dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _batch_norm)
RULES |= dict.fromkeys(
    [
        "ResizeBilinear",
        "ResizeNearestNeighbor",
        "ResizeBicubic",
        "ResizeArea",
        "SpaceToDepth",
        "DepthToSpace",
        "LRN",
    ],
    _images,
)
RULES |= {
    "BiasAdd": _bias_add,
    "Einsum": _einsum,
    "OneHot": _one_hot,
    "ReadVariableOp": _read,
    "ResourceGather": _resource_gather,
}
