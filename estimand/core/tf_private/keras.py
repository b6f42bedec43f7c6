"""What Keras keeps to itself."""

from __future__ import annotations

import collections
import contextlib
import copy
import sys
from collections.abc import Callable, Iterator
from typing import Any

from estimand.core.interpreter.swapping import swapped
from estimand.core.tf_private.execution import eager_mode


def keras_variable_being_created(depth: int = 25) -> tuple[Any, bool]:
    """The Keras variable whose constructor is up the stack, and whether it is a metric's.

    The name that TensorFlow sees is made unique by graph name scopes and so depends on what
    else was built before; Keras' own `path` (`sequential/dense/kernel`) does not. None when it
    is not Keras that creates a variable.
    """
    frame = sys._getframe(1)
    variable: Any = None
    for _ in range(depth):
        frame = frame.f_back  # type: ignore[assignment]
        if frame is None:
            break
        if not frame.f_globals.get("__name__", "").startswith("keras.src"):
            continue
        caller = frame.f_locals.get("self")
        if variable is None:
            variable = caller if isinstance(getattr(caller, "_path", None), str) else None
        elif hasattr(caller, "update_state") and hasattr(caller, "reset_state"):
            return variable, True
    return variable, False


def keras_optimizer_is_creating(depth: int = 24) -> bool:
    """Whether the Keras variable being created is the state of an optimizer, not of a layer."""
    frame = sys._getframe(1)
    for _ in range(depth):
        frame = frame.f_back  # type: ignore[assignment]
        if frame is None:
            return False
        if frame.f_globals.get("__name__", "").startswith("keras.src.optimizers"):
            return True
    return False


@contextlib.contextmanager
def fresh_keras_names() -> Iterator[None]:
    """Let Keras number its layers (dense, dense_1) from the start, as in a new graph.

    The counter is per process: without this a second trace of one model function would name
    the same layer differently, and its weights could not be found again.
    """
    if "keras" not in sys.modules:
        # Keras may be imported by the traced code; its counter then starts fresh anyway.
        yield
        return
    from keras.src.backend.common import global_state
    from keras.src.utils import naming

    saved = global_state.get_global_attribute("object_name_uids")
    global_state.set_global_attribute("object_name_uids", collections.defaultdict(int))

    def for_scopes(snake_case: Callable[[str], str]) -> Callable[[str], str]:
        def scope_name(name: str) -> str:
            # Layers of a class `_Mine` would be `__mine`, which no graph takes for a name scope.
            name = snake_case(name)
            return f"private{name}" if name.startswith("_") else name

        return scope_name

    try:
        with swapped([(naming, "to_snake_case", for_scopes)]):
            yield
    finally:
        global_state.set_global_attribute("object_name_uids", saved or collections.defaultdict(int))


@contextlib.contextmanager
def keras_takes_tensors_as_rates() -> Iterator[None]:
    """`keras.optimizers.Adam(exponential_decay(...))` in a model function, as in Keras 2.

    Keras 3 takes numbers and functions; no variable could hold the tensor, but a function can
    give it.
    """
    if "keras" not in sys.modules:
        yield
        return
    import keras
    import tensorflow as tf

    def taking_tensors(original: Callable[..., None]) -> Callable[..., None]:
        def init(self: Any, learning_rate: Any, *args: Any, **kwargs: Any) -> None:
            of_a_graph = isinstance(learning_rate, tf.Tensor) and not hasattr(
                learning_rate, "numpy"
            )
            rate = (lambda: learning_rate) if of_a_graph else learning_rate
            original(self, rate, *args, **kwargs)

        return init

    with swapped([(keras.optimizers.Optimizer, "__init__", taking_tensors)]):
        yield


def keras_layer_of(tensor: Any) -> str:
    """The name of the layer that made a symbolic tensor of Keras 3."""
    return str(tensor._keras_history.operation.name)


def keras_learning_rate(optimizer: Any) -> Any:
    """What a Keras optimizer takes its rate from: a schedule, a function, or a number.

    The public `learning_rate` of an optimizer with a schedule is the rate at its present step,
    and its config can be turned back into a schedule only for classes that Keras knows.
    """
    rate = optimizer._learning_rate
    if callable(rate) and not hasattr(rate, "assign"):
        return rate
    with eager_mode():
        return float(rate.numpy())


def keras_optimizer_lookups() -> list[Any]:
    """The modules that hold `keras.optimizers.get`; `compile` looks it up in the private one."""
    import keras
    import tensorflow as tf
    from keras.src import optimizers

    return [optimizers, keras.optimizers, tf.keras.optimizers]


def v1_learning_rate(optimizer: Any) -> Any:
    """What an optimizer of `tf.train` was given as its rate; None if it does not keep it so."""
    for name in ("_learning_rate", "_lr"):
        if (rate := getattr(optimizer, name, None)) is not None:
            return rate
    return None


def v1_optimizer_without_state(optimizer: Any) -> Any:
    """The same optimizer of `tf.train` without the variables that it has made so far.

    They belong to one model in one graph: with them, `fit` and an estimator of the same model
    would share the powers that Adam counts its steps with.
    """
    import tensorflow as tf

    result = copy.copy(optimizer)
    for name, value in vars(optimizer).items():
        if name in ("_slots", "_non_slot_dict", "_deferred_slot_restorations"):
            setattr(result, name, {})
        elif isinstance(value, tf.compat.v1.train.Optimizer):  # one that wraps another
            setattr(result, name, v1_optimizer_without_state(value))
    return result
