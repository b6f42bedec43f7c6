"""How long steps wait for their batches."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.feeding.supply import Supply

# The stopwatch costs about two millionths of a second per step. Where steps are shorter than this,
# that shows: once the calls have taken so long that another way to run them pays, one of several
# is timed, and stands for those after it.
_SHORT_STEP = 2e-4
_SECONDS_BEFORE_SAMPLING = 3.0
_CALLS_PER_SAMPLE = 8


class Waiting:
    """A stopwatch that runs while a batch is taken, inside of compiled functions and outside.

    It is read when somebody wants to know: to fetch what it says after each call would cost more
    than to count. Where it is not `wanted`, nothing inside is timed.
    """

    def __init__(
        self, *, wanted: bool = True, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._wanted = wanted
        self._clock = clock
        self._outside = 0.0
        with tf.init_scope(), tf.device("CPU:0"):
            self._inside = tf.Variable(0.0, trainable=False, dtype=tf.float64)
        self._seconds = 0.0  # of all calls
        self._sampled = False
        self._calls_since_sample = 0
        self._share_in_sample = 0.0

    def seconds(self) -> float:
        """All that was waited since it was made."""
        with tf_private.eager_mode():  # also at checkpoints that hooks ask for, within the graph
            return self._outside + float(self._inside.numpy())

    def timed(self, take: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """What `take` takes in the function being built, which notes how long it waits for it."""
        before = tf.timestamp()
        with tf.control_dependencies([before]):
            taken = take()
        with tf.control_dependencies(taken):
            after = tf.timestamp()
        # A variable, not a result of the call: when the input ends, that gives none.
        self._inside.assign_add(after - before, read_value=False)
        return taken

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """Something is taken in Python."""
        before = self._clock()
        try:
            yield
        finally:
            self._outside += self._clock() - before

    def is_due(self, supply: Supply, *, at_once: bool) -> bool:
        """Whether the next call is to be timed; `at_once`: it takes all its batches in one go."""
        if not (self._wanted and supply.waits):
            return False
        return at_once or not self._sampled or self._calls_since_sample >= _CALLS_PER_SAMPLE

    @contextlib.contextmanager
    def around_call(self, steps: int, *, timed: bool) -> Iterator[None]:
        """A call takes so many steps, whose batches are taken inside."""
        waited = self.seconds() if self._sampled and timed else 0.0
        before = self._clock()
        yield
        seconds = self._clock() - before
        if not timed:
            self._outside += self._share_in_sample * seconds
            self._calls_since_sample += 1
        elif self._sampled:
            self._share_in_sample = (self.seconds() - waited) / seconds
            self._calls_since_sample = 0
        else:
            self._calls_since_sample = _CALLS_PER_SAMPLE  # the next one, should it be sampled
        self._seconds += seconds
        long_enough = self._seconds >= _SECONDS_BEFORE_SAMPLING
        self._sampled = long_enough and seconds < steps * _SHORT_STEP
