"""Where the time of a training goes: seconds by kind, kept in its model_dir.

Whoever does something says so where it is done. What is begun inside of something else is taken
out of it, so that nothing counts twice: a checkpoint for which a hook asks is no look.

>>> with counted(None) as spent, on(STEPS):
...     with on(CHECKPOINTS):
...         pass
>>> sorted(spent.seconds())
['checkpoints', 'starting', 'steps']
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, TypeVar, cast

from estimand.core.files.atomic_files import replace_text, syncing_while

TIME_FILE = "estimand_time.json"
_Function = TypeVar("_Function", bound=Callable[..., Any])

STARTING = "starting"  # input function, tracing, restoring, compiling, trials
INPUT = "input"  # that steps waited for their batches
STEPS = "steps"
LOOKS = "looks"  # of hooks
CHECKPOINTS = "checkpoints"
EVALUATION = "evaluation"
EXPORTS = "exports"
KINDS = (STARTING, INPUT, STEPS, LOOKS, CHECKPOINTS, EVALUATION, EXPORTS)

# What an evaluation or an export does (tracing, looks of its hooks) it does for itself.
_WHOLE = (EVALUATION, EXPORTS)
# A killed run has noted at a checkpoint where its time had gone, up to so many seconds before.
_SECONDS_BETWEEN_NOTES = 10.0
_INPUT_BOUND = 0.3

_of_thread = threading.local()  # its `spent` is that of the training that runs in this thread


class TimeSpent:
    """A stopwatch that always runs, for one kind after another."""

    def __init__(
        self, model_dir: str | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._clock = clock
        self._model_dir = model_dir
        self._earlier = {} if model_dir is None else load(model_dir)
        self._by_kind: dict[str, float] = {STARTING: 0.0}
        self._kind = STARTING
        self._since = self._noted_at = clock()
        self._seconds_waited: Callable[[], float | None] = lambda: None
        self._waited_before = 0.0

    def waits_are_noted_by(self, seconds_waited: Callable[[], float | None]) -> None:
        """Whom to ask how long steps have waited for input, from now on."""
        self._seconds_waited = seconds_waited
        self._waited_before = seconds_waited() or 0.0

    def seconds(self) -> dict[str, float]:
        """Those of each kind until now; without INPUT where nobody knows."""
        self.turn_to(self._kind)
        by_kind = dict(self._by_kind)
        waited = self._seconds_waited()
        if waited is not None:
            stepping = by_kind.get(STEPS, 0.0)
            by_kind[INPUT] = min(waited - self._waited_before, stepping)
            by_kind[STEPS] = stepping - by_kind[INPUT]
        return by_kind

    def turn_to(self, kind: str) -> str:
        """From now on it runs for this kind; for which it ran before."""
        now = self._clock()
        before, self._kind = self._kind, kind
        self._by_kind[before] = self._by_kind.get(before, 0.0) + now - self._since
        self._since = now
        return before

    @contextlib.contextmanager
    def on(self, kind: str) -> Iterator[None]:
        before = self.begin(kind)
        try:
            yield
        finally:
            self.end(kind, before)

    def begin(self, kind: str) -> str:
        """Something of this kind begins; what it was before, for `end`."""
        return self.turn_to(self._kind if self._kind in _WHOLE else kind)

    def end(self, kind: str, before: str) -> None:
        self.turn_to(before)
        if kind == CHECKPOINTS and self._since - self._noted_at >= _SECONDS_BETWEEN_NOTES:
            self.note()

    def note(self) -> None:
        """Add it, in model_dir, to what earlier calls have noted."""
        if self._model_dir is None:
            return
        self._noted_at = self._clock()
        total = added([self._earlier, self.seconds()])
        text = json.dumps({"seconds": {kind: round(s, 6) for kind, s in total.items()}}, indent=1)
        # No training ends by it, or waits for the disk.
        with contextlib.suppress(OSError), syncing_while(lambda: False):
            replace_text(os.path.join(self._model_dir, TIME_FILE), text + "\n")


@contextlib.contextmanager
def counted(model_dir: str | None) -> Iterator[TimeSpent]:
    """Inside, the time of this thread is counted; at the end it is noted in `model_dir`, if any."""
    spent = TimeSpent(model_dir)
    before, _of_thread.spent = getattr(_of_thread, "spent", None), spent
    try:
        yield spent
    finally:
        _of_thread.spent = before
        spent.note()


class on(contextlib.ExitStack):
    """What is done inside is of this kind, where somebody counts."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def __enter__(self) -> Self:
        spent: TimeSpent | None = getattr(_of_thread, "spent", None)
        if spent is not None:
            self.enter_context(spent.on(self._kind))
        return self

    def __call__(self, function: _Function) -> _Function:
        """Less than a context for each call would cost: hooks may look at every step."""
        kind = self._kind

        @functools.wraps(function)
        def counted_call(*args: Any, **kwargs: Any) -> Any:
            spent: TimeSpent | None = getattr(_of_thread, "spent", None)
            if spent is None:
                return function(*args, **kwargs)
            before = spent.begin(kind)
            try:
                return function(*args, **kwargs)
            finally:
                spent.end(kind, before)

        return cast(_Function, counted_call)


def load(model_dir: str | os.PathLike[str]) -> dict[str, float]:
    """Seconds by kind, of all calls of train so far; nothing where none has noted any."""
    try:
        with open(os.path.join(model_dir, TIME_FILE), encoding="utf-8") as file:
            noted = json.load(file)["seconds"]
        return {kind: float(noted[kind]) for kind in KINDS if kind in noted}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def added(parts: list[dict[str, float]]) -> dict[str, float]:
    """The sums, in the order of KINDS.

    >>> added([{"steps": 1.0, "looks": 2.0}, {"steps": 0.5, "starting": 3.0}])
    {'starting': 3.0, 'steps': 1.5, 'looks': 2.0}
    """
    there = [kind for kind in KINDS if any(kind in part for part in parts)]
    return {kind: sum(part.get(kind, 0.0) for part in parts) for kind in there}


def waiting_share(seconds: Mapping[str, float]) -> float | None:
    """How much of the time of the steps was spent waiting for input; None: unknown.

    >>> waiting_share({"starting": 5.0, "input": 3.0, "steps": 1.0})
    0.75
    """
    stepping = seconds.get(INPUT, 0.0) + seconds.get(STEPS, 0.0)
    return seconds[INPUT] / stepping if INPUT in seconds and stepping > 0 else None


def is_input_bound(seconds: Mapping[str, float]) -> bool:
    """Whether faster input would make it noticeably faster."""
    return (waiting_share(seconds) or 0.0) > _INPUT_BOUND
