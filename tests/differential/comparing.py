"""Runs one program in all the ways there are, and compares how it ends.

Within a way of running steps everything has to be the same, bit for bit: whether somebody looks,
at which steps, and whether the run was interrupted. Between ways, sums may be taken in another
order: there, values have to agree to a tolerance.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf

import estimand as est
from estimand.core import tf_private
from estimand.engine.feeding import resident
from estimand.engine.rewriting import op_kinds
from estimand.engine.running import gates
from tests.soak import lives

STEPS = 12
EAGER = "eagerly"
PLAIN = "plain"
# The modes that RunConfig takes, and running eagerly.
MODES = (PLAIN, "single_thread", "xla", "onednn")
# Between modes: sums of a few dozen float32 numbers in another order, over STEPS steps.
RELATIVE, ABSOLUTE = 2e-4, 2e-5
_LOOKABLE = (tf.float32, tf.int32, tf.int64, tf.bool)
Values = dict[str, np.ndarray]


class Differs(AssertionError):
    """Two runs that should be alike are not."""


@dataclass(frozen=True)
class Program:
    """A model function with its input, and what is known of it.

    `random`: its eager runs draw other numbers. `branches`: what a branch uses has no gradient in
    an eager step that does not take it, and a gradient of zeros in a graph, which optimizers with
    momentum tell apart. `tolerance`: how many times as far as others its
    results may lie apart between modes. `fails`: the error it stops with in its step `fails_at`.
    `unchecked`: XLA does not see the error when it is asked for by name, as documented.
    """

    name: str
    style: str
    model_fn: Callable[..., est.EstimatorSpec]
    inputs: Callable[[], tf.data.Dataset]
    random: bool = False
    branches: bool = False
    eager: bool = True
    tolerance: float = 1.0
    fails: type[Exception] | None = None
    fails_at: int = 8
    unchecked: bool = False


@dataclass(frozen=True)
class Way:
    """One way of running a program: its mode, who looks when, when it is interrupted, its input."""

    mode: str
    looks_every: int | None = None
    looks_at: int = 0  # seed of the choice of tensors
    summaries_every: int | None = None
    saves_every: int | None = None
    dies_at: int | None = None
    in_memory: bool = True  # whether input in memory is read by the numbers of its rows


def random_looks(mode: str, chance: random.Random) -> Way:
    return Way(
        mode,
        looks_every=chance.choice([None, 1, 2, 3, 5]),
        looks_at=chance.randrange(1000),
        summaries_every=chance.choice([None, 1, 3, 4]),
        saves_every=chance.choice([2, 3, 5]),
        in_memory=chance.choice([True, False]),
    )


class Interrupted(Exception):
    """Stands for a process that dies."""


class Dies(est.SessionRunHook):
    def __init__(self, step: int) -> None:
        self.cadence = est.every(steps=step, at_start=False)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        raise Interrupted


class Looks(est.SessionRunHook):
    """Fetches the loss, and tensors that the step computes anyway, picked at random."""

    def __init__(self, every: int, seed: int, seen: Seen) -> None:
        self.cadence = est.every(steps=every, at_start=bool(seed % 2))
        self._chance, self._seen = random.Random(seed), seen

    def begin(self) -> None:
        self._wanted = {"loss": self._seen.spec.loss, "step": self._seen.global_step}
        computed = list(lookable(self._seen.spec))
        for tensor in self._chance.sample(computed, min(5, len(computed))):
            self._wanted[tensor.name] = tensor

    def before_run(self, run_context: Any) -> est.SessionRunArgs:
        return est.SessionRunArgs(self._wanted)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        found = run_values.results
        if self._chance.random() < 0.3:  # a run of its own, between two steps
            now = run_context.session.run(self._seen.global_step)
            assert now == found["step"] + 1, (now, found["step"])
        self._seen.losses[int(found["step"])] = float(found["loss"])


def lookable(spec: est.EstimatorSpec) -> Iterator[tf.Tensor]:
    """Dense tensors among what the training step computes: results of arithmetic."""
    for op in gates.needed([spec.loss, spec.train_op]):
        if op.inputs and op_kinds.is_pure(op.node_def) and op.type != "Identity":
            yield from (t for t in op.outputs if t.dtype in _LOOKABLE)


@dataclass
class Seen:
    """What came to light in a run."""

    losses: dict[int, float] = field(default_factory=dict)
    spec: Any = None
    global_step: Any = None
    values: Values = field(default_factory=dict)
    mode: str = ""

    def model_fn(self, program: Program) -> Callable[..., est.EstimatorSpec]:
        @functools.wraps(program.model_fn)
        def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
            self.global_step = tf.compat.v1.train.get_or_create_global_step()
            self.spec = program.model_fn(features, labels, mode)
            return self.spec

        return model_fn


def run(program: Program, folder: Path, way: Way, steps: int = STEPS) -> Seen:
    """Train, from wherever the folder is; raises what training raises."""
    seen = Seen()
    config = est.RunConfig(
        str(folder),
        tf_random_seed=5,
        block_mode=PLAIN if way.mode == EAGER else way.mode,
        run_eagerly=way.mode == EAGER,
        save_checkpoints_steps=way.saves_every or steps,
        save_summary_steps=way.summaries_every,
        log_step_count_steps=None,
        check_data=False,
        progress=False,
    )
    hooks: list[Any] = [Dies(way.dies_at)] if way.dies_at else []
    if way.looks_every and way.mode != EAGER:
        hooks.append(Looks(way.looks_every, way.looks_at, seen))
    estimator = est.Estimator(seen.model_fn(program), config=config)
    with _read_by_rows(way.in_memory):
        estimator.train(program.inputs, max_steps=steps, hooks=hooks)
    seen.values = lives.newest_values(folder)
    return seen


def _read_by_rows(wanted: bool) -> contextlib.AbstractContextManager[Any]:
    if wanted:
        return contextlib.nullcontext()
    return mock.patch.object(resident, "rows_of", lambda dataset: None)


def run_interrupted(program: Program, folder: Path, first: Way, second: Way) -> Seen:
    """Until it dies, then in a new estimator to the end, with other looks."""
    try:
        run(program, folder, first)
    except Interrupted:
        pass
    else:
        raise Differs(f"{program.name} was not interrupted at step {first.dies_at}")
    return run(program, folder, second)


def check_mode(program: Program, folder: Path, mode: str, chance: random.Random) -> Seen:
    """All runs of one mode end with the same bits; the run that nothing disturbs."""
    alone = run(program, folder / "alone", Way(mode))
    looked = random_looks(mode, chance)
    first = dataclasses.replace(random_looks(mode, chance), dies_at=chance.randrange(2, STEPS))
    resumed = run_interrupted(program, folder / "interrupted", first, looked)
    assert_same_bits(alone, resumed, f"{program.name}, {mode}: {first}, then {looked}")
    return alone


def check_looks(program: Program, folder: Path, alone: Seen, way: Way) -> None:
    """The same without an interruption."""
    looked = run(program, folder, way)
    assert_same_bits(alone, looked, f"{program.name}, {way}")


def check_everything(program: Program, folder: Path, chance: random.Random) -> None:
    """Every mode, with looks and interruptions; then the modes with each other."""
    if program.fails is not None:
        for mode in (*modes(), EAGER):
            check_failure(program, folder / mode, mode)
        return
    ends = {}
    for mode in modes():
        ends[mode] = check_mode(program, folder / mode, mode, chance)
        way = random_looks(mode, chance)
        check_looks(program, folder / mode / "looked", ends[mode], way)
    if program.eager:
        ends[EAGER] = check_mode(program, folder / EAGER, EAGER, chance)
    for mode, end in ends.items():
        if mode != EAGER or not program.random:
            assert_close(ends[PLAIN], end, program, mode)


def check_failure(program: Program, folder: Path, mode: str) -> None:
    """The error comes in the step that it belongs to, in a block, with looks, and again."""
    assert program.fails is not None
    if mode == EAGER and not program.eager:
        return
    saves = Way(mode, saves_every=program.fails_at - 1)
    for name, way in (("block", Way(mode)), ("looked", Way(mode, looks_every=1)), ("saved", saves)):
        must_fail(program, folder / name, way)
    if program.unchecked and mode == "xla":
        return
    for _ in range(2):
        step = lives.newest_values(folder / "saved")["global_step"]
        if step != saves.saves_every:
            raise Differs(f"{program.name}, {mode}: failed after step {step}")
        must_fail(program, folder / "saved", saves)


def must_fail(program: Program, folder: Path, way: Way) -> None:
    assert program.fails is not None
    try:
        run(program, folder, way, program.fails_at)
    except program.fails:
        return
    except Exception as error:
        raise Differs(f"{program.name}, {way}: {error!r}, not {program.fails}") from error
    if not (program.unchecked and way.mode == "xla"):
        raise Differs(f"{program.name}, {way}: nothing failed")


def modes() -> list[str]:
    """Those that differ here: where oneDNN is used anyway, asking for it changes nothing."""
    return [m for m in MODES if m != "onednn" or tf_private.onednn_kernels_to_ask_for()]


def assert_same_bits(ours: Seen, theirs: Seen, what: str) -> None:
    try:
        lives.assert_same(ours.values, theirs.values, what)
    except lives.Failed as error:
        raise Differs(str(error)) from error


def assert_close(ours: Seen, theirs: Seen, program: Program, mode: str) -> None:
    if ours.values.keys() != theirs.values.keys():
        names = ours.values.keys() ^ theirs.values.keys()
        raise Differs(f"{program.name}, {mode}: only one of them has {sorted(names)}")
    for name, value in ours.values.items():
        other = theirs.values[name]
        if value.dtype.kind not in "fc" and value.dtype.name != "bfloat16":
            same = value.tobytes() == other.tobytes()
        else:
            a, b = value.astype(np.float64), other.astype(np.float64)
            near = {"rtol": RELATIVE * program.tolerance, "atol": ABSOLUTE * program.tolerance}
            same = np.allclose(a, b, **near, equal_nan=True)
        if not same:
            raise Differs(
                f"{program.name}: {name} is {value.ravel()[:4]} in plain blocks and "
                f"{other.ravel()[:4]} with {mode!r}"
            )
