"""What a model offers for serving: one `ExportOutput` per signature."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimand.core import metric_objects
from estimand.core.errors import SpecError

_SEPARATOR = "/"


class ExportOutput(abc.ABC):
    """An output that can be served; subclass it for a signature of your own."""

    @abc.abstractmethod
    def as_signature_def(self, receiver_tensors: Mapping[str, tf.Tensor]) -> Any:
        """The `SignatureDef` that leads from `receiver_tensors` to this output."""


class PredictOutput(ExportOutput):
    """Any tensors by name; a bare tensor is named `output`.

    A tuple as key, as models of several heads use them, is joined with `/`.

    >>> PredictOutput({("head", "logits"): tf.zeros([2])}).outputs.keys()
    dict_keys(['head/logits'])
    """

    def __init__(self, outputs: tf.Tensor | Mapping[Any, tf.Tensor]) -> None:
        self._outputs = _named_tensors(outputs, "output", "Prediction")

    @property
    def outputs(self) -> dict[str, tf.Tensor]:
        return self._outputs

    def as_signature_def(self, receiver_tensors: Mapping[str, tf.Tensor]) -> Any:
        if not self._outputs:
            raise SpecError("Prediction `outputs` cannot be None or empty.")
        return _signature(receiver_tensors, self._outputs, tf.saved_model.PREDICT_METHOD_NAME)


class ClassificationOutput(ExportOutput):
    """Scores per class, or string labels, or both side by side.

    Scores alone are read in order of class index; classes alone as the best ones in falling
    order. The signature takes serialized examples: it needs one string receiver.

    >>> ClassificationOutput(scores=tf.constant([[0.1, 0.9]])).classes is None
    True
    """

    def __init__(self, scores: tf.Tensor | None = None, classes: tf.Tensor | None = None) -> None:
        if scores is not None and not _is_float_tensor(scores):
            raise SpecError(f"Classification scores must be a float32 Tensor; got {scores}")
        if classes is not None and not _is_string_tensor(classes):
            raise SpecError(
                f"Classification classes must be a string Tensor; got {classes}. "
                "Turn class indices into labels with tf.strings.as_string."
            )
        if scores is None and classes is None:
            raise SpecError(
                "Cannot create a ClassificationOutput with empty arguments. "
                "At least one of `scores` and `classes` must be defined."
            )
        self._scores = scores
        self._classes = classes

    @property
    def scores(self) -> tf.Tensor | None:
        return self._scores

    @property
    def classes(self) -> tf.Tensor | None:
        return self._classes

    def as_signature_def(self, receiver_tensors: Mapping[str, tf.Tensor]) -> Any:
        examples = _only_string_receiver(receiver_tensors, "Classification")
        outputs = {
            tf.saved_model.CLASSIFY_OUTPUT_CLASSES: self._classes,
            tf.saved_model.CLASSIFY_OUTPUT_SCORES: self._scores,
        }
        return _signature(
            {tf.saved_model.CLASSIFY_INPUTS: examples},
            {key: tensor for key, tensor in outputs.items() if tensor is not None},
            tf.saved_model.CLASSIFY_METHOD_NAME,
        )


class RegressionOutput(ExportOutput):
    """A predicted number per example; like classification it takes serialized examples.

    >>> RegressionOutput(tf.constant([0.5])).value.shape.rank
    1
    """

    def __init__(self, value: tf.Tensor) -> None:
        if not _is_float_tensor(value):
            raise SpecError(f"Regression output value must be a float32 Tensor; got {value}")
        self._value = value

    @property
    def value(self) -> tf.Tensor:
        return self._value

    def as_signature_def(self, receiver_tensors: Mapping[str, tf.Tensor]) -> Any:
        examples = _only_string_receiver(receiver_tensors, "Regression")
        return _signature(
            {tf.saved_model.REGRESS_INPUTS: examples},
            {tf.saved_model.REGRESS_OUTPUTS: self._value},
            tf.saved_model.REGRESS_METHOD_NAME,
        )


class _SupervisedOutput(ExportOutput):
    """Loss, predictions and metrics together: the graph of training or evaluation itself."""

    LOSS_NAME = "loss"
    PREDICTIONS_NAME = "predictions"
    METRICS_NAME = "metrics"
    METRIC_VALUE_SUFFIX = "value"
    METRIC_UPDATE_SUFFIX = "update_op"
    _method_name: str

    def __init__(
        self,
        loss: tf.Tensor | Mapping[Any, tf.Tensor] | None = None,
        predictions: tf.Tensor | Mapping[Any, tf.Tensor] | None = None,
        metrics: Any = None,
    ) -> None:
        self._loss = _prefixed_tensors(loss, self.LOSS_NAME)
        self._predictions = _prefixed_tensors(predictions, self.PREDICTIONS_NAME)
        self._metrics = None if metrics is None else self._metric_tensors(metrics)

    @property
    def loss(self) -> dict[str, tf.Tensor] | None:
        return self._loss

    @property
    def predictions(self) -> dict[str, tf.Tensor] | None:
        return self._predictions

    @property
    def metrics(self) -> dict[str, tf.Tensor] | None:
        return self._metrics

    def as_signature_def(self, receiver_tensors: Mapping[str, tf.Tensor]) -> Any:
        outputs: dict[str, tf.Tensor] = {}
        for part in (self._loss, self._predictions, self._metrics):
            outputs.update(part or {})
        return _signature(receiver_tensors, outputs, self._method_name)

    def _metric_tensors(self, metrics: Any) -> dict[str, tf.Tensor]:
        by_name = metrics if isinstance(metrics, dict) else {self.METRICS_NAME: metrics}
        tensors = {}
        for given_key, metric in by_name.items():
            key = _prefixed(_checked_key(given_key, self.METRICS_NAME), self.METRICS_NAME)
            value, update = _value_and_update(metric)
            if not isinstance(value, tf.Tensor):
                raise SpecError(f"{key} output value must be a Tensor; got {value}.")
            if not (tf.is_tensor(update) or isinstance(update, tf.Operation)):
                raise SpecError(f"{key} update_op must be a Tensor or Operation; got {update}.")
            tensors[f"{key}{_SEPARATOR}{self.METRIC_VALUE_SUFFIX}"] = value
            tensors[f"{key}{_SEPARATOR}{self.METRIC_UPDATE_SUFFIX}"] = _as_tensor(update)
        return tensors


class TrainOutput(_SupervisedOutput):
    """The training graph, for `experimental_export_all_saved_models`.

    >>> TrainOutput(loss=tf.constant(1.0)).loss.keys()
    dict_keys(['loss'])
    """

    _method_name = "tensorflow/supervised/training"


class EvalOutput(_SupervisedOutput):
    """The evaluation graph, for `experimental_export_all_saved_models`.

    >>> EvalOutput(predictions={"age": tf.constant([30.0])}).predictions.keys()
    dict_keys(['predictions/age'])
    """

    _method_name = "tensorflow/supervised/eval"


def _named_tensors(outputs: Any, default_name: str, label: str) -> dict[str, tf.Tensor]:
    by_name = outputs if isinstance(outputs, dict) else {default_name: outputs}
    checked = {}
    for given_key, value in by_name.items():
        key = _checked_key(given_key, label)
        if not isinstance(value, tf.Tensor):
            raise SpecError(f"{label} output value must be a Tensor; got {value}.")
        checked[key] = value
    return checked


def _prefixed_tensors(outputs: Any, name: str) -> dict[str, tf.Tensor] | None:
    if outputs is None:
        return None
    tensors = _named_tensors(outputs, name, name)
    return {_prefixed(key, name): value for key, value in tensors.items()}


def _checked_key(key: Any, label: str) -> str:
    if isinstance(key, tuple) and all(isinstance(part, str) for part in key):
        return _SEPARATOR.join(key)
    if not isinstance(key, str):
        raise SpecError(f"{label} output key must be a string; got {key}.")
    return key


def _prefixed(key: str, prefix: str) -> str:
    return key if key.startswith(prefix) else f"{prefix}{_SEPARATOR}{key}"


def _value_and_update(metric: Any) -> tuple[Any, Any]:
    if not metric_objects.is_metric(metric):
        value, update = metric
        return value, update
    operations = metric_objects.update_operations(metric)
    if not operations:
        raise SpecError(
            f'Please call update_state(...) on the "{metric.name}" metric in the model function.'
        )
    return metric.result(), tf.group(*operations)


def _as_tensor(update: Any) -> tf.Tensor:
    """Signatures hold tensors only: an operation becomes an empty one that depends on it."""
    if isinstance(update, tf.Tensor):
        return update
    with tf.control_dependencies([update]):
        return tf.constant([], name="metric_op_wrapper")


def _only_string_receiver(receivers: Mapping[str, tf.Tensor], label: str) -> tf.Tensor:
    tensors = list(receivers.values())
    if len(tensors) != 1 or not _is_string_tensor(tensors[0]):
        raise SpecError(
            f"{label} signatures can only accept a single tensor input of type tf.string. "
            "Please check to make sure that you have structured the serving_input_receiver_fn so "
            "that it creates a single string placeholder. If your model function expects "
            "multiple inputs, then use `tf.io.parse_example()` to parse the string into multiple "
            f"tensors.\n Received: {receivers}"
        )
    return tensors[0]


def _is_float_tensor(value: Any) -> bool:
    return isinstance(value, tf.Tensor) and value.dtype.is_floating


def _is_string_tensor(value: Any) -> bool:
    return isinstance(value, tf.Tensor) and value.dtype == tf.string


def _signature(
    inputs: Mapping[str, tf.Tensor], outputs: Mapping[str, tf.Tensor], method_name: str
) -> Any:
    if not inputs:
        raise SpecError(f"{method_name} `inputs` cannot be None or empty.")
    return tf.compat.v1.saved_model.build_signature_def(
        {key: _tensor_info(tensor) for key, tensor in inputs.items()},
        {key: _tensor_info(tensor) for key, tensor in outputs.items()},
        method_name,
    )


def _tensor_info(tensor: Any) -> Any:
    if not isinstance(tensor, tf.Tensor):
        return tf.compat.v1.saved_model.build_tensor_info(
            tensor
        )  # Sparse, which it can take apart.
    # The same by hand for the rest: the function logs a deprecation at every first use.
    return tf.compat.v1.TensorInfo(
        name=tensor.name,
        dtype=tensor.dtype.as_datatype_enum,
        tensor_shape=tensor.shape.as_proto(),
    )
