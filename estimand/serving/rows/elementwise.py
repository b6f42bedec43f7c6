"""Operations that make each element of their result from those at its place."""

from __future__ import annotations

from dataclasses import replace

from estimand.serving.rows.nodes import Node, Rule
from estimand.serving.rows.sizes import UNKNOWN, Size
from estimand.serving.rows.values import INVARIANT, MIXED, Value, broadcast, numbers

_NAMES = """
    Abs Acos Acosh Add AddV2 AddN ApproximateEqual AsString Asin Asinh Atan Atan2 Atanh BesselI0e
    BesselI1e Betainc BitwiseAnd BitwiseOr BitwiseXor Bucketize Ceil CheckNumerics ClipByValue
    Complex ComplexAbs Conj Cos Cosh DecodeBase64 Digamma Div DivNoNan Elu EncodeBase64 Erf Erfc
    Erfinv Exp Expm1 FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars Floor FloorDiv FloorMod Greater
    GreaterEqual Igamma Igammac Imag Inv Invert IsFinite IsInf IsNan LeakyRelu LeftShift Less
    LessEqual Lgamma Log Log1p LogicalAnd LogicalNot LogicalOr Maximum Minimum Mod Mul MulNoNan
    Ndtri Neg NextAfter Polygamma Pow Real RealDiv Reciprocal RegexFullMatch RegexReplace Relu
    Relu6 RightShift Rint Round Rsqrt SelectV2 Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt
    Square SquaredDifference StaticRegexFullMatch StaticRegexReplace StringJoin StringLength
    StringLower StringStrip StringToHashBucket StringToHashBucketFast StringToHashBucketStrong
    StringToNumber StringUpper Sub Substr Tan Tanh TruncateDiv TruncateMod UnicodeScript
    Xdivy Xlog1py Xlogy Zeta
"""


def _elementwise(node: Node, values: list[Value]) -> Value:
    known = _known(node.op, values)
    return broadcast(values) if known is None else known


def _known(op: str, values: list[Value]) -> Value | None:
    """Sizes that are computed with; None for anything else."""
    if op not in _ARITHMETIC or len(values) != 2:
        return None
    left, right = values
    if left.known is None and right.known is None:
        return None
    ours, theirs = left.sizes, right.sizes
    if not ours or not theirs or left.content or right.content:
        return None
    count = max(len(ours), len(theirs))
    if {len(ours), len(theirs)} - {1, count}:
        return None
    pairs = zip(ours * (count // len(ours)), theirs * (count // len(theirs)), strict=True)
    sizes = [_ARITHMETIC[op](ours_here, theirs_here) for ours_here, theirs_here in pairs]
    if any(size is None for size in sizes):
        return MIXED
    is_scalar = left.axes == () and right.axes == ()
    return numbers(*(size for size in sizes if size is not None), scalar=is_scalar)


def _product(left: Size, right: Size) -> Size | None:
    return left * right


def _sum(left: Size, right: Size, sign: int = 1) -> Size | None:
    number = left.number + sign * right.number
    if left.symbols == right.symbols and UNKNOWN.symbols[0] not in left.symbols:
        return Size(number, left.symbols if number else ())
    if left.is_fixed and right.is_fixed:
        return UNKNOWN
    return None


def _difference(left: Size, right: Size) -> Size | None:
    return _sum(left, right, -1)


def _quotient(left: Size, right: Size) -> Size | None:
    if left.is_number and right.is_number and right.number > 0:
        return Size(left.number // right.number)
    if left.is_fixed and right.is_fixed:
        return UNKNOWN
    return left.divided_by(right)


_ARITHMETIC = {
    "Mul": _product,
    "Add": _sum,
    "AddV2": _sum,
    "Sub": _difference,
    "FloorDiv": _quotient,
}


def _comparison(node: Node, values: list[Value]) -> Value:
    """Shapes that do not fit are no error if `incompatible_shape_error` is off."""
    shapes = {value.axes for value in values if value.axes != ()}
    if not node.flag("incompatible_shape_error", True) and len(shapes) > 1:
        sizes = [size for axes in shapes for size in axes or (UNKNOWN,)]
        if not all(size.is_fixed for size in sizes):
            return MIXED
    return broadcast(values)


def _same(node: Node, values: list[Value]) -> list[Value]:
    return values


def _cast(node: Node, values: list[Value]) -> Value:
    (value,) = values
    if node.dtype("DstT").is_integer and node.dtype("SrcT").is_integer:
        return value
    cast = broadcast([replace(value, known=None) if value.is_invariant else value])
    return cast if cast.is_mixed else replace(cast, pad=value.pad)


def _select(node: Node, values: list[Value]) -> Value:
    """The older one: its condition may be one for each row."""
    condition, left, right = values
    if condition.rank == 1 and left.rank != 1 and condition.axes and left.axes:
        condition = replace(condition, axes=(condition.axes[0], *[Size(1)] * (len(left.axes) - 1)))
    return broadcast([condition, left, right])


def _find(node: Node, values: list[Value]) -> Value:
    """A table: handle, keys, and one value for keys that it does not have."""
    _, keys, default = values
    if default.axes != () or not default.is_invariant:
        return MIXED
    return broadcast([keys])


def _size_of_table(node: Node, values: list[Value]) -> Value:
    return replace(INVARIANT, axes=())


RULES: dict[str, Rule] = dict.fromkeys(_NAMES.split(), _elementwise)
RULES |= dict.fromkeys(("Equal", "NotEqual"), _comparison)
RULES |= dict.fromkeys(
    ("Identity", "IdentityN", "StopGradient", "PreventGradient", "Snapshot", "EnsureShape"), _same
)
RULES |= {
    "Cast": _cast,
    "Select": _select,
    "LookupTableFind": _find,
    "LookupTableFindV2": _find,
    "LookupTableSize": _size_of_table,
    "LookupTableSizeV2": _size_of_table,
}
