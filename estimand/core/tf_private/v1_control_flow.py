"""Gradients of loops and conditions of TensorFlow 1 while a function is traced.

Such come into a model function with graphs that are imported. TensorFlow makes their gradients in
graphs; in functions it takes them for loops and conditions of TensorFlow 2 here and there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import tensorflow as tf

from estimand.core.interpreter.swapping import Swap


def as_in_a_graph() -> list[Swap]:
    from tensorflow.python.ops import control_flow_state, tensor_array_ops

    arrays = _ArraysOfV1(tensor_array_ops)
    return [
        (control_flow_state._ControlFlowState, "ZerosLikeV1WhileLoop", _guarded_zeros),
        (tensor_array_ops.TensorArray, "__init__", arrays.by_handle),
        (tensor_array_ops, "build_ta_with_new_flow", arrays.again),
        (tensor_array_ops, "control_flow_util", arrays.choosing),
    ]


class _OutsideOfFunctions:
    """An op, or its graph, that says it is in no function."""

    building_function = False

    def __init__(self, original: Any) -> None:
        self._original = original

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._original, name)
        return _OutsideOfFunctions(value) if name == "graph" else value


def _guarded_zeros(zeros_like: Callable[..., Any]) -> Callable[..., Any]:
    """Gradients of branches that were not taken, beside loops.

    In functions TensorFlow takes zeros like the value of the branch. That is dead there, as then
    the zeros are, and the gradient of the branch that was taken is lost with them.
    """

    def zeros(self: Any, op: Any, index: int) -> Any:
        return zeros_like(self, _OutsideOfFunctions(op), index)

    return zeros


class _ArraysOfV1:
    """The `TensorArray`s of imported loops: their gradients find them by their handles.

    In functions TensorFlow makes lists of TensorFlow 2 of all of them, which have no handles.
    """

    def __init__(self, tensor_array_ops: Any) -> None:
        self._of_v1 = tensor_array_ops._GraphTensorArray
        self._here = threading.local()

    def by_handle(self, init: Callable[..., None]) -> Callable[..., None]:
        def __init__(array: Any, *args: Any, **kwargs: Any) -> None:
            is_v1 = kwargs.get("handle") is not None and not tf.executing_eagerly()
            self._with(is_v1, init, array, *args, **kwargs)

        return __init__

    def again(self, build: Callable[..., Any]) -> Callable[..., Any]:
        def build_ta_with_new_flow(old: Any, flow: Any) -> Any:
            made = getattr(old, "_implementation", old)
            return self._with(isinstance(made, self._of_v1), build, old, flow)

        return build_ta_with_new_flow

    def choosing(self, control_flow_util: ModuleType) -> ModuleType:
        def of_tensorflow_2(graph: Any) -> bool:
            is_v1 = getattr(self._here, "is_v1", False)
            return not is_v1 and control_flow_util.EnableControlFlowV2(graph)

        view = ModuleType(control_flow_util.__name__)
        view.__getattr__ = lambda name: getattr(control_flow_util, name)  # type: ignore[method-assign]
        view.EnableControlFlowV2 = of_tensorflow_2  # type: ignore[attr-defined]
        return view

    def _with(self, is_v1: bool, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before = getattr(self._here, "is_v1", False)
        self._here.is_v1 = is_v1
        try:
            return function(*args, **kwargs)
        finally:
            self._here.is_v1 = before
