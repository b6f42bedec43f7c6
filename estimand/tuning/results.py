"""What a search came to: rows, a table to read, a page with pictures."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable
from typing import Any

from estimand.core.errors import MissingExtraError
from estimand.core.files.atomic_files import replace_text
from estimand.core.version import __version__
from estimand.report import figures
from estimand.report.page import Card, Cell, Page, Section, Table
from estimand.tuning.space import optuna

_ENOUGH_FOR_IMPORTANCE = 4


def rows(study: Any) -> list[dict[str, Any]]:
    """The trials as dicts, the best first: number, state, value, step, seconds, each parameter.

    Args:
      study: what `est.tuning.search` returned, or a study of Optuna.

    >>> est.tuning.rows(study)[0]["value"]  # doctest: +SKIP
    0.25
    """
    sign = 1 if study.direction.name == "MINIMIZE" else -1
    trials = [_row(trial) for trial in study.get_trials(deepcopy=False)]
    worst = float("inf")
    return sorted(trials, key=lambda row: worst if row["value"] is None else sign * row["value"])


def _row(trial: Any) -> dict[str, Any]:
    complete = trial.state.name == "COMPLETE"
    took = trial.duration.total_seconds() if trial.duration is not None else None
    return {
        "trial": trial.number,
        "state": trial.state.name.lower(),
        "value": trial.value if complete else None,
        "step": max(trial.intermediate_values, default=None),
        "seconds": took,
        **trial.params,
    }


def as_text(study: Any) -> str:
    """The same as a table to read.

    Args:
      study: what `est.tuning.search` returned, or a study of Optuna.

    >>> print(est.tuning.as_text(study))  # doctest: +SKIP
    trial     state  value  step  seconds  units
        1  complete   0.25   100      1.4     16
    """
    trials = rows(study)
    names = list(dict.fromkeys(name for row in trials for name in row))
    cells = [names, *([_text(row.get(name)) for name in names] for row in trials)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(names))]
    lines = (
        "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True))
        for line in cells
    )
    return "\n".join(lines)


def write_page(study: Any, path: str | os.PathLike[str]) -> str:
    """Write an HTML file with pictures: how it went, which parameters matter, all trials.

    Args:
      study: what `est.tuning.search` returned, or a study of Optuna.
      path: the file to write.

    Returns:
      The path of the file.

    >>> est.tuning.write_page(study, "runs/study/index.html")  # doctest: +SKIP
    'runs/study/index.html'
    """
    try:
        import plotly  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("a page of a search", "tuning", "plotly") from error
    when = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
    page = Page(study.study_name, f"search · {when} · Estimand {__version__}")
    trials = rows(study)
    done = [row for row in trials if row["value"] is not None]
    page.numbers = [("trials", str(len(trials)))]
    if done:
        page.numbers += [("best", _text(done[0]["value"]))]
        page.numbers += [(name, _text(value)) for name, value in study.best_params.items()]
        values = [row["value"] for row in done]
        page.sections.append(Section("search", "The search", list(_pictures(study, values))))
    page.sections.append(Section("trials", "Trials", [Card("All trials", table=_table(trials))]))
    replace_text(os.fspath(path), page.html())
    return os.fspath(path)


def _pictures(study: Any, values: list[float]) -> Iterable[Card]:
    drawing = optuna().visualization
    drawn: list[tuple[str, Callable[[Any], Any]]] = [
        ("Value by trial", drawing.plot_optimization_history),
        ("Evaluations", drawing.plot_intermediate_values),
        ("Parameters and values", drawing.plot_parallel_coordinate),
    ]
    # Where all trials come to the same, there is nothing that matters.
    if len(values) >= _ENOUGH_FOR_IMPORTANCE and min(values) < max(values):
        drawn.append(("Which parameters matter", drawing.plot_param_importances))
    for title, draw in drawn:
        yield Card(title, figures.as_html(draw(study).update_layout(title=None, height=360)))


def _table(trials: list[dict[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for row in trials for name in row))
    return Table(names, [[Cell(_text(row.get(name))) for name in names] for row in trials])


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
