"""What runs the steps: measured on the model itself, then kept for the whole run.

The single-threaded executor is several times faster on small models and slower on large ones;
a block compiled by XLA is faster still where it fits, but compiling takes a second or more;
oneDNN's kernels suit convolutions. They may differ in the last bits of a sum, so the choice is
written into the model_dir: a resumed run makes the same one and stays bit-identical.
"""

from __future__ import annotations

import itertools
import logging
import statistics
import time
from collections.abc import Iterator, Sequence

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.feeding.supply import Supply
from estimand.engine.rewriting import convolutions
from estimand.engine.running import gates, whole_loop
from estimand.engine.running.compiled import ONEDNN, PLAIN, SINGLE_THREAD, XLA
from estimand.engine.running.program import StepProgram
from estimand.engine.tracing.trace import Trace

_log = logging.getLogger("tensorflow")

# A trial costs about as much as a few hundred small steps: it pays only in longer runs.
_MIN_STEPS_FOR_TRIAL = 1000
_MIN_STEPS_WITH_CONVOLUTIONS = 200  # which are no small steps
# So long must the steps that are left take as they are expected to run, or comparing would take
# longer than it could save.
MIN_SECONDS_FOR_TRIAL = 1.0
# So long must the steps that are left take without it to make compiling them worth a trial. With
# rows in memory, where no batches have to be stacked, it pays so many times sooner.
MIN_SECONDS_FOR_COMPILING = 30.0
_SOONER_WITH_ROWS = 6
# By rule, without a stopwatch: so many steps of a small model take longer than compiling them.
MIN_STEPS_FOR_COMPILING = 50_000
_LARGEST_TO_COMPILE = 1500  # ops: what takes minutes to compile is not tried unasked
# Trial steps change the variables, whose values are put back afterwards: not for huge models.
_MAX_BYTES_FOR_TRIAL = 256 * 2**20
# Short turns: on a busy machine some of many remain undisturbed.
_TRIAL_SECONDS = 0.005
_TURNS = 13
_FEWEST_TURNS = 4
_ENOUGH_SECONDS = 0.3
_CLEAR_LEAD = 0.85
_ANY_LEAD = 0.97
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
    convolves = convolutions.has_convolutions(gates.needed(program.targets))
    return convolves and tf_private.onednn_kernels_to_ask_for()


def guess(trace: Trace) -> str:
    """Without a trial: single-threaded for models so small that scheduling dominates."""
    if gates.device_problem(trace) is not None:
        return PLAIN
    parameters = sum(v.shape.num_elements() for v in _fixed_size_variables(trace) if v.trainable)
    return SINGLE_THREAD if parameters <= _SMALL_MODEL_PARAMETERS else PLAIN


def of_reading(trace: Trace, of_training: str | None) -> str:
    """Of evaluations and predictions, given what runs the steps of the training (None: not known).

    They are too short to try anything out. oneDNN's kernels, where training took them, are as much
    faster for them; what else there is to choose depends on the size of their batches, too.
    """
    if of_training == ONEDNN and tf_private.onednn_kernels_to_ask_for():
        return ONEDNN if gates.device_problem(trace) is None else PLAIN
    return guess(trace)


def by_rule(program: StepProgram, supply: Supply | None, steps_to_go: int | None) -> str:
    """For runs that are to come out the same each time: what size and ops of the model say.

    Small models whose input is in memory (`supply`; None: that must not be compiled) are compiled,
    if there are enough steps for it: they gain more than any others could lose.
    """
    mode = guess(program.trace)
    if mode == PLAIN and suits_onednn(program):
        return ONEDNN
    long = steps_to_go is None or steps_to_go >= MIN_STEPS_FOR_COMPILING
    if mode == SINGLE_THREAD and long and supply is not None and supply.by_number:
        return XLA if _may_be_compiled(program, supply) else mode
    return mode


def measure(
    program: StepProgram,
    supply: Supply,
    *,
    steps_to_go: int | None = None,
    may_compile: bool = False,
) -> str:
    """Time each way on batches of `supply`, leaving every variable as it was.

    `steps_to_go` (None: no end) tells whether compiling would pay.
    """
    variables = list(program.trace.variables.by_name.values())
    if program.trace.draws is not None:
        variables += program.trace.draws.variables
    before = [v.read_value() for v in variables]
    try:
        expected = guess(program.trace)
        if _soon_done(program, supply, expected, steps_to_go):
            return expected
        ways = [expected, ONEDNN] if suits_onednn(program) else [PLAIN, SINGLE_THREAD]
        seconds = _seconds_per_step(program, supply, ways)
        best = _winner(seconds, expected)
        if may_compile and _compiling_may_pay(program, supply, min(seconds[best]), steps_to_go):
            seconds = _seconds_per_step(program, supply, [best, XLA])
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


