"""What a model function for TPUs returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from estimand.core.errors import ConfigError
from estimand.core.spec import EstimatorSpec


class TPUEstimatorSpec(NamedTuple):
    """What a model function for TPUs returns; `as_estimator_spec` is what is run.

    `eval_metrics` is a pair of a function and its arguments, as list or dict of tensors.
    `host_call` served to get summaries out of a TPU: it is accepted and not called.
    """

    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metrics: Any = None
    export_outputs: Any = None
    scaffold_fn: Callable[[], Any] | None = None
    host_call: Any = None
    training_hooks: Any = ()
    evaluation_hooks: Any = ()
    prediction_hooks: Any = ()

    def as_estimator_spec(self) -> EstimatorSpec:
        """The same for an Estimator: the metrics made, the scaffold built."""
        return EstimatorSpec(
            mode=self.mode,
            predictions=self.predictions,
            loss=self.loss,
            train_op=self.train_op,
            eval_metric_ops=_metrics(self.eval_metrics) if self.mode == "eval" else None,
            export_outputs=self.export_outputs,
            scaffold=self.scaffold_fn() if self.scaffold_fn else None,
            training_hooks=self.training_hooks,
            evaluation_hooks=self.evaluation_hooks,
            prediction_hooks=self.prediction_hooks,
        )


def _metrics(eval_metrics: Any) -> dict[str, Any] | None:
    if eval_metrics is None:
        return None
    if not isinstance(eval_metrics, tuple | list) or len(eval_metrics) != 2:
        raise ConfigError(
            "eval_metrics should be a tuple (metric_fn, tensors), given: "
            f"{eval_metrics!r}. `tensors` is a list or dict of what metric_fn takes."
        )
    make, tensors = eval_metrics
    return make(**tensors) if isinstance(tensors, Mapping) else make(*tensors)
