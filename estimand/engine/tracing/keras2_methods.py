"""Methods that optimizers of Keras 2 had in graphs, lent to them while a model function runs.

`optimizer.get_updates(loss, variables)` went with the newer family of its optimizers, and
`optimizer.minimize(loss, variables)` asks for a gradient tape, which graphs never needed.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.interpreter.swapping import Swap, swapped
from estimand.core.tf_private import kerases
from estimand.core.tf_private.kerases import keras2_models
from estimand.engine.variables import effects


@contextlib.contextmanager
def lent() -> Iterator[None]:
    """Inside, optimizers of Keras 2 take losses of a graph."""
    if kerases.KERAS2.package not in sys.modules:
        yield
        return
    library = kerases.KERAS2.library()
    newer, legacy = library.optimizers.Optimizer, library.optimizers.legacy.Optimizer
    swaps: list[Swap] = [(newer, "minimize", _in_graphs), (legacy, "minimize", _in_graphs)]
    # What they have not: there is nothing to put back.
    new: list[tuple[Any, str, Any]] = [
        (newer, "get_updates", updates),
        (library.layers.Layer, "get_updates_for", _updates_for),
        (library.layers.Layer, "get_losses_for", _losses_for),
    ]
    with keras2_models.as_in_functions(), swapped(swaps), contextlib.ExitStack() as stack:
        for owner, name, method in new:
            if not hasattr(owner, name):
                setattr(owner, name, method)
                stack.callback(delattr, owner, name)
        yield


def _updates_for(layer: Any, inputs: Any) -> list[tf.Operation]:
    """Nothing that the user has to see to: what layers assign runs with the step."""
    del layer, inputs
    return []


def _losses_for(layer: Any, inputs: Any) -> list[tf.Tensor]:
    """All of them as independent of the inputs: who asks, asks for both kinds and adds up."""
    return list(layer.losses) if inputs is None else []


def updates(optimizer: Any, loss: tf.Tensor, params: Sequence[tf.Variable]) -> list[tf.Operation]:
    """One op that applies the gradients of `loss`, in a list."""
    gradients = tf.gradients(loss, list(params))
    pairs = [(g, v) for g, v in zip(gradients, params, strict=True) if g is not None]
    return [tf.group(*applied(lambda: optimizer.apply_gradients(pairs)))]


def applied(apply: Callable[[], Any]) -> list[tf.Operation]:
    """The ops that `apply` adds to the graph and that change state."""
    graph = tf.compat.v1.get_default_graph()
    first_new = len(graph.get_operations())
    apply()
    return [op for op in graph.get_operations()[first_new:] if effects.changes_state(op)]


def _in_graphs(original: Callable[..., Any]) -> Callable[..., Any]:
    def minimize(self: Any, loss: Any, var_list: Any, *args: Any, **kwargs: Any) -> Any:
        tape = args or any(value is not None for value in kwargs.values())
        if tape or tf.executing_eagerly():
            return original(self, loss, var_list, *args, **kwargs)
        loss = loss() if callable(loss) else loss
        chosen = var_list() if callable(var_list) else var_list
        return updates(self, loss, list(chosen))[0]

    return minimize
