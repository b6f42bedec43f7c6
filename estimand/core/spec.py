"""What a `model_fn` returns, and what `train_and_evaluate` is told to do."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from estimand.core import spec_checks as checks
from estimand.core.errors import SpecError, SpecTypeError
from estimand.core.modes import ModeKeys

_SPEC_HOOKS = "All hooks must be SessionRunHook instances"
_RUN_HOOKS = "All hooks must be `SessionRunHook` instances"


class _EstimatorSpecFields(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: Any
    export_outputs: Any
    training_chief_hooks: Any
    training_hooks: Any
    scaffold: Any
    evaluation_hooks: Any
    prediction_hooks: Any


class EstimatorSpec(_EstimatorSpecFields):
    """What a `model_fn` built: checked when made, so mistakes show at the line that made them.

    TRAIN needs `loss` and `train_op`, EVAL needs `loss`, PREDICT needs `predictions`. Anything
    else may be given in any mode and is ignored where it has no use, so a `model_fn` may build
    everything in all modes.

    Args:
      mode: the one that `model_fn` was called with.
      predictions: a tensor, or tensors by name.
      loss: a scalar tensor.
      train_op: what a step of training runs, as `est.minimize` makes it.
      eval_metric_ops: metrics by name: Keras metrics, or v1 pairs of value and update op.
      export_outputs: signatures of an export, by name; None: the predictions.
      training_chief_hooks: hooks of the process that writes checkpoints.
      training_hooks: hooks of training.
      scaffold: a v1 Scaffold: initialization, tables, saver.
      evaluation_hooks: hooks of evaluation.
      prediction_hooks: hooks of prediction.

    >>> spec = EstimatorSpec("infer", predictions={"age": tf.constant([30.0])})
    >>> list(spec.export_outputs)
    ['serving_default']
    >>> EstimatorSpec("eval", predictions={"age": tf.constant([30.0])})
    Traceback (most recent call last):
        ...
    estimand.core.errors.SpecError: Missing loss. In mode 'eval' EstimatorSpec needs loss=...
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: tf.Tensor | dict[Any, tf.Tensor] | None = None,
        loss: tf.Tensor | None = None,
        train_op: tf.Operation | tf.Tensor | None = None,
        eval_metric_ops: dict[str, Any] | None = None,
        export_outputs: dict[str, Any] | None = None,
        training_chief_hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        training_hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        scaffold: tf.compat.v1.train.Scaffold | None = None,
        evaluation_hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        prediction_hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
    ) -> EstimatorSpec:
        # In this order complaints come out, so the one about the step itself is the first.
        mode = checks.checked_mode(mode)
        if train_op is None and loss is None and mode == ModeKeys.TRAIN:
            raise checks.neither_loss_nor_train_op()
        checked_train_op = checks.checked_train_op(train_op, mode)
        checked_loss = checks.checked_loss(loss, mode)
        checked_predictions = checks.checked_predictions(predictions, mode)
        return super().__new__(
            cls,
            mode=mode,
            predictions=checked_predictions,
            loss=checked_loss,
            train_op=checked_train_op,
            eval_metric_ops=checks.checked_eval_metric_ops(eval_metric_ops),
            export_outputs=checks.checked_export_outputs(export_outputs, checked_predictions, mode),
            training_chief_hooks=checks.checked_hooks(training_chief_hooks, _SPEC_HOOKS),
            training_hooks=checks.checked_hooks(training_hooks, _SPEC_HOOKS),
            scaffold=checks.checked_scaffold(scaffold),
            evaluation_hooks=checks.checked_hooks(evaluation_hooks, _SPEC_HOOKS),
            prediction_hooks=checks.checked_hooks(prediction_hooks, _SPEC_HOOKS),
        )

    def _replace(self, **kwds: Any) -> EstimatorSpec:
        """A checked copy with the given fields changed; the mode stays."""
        if kwds.get("mode", self.mode) != self.mode:
            raise SpecError(
                "mode of EstimatorSpec cannot be changed. "
                f"It is {self.mode!r}, given: {kwds['mode']!r}."
            )
        return _remade(self, kwds)


class _TrainSpecFields(NamedTuple):
    input_fn: Callable[..., Any]
    max_steps: int | None
    hooks: tuple[Any, ...]
    saving_listeners: tuple[Any, ...]


