"""Model functions of `tf.contrib.learn`, called as they were, and what they return.

Features and labels are given by position, so that they may have any names: `(x, y)`,
`(features, targets, mode, params)`. What comes back is a `ModelFnOps`, an `EstimatorSpec`, or a
tuple of predictions, loss and train_op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from estimand.compat.v1.contrib_modules.learn.keys import ModeKeys, PredictionKey, ProblemType
from estimand.core.errors import ModelFnError
from estimand.core.export_output import ClassificationOutput, PredictOutput, RegressionOutput
from estimand.core.spec import EstimatorSpec
from estimand.estimator.model_fn import argument_names, takes_any_keyword

_BY_KEYWORD = ("mode", "params", "config", "model_dir")
_DEFAULT_SIGNATURE = "serving_default"
_REGRESSION = (ProblemType.LINEAR_REGRESSION, ProblemType.LOGISTIC_REGRESSION)


class ModelFnOps(NamedTuple):
    """What a model function returns.

    `output_alternatives` maps names of signatures to pairs of a `ProblemType` and tensors by
    `PredictionKey`.
    """

    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metric_ops: Any = None
    output_alternatives: Any = None
    training_chief_hooks: Any = None
    training_hooks: Any = None
    scaffold: Any = None

    def estimator_spec(self, default_serving_output_alternative_key: str | None = None) -> Any:
        """The same as an EstimatorSpec; with a key, that signature is the default one."""
        outputs = None
        if self.mode == ModeKeys.INFER and self.output_alternatives:
            outputs = _export_outputs(
                self.output_alternatives, default_serving_output_alternative_key
            )
        return EstimatorSpec(
            self.mode,
            predictions=self.predictions,
            loss=self.loss,
            train_op=self.train_op,
            eval_metric_ops=_named(self.eval_metric_ops),
            export_outputs=outputs,
            training_chief_hooks=self.training_chief_hooks,
            training_hooks=self.training_hooks,
            scaffold=self.scaffold,
        )


def call(
    model_fn: Callable[..., Any],
    features: Any,
    labels: Any,
    mode: str,
    available: Mapping[str, Any],
) -> EstimatorSpec:
    """Call a model function; `available` has what it may take besides features, labels, mode."""
    names, anything = argument_names(model_fn), takes_any_keyword(model_fn)
    known = {"mode": mode, **available}
    given = {name: known[name] for name in known if name in names or anything}
    return as_spec(model_fn(features, labels, **given), mode)


def check(model_fn: Any, params: Any) -> None:
    """Raise if `model_fn` cannot be called so."""
    if not callable(model_fn):
        raise ModelFnError(
            f"model_fn of tf.contrib.learn.Estimator must be callable, given: {model_fn!r}."
        )
    names = argument_names(model_fn)
    if len([name for name in names if name not in _BY_KEYWORD]) < 2 and "labels" not in names:
        raise ModelFnError(
            f"model_fn ({model_fn}) takes {list(names)}. It is called with features and labels by "
            "position, and with those of mode, params, config, model_dir that it takes by name."
        )
    if params is not None and "params" not in names and not takes_any_keyword(model_fn):
        raise ModelFnError(
            f"model_fn ({model_fn}) takes no `params`, but params ({params}) are passed to "
            "Estimator. Add the argument to model_fn, or drop params."
        )


def as_spec(returned: Any, mode: str) -> EstimatorSpec:
    """What a model function returned, as the engine takes it."""
    if isinstance(returned, EstimatorSpec):
        return returned
    if isinstance(returned, ModelFnOps):
        return returned.estimator_spec()
    if isinstance(returned, tuple | list) and len(returned) == 3:
        return ModelFnOps(mode, *returned).estimator_spec()
    raise ModelFnError(
        f"model_fn returned {returned!r}. It has to return a tf.contrib.learn.ModelFnOps or a "
        "tuple (predictions, loss, train_op)."
    )


def _named(metrics: Any) -> Any:
    """Names of metrics were whatever a dict takes; a pair is named by its first half."""
    if not isinstance(metrics, Mapping):
        return metrics
    return {name[0] if isinstance(name, tuple) else name: one for name, one in metrics.items()}


def _export_outputs(alternatives: Mapping[str | None, Any], default: str | None) -> dict[str, Any]:
    outputs = {
        name or _DEFAULT_SIGNATURE: _export_output(kind, tensors)
        for name, (kind, tensors) in alternatives.items()
    }
    if _DEFAULT_SIGNATURE not in outputs:
        first = default if default in outputs else next(iter(outputs))
        outputs[_DEFAULT_SIGNATURE] = outputs[first]
    return outputs


def _export_output(kind: Any, tensors: Any) -> Any:
    if kind == ProblemType.CLASSIFICATION:
        classes = tensors.get(PredictionKey.CLASSES)
        scores = tensors.get(PredictionKey.PROBABILITIES, tensors.get(PredictionKey.SCORES))
        if classes is not None and classes.dtype != tf.string:
            classes = tf.strings.as_string(classes)
        if classes is not None or scores is not None:
            return ClassificationOutput(scores=scores, classes=classes)
    if kind in _REGRESSION and PredictionKey.SCORES in tensors:
        return RegressionOutput(tensors[PredictionKey.SCORES])
    return PredictOutput(tensors)
