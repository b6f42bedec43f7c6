"""What kinds of ops there are, and all the ops that a step would run.

The fast ways of running steps are open to ops that are known, not closed to ops that are known
to be trouble: what stands in none of these lists is left to TensorFlow's ordinary ways.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat.v1 import NodeDef

# Where ops are made that take the place of random ones, and depend on the count of steps.
RANDOM_SCOPE = "estimand/random"

# Defined for all values of all their inputs, and depend on nothing else. Integer divisions are
# not among them (by zero), nor are lookups (out of range), nor anything that checks its data; for
# slices see `is_total`.
_TOTAL = """
Abs Acos Acosh Add AddN AddV2 All Any ApproximateEqual ArgMax ArgMin Asin Asinh Atan Atan2 Atanh
AvgPool AvgPoolGrad BatchMatMul BatchMatMulV2 BatchMatMulV3 BiasAdd BiasAddGrad BiasAddV1
Bitcast BitwiseAnd BitwiseOr BitwiseXor BroadcastArgs BroadcastGradientArgs BroadcastTo Cast
Ceil ClipByValue Complex ComplexAbs Concat ConcatV2 Conj Const Conv2D Conv2DBackpropFilter
Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2 Conv3DBackpropInputV2 Cos Cosh Cross Cumprod
Cumsum DepthToSpace DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
DepthwiseConv2dNativeBackpropInput Diag DiagPart Digamma DivNoNan Einsum Elu EluGrad Equal Erf
Erfc Erfinv Exp ExpandDims Expm1 Fill Floor FusedBatchNorm FusedBatchNormGrad
FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3 Greater GreaterEqual
Identity IdentityN Imag Inv InvGrad Invert IsFinite IsInf IsNan L2Loss LRN LRNGrad LeakyRelu
LeakyReluGrad LeftShift Less LessEqual Lgamma LinSpace Log Log1p LogSoftmax LogicalAnd
LogicalNot LogicalOr MatMul MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2
MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 Max
MaxPool MaxPoolGrad MaxPoolGradV2 MaxPoolV2 Maximum Mean Min Minimum MirrorPad MirrorPadGrad Mul
MulNoNan Ndtri Neg NextAfter NoOp NotEqual OneHot OnesLike Pack Pad PadV2 ParallelConcat
PreventGradient Prod Range Rank Real Reciprocal ReciprocalGrad Relu Relu6 Relu6Grad ReluGrad
Reshape ReverseV2 RightShift Rint Round Rsqrt RsqrtGrad Select SelectV2 Selu SeluGrad Shape
ShapeN Sigmoid SigmoidGrad Sign Sin Sinh Size Slice Snapshot Softmax
SoftmaxCrossEntropyWithLogits Softplus SoftplusGrad Softsign SoftsignGrad SpaceToDepth Split
SplitV Sqrt SqrtGrad Square SquaredDifference Squeeze StatelessRandomGetAlg
StatelessRandomGetKeyCounter StatelessRandomNormal StatelessRandomNormalV2
StatelessRandomUniform StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2
StatelessRandomUniformInt StatelessRandomUniformIntV2 StatelessRandomUniformV2
StatelessTruncatedNormal StatelessTruncatedNormalV2 StopGradient StridedSlice StridedSliceGrad
Sub Sum Tan Tanh TanhGrad Tile TopK TopKV2 Transpose Unpack Xdivy Xlog1py Xlogy ZerosLike Zeta
"""
_TOTAL_OPS = frozenset(_TOTAL.split())
# Of numbers that are no integers, which have no zero to be divided by.
_DIVISIONS = frozenset({"Div", "RealDiv", "FloorDiv", "FloorMod", "Mod", "TruncateDiv"})
_TOTAL_OF_FLOATS = _DIVISIONS | {"Pow"}

READS = frozenset({"ReadVariableOp", "VariableShape", "VarIsInitializedOp"})
WRITES = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})
# Dense updates of optimizers: ResourceApplyAdam and its kin.
_UPDATES = "ResourceApply"
# By rows: an index may be out of range.
_ROWS = ("ResourceGather", "ResourceScatter", "ResourceSparseApply", "ResourceStridedSliceAssign")

# What only runs functions, in which the same is asked again.
CALLS = frozenset(
    {
        "Case", "If", "PartitionedCall", "StatefulPartitionedCall", "StatelessCase", "StatelessIf",
        "StatelessWhile", "While",
    }
)  # fmt: skip

# They look something up in tables that others fill; all else of the kind changes tables.
_LOOKUPS = frozenset({"LookupTableFind", "LookupTableFindV2", "LookupTableSizeV2"})


def is_random_twin(name: str) -> bool:
    """Whether an op of this name took the place of a random one."""
    return name.startswith(RANDOM_SCOPE)


def is_total(node: NodeDef, others: Mapping[str, Any]) -> bool:
    """Whether an op depends on its inputs only, and is defined for whatever they hold.

    `others` are the ops beside it, by name: an index that is a constant was checked when the graph
    was built, any other may be out of range.
    """
    if node.op in _DIVISIONS and _is_positive(others.get(op_name(node.input[1]))):
        return True
    if not is_pure(node):
        return False
    is_one_index = node.op == "StridedSlice" and node.attr["shrink_axis_mask"].i
    if node.op != "Slice" and not is_one_index:
        return True  # parts are cut at the ends
    start = others.get(op_name(node.input[1]))
    return start is not None and start.op == "Const"


def _is_positive(divisor: Any | None) -> bool:
    if divisor is None or divisor.op != "Const":
        return False
    return bool(np.all(tf.make_ndarray(divisor.attr["value"].tensor) > 0))


def op_name(reference: str) -> str:
    """The op that an input is an output of."""
    return reference.partition(":")[0]


def is_pure(node: NodeDef) -> bool:
    """Whether an op depends on its inputs only, and is defined if their indices are in range."""
    if node.op in _TOTAL_OPS:
        return True
    return node.op in _TOTAL_OF_FLOATS and not tf.dtypes.as_dtype(node.attr["T"].type).is_integer


def uses_variables_whole(op_type: str) -> bool:
    """Whether an op reads or writes whole variables, and nothing else."""
    return op_type in READS or op_type in WRITES or op_type.startswith(_UPDATES)


def uses_rows_of_variables(op_type: str) -> bool:
    return op_type.startswith(_ROWS)


def only_looks_up(op_type: str) -> bool:
    return op_type in _LOOKUPS


def call_tree(graph: tf.Graph, ops: Iterable[tf.Operation] | None = None) -> Iterator[Any]:
    """The messages of `ops` (or of all ops of a graph), and of those in all functions they call."""
    wanted = None if ops is None else {op.name for op in ops}
    for node, _ in with_others(graph.as_graph_def(), wanted):
        yield node


def with_others(
    definition: Any, wanted: Container[str] | None = None
) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Of a graph as a message, the ops named (or all), and those in all functions they call.

    Each comes with the ops beside it: those of the graph, or of the function that it is in.
    """
    functions = {f.signature.name: f for f in definition.library.function}
    called: list[str] = []
    others = {node.name: node for node in definition.node}
    for node in definition.node:
        if wanted is None or node.name in wanted:
            yield node, others
            if functions:
                called += functions_called(node)
    seen: set[str] = set()
    while called:
        name = called.pop(0)
        if name in seen or name not in functions:
            continue
        seen.add(name)
        others = {node.name: node for node in functions[name].node_def}
        for node in functions[name].node_def:
            yield node, others
            called += functions_called(node)


def functions_called(node: NodeDef) -> list[str]:
    """The names of the functions that an op is given."""
    kinds = {name: value.WhichOneof("value") for name, value in node.attr.items()}
    values = [node.attr[name] for name in sorted(kinds) if kinds[name] in ("func", "list")]
    return [f.name for value in values for f in (value.func, *value.list.func) if f.name]