class TrainSpec(_TrainSpecFields):
    """The training half of `train_and_evaluate`.

    `max_steps` is absolute, counted from the first start; None trains to the end of the input.

    Args:
      input_fn: gives the batches to train on.
      max_steps: the global step to train to; None: to the end of the input.
      hooks: hooks of training.
      saving_listeners: what is called around each checkpoint.

    >>> TrainSpec(input_fn=lambda: None, max_steps=1000).max_steps
    1000
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        max_steps: int | None = None,
        hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        saving_listeners: Iterable[tf.compat.v1.train.CheckpointSaverListener] | None = None,
    ) -> TrainSpec:
        return super().__new__(
            cls,
            input_fn=_callable(input_fn),
            max_steps=_steps(max_steps, "max_steps"),
            hooks=checks.checked_hooks(hooks, _RUN_HOOKS),
            saving_listeners=checks.checked_listeners(saving_listeners),
        )

    def _replace(self, **kwds: Any) -> TrainSpec:
        return _remade(self, kwds)


class _EvalSpecFields(NamedTuple):
    input_fn: Callable[..., Any]
    steps: int | None
    name: str | None
    hooks: tuple[Any, ...]
    exporters: tuple[Any, ...]
    start_delay_secs: float
    throttle_secs: float
    every_n_steps: int | None
    every_n_secs: float | None


class EvalSpec(_EvalSpecFields):
    """The evaluation half of `train_and_evaluate`.

    Mind the default of 100 steps: `steps=None` evaluates the whole input. `every_n_steps` and
    `every_n_secs` say directly how often to evaluate; without them every new checkpoint is
    evaluated, but no sooner than `throttle_secs` after the last evaluation began.

    Args:
      input_fn: gives the batches to evaluate on.
      steps: how many of them; None: all.
      name: of several evaluations: its directory is `eval_<name>`.
      hooks: hooks of evaluation.
      exporters: asked after each evaluation.
      start_delay_secs: how long an evaluator in a process of its own waits at first.
      throttle_secs: seconds at least between the beginnings of two evaluations.
      every_n_steps: evaluate at multiples of so many steps.
      every_n_secs: evaluate every so many seconds.

    >>> EvalSpec(input_fn=lambda: None, steps=None, every_n_steps=500).throttle_secs
    600
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        steps: int | None = 100,
        name: str | None = None,
        hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        exporters: Any = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
        *,
        every_n_steps: int | None = None,
        every_n_secs: float | None = None,
    ) -> EvalSpec:
        if name is not None and not isinstance(name, str):
            raise SpecTypeError(f"`name` must be string, given: {name}")
        return super().__new__(
            cls,
            input_fn=_callable(input_fn),
            steps=_steps(steps, "steps"),
            name=name,
            hooks=checks.checked_hooks(hooks, _RUN_HOOKS),
            exporters=_checked_exporters(exporters),
            start_delay_secs=_not_negative(start_delay_secs, "start_delay_secs"),
            throttle_secs=_not_negative(throttle_secs, "throttle_secs"),
            every_n_steps=_whole(every_n_steps, "every_n_steps"),
            every_n_secs=_positive(every_n_secs, "every_n_secs"),
        )

    def _replace(self, **kwds: Any) -> EvalSpec:
        return _remade(self, kwds)

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:
        return (), self._asdict()  # Copies and pickles: not every field goes by position.


def _remade(spec: Any, changes: Mapping[str, Any]) -> Any:
    unknown = [name for name in changes if name not in spec._fields]
    if unknown:
        raise SpecError(
            f"{type(spec).__name__} has no field {', '.join(map(repr, unknown))}. "
            f"Its fields: {', '.join(spec._fields)}."
        )
    return type(spec)(**{**spec._asdict(), **changes})


def _in_short(given: Any) -> str:
    is_dataset = isinstance(given, tf.data.Dataset)  # which shows all its features
    return f"a Dataset ({type(given).__name__})" if is_dataset else str(given)


def _callable(input_fn: Any) -> Callable[..., Any]:
    if not callable(input_fn):
        raise SpecTypeError(
            f"`input_fn` must be callable, given: {_in_short(input_fn)}. "
            "Pass the function itself, or lambda: make_dataset(...)."
        )
    return input_fn


def _steps(value: Any, name: str) -> int | None:
    """As many whole steps as cover the number: programs write `rows / batch_size`."""
    value = _positive(value, name)
    return None if value is None else math.ceil(value)


def _whole(value: Any, name: str) -> int | None:
    value = _positive(value, name)
    if value is not None and value != int(value):
        raise SpecError(f"Must specify {name} as a whole number of steps, given: {value}")
    return None if value is None else int(value)


def _positive(value: Any, name: str) -> Any:
    if value is not None:
        _check_number(value, name)
    if value is not None and value <= 0:
        raise SpecError(f"Must specify {name} > 0, given: {value}")
    return value


def _check_number(value: Any, name: str) -> None:
    # A tensor or an array of one number will do, as it always did.
    if not isinstance(value, numbers.Real) and getattr(value, "shape", None) != ():
        raise SpecTypeError(
            f"Must specify {name} as a number, given: {value!r} ({type(value).__name__})"
        )
    if value != value or (value == math.inf and name.endswith("steps")):
        raise SpecError(f"Must specify {name} as a finite number, given: {value}")


def _not_negative(value: Any, name: str) -> Any:
    _check_number(value, name)
    if value < 0:
        raise SpecError(f"Must specify {name} >= 0, given: {value}")
    return value


def _checked_exporters(exporters: Any) -> tuple[Any, ...]:
    """Exporters as a tuple. They are known by their shape: their class is of a higher layer."""
    if not exporters:
        return ()
    if _is_exporter(exporters):
        exporters = [exporters]
    if isinstance(exporters, str):
        raise _not_exporters(f"{exporters!r}. Write est.BestExporter({exporters!r})")
    if not isinstance(exporters, Iterable):
        raise _not_exporters(exporters)
    exporters = tuple(exporters)
    if not all(_is_exporter(exporter) for exporter in exporters):
        raise _not_exporters(exporters)
    names = [exporter.name for exporter in exporters]
    for name in names:
        if not name:
            raise SpecError(
                "An Exporter cannot have a name that is `None` or empty. "
                f"All exporter names: {names}"
            )
        if not isinstance(name, str):
            raise SpecError(f"An Exporter must have a string name. Given: {type(name)}")
        if os.path.isabs(name) or ".." in name.replace("\\", "/").split("/"):
            raise SpecError(
                f"The exporter name {name!r} leads out of model_dir/export. Give a plain name."
            )
    if len(set(names)) < len(names):
        raise SpecError(
            "`exporters` must have unique names. Such a name cannot be `None`. "
            f"All exporter names: {names}"
        )
    return exporters


def _is_exporter(value: Any) -> bool:
    return (
        not isinstance(value, type)
        and hasattr(value, "name")
        and callable(getattr(value, "export", None))
    )


def _not_exporters(given: Any) -> SpecTypeError:
    return SpecTypeError(
        f"`exporters` must be an Exporter, an iterable of Exporter, or `None`, found {given}."
    )
