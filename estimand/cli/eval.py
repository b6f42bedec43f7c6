"""`estimand eval`: evaluate the newest checkpoint of a program's model, or all that are left."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from estimand.cli.quiet import quiet_start
from estimand.core.errors import NoCheckpointError

if TYPE_CHECKING:
    from estimand.core.spec import EvalSpec

_DEFAULT_NAME = "experiment"
_WANTED = "an est.Experiment, (estimator, eval_spec), or a function that returns one of these"


@click.command("eval")
@click.argument("program")
@click.option("--all", "everything", is_flag=True, help="All checkpoints without results yet.")
@click.option("--again", is_flag=True, help="With --all: also those that have results.")
@click.option("--checkpoint", help="This checkpoint instead of the newest.")
@click.option("--steps", type=click.IntRange(min=1), help="So many batches.")
@click.option("--name", help="Results go to model_dir/eval_NAME.")
@click.pass_context
def evaluate(
    context: click.Context,
    program: str,
    everything: bool,
    again: bool,
    checkpoint: str | None,
    steps: int | None,
    name: str | None,
) -> None:
    """Evaluate the model of PROGRAM, which is file.py[:NAME] or module[:NAME].

    NAME (by default "experiment") is an est.Experiment, a pair (estimator, eval_spec), or a
    function that returns one of these.
    """
    if everything and checkpoint is not None:
        raise click.UsageError("--all and --checkpoint exclude each other.")
    if again and not everything:
        raise click.UsageError("--again goes with --all.")
    try:
        with quiet_start(context.obj["verbose"]):
            estimator, specs = _load(program)
            results = [
                (spec, _evaluate(estimator, spec, everything, again, checkpoint))
                for spec in _changed(specs, steps, name)
            ]
    except NoCheckpointError as error:
        raise click.ClickException(str(error)) from error
    for spec, by_step in results:
        _show(spec, by_step, len(results) > 1)


def _evaluate(
    estimator: Any, spec: EvalSpec, everything: bool, again: bool, checkpoint: str | None
) -> dict[int, dict[str, Any]]:
    from estimand.estimator import untrained
    from estimand.estimator.lifecycle.evaluate_all import evaluate_all

    if everything:
        return evaluate_all(estimator, spec, again=again)
    if checkpoint is None and untrained.nothing_to_evaluate(estimator):
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
    from estimand.engine.progress import format_results_table

    of_what = f" ({spec.name})" if named else ""
    if not by_step:
        click.echo(f"All checkpoints have results already{of_what}.")
    for step, metrics in by_step.items():
        click.echo(format_results_table(metrics, title=f"step {step}{of_what}"))


# What the program says


def _load(program: str) -> tuple[Any, list[EvalSpec]]:
    from estimand.core.spec import EvalSpec
    from estimand.estimator.estimator import Estimator
    from estimand.estimator.lifecycle.experiment import Experiment

    where, name = _split(program)
    module = _module(where)
    if not hasattr(module, name):
        raise click.UsageError(f"{where} has no {name!r}. Let it have {_WANTED}, called {name}.")
    found = getattr(module, name)
    if callable(found) and not isinstance(found, (Experiment, tuple)):
        found = found()
    if isinstance(found, Experiment):
        return found.estimator, [found.eval_spec]
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], Estimator):
        specs = [found[1]] if isinstance(found[1], EvalSpec) else list(found[1])
        if specs and all(isinstance(spec, EvalSpec) for spec in specs):
            return found[0], specs
    raise click.UsageError(f"{name} of {where} gives {found!r}, but has to be {_WANTED}.")


def _split(program: str) -> tuple[str, str]:
    where, colon, name = program.rpartition(":")
    # A path of Windows has a colon, too: what follows it is no name.
    if colon and name.isidentifier():
        return where, name
    return program, _DEFAULT_NAME


def _module(where: str) -> Any:
    if not where.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        try:
            return importlib.import_module(where)
        except ModuleNotFoundError as error:
            if error.name is None or not where.startswith(error.name):
                raise  # something that the program imports
            raise click.UsageError(
                f"There is no module {where!r}. Give the path of a file, as in train.py."
            ) from None
        finally:
            sys.path.pop(0)
    if not os.path.exists(where):
        raise click.UsageError(f"There is no file {where!r}.")
    spec = importlib.util.spec_from_file_location("estimand_program", where)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(where)))  # as `python file.py` does
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module
