"""SIGTERM and Ctrl-C: finish the step, save, exit cleanly."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

_log = logging.getLogger("tensorflow")


class Interrupts:
    """While active, the first SIGTERM or Ctrl-C only sets `received`; a second one is immediate.

    Outside the main thread Python does not let handlers be set: then it does nothing.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                # A handler that is not Python's own to restore (None) is left alone, and so is
                # the wish to ignore the signal (nohup, a shell's background job).
                if signal.getsignal(number) not in (None, signal.SIG_IGN):
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.received = number
        self._restore()

    def leave(self, step: int, saved: bool) -> None:
        """End the program the way the signal asked for, after everything has been saved."""
        if self.received is None:
            return
        name = "Ctrl-C" if self.received == signal.SIGINT else signal.Signals(self.received).name
        _log.warning(
            "Stopped by %s at step %d%s",
            name,
            step,
            "; saved. Run the same program again to continue." if saved else ".",
        )
        if self.received == signal.SIGINT and hasattr(sys, "ps1"):
            raise KeyboardInterrupt
        raise SystemExit(128 + self.received)
