"""The model function of a Keras 2 model: the model, made anew on the estimator's variables.

Variables have the names that `tf.estimator` 2.15 gave them, the optimizer's as well
(`training/Adam/dense/kernel/m`), so that its checkpoints continue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from estimand.bridge.keras_model_fn import exported_outputs, renamed_metrics, without_weights
from estimand.bridge.keras_names import check_keys
from estimand.core import tf_private
from estimand.core.errors import ConfigError
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.core.tf_private import kerases
from estimand.core.tf_private.kerases import keras2_models
from estimand.engine.minimize import minimize


class Keras2ModelFn:
    """A compiled Keras 2 model as a model function."""

    def __init__(
        self,
        model: Any,
        *,
        optimizer: Any = None,
        custom_objects: Mapping[str, Any] | None = None,
        metric_names_map: Mapping[str, str] | None = None,
        export_outputs: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        chosen = model.optimizer if optimizer is None else optimizer
        chosen = keras2_models.without_wrapper(chosen)
        self._of_keras = kerases.is_optimizer(chosen)
        make = keras2_models.optimizer_maker(chosen) if self._of_keras else lambda: chosen
        self._make_optimizer: Callable[[], Any] = make
        self._metric_names_map = metric_names_map
        self._export_outputs = export_outputs
        self._make = maker(model, custom_objects)
        self.first_values = values_by_name(model, self._make)

    def begin_with(self, values: Mapping[str, Any]) -> None:
        """These instead of what the model had when it was given."""
        self.first_values.update({name: value.numpy() for name, value in values.items()})

    def __call__(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        features, weights = without_weights(features)
        training = mode == ModeKeys.TRAIN
        with keras2_models.starting_from(self.first_values):
            model = self._make()
            outputs = model(_inputs(model, features), training=training)
        predictions = _named(model, outputs)
        exported = exported_outputs(predictions, self._export_outputs)
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions, export_outputs=exported)
        compiled = keras2_models.Compiled(self.model)
        loss = compiled.loss(model, labels, outputs, weights)
        if training:
            train_op = self._train_op(model, loss)
            return EstimatorSpec(mode, predictions, loss, train_op, export_outputs=exported)
        metrics = compiled.metrics(model, labels, outputs, weights)
        return EstimatorSpec(
            mode,
            predictions,
            loss,
            eval_metric_ops=renamed_metrics(metrics, self._metric_names_map),
            export_outputs=exported,
        )

    def _train_op(self, model: Any, loss: tf.Tensor) -> Any:
        optimizer = self._make_optimizer()
        if self._of_keras:
            optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
        with tf.name_scope("training/"):
            return minimize(optimizer, loss, model.trainable_weights)


def maker(model: Any, custom_objects: Mapping[str, Any] | None) -> Callable[[], Any]:
    """A function that makes a model like this one, with variables of its own."""
    import tf_keras

    try:
        config = model.get_config()
    except NotImplementedError:
        raise ConfigError(
            f"The Keras 2 model {type(model).__name__} has no get_config(), and cannot be made "
            "anew on an estimator's variables. Give it one, or call the model in a model_fn of "
            "your own and train it with est.minimize."
        ) from None
    objects = dict(custom_objects or {})
    flags = [layer.trainable for layer in keras2_models.inner_layers(model)]

    def make() -> Any:
        with tf_keras.utils.custom_object_scope(objects), keras2_models.trusting_lambdas():
            made = type(model).from_config(dict(config))
        for layer, trainable in zip(keras2_models.inner_layers(made), flags, strict=False):
            layer.trainable = trainable
        return made

    return make


def values_by_name(model: Any, make: Callable[[], Any]) -> dict[str, Any]:
    """The weights of a model by the names that they have in an estimator."""
    if not model.built:
        return {}
    with tf.Graph().as_default(), tf_private.eager_mode():
        names = [weight.name.split(":")[0] for weight in make().weights]
    values = keras2_models.values_of(model)
    return dict(zip(names, values, strict=True)) if len(names) == len(values) else {}


def _inputs(model: Any, features: Any) -> Any:
    names = getattr(model, "input_names", None)
    if not isinstance(features, Mapping) or not names:
        return features
    if len(names) == 1 and len(features) == 1:
        return next(iter(features.values()))  # as receivers give what was a bare tensor
    check_keys(names, features, "features", "inputs")
    return {name: features[name] for name in names}


def _named(model: Any, outputs: Any) -> dict[str, Any]:
    if isinstance(outputs, Mapping):
        return dict(outputs)
    flat = tf.nest.flatten(outputs)
    names = getattr(model, "output_names", None) or [f"output_{i + 1}" for i in range(len(flat))]
    return dict(zip(names, flat, strict=True))
