"""How far a run has come, told while it runs; and the small table of results after it.

On a terminal there is one line that follows the work; log lines and prints appear above it:

    training  1,200/10,000 steps  345 steps/s  loss 0.1234  elapsed 0:03  left 0:25

In a notebook it is a bar. Every few seconds the same line goes to the log (see `core.voice`),
which is all there is in a file, a pipe or a container.

>>> with Progress(total_steps=100, enabled=False) as progress:
...     for step in range(1, 101):
...         progress.update(step, loss=0.5)
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from estimand.core import voice
from estimand.engine.progress.screens import NotebookBar, Screen, TerminalLine, is_live_terminal

# rich is imported only where something is drawn: most runs write to a file and never need it.
if TYPE_CHECKING:
    from rich.console import Console

_SECONDS_BETWEEN_LINES = 5.0
_of_thread = threading.local()  # its `innermost` is the last Progress that was opened
_SECONDS_REMEMBERED_BY_RATE = 5.0


class Progress:
    """How far a run has come, as a context manager.

    Args:
      total_steps: the step at which it ends; None if that is not known.
      start_step: the step at which it begins, not 0 when a run continues.
      enabled: False never draws or logs, True always draws; None draws on a terminal and in a
        notebook.
      description: the word the line begins with.
      unit: what is counted.
      leave: whether the last state stays, on the screen or as a line of the log.
      console: a `rich.console.Console` to draw on instead of stderr.
      clock: seconds, increasing.

    A second one may be opened while the first is (an evaluation during training): the outer line
    gives way, its clock for the rate stands still, and it comes back afterwards.
    """

    def __init__(
        self,
        total_steps: int | None = None,
        start_step: int = 0,
        enabled: bool | None = None,
        *,
        description: str = "training",
        unit: str = "steps",
        leave: bool = True,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._told = enabled is not False
        if enabled is None:
            enabled = is_live_terminal(console) or (console is None and voice.in_notebook())
        self.enabled = enabled
        self.description = description
        self._total = total_steps
        self._start_step = start_step
        self._unit = unit
        self._leave = leave
        self._console = console
        self._clock = clock
        self._step = start_step
        self._loss: Any = None
        self._rate = _Rate()
        self._screen: Screen | None = None  # Not None exactly while something is shown.
        self._bar: NotebookBar | None = None  # one for all that runs inside of one another
        self._showing = contextlib.ExitStack()
        self._started_at = 0.0
        self._next_drawing = math.inf
        self._next_line = 0.0
        self._outer: Progress | None = None

    @classmethod
    def for_evaluation(
        cls, total_batches: int | None = None, enabled: bool | None = None, **kwargs: Any
    ) -> Progress:
        """The same for batches: call `update(batches_done)`. What stays are its results."""
        kwargs = {"description": "evaluating", "unit": "batches", "leave": False, **kwargs}
        return cls(total_batches, 0, enabled, **kwargs)

    def update(self, step: int, loss: Any = None) -> None:
        """Tells that `step` is done. Cheap enough to call after every step.

        Args:
          step: the step just finished, counted from 0, not from `start_step`.
          loss: anything `float` takes; it is converted only when it is drawn. None keeps the last.
        """
        if not self._told:
            return
        self._step = step
        if loss is not None:
            self._loss = loss
        now = self._clock()
        due = min(self._next_drawing, self._next_line)
        if now < due and self._rate.has_begun:
            return
        self._rate.measure(now, step)
        if now >= self._next_drawing:
            self._draw(now)
        if now >= self._next_line and step != self._total:  # of the last one we tell at the end
            self._next_line = now + _SECONDS_BETWEEN_LINES
            voice.tell("%s", self._line(now), about=voice.PROGRESS)

    @contextlib.contextmanager
    def phase(self, description: str) -> Iterator[None]:
        """Shows another word for a while, such as "saving"; the rate's clock stands still."""
        before, self.description = self.description, description
        self._rate.pause(self._clock(), self._step)
        self._draw(self._clock())
        try:
            yield
        finally:
            self.description = before
            self._rate.resume(self._clock())
            self._draw(self._clock())

    def __enter__(self) -> Progress:
        if self._told:
            self._started_at = self._clock()
            self._next_line = self._started_at + _SECONDS_BETWEEN_LINES
            self._outer, _of_thread.innermost = getattr(_of_thread, "innermost", None), self
            if self.enabled:
                # Also while another line has taken our place: files are written all the time.
                self._showing.enter_context(voice.showing(voice.PROGRESS, voice.SAVED))
            if self._outer is not None:
                self._outer._hide()
            self._show()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._told:
            return
        last = self._last_line(_ending(kind))
        if self._leave:
            voice.tell("%s", last, about=voice.PROGRESS)
        self._showing.close()
        self._hide(last if self._leave else None)
        _of_thread.innermost, outer, self._outer = self._outer, self._outer, None
        if outer is not None:
            outer._show()

    def _show(self) -> None:
        now = self._clock()
        self._rate.resume(now)
        if self.enabled and self._screen is None:
            self._screen = self._new_screen()
        self._draw(now)

    def _new_screen(self) -> Screen:
        if self._console is not None or not voice.in_notebook():
            return TerminalLine(self._console)
        of_outer = None if self._outer is None else self._outer._bar
        self._bar = self._bar or of_outer or NotebookBar()
        return self._bar

    def _hide(self, last: str | None = None) -> None:
        """Clear the screen, or leave `last` on it."""
        self._rate.pause(self._clock(), self._step)
        if self._screen is not None:
            self._screen.close(last)
            self._screen = None
        self._next_drawing = math.inf

    def _draw(self, now: float) -> None:
        if self._screen is None:
            return
        self._next_drawing = now + self._screen.seconds_between_drawings
        part = self._step / self._total if self._total else None
        try:
            self._screen.draw(self._line(now), emphasized=len(self.description), part=part)
        except (OSError, ValueError):  # The terminal is gone; the run must not go with it.
            self._showing.close()
            self._hide()

    def _line(self, now: float) -> str:
        rate = self._rate.recent
        left = None
        if self._total is not None and rate:
            left = max(0, self._total - self._step) / rate
        return self._joined(rate, now, f"left {_format_seconds(left)}" if left is not None else "")

    def _last_line(self, ending: str) -> str:
        now = self._clock()
        elapsed = now - self._started_at
        rate = self._rate.overall
        if rate is None and elapsed > 0:  # Over before there were two measurements.
            rate = (self._step - self._start_step) / elapsed
        return self._joined(rate, now, ending)

    def _joined(self, rate: float | None, now: float, ending: str) -> str:
        total = f"/{self._total:,}" if self._total is not None else ""
        parts = [
            self.description,
            f"{self._step:,}{total} {self._unit}",
            f"{_format_rate(rate)} {self._unit}/s" if rate is not None else "",
            f"loss {_format_value(self._loss, digits=4)}" if self._loss is not None else "",
            f"elapsed {_format_seconds(now - self._started_at)}",
            ending,
        ]
        return "  ".join(part for part in parts if part)


