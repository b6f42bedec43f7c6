"""`tf.contrib.learn.Estimator` and `SKCompat`: the verbs of scikit-learn, on an Estimator."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

import numpy as np
import tensorflow as tf

from estimand.compat.v1.contrib_modules.learn import exporting, feeding, model_fn, monitors
from estimand.compat.v1.contrib_modules.learn.metric_spec import metric_ops
from estimand.compat.v1.old_estimator import Estimator as OldEstimator
from estimand.core.errors import ConfigError, InputError
from estimand.core.errors import NoCheckpointError as NotFittedError
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec

__all__ = ["Estimator", "FitsArrays", "NotFittedError", "SKCompat"]

v1 = tf.compat.v1
_InputFn = Callable[..., Any]


class FitsArrays(OldEstimator):
    """What all estimators of contrib.learn share: `fit`, and the older forms of the others."""

    # Evaluating with metrics of one's own takes a graph of its own, made once.
    _measured: tuple[Any, Any] | None = None

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: _InputFn | None = None,
        steps: int | None = None,
        batch_size: int | None = None,
        monitors: Any = None,
        max_steps: int | None = None,
    ) -> Self:
        """Train on arrays, shuffled, or on what `input_fn` gives."""
        read = _reader(x, y, input_fn, batch_size, shuffle=True, endless=True)
        self.train(read, hooks=self._hooks(monitors), steps=steps, max_steps=max_steps)
        return self

    def partial_fit(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: _InputFn | None = None,
        steps: int | None = 1,
        batch_size: int | None = None,
        monitors: Any = None,
    ) -> Self:
        """One step more, or some."""
        return self.fit(x, y, input_fn, steps, batch_size, monitors)

    def evaluate(  # type: ignore[override]
        self,
        x: Any = None,
        y: Any = None,
        input_fn: _InputFn | None = None,
        feed_fn: Any = None,
        batch_size: int | None = None,
        steps: int | None = None,
        metrics: Mapping[Any, Any] | None = None,
        name: str | None = None,
        checkpoint_path: str | None = None,
        hooks: Iterable[Any] | None = None,
        log_progress: bool = True,
    ) -> dict[str, Any]:
        """Metrics over arrays, or over what `input_fn` gives; `metrics` are added to the model's.

        Each of them is a `MetricSpec`, or a function of predictions and labels.
        """
        del log_progress
        if feed_fn is not None:
            raise ConfigError(
                "evaluate(feed_fn=...) is not offered: nothing is fed. Give x and y, or input_fn."
            )
        read = _reader(x, y, input_fn, batch_size, shuffle=False, endless=False)
        measured = self._with_metrics(metrics) if metrics else self
        return OldEstimator.evaluate(
            measured,
            read,
            steps=steps,
            hooks=list(hooks or ()),
            checkpoint_path=checkpoint_path,
            name=name,
        )

    def score(self, x: Any, y: Any, **settings: Any) -> dict[str, Any]:
        """`evaluate` under the name that scikit-learn has for it."""
        return self.evaluate(x, y, **settings)

    def predict(  # type: ignore[override]
        self,
        x: Any = None,
        input_fn: _InputFn | None = None,
        batch_size: int | None = None,
        outputs: Any = None,
        as_iterable: bool = True,
        iterate_batches: bool = False,
    ) -> Any:
        """Predictions row by row; with `as_iterable=False` as arrays.

        These are of all rows of `x`, and of the first batch of `input_fn`, which may have no end.
        `outputs` are the keys of those that are wanted.
        """
        read = _reader(x, None, input_fn, batch_size, shuffle=False, endless=False)
        answers = OldEstimator.predict(
            self,
            read,
            predict_keys=outputs,
            yield_single_examples=as_iterable and not iterate_batches,
        )
        if as_iterable:
            return answers
        return _together(answers if input_fn is None else itertools.islice(answers, 1))

    def export_savedmodel(  # type: ignore[override]
        self,
        export_dir_base: str | os.PathLike[str],
        serving_input_fn: Callable[[], Any],
        default_output_alternative_key: str | None = None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        graph_rewrite_specs: Any = None,
        strip_default_attrs: bool = False,
    ) -> bytes:
        """A SavedModel of what `serving_input_fn` gives, `InputFnOps` or a receiver."""
        del graph_rewrite_specs, default_output_alternative_key
        return self.export_saved_model(
            export_dir_base,
            exporting.receiver_fn(serving_input_fn),
            assets_extra=assets_extra,
            as_text=as_text,
            checkpoint_path=checkpoint_path,
            strip_default_attrs=strip_default_attrs,
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What it was made with, as scikit-learn asks for it."""
        del deep
        return dict(self._made_with)

    def _hooks(self, given: Any) -> list[Any]:
        listed = [given] if isinstance(given, monitors.BaseMonitor) else list(given or ())
        return monitors.replace_monitors_with_hooks(listed, self)

    def _with_metrics(self, metrics: Mapping[Any, Any]) -> Any:
        """The same estimator, measuring more; the same each time for the same metrics."""
        asked = tuple((name, metric) for name, metric in metrics.items())
        if self._measured is None or self._measured[0] != asked:
            self._measured = asked, self._with_model_fn(self._measuring(metrics))
        return self._measured[1]

    def _measuring(self, metrics: Mapping[Any, Any]) -> Callable[..., EstimatorSpec]:
        def measured(features: Any, labels: Any, mode: str, config: Any = None) -> EstimatorSpec:
            spec = self._call_model_fn(features, labels, mode, config)
            if mode != ModeKeys.EVAL:
                return spec
            more = metric_ops(metrics, features, labels, spec.predictions)
            return spec._replace(eval_metric_ops={**(spec.eval_metric_ops or {}), **more})

        return measured


