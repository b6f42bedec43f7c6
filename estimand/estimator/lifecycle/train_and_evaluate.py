"""`train_and_evaluate`: checks what it is given, and calls what this process has to do."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from estimand.core import lines_of_old
from estimand.core.errors import SpecTypeError
from estimand.core.interpreter.tracebacks import folded
from estimand.core.spec import EvalSpec, TrainSpec
from estimand.estimator.estimator import Estimator
from estimand.estimator.lifecycle import roles
from estimand.estimator.lifecycle.evaluator import evaluators_of
from estimand.estimator.lifecycle.local import run_local

_log = logging.getLogger("tensorflow")


def train_and_evaluate(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec | Sequence[EvalSpec]
) -> tuple[Any, Any]:
    """Train to the end, evaluating new checkpoints and exporting on the way.

    Alone in its process, it trains in one go and evaluates in between, on the variables as they
    are. Started again after an interruption, it goes on; a model that is trained already is
    evaluated. In a cluster (`TF_CONFIG`), each process does what its role asks for.

    Args:
      estimator: what to train.
      train_spec: the training input, how far, hooks.
      eval_spec: the evaluation input, how often, exporters; or a list of such with a name each.

    Returns:
      (metrics, exports): the result of the last evaluation, and what each exporter returned. For
      a list of EvalSpecs both are dicts by name. In a cluster the evaluator gets them; processes
      that evaluate nothing get ({}, []).

    >>> import estimand as est, numpy as np, tensorflow as tf, tempfile
    >>> def input_fn():
    ...     x = np.linspace(-1, 1, 64, dtype="float32")[:, None]
    ...     return tf.data.Dataset.from_tensor_slices(({"x": x}, 3 * x)).batch(16)
    >>> def model_fn(features, labels, mode):
    ...     w = tf.compat.v1.get_variable("w", [1, 1])
    ...     loss = tf.reduce_mean(tf.square(features["x"] @ w - labels))
    ...     train_op = est.minimize(tf.compat.v1.train.GradientDescentOptimizer(0.5), loss)
    ...     return est.EstimatorSpec(mode, loss=loss, train_op=train_op)
    >>> estimator = est.Estimator(model_fn, tempfile.mkdtemp())
    >>> metrics, exports = est.train_and_evaluate(
    ...     estimator,
    ...     est.TrainSpec(lambda: input_fn().repeat(), max_steps=100),
    ...     est.EvalSpec(input_fn, steps=None, every_n_steps=50))
    >>> bool(metrics["loss"] < 0.01), int(metrics["global_step"]), exports
    (True, 100, [])
    """
    with folded():
        _check(estimator, train_spec)
        evaluators_of(estimator, eval_spec)  # complains now, not after the training
        config = estimator.config
        if not config.cluster_spec and config.task_type != roles.EVALUATOR:
            with lines_of_old.in_order():
                _log.info("Running training and evaluation locally (non-distributed).")
            return run_local(estimator, train_spec, eval_spec)
        result = roles.role(config)(estimator, train_spec, eval_spec)
        return ({}, []) if result is None else result


def _check(estimator: Any, train_spec: Any) -> None:
    if not isinstance(estimator, Estimator):
        raise SpecTypeError(
            f"`estimator` must have type `tf.estimator.Estimator`. Got: {type(estimator)}. "
            "Pass an est.Estimator, or one of its subclasses."
        )
    if not isinstance(train_spec, TrainSpec):
        cure = "Write est.TrainSpec(input_fn, max_steps=1000)."
        if isinstance(train_spec, EvalSpec):
            cure = (
                "The TrainSpec comes first: train_and_evaluate(estimator, train_spec, eval_spec)."
            )
        raise SpecTypeError(
            f"`train_spec` must have type `tf.estimator.TrainSpec`. Got: {type(train_spec)}. {cure}"
        )
