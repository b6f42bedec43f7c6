"""What shows how far a run has come: a line at the bottom of a terminal, a bar in a notebook."""

from __future__ import annotations

import contextlib
import html
import logging
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

# rich and IPython are imported only where something is drawn.
if TYPE_CHECKING:
    from rich.console import Console


class Screen(Protocol):
    """Something that shows one line, and the next one in its place."""

    seconds_between_drawings: float

    def draw(self, line: str, *, emphasized: int, part: float | None) -> None:
        """Show `line`, its first `emphasized` letters in bold; `part` of the whole is done."""

    def close(self, last: str | None) -> None:
        """Clear it, or leave `last`."""


class NotebookBar:
    """A bar with a line under it, in one output of a notebook's cell."""

    seconds_between_drawings = 0.5  # each drawing is a message to the browser

    def __init__(self) -> None:
        self._handle: Any = None

    def draw(self, line: str, *, emphasized: int, part: float | None) -> None:
        bar = ""
        if part is not None:
            bar = f'<progress value="{part:.4f}" max="1" style="width: 30em"></progress><br>'
        self._show(bar + _in_html(line, emphasized))

    def close(self, last: str | None) -> None:
        self._show(_in_html(last or ""))

    def _show(self, text: str) -> None:
        from IPython.display import HTML, display

        if self._handle is None:
            self._handle = display(HTML(text), display_id=True)
        else:
            self._handle.update(HTML(text))


def _in_html(line: str, emphasized: int = 0) -> str:
    first, rest = html.escape(line[:emphasized]), html.escape(line[emphasized:])
    return f'<span style="font-family: monospace; white-space: pre"><b>{first}</b>{rest}</span>'


class TerminalLine:
    """One line at the bottom of a terminal, with everything else that is written above it."""

    seconds_between_drawings = 0.1

    def __init__(self, console: Console | None = None) -> None:
        from rich.live import Live

        self._console = console = console or _console_on_stderr()
        self._live = Live(
            console=console,
            auto_refresh=False,  # No thread: it is redrawn when there is news.
            transient=True,
            redirect_stdout=False,  # rich would wrap long lines, and take over a redirected stdout.
            redirect_stderr=False,
        )
        self._undo = contextlib.ExitStack()
        self._live.start()
        console.show_cursor(True)  # A killed process would leave the terminal without one.
        for stream in {id(s): s for s in (sys.stdout, sys.stderr, console.file)}.values():
            if stream is console.file or (stream is not None and stream.isatty()):
                self._take_over(stream)

    def draw(self, line: str, *, emphasized: int, part: float | None = None) -> None:
        from rich.text import Text

        text = Text(line, no_wrap=True, overflow="crop")
        text.stylize("bold", 0, emphasized)
        self._live.update(text, refresh=True)

    def close(self, last: str | None = None) -> None:
        for step in (self._live.stop, self._undo.close):
            with contextlib.suppress(OSError, ValueError):  # The terminal may be gone by now.
                step()
        if last is not None:
            _print_whole(self._console, last)

    def _take_over(self, stream: Any) -> None:
        """Sends above the line what prints and log handlers write to `stream`."""
        above = _Above(stream, self._console)
        self._undo.callback(above.step_aside)
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is stream:
                setattr(sys, name, above)
                self._undo.callback(setattr, sys, name, stream)
        # Handlers hold the stream they were made with, so replacing sys.stderr is not enough.
        for handler in _stream_handlers():
            if handler.stream is stream:
                handler.setStream(above)
                self._undo.callback(handler.setStream, stream)


class _Above:
    """Stands in for a stream while a live line is shown; passes through after that."""

    def __init__(self, stream: Any, console: Console) -> None:
        self._stream = stream
        self._console: Console | None = console
        self._unfinished = ""

    def write(self, text: str) -> int:
        if self._console is None:
            return self._stream.write(text)
        *lines, self._unfinished = (self._unfinished + text).split("\n")
        if lines:
            _print_whole(self._console, "\n".join(lines))
        return len(text)

    def step_aside(self) -> None:
        self._console = None
        if self._unfinished:
            self._stream.write(self._unfinished + "\n")
            self._unfinished = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _stream_handlers() -> Iterator[Any]:
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    for logger in loggers:
        for handler in getattr(logger, "handlers", ()):  # A placeholder has none.
            inner = getattr(handler, "python_handler", handler)  # which absl's handler has
            if isinstance(inner, logging.StreamHandler):
                yield inner


def is_live_terminal(console: Console | None = None) -> bool:
    if console is not None:
        return console.is_terminal and not console.is_dumb_terminal
    if sys.stderr is None or os.environ.get("TERM", "") in ("dumb", "unknown"):
        return False
    return sys.stderr.isatty()


def _console_on_stderr() -> Console:
    from rich.console import Console

    return Console(file=sys.stderr, force_terminal=True)


def _print_whole(console: Console, text: str) -> None:
    """Prints without wrapping or cropping, colours kept."""
    from rich.text import Text

    with contextlib.suppress(OSError, ValueError):  # As logging does: never raise into the caller.
        console.print(Text.from_ansi(text), soft_wrap=True)
