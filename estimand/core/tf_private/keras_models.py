"""What Keras keeps to itself about whole models: needed to run one on variables of our own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import ResourceVariable


@contextlib.contextmanager
def keras_variables_on_loan(
    variables: Sequence[Any], paths: Sequence[str], values: Sequence[Any]
) -> Iterator[None]:
    """Give Keras variables, for the block, paths and TensorFlow variables made by who is in charge.

    Keras offers no way to run a layer on other variables than its own while assignments,
    optimizers and gradients work as always; its stateless calls do not under TensorFlow.
    """
    own = [(v._value, v._path) for v in variables]
    try:
        for variable, path, value in zip(variables, paths, values, strict=True):
            variable._path = path
            # Makes a tf.Variable with this initial value, which the creator in charge may replace.
            variable._initialize(value)
        yield
    finally:
        for variable, (value, path) in zip(variables, own, strict=True):
            variable._value, variable._path = value, path


@contextlib.contextmanager
def plain_variables() -> Iterator[None]:
    """Variables made eagerly in the block are ordinary ones, whoever else is in charge."""

    def create(next_creator: Any, **kwargs: Any) -> tf.Variable:
        del next_creator
        kwargs = {k: v for k, v in kwargs.items() if k in _VARIABLE_ARGUMENTS}
        return ResourceVariable(**kwargs)

    with tf.init_scope(), tf.variable_creator_scope(create):
        yield


_VARIABLE_ARGUMENTS = (
    "initial_value",
    "trainable",
    "name",
    "dtype",
    "constraint",
    "synchronization",
    "aggregation",
    "shape",
)


def keras_kind(thing: Any) -> str:
    """What Keras makes the name of a layer or an optimizer from, if it is not given one."""
    from keras.src.utils.naming import to_snake_case

    return to_snake_case(type(thing).__name__)


def keras_variables_by_place(model: Any) -> list[tuple[tuple[str, ...], Any]]:
    """The variables of a model in the order of `model.variables`, with the layers they are in.

    A variable's own path tells in which scope it happened to be built, which differs between a
    model that was written down and the same one read from a file.
    """
    place_of: dict[int, tuple[str, ...]] = {}

    def walk(layer: Any, inside: tuple[str, ...]) -> None:
        for variable in layer._trainable_variables + layer._non_trainable_variables:
            place_of.setdefault(id(variable), (*inside, variable.name))
        for generator in layer._seed_generators:
            place_of.setdefault(id(generator.state), (*inside, generator.state.name))
        for inner in layer._layers:
            walk(inner, (*inside, inner.name))

    walk(model, ())
    return [(place_of.get(id(v), tuple(v.path.split("/"))), v) for v in model.variables]


def keras_layers(model: Any) -> list[Any]:
    """All layers of a model at any depth, in its order; `model.layers` has only the outermost."""
    layers: dict[int, Any] = {}

    def walk(layer: Any) -> None:
        for inner in layer._layers:
            if id(inner) not in layers:
                layers[id(inner)] = inner
                walk(inner)

    walk(model)
    return list(layers.values())


class CompiledParts:
    """Fresh copies of what a model was compiled with, and the model using them for a while.

    A compiled loss and compiled metrics are built once, with variables; every trace needs its
    own. Keras keeps what it was given, and builds the rest, in places that are not public.
    """

    def __init__(self, model: Any) -> None:
        from keras.src.trainers.compile_utils import CompileLoss, CompileMetrics

        self._model = model
        self.loss = self.metrics = None
        given = model._compile_loss
        if given is not None:
            self.loss = CompileLoss(
                given._user_loss, given._user_loss_weights, output_names=given.output_names
            )
        counted = model._compile_metrics
        if counted is not None:
            self.metrics = CompileMetrics(
                _fresh(counted._user_metrics),
                _fresh(counted._user_weighted_metrics),
                output_names=counted.output_names,
            )

    def compute_loss(self, x: Any, y: Any, y_pred: Any, weights: Any, training: bool) -> tf.Tensor:
        """`model.compute_loss`, overridden ones included, on the fresh compiled loss."""
        model = self._model
        own = model.__dict__.get("_compile_loss")
        # Past the model's __setattr__, which would begin to track what it is given.
        model.__dict__["_compile_loss"] = self.loss
        try:
            return model._compute_loss(x, y, y_pred, weights, training=training)
        finally:
            model.__dict__["_compile_loss"] = own

    def update_metrics(self, y: Any, y_pred: Any, weights: Any) -> dict[str, Any]:
        """Count this batch; the metrics by the names that `model.evaluate` would give them."""
        named: dict[str, Any] = {}
        if self.metrics is not None:
            self.metrics.update_state(y, y_pred, weights)
            for group in self.metrics._flat_metrics:
                _add_named(named, group, "")
            for group in self.metrics._flat_weighted_metrics:
                _add_named(named, group, "weighted_")
        for metric in self.loss.metrics if self.loss is not None else ():
            named.setdefault(metric.name, metric)
        return named


def _add_named(named: dict[str, Any], group: Any, prefix_if_taken: str) -> None:
    if not group:
        return
    of_output = f"{group.output_name}_" if group.output_name else ""
    for metric in group.metrics:
        name = of_output + metric.name
        if name in named:
            name = f"{of_output}{prefix_if_taken}{metric.name}"
        wanted, count = name, 1
        while name in named:
            name, count = f"{wanted}_{count}", count + 1
        named[name] = metric


def _fresh(metrics: Any) -> Any:
    """The same metrics, uncounted; one that cannot tell its config is used as it is."""
    import keras

    def copy(metric: Any) -> Any:
        if not isinstance(metric, keras.metrics.Metric):
            return metric
        try:
            return type(metric).from_config(metric.get_config())
        except (TypeError, ValueError, NotImplementedError):
            return metric

    return keras.tree.map_structure(copy, metrics)


def keras_takes_training(model: Any) -> bool:
    """Whether `model.call` has a `training` argument, which may then be given."""
    return bool(model._call_has_training_arg)
