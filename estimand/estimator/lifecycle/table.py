"""One line per evaluation for whoever watches: step, metrics, the new best in bold."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TextIO

_STEP = "global_step"
_LOSS = "loss"
_WIDTH = 12
_MOST_COLUMNS = 6


class ResultsTable:
    """Prints a header with the first results, and then line after line.

    Args:
      enabled: False never prints, True always does; None prints if stderr is a terminal.
      named: whether there is a column for the name of the evaluation.

    >>> import sys
    >>> table = ResultsTable(True, named=False, stream=sys.stdout)
    >>> table.add(None, {"accuracy": 0.5, "loss": 0.75, "global_step": 100})
            step         loss     accuracy
             100         0.75          0.5
    """

    def __init__(self, enabled: bool | None, named: bool, stream: TextIO | None = None) -> None:
        self._given_stream = stream
        self._enabled = self._stream.isatty() if enabled is None else enabled
        self._named = named
        self._columns: list[str] | None = None
        self._best: dict[str | None, float] = {}

    @property
    def _stream(self) -> TextIO:
        # Asked for anew each time: the progress line puts one in its place that prints above it.
        return self._given_stream or sys.stderr

    def add(self, name: str | None, results: Mapping[str, Any]) -> None:
        """Print one line."""
        if not self._enabled:
            return
        if self._columns is None:
            others = [key for key in sorted(results) if key not in (_LOSS, _STEP)]
            self._columns = [k for k in (_LOSS, *others) if _is_number(results.get(k))]
            self._columns = self._columns[:_MOST_COLUMNS]
            self._print([*(["eval"] if self._named else []), "step", *self._columns])
        cells = [str(name or "")] if self._named else []
        cells.append(str(results.get(_STEP, "")))
        cells += [_number(results.get(key)) for key in self._columns]
        self._print(cells, bold=self._is_best(name, results.get(_LOSS)))

    def _is_best(self, name: str | None, loss: Any) -> bool:
        if loss is None or not float(loss) < self._best.get(name, float("inf")):
            return False
        self._best[name] = float(loss)
        return True

    def _print(self, cells: list[str], bold: bool = False) -> None:
        line = " ".join(f"{cell[-_WIDTH:]:>{_WIDTH}}" for cell in cells)
        colour = bold and self._stream.isatty()
        print(f"\033[1m{line}\033[0m" if colour else line, file=self._stream, flush=True)


def _is_number(value: Any) -> bool:
    return value is not None and not isinstance(value, bytes) and getattr(value, "shape", ()) == ()


def _number(value: Any) -> str:
    return f"{float(value):.6g}" if _is_number(value) else ""