class Estimator(FitsArrays):
    """An Estimator with a model function of contrib.learn.

    Args:
      model_fn: takes features and labels by position, under any names, and those of mode, params,
        config, model_dir that it names; returns `ModelFnOps` or (predictions, loss, train_op).
      model_dir: where checkpoints and event files live; training continues from there.
      config: a RunConfig.
      params: handed to model_fn.
      feature_engineering_fn: called with features and labels first; gives those of model_fn.
    """

    _takes_labels_to_predict = True

    def __init__(
        self,
        model_fn: Callable[..., Any] | None = None,
        model_dir: str | os.PathLike[str] | None = None,
        config: Any = None,
        params: Any = None,
        feature_engineering_fn: Callable[..., Any] | None = None,
    ) -> None:
        _check_model_fn(model_fn, params)
        self._of_learn = model_fn
        self._engineered = feature_engineering_fn or _as_they_are
        self._label_spec: Any = None
        stand_in = _without_params if params is None else _with_params
        super().__init__(stand_in, model_dir, config, params)

    def _call_model_fn(
        self, features: Any, labels: Any, mode: str, config: Any = None
    ) -> EstimatorSpec:
        if labels is not None:
            self._label_spec = tf.nest.map_structure(tf.type_spec_from_value, labels)
        elif self._takes_labels_to_predict and self._label_spec is not None:
            # Model functions compute their loss in every mode, so they got labels in every mode.
            labels = _placeholders(self._label_spec)
        features, labels = self._engineered(features, labels)
        available = {
            "params": self.params,
            "config": config or self.config,
            "model_dir": self.model_dir,
        }
        assert self._of_learn is not None
        return model_fn.call(self._of_learn, features, labels, mode, available)


class SKCompat:
    """An estimator of contrib.learn as scikit-learn has them: arrays in, arrays out."""

    def __init__(self, estimator: FitsArrays) -> None:
        self._estimator = estimator

    def fit(
        self,
        x: Any,
        y: Any = None,
        batch_size: int | None = 128,
        steps: int | None = None,
        max_steps: int | None = None,
        monitors: Any = None,
    ) -> Self:
        """Train on arrays."""
        self._estimator.fit(
            x, y, batch_size=batch_size, steps=steps, max_steps=max_steps, monitors=monitors
        )
        return self

    def score(
        self,
        x: Any,
        y: Any,
        batch_size: int | None = 128,
        steps: int | None = None,
        metrics: Mapping[Any, Any] | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Metrics over arrays."""
        return self._estimator.evaluate(
            x, y, batch_size=batch_size, steps=steps, metrics=metrics, name=name
        )

    def predict(self, x: Any, batch_size: int | None = 128, outputs: Any = None) -> Any:
        """An array of predictions, or arrays by key."""
        return FitsArrays.predict(
            self._estimator, x, batch_size=batch_size, outputs=outputs, as_iterable=False
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the estimator was made with."""
        return self._estimator.get_params(deep)


def _check_model_fn(given: Any, params: Any) -> None:
    model_fn.check(given, params)


# They stand where an Estimator has its model function; `_call_model_fn` calls the real one.


def _without_params(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
    raise NotImplementedError("A model function of contrib.learn is called by its estimator.")


def _with_params(features: Any, labels: Any, mode: str, params: Any, config: Any) -> EstimatorSpec:
    raise NotImplementedError("A model function of contrib.learn is called by its estimator.")


def _as_they_are(features: Any, labels: Any) -> tuple[Any, Any]:
    return features, labels


def _reader(
    x: Any,
    y: Any,
    input_fn: _InputFn | None,
    batch_size: int | None,
    *,
    shuffle: bool,
    endless: bool,
) -> _InputFn:
    if input_fn is None:
        if x is None:
            raise InputError("Either x or input_fn must be provided.")
        return feeding.input_fn_of(x, y, batch_size, shuffle=shuffle, endless=endless)
    if x is not None or y is not None or batch_size is not None:
        raise InputError(
            "x, y and batch_size must be None if input_fn is given: it says what is read."
        )
    return input_fn


def _placeholders(spec: Any) -> Any:
    def placeholder(one: Any) -> Any:
        if isinstance(one, tf.SparseTensorSpec):
            return v1.sparse_placeholder(one.dtype, one.shape)
        return v1.placeholder(one.dtype, one.shape)

    return tf.nest.map_structure(placeholder, spec)


def _together(batches: Iterator[Any]) -> Any:
    """All batches as arrays."""
    listed = list(batches)
    if not listed:
        return np.zeros([0])
    if isinstance(listed[0], Mapping):
        return {key: np.concatenate([batch[key] for batch in listed]) for key in listed[0]}
    return np.concatenate(listed)
