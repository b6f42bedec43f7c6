"""The model function of a Keras model: the model itself, run on the estimator's variables.

The model is not cloned. While the model function runs, the Keras variables of the model hold
variables of the estimator; afterwards they hold their own again. So training an estimator does
not change the model it was made from, and several estimators made from it do not meet.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

import tensorflow as tf

from estimand.bridge import keras_names
from estimand.bridge.loans import Loan
from estimand.core import tf_private
from estimand.core.errors import ConfigError, SpecError
from estimand.core.export_output import PredictOutput
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.engine.checkpoints.substitutes import Source, note_substitutes
from estimand.engine.minimize import minimize

_log = logging.getLogger("tensorflow")
_SERVING = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class KerasModelFn:
    """A compiled Keras model as a model function."""

    def __init__(
        self,
        model: Any,
        *,
        make_optimizer: Callable[[], Any],
        metric_names_map: Mapping[str, str] | None = None,
        export_outputs: Mapping[str, Any] | None = None,
        averaged_by: str | None = None,
        train_scope: str | None = None,
    ) -> None:
        self.model = model
        # In which variables of an optimizer such as `training/beta1_power` are made.
        self._train_scope = train_scope
        # The name of an optimizer that keeps moving averages of the weights.
        self._averaged_by = averaged_by
        self._make_optimizer = make_optimizer
        self._metric_names_map = metric_names_map
        self._export_outputs = export_outputs
        self._names: list[str] = []
        self._first_values: list[tf.Tensor] = []
        self._loan = Loan()
        # Known of a subclassed model once it has been called.
        self._takes_dict = True
        if is_built(model):
            self._remember()

    def _remember(self) -> None:
        """The weights as they are now; they share memory with the model's until it is trained."""
        with tf_private.eager_mode():
            self._first_values = [v.value.read_value() for v in self.model.variables]
        self._names = keras_names.variable_names(self.model)

    @property
    def first_values(self) -> dict[str, tf.Tensor]:
        """The weights to begin with, by name; none of a model that has not been called yet."""
        return dict(zip(self._names, self._first_values, strict=True))

    def begin_with(self, values: Mapping[str, tf.Tensor]) -> None:
        """These instead of what the model had when it was given."""
        self._first_values = list({**self.first_values, **values}.values())

    def __call__(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        with self._loan.joined():
            return self._called(features, labels, mode)

    def _called(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        features, weights = without_weights(features)
        inputs = keras_names.model_inputs(self.model, features)
        if not self._names:
            self._takes_dict = build(self.model, inputs)
            self._remember()
        if not self._takes_dict and isinstance(inputs, Mapping) and len(inputs) == 1:
            (inputs,) = inputs.values()  # as receivers give what was a bare tensor in training
        variables = self.model.variables
        with self._loan.holding(
            lambda: tf_private.keras_variables_on_loan(variables, self._names, self._first_values)
        ):
            return self._spec(inputs, labels, weights, mode)

    def _spec(self, inputs: Any, labels: Any, weights: Any, mode: str) -> EstimatorSpec:
        training = mode == ModeKeys.TRAIN
        outputs = call(self.model, inputs, training)
        predictions = keras_names.named_outputs(self.model, outputs)
        exported = exported_outputs(predictions, self._export_outputs)
        scaffold = None if training else self._take_averages()
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions, export_outputs=exported, scaffold=scaffold)
        labels = keras_names.model_labels(self.model, labels, outputs)
        weights = keras_names.model_weights(self.model, weights, outputs)
        parts = tf_private.CompiledParts(self.model)
        loss = parts.compute_loss(inputs, labels, outputs, weights, training)
        if training:
            return self._train_spec(loss, predictions, exported)
        # What each of several outputs contributes to the loss is no metric that anybody gave.
        losses = {f"{output}_loss" for output in keras_names.output_names(self.model) or ()}
        metrics = parts.update_metrics(labels, outputs, weights)
        metrics = renamed_metrics(metrics, self._metric_names_map, losses)
        return EstimatorSpec(
            mode,
            predictions,
            loss,
            eval_metric_ops=metrics,
            export_outputs=exported,
            scaffold=scaffold,
        )

    def _train_spec(
        self, loss: tf.Tensor, predictions: dict[str, Any], exported: dict[str, Any]
    ) -> EstimatorSpec:
        trainable = self.model.trainable_variables
        if not trainable:
            raise ConfigError(
                f"The Keras model {self.model.name!r} has no trainable variables: all of its "
                "layers are frozen. Leave at least one layer with trainable=True."
            )
        optimizer = self._make_optimizer()
        scope = self._train_scope
        with tf.name_scope(scope) if scope else contextlib.nullcontext():
            train_op = minimize(optimizer, loss, trainable)
        return EstimatorSpec(
            ModeKeys.TRAIN,
            predictions,
            loss,
            train_op,
            export_outputs=exported,
            scaffold=_continue_state(self.model.optimizer, optimizer),
        )

    def _take_averages(self) -> tf.compat.v1.train.Scaffold | None:
        """Where the optimizer averages weights, what it trains is not what the model is to be.

        Keras puts the averages in their place at the end of `fit`; here they are read instead of
        the weights, which training goes on with.
        """
        if self._averaged_by is None or tf.executing_eagerly():
            return None
        own_name: dict[str, str] = {}
        wanted: dict[str, tf.Variable] = {}
        for name, variable in zip(self._names, self.model.variables, strict=True):
            stored = name
            if variable.trainable:
                stored = f"{self._averaged_by}/{name.replace('/', '_')}_average"
                own_name[stored] = name
            wanted[stored] = variable.value
        step = tf.compat.v1.train.get_global_step()
        graph = tf.compat.v1.get_default_graph()

        def find(name: str, there: Collection[str]) -> Source | None:
            """A checkpoint of a training without averages has the weights alone."""
            return Source((own_name[name],)) if own_name.get(name) in there else None

        note_substitutes(graph, find)
        saver = tf.compat.v1.train.Saver({**wanted, "global_step": step})
        return tf.compat.v1.train.Scaffold(saver=saver)


def renamed_metrics(
    metrics: dict[str, Any], wanted: Mapping[str, str] | None, losses: Collection[str] = ()
) -> dict[str, Any]:
    """Metrics by the names that the user gives them; all have to be named but `losses`."""
    if not wanted:
        return metrics
    if left_out := [name for name in metrics if name not in wanted and name not in losses]:
        raise SpecError(
            "Invalid `metric_names_map`. The following keras model metric names:"
            f'"{left_out}" do not exist in the `metric_names_map` dictionary. '
            "Name every metric of the model in it."
        )
    if extra := [name for name in wanted if name not in metrics]:
        raise SpecError(
            "Invalid `metric_names_map`. There are unexpected keys in the `metric_names_map` "
            f"dictionary. Expected keys: {list(metrics)}, Received: {extra}"
        )
    return {wanted.get(name, name): metric for name, metric in metrics.items()}


def exported_outputs(
    predictions: dict[str, Any], wanted: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The signatures of an export: one of all predictions, and those that the user asks for."""
    result: dict[str, Any] = {_SERVING: PredictOutput(predictions)}
    for name, kind in (wanted or {}).items():
        if name not in predictions:
            raise keras_names.KeyMissingError(
                f"The list passed into export_outputs does not cover requested outputs keys "
                f"defined in the keras model.\n\tExpected keys: {set(predictions)}"
                f"\n\texport_outputs keys: {set(wanted or ())}"
                f"\n\tMissed keys: {{{name!r}}}"
            )
        result[name] = kind(predictions[name])
    return result


def without_weights(features: Any) -> tuple[Any, Any]:
    """Features and the weights of the samples: {'features': …, 'sample_weights': …} has both."""
    if isinstance(features, Mapping) and set(features) == {"features", "sample_weights"}:
        return features["features"], features["sample_weights"]
    return features, None


def call(model: Any, inputs: Any, training: bool) -> Any:
    """Call a model as its own `fit`, `evaluate` and `predict` do."""
    if tf_private.keras_takes_training(model):
        return model(inputs, training=training)
    return model(inputs)


def is_built(model: Any) -> bool:
    """Whether all variables are there; of a subclassed model one cannot know before a call."""
    return bool(model.built) and keras_names.input_names(model) is not None


def build(model: Any, inputs: Any) -> bool:
    """Let a model make ordinary variables of its own; whether it takes a dict of inputs."""
    import keras

    def symbol(tensor: Any) -> Any:
        shape = tensor.shape.as_list()
        sparse = isinstance(tensor, tf.SparseTensor)
        return keras.KerasTensor([None, *shape[1:]], tensor.dtype.name, sparse=sparse)

    symbols = tf.nest.map_structure(symbol, inputs)
    with tf_private.plain_variables():
        try:
            model(symbols)
        except Exception:  # whatever the model's own code raises
            if not isinstance(symbols, Mapping) or len(symbols) != 1:
                raise
            model(next(iter(symbols.values())))
            return False
    return isinstance(inputs, Mapping)


def _continue_state(old: Any, new: Any) -> tf.compat.v1.train.Scaffold | None:
    """A model that was trained before goes on with the state that its optimizer has reached."""
    if type(old) is not type(new) or not (old.built and new.built):
        return None
    with tf_private.eager_mode():
        if int(old.iterations.numpy()) == 0:
            return None
        values = [v.value.read_value() for v in old.variables]
    targets = [v.value for v in new.variables]
    if [v.shape for v in values] != [v.shape for v in targets]:
        return None  # other layers are trainable now

    def init_fn(scaffold: Any, session: Any) -> None:
        del scaffold, session
        for target, value in zip(targets, values, strict=True):
            target.load(value)

    return tf.compat.v1.train.Scaffold(init_fn=init_fn)