def _soon_done(program: StepProgram, supply: Supply, way: str, steps_to_go: int | None) -> bool:
    """What takes time beside the steps makes a turn longer: a short one is enough to know it."""
    if steps_to_go is None:
        return False
    turns = itertools.islice(_turns(program, supply, way), 1 + _FEWEST_TURNS)
    return any(steps_to_go * seconds < MIN_SECONDS_FOR_TRIAL for seconds in turns)


def _compiling_may_pay(
    program: StepProgram, supply: Supply, seconds: float, steps_to_go: int | None
) -> bool:
    least = MIN_SECONDS_FOR_COMPILING / (_SOONER_WITH_ROWS if supply.by_number else 1)
    long = steps_to_go is None or steps_to_go * seconds >= least
    return long and _may_be_compiled(program, supply)


def _may_be_compiled(program: StepProgram, supply: Supply) -> bool:
    """Unasked: known to do the same, and to be worth it."""
    return (
        len(gates.needed(program.targets)) <= _LARGEST_TO_COMPILE
        and whole_loop.is_promising(program.targets)
        and program.compiling_problem(supply, asked=False) is None
    )


def _winner(seconds: dict[str, list[float]], expected: str) -> str:
    """Whoever leads clearly; else the expected one, or one thread where it usually leads.

    What else the machine is busy with only adds time, so the best turn of each is compared. But
    threads that wait for each other, as those of a recurrent network do, are seldom as quick as in
    their best turn, and in a training they share the processor with the input, which a trial has
    not. Several threads that lead clearly in their best turn were only disturbed in the others.
    """
    quickest = {mode: min(taken) for mode, taken in seconds.items()}
    best = min(quickest, key=lambda mode: quickest[mode])
    if expected == PLAIN and SINGLE_THREAD in seconds:
        usual = {mode: statistics.median(taken) for mode, taken in seconds.items()}
        disturbed = quickest[PLAIN] < _CLEAR_LEAD * quickest[SINGLE_THREAD]
        if usual[SINGLE_THREAD] < _ANY_LEAD * usual[PLAIN] and not disturbed:
            return SINGLE_THREAD
    return best if quickest[best] < _CLEAR_LEAD * quickest[expected] else expected


def _seconds_per_step(
    program: StepProgram, supply: Supply, modes: Sequence[str]
) -> dict[str, list[float]]:
    """The time of each way, turn by turn."""
    turns = {mode: _turns(program, supply, mode) for mode in modes}
    for mode in modes:
        next(turns[mode])
    taken: dict[str, list[float]] = {mode: [] for mode in modes}
    begin = time.perf_counter()
    for turn in range(1, _TURNS):
        for mode in modes:
            taken[mode].append(next(turns[mode]))
        if turn >= _FEWEST_TURNS and time.perf_counter() - begin > _ENOUGH_SECONDS:
            break
    return taken


def _turns(program: StepProgram, supply: Supply, mode: str) -> Iterator[float]:
    """Seconds per step of turns, the first of which tells how many steps make a measurement."""
    most = program.most_steps_at_once(supply, mode)
    # A call of what XLA compiled costs as much as many steps: a few would say nothing.
    steps = min(10 if mode == XLA else 2, most)
    float(program.try_out(supply, steps, mode))  # compiling
    for turn in itertools.count():
        start = time.perf_counter()
        float(program.try_out(supply, steps, mode))
        seconds = (time.perf_counter() - start) / steps
        yield seconds
        if turn == 0:
            wanted = _TRIAL_SECONDS / seconds * (4 if mode == XLA else 1)
            steps = max(steps, min(most, int(wanted)))


def _fixed_size_variables(trace: Trace) -> list[tf.Variable]:
    variables = trace.variables.by_name.values()
    return [
        v
        for v in variables
        if v.shape.is_fully_defined() and v.dtype not in (tf.string, tf.variant)
    ]
