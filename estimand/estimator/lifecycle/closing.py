"""What a training says at its end: how good the best model is, where it lies, what comes next."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from estimand.core import voice
from estimand.engine.progress.results import GLOBAL_STEP, foreground, in_one_line
from estimand.estimator.lifecycle.evaluator import SpecEvaluator
from estimand.export import versions
from estimand.export.best import BestExporter
from estimand.export.best.record import Record


def tell_the_end(model_dir: str, evaluators: Sequence[SpecEvaluator]) -> None:
    """Tell it through the log, line by line."""
    for line in closing_lines(model_dir, evaluators):
        voice.tell("%s", line)


def closing_lines(model_dir: str, evaluators: Sequence[SpecEvaluator]) -> Iterator[str]:
    """The lines.

    >>> list(closing_lines("runs/census", []))
    ['watch:    estimand board runs/census']
    """
    folders = []
    for evaluator in evaluators:
        of_name = f" ({evaluator.spec.name})" if evaluator.spec.name else ""
        records = [
            Record.load(model_dir, _folder(model_dir, e)) for e in _best_exporters(evaluator)
        ]
        results = next((r.eval_result for r in records if r is not None), evaluator.best)
        if results:
            step = f"{int(results.get(GLOBAL_STEP, 0)):,}"
            yield f"best:     step {step}{of_name}  {in_one_line(foreground(results))}"
        folders += [_folder(model_dir, exporter) for exporter in evaluator.spec.exporters]
    exports = [exported[-1] for folder in folders if (exported := versions.versions(folder))]
    for path in exports:
        yield f"exported: {_short(path)}"
    if exports:
        yield f"next:     estimand serve {_word(os.path.dirname(exports[0]))}"
    yield f"watch:    estimand board {_word(model_dir)}"


def best_exporter(evaluators: Sequence[SpecEvaluator]) -> BestExporter | None:
    """The one that decides which evaluation is the best, if there is one."""
    return next((e for evaluator in evaluators for e in _best_exporters(evaluator)), None)


def _best_exporters(evaluator: SpecEvaluator) -> list[BestExporter]:
    return [exporter for exporter in evaluator.spec.exporters if isinstance(exporter, BestExporter)]


def _folder(model_dir: str, exporter: Any) -> str:
    return os.path.join(model_dir, "export", exporter.name)


def _word(path: str) -> str:
    """A path to be typed."""
    return shlex.quote(_short(path))


def _short(path: str) -> str:
    """Relative to where we are, if that is above it."""
    here = os.path.relpath(path)
    return path if here.startswith(os.pardir) else here
