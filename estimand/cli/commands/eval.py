"""`estimand eval`: evaluate the newest checkpoint of a program's model, or all that are left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from estimand.cli import settings
from estimand.cli.programs import Program, ProgramParts, told_from_its_side
from estimand.cli.quiet import quiet_start
from estimand.core.errors import NoCheckpointError

if TYPE_CHECKING:
    from estimand.core.spec import EvalSpec


@click.command("eval")
@click.argument("program")
@click.option("--all", "everything", is_flag=True, help="All checkpoints without results yet.")
@click.option("--again", is_flag=True, help="With --all: also those that have results.")
@click.option("--checkpoint", help="This checkpoint instead of the newest.")
@click.option("--steps", type=click.IntRange(min=1), help="So many batches.")
@click.option("--name", help="Results go to model_dir/eval_NAME.")
@settings.options
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def evaluate(
    context: click.Context,
    program: str,
    everything: bool,
    again: bool,
    checkpoint: str | None,
    steps: int | None,
    name: str | None,
    configs: Sequence[str],
    assignments: Sequence[str],
    arguments: Sequence[str],
) -> None:
    """Evaluate the model of PROGRAM, which is file.py[:NAME] or module[:NAME].

    NAME (by default "experiment" or "make_experiment") is an est.Experiment, (estimator,
    eval_spec), (estimator, train_spec, eval_spec), or a function that returns one of these;
    --config and --set give its arguments. ARGUMENTS, after --, are what PROGRAM finds in sys.argv.
    """
    if everything and checkpoint is not None:
        raise click.UsageError("--all and --checkpoint exclude each other.")
    if again and not everything:
        raise click.UsageError("--again goes with --all.")
    checked, given = Program.parse(program).check(), settings.gather(configs, assignments)
    verbose = context.obj["verbose"]
    with told_from_its_side(verbose), quiet_start(verbose):
        made = ProgramParts.by(checked, arguments, given)
        results = [
            (spec, _evaluate(made.estimator, spec, everything, again, checkpoint))
            for spec in _changed(made.eval_specs, steps, name)
        ]
    for spec, by_step in results:
        _show(spec, by_step, len(results) > 1)


def _evaluate(
    estimator: Any, spec: EvalSpec, everything: bool, again: bool, checkpoint: str | None
) -> dict[int, dict[str, Any]]:
    from estimand.estimator import untrained
    from estimand.estimator.lifecycle.evaluate_all import evaluate_all
    from estimand.estimator.workspace import Workspace

    if everything:
        return evaluate_all(estimator, spec, again=again)
    workspace = Workspace.of(estimator)
    if checkpoint is None and workspace and untrained.nothing_to_evaluate(workspace):
        raise NoCheckpointError(
            f"The model is not trained. {untrained.what_is_there(estimator.model_dir)}. Train it "
            "first, or name a checkpoint: --checkpoint=PATH."
        )
    metrics = estimator.evaluate(
        input_fn=spec.input_fn,
        steps=spec.steps,
        hooks=spec.hooks,
        checkpoint_path=checkpoint,
        name=spec.name,
    )
    return {int(metrics["global_step"]): metrics}


def _changed(specs: Sequence[EvalSpec], steps: int | None, name: str | None) -> list[EvalSpec]:
    if name is not None and len(specs) > 1:
        specs = [spec for spec in specs if spec.name == name] or [_complain_of(name, specs)]
    result = []
    for spec in specs:
        changes: dict[str, Any] = {} if steps is None else {"steps": steps}
        if name is not None:
            changes["name"] = name
        result.append(spec._replace(**changes))
    return result


def _complain_of(name: str, specs: Sequence[EvalSpec]) -> EvalSpec:
    names = ", ".join(str(spec.name) for spec in specs)
    raise click.UsageError(f"The program has no EvalSpec of the name {name!r}; it has: {names}.")


def _show(spec: EvalSpec, by_step: dict[int, dict[str, Any]], named: bool) -> None:
    from estimand.engine.progress.progress import format_results_table
    from estimand.engine.progress.results import in_order

    of_what = f" ({spec.name})" if named else ""
    if not by_step:
        click.echo(f"All checkpoints have results already{of_what}.")
    for step, metrics in by_step.items():
        click.echo(format_results_table(in_order(metrics), title=f"step {step}{of_what}"))
