"""What Keras 2 keeps to itself about whole models."""

from __future__ import annotations

import collections
import contextlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import tensorflow as tf

from estimand.core.interpreter.swapping import Swap, swapped
from estimand.core.tf_private.execution import eager_mode


@contextlib.contextmanager
def as_in_functions() -> Iterator[None]:
    """Layers and models made in the block are those of functions, not of TensorFlow 1 graphs.

    Keras 2 knows the graph of a trace by its name and takes it for one of those, but only in
    part: what `Input` makes there, such layers cannot be called with.
    """
    import tf_keras
    from tf_keras.src import backend
    from tf_keras.src.engine import base_layer_v1
    from tf_keras.src.utils import version_utils

    swaps: list[Swap] = [
        (base_layer_v1.Layer, "__reduce_ex__", _copied_as_it_is),
        (backend, "get_default_graph_uid_map", _counts_of_each_replica),
        (version_utils, "should_use_v2", lambda _: lambda: True),
        # Eagerly a model counts the batches of `fit`, which nobody calls here.
        (tf_keras.Model, "_init_batch_counters", lambda _: lambda self: None),
        (tf_keras.Sequential, "_build_graph_network_for_inferred_shape", _not_at_all),
        (tf_keras.Sequential, "build", _when_called),
    ]
    with swapped(swaps):
        yield


def inner_layers(model: Any) -> list[Any]:
    """All layers of a model, those within layers too, in the order of their making."""
    return list(model._flatten_layers(include_self=False))


def _copied_as_it_is(_: Any) -> Callable[..., Any]:
    """A copy of a layer that was made in a TensorFlow 1 graph is such a layer.

    Keras 2 turns its whole class into one of functions when an object is made in the block, and a
    copy is made without the attributes that those have.
    """
    return lambda self, protocol: (object.__new__, (type(self),), self.__getstate__())


def _counts_of_each_replica(_: Any) -> Callable[[], Any]:
    """Each replica is built in a thread of its own, and numbers its layers from the start.

    With one count for all of them, the layers of two replicas would be dense, dense_2, dense_4,
    and an evaluation with one replica would look for dense, dense_1, dense_2.
    """
    counts = threading.local()

    def of_this_thread() -> Any:
        by_graph = vars(counts).setdefault("by_graph", weakref.WeakKeyDictionary())
        return by_graph.setdefault(tf.compat.v1.get_default_graph(), collections.defaultdict(int))

    return of_this_thread


def _not_at_all(_: Any) -> Callable[..., None]:
    """A `Sequential` without an input shape names its variables `sequential/dense/kernel`.

    So it did in graphs; now it makes itself a functional model when it is called, in no scope.
    """
    return lambda self, *args, **kwargs: None


def _when_called(original: Any) -> Callable[..., None]:
    def build(self: Any, input_shape: Any = None) -> None:
        asked = sys._getframe(1).f_code.co_name != "_maybe_build"  # by the user
        if self._graph_initialized or input_shape is None or asked:
            original(self, input_shape)
        else:
            self._build_input_shape = tuple(input_shape)
            self.built = True

    return build


def trusting_lambdas() -> contextlib.AbstractContextManager[Any]:
    """Lambda layers made in the block may have a Python lambda: it is of this very process.

    Keras 2 is wary of lambdas because those of a file may be anybody's.
    """
    from tf_keras.src.saving.serialization_lib import SafeModeScope

    return cast("contextlib.AbstractContextManager[Any]", SafeModeScope(safe_mode=False))


def values_of(model: Any) -> list[Any]:
    """The weights as arrays, from the session of Keras if the model was made in a graph."""
    graphs = [weight.graph for weight in model.weights if weight._in_graph_mode]
    with graphs[0].as_default() if graphs else eager_mode():
        return list(model.get_weights())


def without_wrapper(optimizer: Any) -> Any:
    """The optimizer of TensorFlow 1 that `compile` was given, which Keras 2 wraps up."""
    from tf_keras.src.optimizers.optimizer_v1 import TFOptimizer

    return optimizer.optimizer if isinstance(optimizer, TFOptimizer) else optimizer


def optimizer_maker(optimizer: Any) -> Callable[[], Any]:
    """A function that makes optimizers of the older family, whose state has the older names.

    One that has no counterpart there, or settings that it did not have, is made as it is.
    """
    import tf_keras
    from tf_keras.src.optimizers import convert_to_legacy_optimizer

    with eager_mode():  # the settings are read now: inside a trace their values could not be
        rate = getattr(optimizer, "_learning_rate", None)
        if not isinstance(optimizer, tf_keras.optimizers.legacy.Optimizer):
            beyond = any(getattr(optimizer, name, None) for name in ("weight_decay", "use_ema"))
            with contextlib.suppress(ValueError, TypeError):
                optimizer = optimizer if beyond else convert_to_legacy_optimizer(optimizer)
        else:
            rate = optimizer._hyper.get("learning_rate")
        kind, config = type(optimizer), optimizer.get_config()
    if callable(rate) and not isinstance(rate, tf.Variable):
        config["learning_rate"] = rate  # the schedule itself: its class may be the user's own
    return lambda: kind.from_config(dict(config))


class Compiled:
    """What a model was compiled with, made anew for a model function to use."""

    def __init__(self, model: Any) -> None:
        if model.compiled_loss is not None:
            losses, metrics = model.compiled_loss, model.compiled_metrics
            self._losses = (losses._user_losses, losses._user_loss_weights)
            self._metrics = (metrics._user_metrics, metrics._user_weighted_metrics)
        else:  # compiled in a graph of TensorFlow 1
            self._losses = (model.loss, model.loss_weights)
            self._metrics = (model._compile_metrics, model._compile_weighted_metrics)

    def loss(self, model: Any, labels: Any, outputs: Any, weights: Any) -> tf.Tensor:
        """The loss of a batch, penalties of `model` included."""
        from tf_keras.src.engine.compile_utils import LossesContainer

        losses = LossesContainer(*self._losses, output_names=getattr(model, "output_names", None))
        total = losses(labels, outputs, weights, regularization_losses=model.losses)
        # Keras divides among replicas already, as does who trains with it.
        return total * float(tf.distribute.get_strategy().num_replicas_in_sync)

    def metrics(self, model: Any, labels: Any, outputs: Any, weights: Any) -> dict[str, Any]:
        """The metrics, updated with a batch."""
        from tf_keras.src.engine.compile_utils import MetricsContainer

        metrics = MetricsContainer(
            *map(_anew, self._metrics), output_names=getattr(model, "output_names", None)
        )
        metrics.update_state(labels, outputs, weights)
        return {metric.name: metric for metric in metrics.metrics}


def _anew(metrics: Any) -> Any:
    """Metric objects hold what they have counted elsewhere."""

    def copy(metric: Any) -> Any:
        if hasattr(metric, "update_state"):
            return type(metric).from_config(metric.get_config())
        return metric

    return tf.nest.map_structure(copy, metrics)


@contextlib.contextmanager
def starting_from(values: Mapping[str, Any]) -> Iterator[None]:
    """Variables made in the block start from the value that is there for their name."""

    def create(next_creator: Any, **kwargs: Any) -> tf.Variable:
        with tf.compat.v1.name_scope(kwargs.get("name"), "Variable") as scope:
            value = values.get(scope.rstrip("/"))
        if value is not None:
            kwargs["initial_value"] = value
        return next_creator(**kwargs)

    with contextlib.ExitStack() as stack:
        with tf.init_scope():
            stack.enter_context(tf.variable_creator_scope(create))
        stack.enter_context(tf.variable_creator_scope(create))
        yield
