"""What runs the steps: measured on the model itself, then kept for the whole run.

The single-threaded executor is several times faster on small models and slower on large ones;
a block compiled by XLA is faster still where it fits, but compiling takes a second or more;
oneDNN's kernels suit convolutions. They may differ in the last bits of a sum, so the choice is
written into the model_dir: a resumed run makes the same one and stays bit-identical.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.running import convolutions, gates, whole_loop
from estimand.engine.running.compiled import ONEDNN, PLAIN, SINGLE_THREAD, XLA
from estimand.engine.running.program import StepProgram
from estimand.engine.tracing.trace import Trace

_log = logging.getLogger("tensorflow")

# A trial costs about as much as a few hundred small steps: it pays only in longer runs.
_MIN_STEPS_FOR_TRIAL = 1000
_MIN_STEPS_WITH_CONVOLUTIONS = 200  # which are no small steps
# So long must the steps that are left take without it to make compiling them worth a trial.
MIN_SECONDS_FOR_COMPILING = 30.0
_LARGEST_TO_COMPILE = 1500  # ops: what takes minutes to compile is not tried unasked
# Trial steps change the variables, whose values are put back afterwards: not for huge models.
_MAX_BYTES_FOR_TRIAL = 256 * 2**20
# Short turns: on a busy machine some of many remain undisturbed.
_TRIAL_SECONDS = 0.005
_TURNS = 13
_FEWEST_TURNS = 4
_ENOUGH_SECONDS = 0.3
_CLEAR_LEAD = 0.85
_SMALL_MODEL_PARAMETERS = 50_000


def may_be_tried(trace: Trace, targets: Sequence[tf.Operation | tf.Tensor]) -> bool:
    """Whether steps may be run for a trial and undone afterwards."""
    size = sum(v.shape.num_elements() * v.dtype.size for v in _fixed_size_variables(trace))
    if size > _MAX_BYTES_FOR_TRIAL:
        return False
    problem = gates.device_problem(trace) or gates.trial_problem(trace, targets)
    if problem is not None:
        _log.debug("Block modes are not measured: %s.", problem)
    return problem is None


def pays(program: StepProgram, steps: int | None) -> bool:
    """Whether a trial is worth its time in a run of so many steps (None: no end)."""
    least = _MIN_STEPS_WITH_CONVOLUTIONS if suits_onednn(program) else _MIN_STEPS_FOR_TRIAL
    return steps is None or steps >= least


def suits_onednn(program: StepProgram) -> bool:
    """Whether the model has convolutions, and TensorFlow kernels for them that it leaves out."""
    if gates.device_problem(program.trace) is not None:
        return False
    found = convolutions.has_convolutions(gates.needed(program.targets))
    return found and tf_private.onednn_kernels_to_ask_for()


def guess(trace: Trace) -> str:
    """Without a trial: single-threaded for models so small that scheduling dominates."""
    if gates.device_problem(trace) is not None:
        return PLAIN
    parameters = sum(v.shape.num_elements() for v in _fixed_size_variables(trace) if v.trainable)
    return SINGLE_THREAD if parameters <= _SMALL_MODEL_PARAMETERS else PLAIN


def by_rule(program: StepProgram) -> str:
    """For runs that are to come out the same each time: what size and ops of the model say."""
    mode = guess(program.trace)
    return ONEDNN if mode == PLAIN and suits_onednn(program) else mode


def measure(
    program: StepProgram,
    batch: Sequence[tf.Tensor],
    *,
    steps_to_go: int | None = None,
    may_compile: bool = False,
) -> str:
    """Time each way on `batch`, leaving every variable as it was.

    `steps_to_go` (None: no end) tells whether compiling would pay.
    """
    variables = list(program.trace.variables.by_name.values())
    if program.trace.draws is not None:
        variables += program.trace.draws.variables
    before = [v.read_value() for v in variables]
    try:
        expected = guess(program.trace)
        ways = [expected, ONEDNN] if suits_onednn(program) else [PLAIN, SINGLE_THREAD]
        seconds = _seconds_per_step(program, batch, ways)
        best = _winner(seconds, expected)
        if may_compile and _compiling_may_pay(program, min(seconds[best]), steps_to_go):
            seconds = _seconds_per_step(program, batch, [best, XLA])
            best = _winner(seconds, best)
    except tf.errors.OpError:
        # Steps beyond the real ones may meet a limit of the model's own (an assertion on the
        # step, a table of schedules): that is no fault of the training.
        return guess(program.trace)
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)
    _log.debug("Block mode %s, seconds per step: %s", best, seconds)
    return best


def _compiling_may_pay(program: StepProgram, seconds: float, steps_to_go: int | None) -> bool:
    long = steps_to_go is None or steps_to_go * seconds >= MIN_SECONDS_FOR_COMPILING
    return (
        long
        and len(gates.needed(program.targets)) <= _LARGEST_TO_COMPILE
        and whole_loop.is_promising(program.targets)
        and program.compiling_problem(asked=False) is None
    )


def _winner(seconds: dict[str, list[float]], expected: str) -> str:
    """Whoever leads clearly; else the expected one.

    What else the machine is busy with only adds time, so the best turn of each is compared.
    """
    best = min(seconds, key=lambda mode: min(seconds[mode]))
    return best if min(seconds[best]) < _CLEAR_LEAD * min(seconds[expected]) else expected


def _seconds_per_step(
    program: StepProgram, batch: Sequence[tf.Tensor], modes: Sequence[str]
) -> dict[str, list[float]]:
    """The time of each way, turn by turn."""
    # A call of what XLA compiled costs as much as many steps: a few would say nothing.
    steps = {mode: 10 if mode == XLA else 2 for mode in modes}
    taken: dict[str, list[float]] = {mode: [] for mode in modes}
    for mode in modes:
        float(program.loop_on(batch, steps[mode], mode))  # compiling
    begin = time.perf_counter()
    for turn in range(_TURNS):
        for mode in modes:
            start = time.perf_counter()
            float(program.loop_on(batch, steps[mode], mode))
            seconds = (time.perf_counter() - start) / steps[mode]
            if turn == 0:  # how many steps make a measurement
                most = program.most_steps_at_once(mode)
                wanted = _TRIAL_SECONDS / seconds * (4 if mode == XLA else 1)
                steps[mode] = max(steps[mode], min(most, int(wanted)))
            else:
                taken[mode].append(seconds)
        if turn >= _FEWEST_TURNS and time.perf_counter() - begin > _ENOUGH_SECONDS:
            break
    return taken


def _fixed_size_variables(trace: Trace) -> list[tf.Variable]:
    variables = trace.variables.by_name.values()
    return [
        v
        for v in variables
        if v.shape.is_fully_defined() and v.dtype not in (tf.string, tf.variant)
    ]