def _ending(kind: type[BaseException] | None) -> str:
    """What an exception makes of a run: Ctrl-C and sys.exit are wishes, the others are faults."""
    if kind is None:
        return ""
    return "failed" if issubclass(kind, Exception) else "stopped early"


class _Rate:
    """Steps per second, without the pauses and without what precedes the first measurement.

    The first measurement only sets the origin: before it lies the tracing of the model.
    """

    def __init__(self) -> None:
        self._last_step: int | None = None
        self._last_time = 0.0
        self._all = (0.0, 0.0)  # steps, seconds
        self._fading = (0.0, 0.0)  # the same, older ones counting less and less

    @property
    def has_begun(self) -> bool:
        return self._last_step is not None

    @property
    def overall(self) -> float | None:
        steps, seconds = self._all
        return steps / seconds if seconds > 0 else None

    @property
    def recent(self) -> float | None:
        steps, seconds = self._fading
        return steps / seconds if seconds > 0 else None

    def measure(self, now: float, step: int) -> None:
        if self._last_step is not None:
            steps, seconds = step - self._last_step, now - self._last_time
            kept = math.exp(-seconds / _SECONDS_REMEMBERED_BY_RATE)
            self._all = self._all[0] + steps, self._all[1] + seconds
            self._fading = self._fading[0] * kept + steps, self._fading[1] * kept + seconds
        self._last_step, self._last_time = step, now

    def pause(self, now: float, step: int) -> None:
        if self._last_step is not None:
            self.measure(now, step)

    def resume(self, now: float) -> None:
        self._last_time = now


def format_results_table(
    results: Mapping[str, Any], title: str | None = None, *, terminal: bool | None = None
) -> str:
    """Results by name as a small table to print; in colour if `terminal` (None: if stdout is one).

    >>> print(format_results_table({"accuracy": 0.91234567, "global_step": 500}, "digits"))
    digits
    accuracy     0.912346
    global_step       500
    """
    rows = [(str(key), _format_value(value)) for key, value in results.items()]
    rows = [(key, text) for key, text in rows if text]
    if sys.stdout.isatty() if terminal is None else terminal:
        return _table_in_colour(rows, title)
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    lines = [f"{key:<{widths[0]}}  {text:>{widths[1]}}" for key, text in rows]
    return "\n".join([title, *lines] if title else lines)


def _table_in_colour(rows: list[tuple[str, str]], title: str | None) -> str:
    import io

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    heading = Text(title, style="bold") if title else None
    table = Table(box=None, pad_edge=False, show_header=False, title=heading, title_justify="left")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(justify="right")
    for key, text in rows:
        table.add_row(Text(key), Text(text))
    console = Console(file=io.StringIO(), force_terminal=True)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().strip("\n").splitlines())


def _format_value(value: Any, digits: int = 6) -> str:
    if isinstance(value, bytes):
        return ""  # A serialized summary: for TensorBoard, not for reading.
    if getattr(value, "shape", None) == ():
        value = value.item() if hasattr(value, "item") else float(value)
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _format_rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _format_seconds(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
