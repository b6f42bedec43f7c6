"""Which executor runs the steps: measured on the model itself, then kept for the whole run.

The single-threaded executor is several times faster on small models and slower on large ones.
The two may differ in the last bits of a sum, so the choice is written into the model_dir: a
resumed run makes the same one and stays bit-identical.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import tensorflow as tf

from estimand.engine import effects
from estimand.engine.compiled import BLOCK_MODES, PLAIN, SINGLE_THREAD
from estimand.engine.program import StepProgram
from estimand.engine.tracing import Trace

_log = logging.getLogger("tensorflow")

# A trial costs about as much as a few hundred small steps: it pays only in longer runs.
MIN_STEPS_FOR_TRIAL = 1000
# Trial steps change the variables, whose values are put back afterwards: not for huge models.
_MAX_BYTES_FOR_TRIAL = 256 * 2**20
_TRIAL_SECONDS = 0.02
_TURNS = 6
_CLEAR_LEAD = 0.85
_SMALL_MODEL_PARAMETERS = 50_000

# Running these for a trial would be seen outside of the variables.
_OUTSIDE_EFFECTS = (
    "PyFunc", "EagerPyFunc", "Print", "PrintV2", "WriteFile", "LookupTableInsert",
    "MutableHashTable", "Queue", "Summary", "IteratorGetNext", "Send", "Recv",
)  # fmt: skip


def may_be_tried(trace: Trace, targets: Sequence[tf.Operation | tf.Tensor]) -> bool:
    """Whether steps may be run for a trial and undone afterwards."""
    size = sum(v.shape.num_elements() * v.dtype.size for v in _fixed_size_variables(trace))
    if size > _MAX_BYTES_FOR_TRIAL:
        return False
    needed = effects.ancestors(getattr(t, "op", t) for t in targets)
    return not any(op.type.startswith(_OUTSIDE_EFFECTS) for op in needed.values())


def guess(trace: Trace) -> str:
    """Without a trial: single-threaded for models so small that scheduling dominates."""
    parameters = sum(v.shape.num_elements() for v in _fixed_size_variables(trace) if v.trainable)
    return SINGLE_THREAD if parameters <= _SMALL_MODEL_PARAMETERS else PLAIN


def measure(program: StepProgram, batch: Sequence[tf.Tensor]) -> str:
    """Time each way on `batch`, leaving every variable as it was."""
    variables = list(program.trace.variables.by_name.values())
    before = [v.read_value() for v in variables]
    try:
        seconds = _seconds_per_step(program, batch)
    except tf.errors.OpError:
        # Steps beyond the real ones may meet a limit of the model's own (an assertion on the
        # step, a table of schedules): that is no fault of the training.
        return guess(program.trace)
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)
    best = _winner(seconds, guess(program.trace))
    _log.debug("Block mode %s, seconds per step: %s", best, seconds)
    return best


def _winner(seconds: dict[str, list[float]], expected: str) -> str:
    """Whoever leads clearly in all turns but one; else the expected one.

    A machine that is busy with other things as well measures badly.
    """
    for mode, turns in seconds.items():
        pairs = zip(turns, seconds[expected], strict=True)
        leads = sum(mine < _CLEAR_LEAD * others for mine, others in pairs)
        if leads >= max(1, len(turns) - 1):
            return mode
    return expected


def _seconds_per_step(program: StepProgram, batch: Sequence[tf.Tensor]) -> dict[str, list[float]]:
    """The time of each way, turn by turn."""
    steps = dict.fromkeys(BLOCK_MODES, 2)
    taken: dict[str, list[float]] = {mode: [] for mode in BLOCK_MODES}
    for turn in range(_TURNS):
        for mode in BLOCK_MODES:
            start = time.perf_counter()
            float(program.loop_on(batch, steps[mode], mode))
            seconds = (time.perf_counter() - start) / steps[mode]
            if turn == 0:
                continue  # compiling
            if turn == 1:  # how many steps make a measurement
                steps[mode] = max(2, min(200, int(_TRIAL_SECONDS / seconds)))
            else:
                taken[mode].append(seconds)
    return taken


def _fixed_size_variables(trace: Trace) -> list[tf.Variable]:
    variables = trace.variables.by_name.values()
    return [
        v
        for v in variables
        if v.shape.is_fully_defined() and v.dtype not in (tf.string, tf.variant)
    ]
