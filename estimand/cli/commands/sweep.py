"""`estimand sweep`: train what a program makes with many parameters, and find the best."""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click

from estimand.cli import settings
from estimand.cli.group import FAILED, ExitWithMessage
from estimand.cli.programs import TO_TRAIN, Program, ProgramParts, told_from_its_side
from estimand.cli.quiet import quiet_start

_PART = "ESTIMAND_SWEEP_PART"  # set for the processes that --workers starts
_SECONDS_TO_SAVE = 30.0


@click.command()
@click.argument("program")
@click.option("--param", "params", multiple=True, metavar="NAME=SPACE",
              help="16,32,64 or 0.1..0.5 or log:1e-4..1e-1; repeatable.")  # fmt: skip
@click.option("--space", "spaces", multiple=True, type=click.Path(exists=True, dir_okay=False),
              help="The same from a TOML, JSON or YAML file; repeatable.")  # fmt: skip
@click.option("--trials", show_default="20; of a grid all", type=click.IntRange(min=1),
              help="How many the study is to have.")  # fmt: skip
@click.option("--workers", default=1, show_default=True, type=click.IntRange(min=1),
              help="How many processes share them.")  # fmt: skip
@click.option("--study", default="runs/study.db", show_default=True,
              help="A SQLite file; trials train in a folder of that name.")  # fmt: skip
@click.option("--metric", default="loss", show_default=True, help="Of the evaluation.")
@click.option("--minimize/--maximize", default=None, help="If the metric's name does not tell.")
@click.option("--method", default="tpe", show_default=True,
              type=click.Choice(["tpe", "random", "grid"]))  # fmt: skip
@click.option("--pruner", default="median", show_default=True,
              type=click.Choice(["median", "halving", "hyperband", "none"]),
              help="What ends trials that fall behind.")  # fmt: skip
@click.option("--seed", type=int, help="For the choice of parameters.")
@settings.options
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def sweep(
    context: click.Context,
    program: str,
    params: Sequence[str],
    spaces: Sequence[str],
    trials: int | None,
    workers: int,
    study: str,
    configs: Sequence[str],
    assignments: Sequence[str],
    arguments: Sequence[str],
    **options: Any,
) -> None:
    """Search parameters of PROGRAM, which is what `estimand train` takes, by training with many.

    NAME is an argument of its function, or a part of one, as params.units. Run it again, also after
    a crash, and it goes on.
    """
    checked = Program.parse(program, TO_TRAIN).check()
    space = _space(spaces, params)
    fixed = settings.gather(configs, assignments)
    verbose = context.obj["verbose"]
    is_part = _PART in os.environ
    if workers > 1 and not is_part:
        _run_parts(workers)
        trials = 0  # they have been run; what remains is to tell of them
    with told_from_its_side(verbose):
        with quiet_start(verbose):
            from estimand import tuning
            from estimand.tuning.space import optuna

            optuna().logging.set_verbosity(optuna().logging.WARNING)
            make = None if trials == 0 else _maker(checked, arguments, fixed)
        best = tuning.search(make, space, study, trials=trials, **options)  # type: ignore[arg-type]
        if not is_part:
            _show(best, study)


def _space(files: Sequence[str], params: Sequence[str]) -> dict[str, Any]:
    space: dict[str, Any] = {}
    for path in files:
        space |= _dotted(settings.read_file(path))
    for param in params:
        name, equals, text = param.partition("=")
        if not equals or not text or not all(part.isidentifier() for part in name.split(".")):
            raise click.BadParameter(
                f"{param!r} is not NAME=SPACE, such as params.units=16,32,64.",
                param_hint="--param",
            )
        space[name] = text
    if not space:
        raise click.UsageError("Say what to search, as in --param rate=log:1e-4..1e-1.")
    return space


