"""`estimand train`: train and evaluate what a program makes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from estimand.cli import settings
from estimand.cli.programs import TO_TRAIN, Program, ProgramParts, told_from_its_side
from estimand.cli.quiet import quiet_start


@click.command()
@click.argument("program")
@settings.options
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def train(
    context: click.Context,
    program: str,
    configs: Sequence[str],
    assignments: Sequence[str],
    arguments: Sequence[str],
) -> None:
    """Train and evaluate the model of PROGRAM, which is file.py[:NAME] or module[:NAME].

    NAME (by default "experiment" or "make_experiment") is an est.Experiment, (estimator,
    train_spec, eval_spec), or a function that returns one of these; --config and --set give its
    arguments. ARGUMENTS, after --, are what PROGRAM finds in sys.argv. Run it again, and it goes
    on where it was.
    """
    checked = Program.parse(program, TO_TRAIN).check()
    given = settings.gather(configs, assignments)
    verbose = context.obj["verbose"]
    with told_from_its_side(verbose):
        with quiet_start(verbose):
            import tensorflow  # noqa: F401 - loads quietly here rather than noisily later

            made = ProgramParts.by(checked, arguments, given)
        _show(_run(made, program))


def _run(made: ProgramParts, program: str) -> Any:
    from estimand.estimator.lifecycle.experiment import run
    from estimand.estimator.lifecycle.train_and_evaluate import train_and_evaluate

    if made.experiment is not None:  # what its role in TF_CONFIG asks for
        return run(lambda *_: made.experiment, run_config=made.estimator.config)
    if made.train_spec is None:
        raise click.UsageError(
            f"{program} gives no TrainSpec, so that it can only be evaluated. Return an "
            "est.Experiment or (estimator, train_spec, eval_spec)."
        )
    specs = made.eval_specs[0] if len(made.eval_specs) == 1 else made.eval_specs
    return train_and_evaluate(made.estimator, made.train_spec, specs)


def _show(done: Any) -> None:
    """Metrics and exports of the last evaluation; of several EvalSpecs, by their names."""
    from estimand.engine.progress.progress import format_results_table
    from estimand.engine.progress.results import in_order

    if not isinstance(done, tuple) or not done[0] or sys.stdout.isatty():
        return  # a part of a cluster that evaluates nothing; or a terminal, which has seen it
    metrics, exports = done
    if "global_step" in metrics:
        metrics, exports = {"": metrics}, {"": exports}
    for name, value in metrics.items():
        title = f"step {int(value['global_step'])}" + (f" ({name})" if name else "")
        click.echo(format_results_table(in_order(value), title=title))
        for path in filter(None, exports.get(name) or ()):
            click.echo(f"exported to {os.fsdecode(path)}")
