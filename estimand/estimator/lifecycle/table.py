"""One row per evaluation for whoever watches: step, metrics, and which one is the best so far."""

from __future__ import annotations

import contextlib
import html
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from estimand.core import voice
from estimand.engine.progress.results import GLOBAL_STEP, by_importance, number
from estimand.engine.progress.screens import is_live_terminal
from estimand.export.best import loss_smaller

_NARROWEST = 8
_BETWEEN = "  "
_BEST = "best"


class ResultsTable:
    """Prints a header with the first results, and then row after row; in a notebook as HTML.

    As many metrics as fit into the width, the most important ones first; the log has them all.

    Args:
      enabled: False never prints, True always does; None prints on a terminal and in a notebook.
      named: whether there is a column for the name of the evaluation.
      better: `(best_eval_result, current_eval_result) -> bool`, as of a `BestExporter`.

    >>> import sys
    >>> table = ResultsTable(True, named=False, stream=sys.stdout, width=40)
    >>> table.add(None, {"accuracy": 0.5, "loss": 0.75, "global_step": 100})
        step      loss  accuracy
         100      0.75       0.5  best
    """

    def __init__(
        self,
        enabled: bool | None,
        named: bool,
        better: Callable[..., bool] = loss_smaller,
        *,
        stream: TextIO | None = None,
        width: int | None = None,
    ) -> None:
        self._given_stream = stream
        self._width = width
        self._html = stream is None and enabled is not False and voice.in_notebook()
        self.enabled = (is_live_terminal() or self._html) if enabled is None else enabled
        self._named = named
        self._better = better
        self._columns: list[str] | None = None
        self._widths: list[int] = []
        self._best: dict[str | None, Mapping[str, Any]] = {}
        self._rows: list[tuple[list[str], bool]] = []
        self._handle: Any = None

    @property
    def _stream(self) -> TextIO:
        # Asked for anew each time: the progress line puts one in its place that prints above it.
        return self._given_stream or sys.stderr

    def add(self, name: str | None, results: Mapping[str, Any]) -> None:
        """Print one row."""
        if not self.enabled:
            return
        if self._columns is None:
            self._begin(results)
        cells = [str(name or "")] if self._named else []
        cells.append(str(results.get(GLOBAL_STEP, "")))
        cells += [number(results.get(key)) for key in self._columns or ()]
        is_best = self._is_best(name, results)
        if self._html:
            self._show_html(cells, is_best)
        else:
            self._print(cells, is_best)

    def _begin(self, results: Mapping[str, Any]) -> None:
        self._columns = by_importance(results)
        head = [*(["eval"] if self._named else []), "step", *self._columns]
        if self._html:
            self._rows.append((head, False))
            return
        self._widths = [max(len(cell), _NARROWEST) for cell in head]
        wide = self._width or shutil.get_terminal_size().columns
        while len(head) > 2 and self._needed() > wide:
            for part in (head, self._widths, self._columns):
                part.pop()
        self._print(head)

    def _needed(self) -> int:
        return sum(self._widths) + len(_BETWEEN) * len(self._widths) + len(_BEST)

    def _is_best(self, name: str | None, results: Mapping[str, Any]) -> bool:
        best = self._best.get(name)
        with contextlib.suppress(Exception):  # of a function that somebody else complains about
            if best is None or self._better(best_eval_result=best, current_eval_result=results):
                self._best[name] = results
                return True
        return False

    def _print(self, cells: list[str], is_best: bool = False) -> None:
        padded = (f"{cell:>{width}}" for cell, width in zip(cells, self._widths, strict=True))
        line = _BETWEEN.join([*padded, *([_BEST] if is_best else [])])
        colour = is_best and self._stream.isatty()
        print(f"\033[1m{line}\033[0m" if colour else line, file=self._stream, flush=True)

    def _show_html(self, cells: list[str], is_best: bool) -> None:
        from IPython.display import HTML, display

        if is_best:  # which no other row of the same name is any longer
            name = cells[:1] if self._named else []
            self._rows = [(row, was and row[: len(name)] != name) for row, was in self._rows]
        self._rows.append((cells, is_best))
        table = HTML(_as_html(self._rows))
        if self._handle is None:
            self._handle = display(table, display_id=True)
        else:
            self._handle.update(table)


def _as_html(rows: list[tuple[list[str], bool]]) -> str:
    """The first row is the header."""
    lines = []
    for place, (cells, emphasized) in enumerate(rows):
        kind = "th" if place == 0 else "td"
        texts = [html.escape(cell) for cell in cells]
        texts = [f"<b>{text}</b>" for text in [*texts, _BEST]] if emphasized else texts
        lines.append("<tr>" + "".join(f"<{kind}>{text}</{kind}>" for text in texts) + "</tr>")
    return "<table>\n" + "\n".join(lines) + "\n</table>"
