"""A report put together and written: the histories of trainings, and what a model answers."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from typing import Any

from estimand.core.errors import MissingExtraError
from estimand.core.files.atomic_files import replace_text
from estimand.core.version import __version__
from estimand.engine.progress.results import in_order
from estimand.estimator.workspace import Workspace
from estimand.report import history
from estimand.report.history import History
from estimand.report.page import Page


def write(
    path: str | os.PathLike[str],
    model_dirs: Sequence[str | os.PathLike[str]],
    estimator: Any = None,
    input_fn: Callable[..., Any] | None = None,
    rows: int = 5000,
) -> str:
    """Write a report of one or several trainings as one HTML file; it needs no network.

    Args:
      path: the file to write.
      model_dirs: what to report on; several are compared.
      estimator: with `input_fn`, the model is asked as well: what it confuses, how sure it is,
        which columns it relies on.
      input_fn: an evaluation input, with labels.
      rows: of so many of its rows.

    Returns:
      The path of the file.

    >>> est.report.write("report.html", ["runs/a", "runs/b"])  # doctest: +SKIP
    'report.html'
    """
    _need_extra()
    from estimand.report import judgement, runs, weights

    histories = history.read_all(model_dirs)
    page = _page(histories)
    workspace = Workspace.of(estimator)
    made_with = () if workspace is None else workspace.made_with.values()
    page.sections += runs.sections(histories, weights.columns_of(made_with))
    if estimator is not None and input_fn is not None:
        page.sections[1:1] = judgement.sections(estimator, input_fn, rows)
    replace_text(os.fspath(path), page.html())
    return os.fspath(path)


def _page(histories: list[History]) -> Page:
    when = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
    title = ", ".join(item.name for item in histories)
    where = histories[0].directory if len(histories) == 1 else f"{len(histories)} trainings"
    page = Page(title, f"{where} · {when} · Estimand {__version__}")
    if len(histories) == 1:
        page.numbers = _headline(histories[0])
    return page


def _headline(item: History) -> list[tuple[str, str]]:
    numbers = [("steps", f"{item.last_step:,}")]
    if len(item.starts) > 1:
        numbers.append(("resumed", f"{len(item.starts) - 1} times"))
    metrics = in_order(item.metrics_at_end())
    numbers += [(name, f"{value:.4g}") for name, value in list(metrics.items())[:6]]
    return numbers


def _need_extra() -> None:
    try:
        import jinja2  # noqa: F401
        import plotly  # noqa: F401
        import sklearn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("a report", "report", error.name) from error
