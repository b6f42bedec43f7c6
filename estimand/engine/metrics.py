"""(value, update_op) pairs and Keras metrics behind one face."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import SpecError
from estimand.core.metric_objects import is_metric
from estimand.core.spec import EstimatorSpec
from estimand.engine.variables import effects
from estimand.engine.variables.placement import copies
from estimand.engine.variables.traced_variables import TracedVariables

LOSS = "loss"
GLOBAL_STEP = "global_step"


@dataclass
class MetricSet:
    """The metrics of an evaluation graph, and the mean of its loss over batches."""

    graph: tf.Graph
    pairs: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    keras: dict[str, Any] = field(default_factory=dict)
    replicas: list[MetricSet] = field(default_factory=list)

    @classmethod
    def of(cls, spec: EstimatorSpec, variables: TracedVariables) -> MetricSet:
        """Called while the evaluation graph is being built."""
        result = cls(variables.graph)
        check_names(spec)
        for name, metric in (spec.eval_metric_ops or {}).items():
            if is_metric(metric):
                result.keras[name] = metric
            else:
                result.pairs[name] = metric
        result.pairs[LOSS] = tf.compat.v1.metrics.mean(spec.loss, name="estimand_mean_loss")
        return result

    @classmethod
    def of_replicas(cls, sets: Sequence[MetricSet]) -> MetricSet:
        """One set of all: values count what every replica has seen."""
        first = sets[0]
        return cls(first.graph, first.pairs, first.keras, list(sets))

    def updates(self, replicas: int | None = None) -> list[Any]:
        """Everything that has to run once per batch, of the first `replicas` replicas or all."""
        ops: list[Any] = []
        for number, of_replica in enumerate((self.replicas or [self])[:replicas]):
            ops += [update for _, update in of_replica.pairs.values()]
            for metric in of_replica.keras.values():
                held = [copies(v) for v in _variables_of(metric)]
                ops += effects.writes_to(self.graph, [c[number % len(c)] for c in held])
        return list({getattr(op, "name", id(op)): op for op in ops}.values())

    def variables(self) -> list[tf.Variable]:
        """What Keras metrics count with."""
        metrics = [m for of_replica in (self.replicas or [self]) for m in of_replica.keras.values()]
        return [v for metric in metrics for v in _variables_of(metric)]

    def own(self, variables: TracedVariables) -> None:
        """What the metrics count with is none of the model's, also where it was made outside."""
        mine = {id(v) for v in self.variables()}
        variables.metric_owned |= {n for n, v in variables.by_name.items() if id(v) in mine}

    def reset_keras(self) -> None:
        for metric in self.keras.values():
            metric.reset_state()

    def values(self, run: Callable[[Any], Any]) -> dict[str, Any]:
        """The present value of every metric; runs no update and takes no batch."""
        results = dict(run({name: value for name, (value, _) in self.pairs.items()}))
        for name, metric in self.keras.items():
            value = metric.result()
            if isinstance(value, dict):
                results.update({f"{name}/{k}": _numpy(v) for k, v in value.items()})
            else:
                results[name] = _numpy(value)
        return results


def as_python_numbers(results: dict[str, Any]) -> dict[str, Any]:
    """Results with numbers that `json` takes, equal to those of NumPy; arrays stay arrays.

    >>> import numpy as np
    >>> as_python_numbers({"loss": np.float32(0.25), "global_step": np.int64(3), "rows": [1]})
    {'loss': 0.25, 'global_step': 3, 'rows': [1]}
    """
    return {name: _python_number(value) for name, value in results.items()}


def _python_number(value: Any) -> Any:
    scalar = isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0)
    return value.item() if scalar else value


def check_names(spec: EstimatorSpec) -> None:
    for name in (LOSS, GLOBAL_STEP):
        if name in (spec.eval_metric_ops or {}):
            quoted = f'"{name}"' if name == LOSS else f"`{name}`"  # as callers match on it
            raise SpecError(
                f"Metric with name {quoted} is not allowed, because Estimator already defines a "
                "default metric with the same name. Give it another key in eval_metric_ops."
            )


def _numpy(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value


def _variables_of(metric: Any) -> list[tf.Variable]:
    return [v if isinstance(v, tf.Variable) else v.value for v in metric.variables]
