"""The contestant's side of a race: work when told to, and say how it went.

A contestant that repeats small steps calls `tick` after each of them (or after each hundred);
`tick` blocks while it is another's turn. A turn is a short time that is not measured, in which
input buffers that filled up while waiting are drained, and then the measured time:

    | warm up, once | wait | settle | measured | wait | settle | measured | ...

A contestant that measures itself calls `wait` and `report` in turn.
"""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path
from typing import IO, Any

_WARM_UP_SECONDS = 1.0
_SETTLE_SECONDS = 0.15


class Turns:
    """When this process may work."""

    def __init__(self, commands: IO[str], answers: IO[str], *, quick: bool = False) -> None:
        self._commands = commands
        self._answers = answers
        self.quick = quick
        self.measured_seconds = 0.4
        self._phase = self._warming_up
        self._phase_began = time.perf_counter()
        self.others: list[int] = []  # processes whose processor time counts as this one's
        self._cpu_began = 0.0
        self._units = 0

    # For contestants that repeat steps

    def tick(self, units: int = 1) -> None:
        """Count `units` of work as done."""
        self._units += units
        self._phase(time.perf_counter() - self._phase_began)

    def _warming_up(self, seconds: float) -> None:
        if seconds >= _WARM_UP_SECONDS / (2 if self.quick else 1):
            self.wait()
            self._enter(self._settling)

    def _settling(self, seconds: float) -> None:
        if seconds >= _SETTLE_SECONDS:
            self._enter(self._measuring)

    def _measuring(self, seconds: float) -> None:
        if seconds >= self.measured_seconds:
            cpu = self._cpu_seconds() - self._cpu_began
            self.report(rate=self._units / seconds, cpu_seconds_per_unit=cpu / self._units)
            self.wait()
            self._enter(self._settling)

    def _enter(self, phase: Any) -> None:
        self._phase, self._units = phase, 0
        self._cpu_began = self._cpu_seconds()
        self._phase_began = time.perf_counter()

    def _cpu_seconds(self) -> float:
        return sum(map(cpu_seconds_of, (os.getpid(), *self.others)))

    # For contestants that measure themselves

    def wait(self) -> None:
        """Wait for the next turn; does not return when the race is over."""
        self.say({"ready": True})
        self.obey("go")

    def report(self, **values: float) -> None:
        """Give the values measured in this turn."""
        self.say({"values": values})

    # The lines themselves

    def say(self, message: dict[str, Any]) -> None:
        self._answers.write(json.dumps(message) + "\n")
        self._answers.flush()

    def obey(self, command: str) -> None:
        if self._commands.readline().strip() != command:
            os._exit(0)  # at once, from within whatever training loop this is


def cpu_seconds_of(process: int) -> float:
    """User and system time of a process so far."""
    if process == os.getpid():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