def _dotted(given: Mapping[str, Any], start: str = "") -> dict[str, Any]:
    """Names as --param has them; YAML reads 1e-4 as a text.

    >>> _dotted({"params": {"units": [8, 16]}, "rate": ["1e-4", 0.1], "kind": ["relu"]})
    {'params.units': [8, 16], 'rate': [0.0001, 0.1], 'kind': ['relu']}
    """
    space: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, Mapping):
            space |= _dotted(value, f"{start}{name}.")
        else:
            is_list = isinstance(value, list)
            space[f"{start}{name}"] = [_number(choice) for choice in value] if is_list else value
    return space


def _number(value: Any) -> Any:
    read = settings.value_of(value) if isinstance(value, str) else value
    return read if isinstance(read, int | float) and not isinstance(read, bool) else value


def _maker(
    program: Program, arguments: Sequence[str], fixed: Mapping[str, Any]
) -> Callable[[dict[str, Any], str], Any]:
    """The program is loaded once, and its function called for each trial."""
    name, function = program.load(arguments)
    what = f"{name} of {program.where}"
    if not callable(function) or hasattr(function, "train_spec"):
        raise click.UsageError(
            f"{what} is no function, so that there is nothing to set. Let a function make it."
        )
    place = _place_of_model_dir(function, what)

    def make(values: dict[str, Any], model_dir: str) -> Any:
        chosen = settings.merged(fixed, {**values, place: model_dir})
        made = ProgramParts.of(settings.call(function, chosen, what), what, program.wanted)
        if made.experiment is not None:
            return made.experiment
        if made.train_spec is None:
            raise click.UsageError(
                f"{program.where} gives no TrainSpec: there is nothing to train."
            )
        specs = made.eval_specs[0] if len(made.eval_specs) == 1 else made.eval_specs
        return made.estimator, made.train_spec, specs

    return make


def _place_of_model_dir(function: Any, what: str) -> str:
    """Each trial has its own; by which argument it is told."""
    parameters = inspect.signature(function).parameters
    for name, place in settings.PLACES_OF_MODEL_DIR.items():
        if name in parameters:
            return place
    raise click.UsageError(
        f"{what} takes no model_dir, and each trial needs its own. Let it have an argument "
        "model_dir, or run_config, and hand it on to the estimator."
    )


def _run_parts(workers: int) -> None:
    """This command again in so many processes, which share the study."""
    command = [sys.executable, "-m", "estimand", *sys.argv[1:]]
    environment = {**os.environ, _PART: "1"}
    parts: list[subprocess.Popen[bytes]] = []
    with _ended_by_sigterm():
        try:
            for _ in range(workers):
                parts.append(subprocess.Popen(command, env=environment))
            codes = [part.wait() for part in parts]
        except BaseException as reason:
            # Ctrl-C has reached them, too; a second signal would end them while they save.
            _end(parts, are_told=isinstance(reason, KeyboardInterrupt))
            raise
    if any(codes):
        ended = ", ".join(str(code) for code in codes)
        raise ExitWithMessage(
            f"Of {workers} processes some did not reach the end (exit codes {ended}). Run the "
            "command again, and it goes on.",
            FAILED,
        )


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Inside, SIGTERM is an exception, as Ctrl-C is."""

    def leave(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    previous = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _end(parts: Sequence[subprocess.Popen[bytes]], are_told: bool) -> None:
    """SIGTERM, time to save a checkpoint, SIGKILL; at once on a second signal."""
    try:
        if are_told:
            _wait(parts)
        for part in parts:
            part.terminate()
        _wait(parts)
    finally:
        for part in parts:
            part.kill()
            part.wait()


def _wait(parts: Sequence[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + _SECONDS_TO_SAVE
    for part in parts:
        with contextlib.suppress(subprocess.TimeoutExpired):
            part.wait(max(0.0, deadline - time.monotonic()))


def _show(study: Any, path: str) -> None:
    from estimand import tuning

    click.echo(tuning.as_text(study))
    page = os.path.join(os.path.splitext(path)[0], "index.html")
    click.echo(f"\n{tuning.write_page(study, page)}: open it in a browser.")
