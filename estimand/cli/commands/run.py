"""`estimand run`: a program written for tf.estimator, as it is."""

from __future__ import annotations

import os

import click

from estimand.cli.programs import told_from_its_side
from estimand.cli.quiet import quiet_start


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--v1/--v2",
    "v1",
    default=None,
    help="Which TensorFlow the program was written for; by default found in its files.",
)
@click.option(
    "--keras",
    type=click.Choice(["2", "3"]),
    help="Which Keras tf.keras is; by default 3, and 2 (tf_keras) if the program is found to "
    "need it.",
)
@click.option(
    "-m",
    "module",
    is_flag=True,
    help="SCRIPT is a module, as for python -m: estimand run -m trainer.task.",
)
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(
    context: click.Context,
    v1: bool | None,
    keras: str | None,
    module: bool,
    script: str,
    arguments: tuple[str, ...],
) -> None:
    """Run SCRIPT with ARGUMENTS as python would, with Estimand in the place of tf.estimator."""
    from estimand.compat import keras_choice
    from estimand.compat.program_files import module_file

    if not module and not os.path.isfile(script):
        raise click.UsageError(
            f"There is no file {script!r}. A module is run by: estimand run -m {script}"
        )
    keras_choice.choose(
        int(keras) if keras else None,
        module_file(script) if module else script,
        os.getcwd() if module else None,
    )
    with quiet_start(context.obj["verbose"]):
        import tensorflow  # noqa: F401 - loads quietly here rather than noisily later

        from estimand.compat.script import run_module, run_script
    from estimand.core import lines_of_old, tf_private

    if not lines_of_old.is_verbose() and not tf_private.has_gpu_device():
        tf_private.look_for_devices_quietly()  # which the program could have wanted to hide
    with told_from_its_side(context.obj["verbose"]), lines_of_old.written_once():
        (run_module if module else run_script)(script, arguments, v1)
