"""Evaluating a checkpoint by one `EvalSpec`, and handing the result to its exporters."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from estimand.core.errors import SpecError, SpecTypeError
from estimand.core.handles import EstimatorHandle
from estimand.core.spec import EvalSpec
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.metrics import GLOBAL_STEP
from estimand.evaluation.checkpoints_to_evaluate import Evaluated, evaluations_in
from estimand.export import versions
from estimand.export.best import loss_smaller

# In the eval_dir, from the start of an evaluation until the exporters have been told of it.
_EXPORTS_DUE = "exports_due"

_log = logging.getLogger("tensorflow")


class SpecEvaluator:
    """One `EvalSpec`, and the last evaluation made by it in this process."""

    def __init__(self, estimator: EstimatorHandle, spec: EvalSpec) -> None:
        self._estimator = estimator
        self.spec = spec
        self.path: str | None = None
        self.step: int | None = None
        self.metrics: dict[str, Any] | None = None
        self.best: dict[str, Any] | None = None  # of this process, by the loss
        self.exports: list[Any] = [None] * len(spec.exporters)
        self._exported_as_final = False

    @property
    def eval_dir(self) -> str:
        return self._estimator.eval_dir(self.spec.name)

    def earlier_evaluations(self, up_to_step: int) -> list[Evaluated]:
        """What was evaluated before this process, without what a crash has undone since."""
        return [
            evaluated for evaluated in evaluations_in(self.eval_dir) if evaluated.step <= up_to_step
        ]

    def evaluate(self, path: str | None) -> None:
        """Evaluate the checkpoint at `path`."""
        spec = self.spec
        if spec.exporters and path is not None:
            self._note_exports_due(path)
        metrics = self._estimator.evaluate(
            input_fn=spec.input_fn,
            steps=spec.steps,
            checkpoint_path=path,
            name=spec.name,
            hooks=spec.hooks,
        )
        self.step = _checked_step(metrics)
        self.metrics, self.path = metrics, path
        with contextlib.suppress(ValueError):  # there need not be a loss
            if self.best is None or loss_smaller(self.best, metrics):
                self.best = metrics
        self._exported_as_final = False

    def export(self, *, final: bool, again: bool = False) -> None:
        """Let the exporters see the last evaluation; of the final one they hear only once.

        `again` says that an earlier process has done so: those that left something are passed over.
        """
        if self._exported_as_final or not self.spec.exporters:
            return
        self._exported_as_final = final
        self.exports = [
            None if again and self._has_exported(exporter) else self._export(exporter, final)
            for exporter in self.spec.exporters
        ]
        with contextlib.suppress(OSError):
            os.remove(self._due_file)

    def exports_are_due(self, path: str) -> bool:
        """Whether a process ended, or an exporter failed, before all had heard of that checkpoint.

        It may be the best one, so they have to.
        """
        try:
            with open(self._due_file, encoding="utf-8") as file:
                return bool(self.spec.exporters) and file.read() == os.path.basename(path)
        except (OSError, UnicodeDecodeError):
            return False

    def _note_exports_due(self, path: str) -> None:
        # Where nothing can be written, the evaluation itself is going to say so.
        with contextlib.suppress(OSError):
            os.makedirs(self.eval_dir, exist_ok=True)
            with open(self._due_file, "w", encoding="utf-8") as file:
                file.write(os.path.basename(path))

    @property
    def _due_file(self) -> str:
        return os.path.join(self.eval_dir, _EXPORTS_DUE)

    def _has_exported(self, exporter: Any) -> bool:
        """Whether it has left something that is newer than the checkpoint."""
        folder = self._folder(exporter)
        try:
            saved_at = os.path.getmtime(f"{self.path}.index")
            exported = any(
                entry.stat().st_mtime >= saved_at
                for entry in os.scandir(folder)
                if not versions.is_draft(entry.name)  # left by a process that died while exporting
            )
        except OSError:
            return False
        if exported:
            _log.info("%s was exported to %s before; not again.", self.path, folder)
        return exported

    def _export(self, exporter: Any, final: bool) -> Any:
        if final:
            _log.debug("Calling exporter with the `is_the_final_export=True`.")
        return exporter.export(
            estimator=self._estimator,
            export_path=self._folder(exporter),
            checkpoint_path=self.path,
            eval_result=self.metrics,
            is_the_final_export=final,
        )

    def _folder(self, exporter: Any) -> str:
        return os.path.join(self._estimator.model_dir, "export", exporter.name)


def evaluators_of(
    estimator: EstimatorHandle, eval_spec: EvalSpec | Sequence[EvalSpec]
) -> list[SpecEvaluator]:
    """One for each `EvalSpec`, after making sure that they do not get into each other's way."""
    if isinstance(eval_spec, EvalSpec):
        return [SpecEvaluator(estimator, eval_spec)]
    if not isinstance(eval_spec, (list, tuple)) or isinstance(eval_spec, str) or not eval_spec:
        raise _not_a_spec(eval_spec)
    for spec in eval_spec:
        if not isinstance(spec, EvalSpec):
            raise _not_a_spec(spec)
    if len(eval_spec) > 1:
        _check_distinct([spec.name for spec in eval_spec], "EvalSpec")
        names = [exporter.name for spec in eval_spec for exporter in spec.exporters]
        _check_distinct(names, "exporter")
    return [SpecEvaluator(estimator, spec) for spec in eval_spec]


def last_results(evaluators: Sequence[SpecEvaluator], *, several: bool) -> tuple[Any, Any]:
    """(metrics, exports) of a single `EvalSpec`; dicts of these by name for a list."""
    if not several:
        [evaluator] = evaluators
        return evaluator.metrics, evaluator.exports if evaluator.metrics is not None else None
    names = [evaluator.spec.name or "eval" for evaluator in evaluators]
    metrics = [evaluator.metrics for evaluator in evaluators]
    exports = [evaluator.exports for evaluator in evaluators]
    return dict(zip(names, metrics, strict=True)), dict(zip(names, exports, strict=True))


def step_of(path: str) -> int:
    return checkpoints.checkpoint_step(path)


def _check_distinct(names: Sequence[str | None], what: str) -> None:
    if None in names or len(set(names)) < len(names):
        raise SpecError(
            f"Where there are several EvalSpecs, every {what} needs a name of its own, given: "
            f"{list(names)}. Write {what}(..., name='validation')."
        )


def _not_a_spec(given: Any) -> SpecTypeError:
    return SpecTypeError(
        f"`eval_spec` must have type `tf.estimator.EvalSpec`. Got: {type(given)}. "
        "Pass an est.EvalSpec, or a list of them with a name each."
    )


def _checked_step(metrics: Any) -> int:
    """Subclasses may bring an `evaluate` of their own: what it returned has to be usable."""
    if not isinstance(metrics, Mapping):
        raise SpecTypeError(f"`Estimator.evaluate` should return dict. Given {type(metrics)}.")
    if not metrics:
        raise SpecError("Internal error: `Estimator.evaluate` should never return empty metrics.")
    if GLOBAL_STEP not in metrics:
        raise SpecError(
            "Internal error: `Estimator.evaluate` result should have `global_step` in result. "
            f"Given {metrics}"
        )
    return int(metrics[GLOBAL_STEP])
