"""When the checkpoints of a training are evaluated: a decision, with no work of its own."""

from __future__ import annotations

import time
from collections.abc import Callable

from estimand.core.spec import EvalSpec


class EvaluationSchedule:
    """Says of each new checkpoint whether it is to be evaluated by one `EvalSpec`.

    With `every_n_steps` or `every_n_secs`, when that is due. Else every one, but no sooner than
    `throttle_secs` after the last evaluation began; the first one in any case.
    """

    def __init__(
        self,
        spec: EvalSpec,
        start_step: int = 0,
        *,
        min_steps_between: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._min_steps_between = min_steps_between
        self._last_step = start_step
        self._start = clock()
        self._last_time: float | None = None

    def why_not(self, step: int, now: float | None = None) -> str | None:
        """Why the checkpoint at `step` is not to be evaluated; None: it is."""
        now = self._clock() if now is None else now
        spec = self._spec
        if spec.every_n_steps is not None or spec.every_n_secs is not None:
            return self._why_not_of_a_period(step, now)
        if step - self._last_step < self._min_steps_between:
            return (
                f"Skip the current checkpoint eval: {step - self._last_step} steps since the last "
                f"one, less than the {self._min_steps_between} asked for."
            )
        if self._last_time is not None and now - self._last_time < spec.throttle_secs:
            return (
                f"Skip the current checkpoint eval due to throttle secs ({spec.throttle_secs} "
                f"secs): the last one began {now - self._last_time:.0f} secs ago. To evaluate "
                "more often, pass EvalSpec(throttle_secs=...) or EvalSpec(every_n_steps=...)."
            )
        return None

    def _why_not_of_a_period(self, step: int, now: float) -> str | None:
        steps, secs = self._spec.every_n_steps, self._spec.every_n_secs
        if steps is not None and step // steps > self._last_step // steps:
            return None
        since = now - (self._start if self._last_time is None else self._last_time)
        if secs is not None and since >= secs:
            return None
        next_ones = []
        if steps is not None:
            next_ones.append(f"at step {(self._last_step // steps + 1) * steps}")
        if secs is not None:
            next_ones.append(f"in {secs - since:.0f} secs")
        return f"Skip the current checkpoint eval: the next one is due {' or '.join(next_ones)}."

    def began(self, step: int, now: float | None = None) -> None:
        """An evaluation begins."""
        self._last_step = step
        self._last_time = self._clock() if now is None else now
