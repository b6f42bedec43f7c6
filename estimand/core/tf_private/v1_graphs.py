"""What code may do in a v1 graph, and TensorFlow refuses while a function is traced."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import tensorflow as tf

from estimand.core.interpreter.swapping import Swap, swapped
from estimand.core.tf_private import v1_control_flow


@contextlib.contextmanager
def like_a_v1_graph() -> Iterator[None]:
    """Around the trace of a model function."""
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable
    from tensorflow.python.training import moving_averages
    from tensorflow.python.training.optimizer import Optimizer

    swaps: list[Swap] = [
        (Optimizer, "compute_gradients", _where_the_loss_is),
        (moving_averages, "ops", _averaging_tensors_too),
        *v1_control_flow.as_in_a_graph(),
    ]
    if not tf.compat.v1.resource_variables_enabled():
        swaps.append((BaseResourceVariable, "__bool__", _true_as_objects_are))
    if "keras" in sys.modules:
        from keras.src import backend

        swaps.append((backend, "compute_output_spec", _without_functions))
    with swapped(swaps):
        yield


def _where_the_loss_is(compute_gradients: Callable[..., Any]) -> Callable[..., Any]:
    """An optimizer in a branch of `tf.cond` follows the loss into the graph around it.

    In a v1 graph a branch is part of the graph; here it is a function of its own, in which a loss
    from outside is an input that depends on no variable.
    """

    def compute(self: Any, loss: Any, *args: Any, **kwargs: Any) -> Any:
        outside = isinstance(loss, tf.Tensor) and not hasattr(loss, "numpy")
        if not outside or loss.graph is tf.compat.v1.get_default_graph():
            return compute_gradients(self, loss, *args, **kwargs)
        with loss.graph.as_default():
            return compute_gradients(self, loss, *args, **kwargs)

    return compute


def _true_as_objects_are(of_value: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """`average if average else variable`: the variables of TensorFlow 1 had no truth of their own.

    Only for programs that have switched the others off, as `disable_v2_behavior()` does.
    """

    def __bool__(self: Any) -> bool:
        return of_value(self) if tf.executing_eagerly() else True

    return __bool__


def _averaging_tensors_too(ops: ModuleType) -> ModuleType:
    """Averages of tensors (of a loss, say), which TensorFlow has for v1 graphs only.

    Replaced for the module of averages alone: the replicas of a strategy ask the same question.
    """
    view = ModuleType(ops.__name__)
    view.__getattr__ = lambda name: getattr(ops, name)  # type: ignore[method-assign]
    view.executing_eagerly_outside_functions = tf.executing_eagerly  # type: ignore[attr-defined]
    return view


def _without_functions(compute_output_spec: Callable[..., Any]) -> Callable[..., Any]:
    """Keras runs `call` once on symbols to learn its shapes, with numbers for variables.

    A `tf.function` that it meets there would keep that trace, and compute with those numbers for
    good: the layer's variables would never be used, and have no gradients.
    """

    def compute(*args: Any, **kwargs: Any) -> Any:
        before = tf.config.functions_run_eagerly()
        tf.config.run_functions_eagerly(True)
        try:
            return compute_output_spec(*args, **kwargs)
        finally:
            tf.config.run_functions_eagerly(before)

    return compute


@contextlib.contextmanager
def kept_resources() -> Iterator[list[Any]]:
    """The lookup tables, queues, writers and other resources created inside.

    Such an object destroys its resource when Python drops it, though a traced graph uses it.
    """
    from tensorflow.python.ops.resource_variable_ops import EagerResourceDeleter
    from tensorflow.python.ops.summary_ops_v2 import _ResourceSummaryWriter
    from tensorflow.python.trackable import resource

    tracker = resource.ResourceTracker()
    kept = tracker.resources

    def noted(init: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            init(self, *args, **kwargs)
            kept.append(self)

        return __init__

    swaps = [(kind, "__init__", noted) for kind in (EagerResourceDeleter, _ResourceSummaryWriter)]
    with resource.resource_tracker_scope(tracker), swapped(swaps):
        yield kept


@contextlib.contextmanager
def loading_saved_models(load_once: Callable[[Callable[[], Any], str], Any]) -> Iterator[None]:
    """`tf.saved_model.load` asks `load_once` (with how to load, and what) for its models."""
    from tensorflow.python.saved_model import load

    def through(load_partial: Callable[..., Any]) -> Callable[..., Any]:
        def load_it(export_dir: Any, filters: Any, tags: Any = None, options: Any = None) -> Any:
            what = f"{export_dir} {filters} {tags}"
            return load_once(lambda: load_partial(export_dir, filters, tags, options), what)

        return load_it

    with swapped([(load, "load_partial", through)]):
        yield
