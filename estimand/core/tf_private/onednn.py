"""oneDNN's kernels, one op at a time.

TensorFlow's x86 builds contain them, and swap them in for all graphs of a process, or for none:
as its environment says when it is loaded, and by default only on processors with AVX-512 VNNI.
There is no public way to have them in one graph. The ops they belong to are registered either
way, under names of their own.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import tensorflow as tf

_SWITCH = "TF_ENABLE_ONEDNN_OPTS"
_KERNEL_LABEL = b"MklNameChangeOp"

# Only ops of which both directions have a twin, or that need no other op's help.
_TWINS = {
    "Conv2D": "_MklNativeConv2D",
    "Conv2DBackpropInput": "_MklNativeConv2DBackpropInput",
    "Conv2DBackpropFilter": "_MklNativeConv2DBackpropFilter",
    "DepthwiseConv2dNative": "_MklNativeDepthwiseConv2dNative",
    "DepthwiseConv2dNativeBackpropInput": "_MklNativeDepthwiseConv2dNativeBackpropInput",
    "DepthwiseConv2dNativeBackpropFilter": "_MklNativeDepthwiseConv2dNativeBackpropFilter",
    "MaxPool": "_MklNativeMaxPool",
    "MaxPoolGrad": "_MklNativeMaxPoolGrad",
    "AvgPool": "_MklNativeAvgPool",
    "AvgPoolGrad": "_MklNativeAvgPoolGrad",
    "MatMul": "_MklMatMul",
}


def onednn_in_all_graphs() -> bool:
    """Whether TensorFlow itself uses oneDNN in this process."""
    try:
        from tensorflow.python.util import _pywrap_util_port
    except ImportError:
        return False
    return bool(_pywrap_util_port.IsMklEnabled())


@functools.cache
def onednn_kernels_to_ask_for() -> bool:
    """Whether there are kernels that TensorFlow does not use by itself, and nobody forbade."""
    if os.environ.get(_SWITCH, "") == "0" or onednn_in_all_graphs():
        return False

    @tf.function(autograph=False)
    def product(matrix: tf.Tensor) -> tf.Tensor:
        graph = tf.compat.v1.GraphDef()
        node = graph.node.add(name="product", op="MatMul", input=["matrix", "matrix"])
        node.attr["T"].type = tf.float32.as_datatype_enum
        place = graph.node.add(name="matrix", op="Placeholder")
        place.attr["dtype"].type = tf.float32.as_datatype_enum
        make_onednn(node)
        return tf.graph_util.import_graph_def(graph, {"matrix:0": matrix}, ["product:0"])[0]

    try:
        return float(product(tf.constant([[3.0]]))[0, 0]) == 9.0
    except (tf.errors.OpError, ValueError, TypeError):
        return False  # another build


def has_onednn_twin(op_type: str) -> bool:
    return op_type in _TWINS


def make_onednn(node: Any) -> None:
    """Let a node of a graph's message be run by oneDNN's kernel."""
    node.op = _TWINS[node.op]
    node.attr["_kernel"].s = _KERNEL_LABEL
