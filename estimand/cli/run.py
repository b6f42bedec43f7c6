"""`estimand run`: a program written for tf.estimator, as it is."""

from __future__ import annotations

import click

from estimand.cli.programs import told_from_its_side
from estimand.cli.quiet import quiet_start


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--v1/--v2",
    "v1",
    default=None,
    help="Which TensorFlow the program was written for; by default found in each file.",
)
@click.option(
    "--keras",
    type=click.Choice(["2", "3"]),
    help="Which Keras tf.keras is; by default 3, and 2 (tf_keras) if the program is found to "
    "need it.",
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(
    context: click.Context,
    v1: bool | None,
    keras: str | None,
    script: str,
    arguments: tuple[str, ...],
) -> None:
    """Run SCRIPT with ARGUMENTS as python would, with Estimand in the place of tf.estimator."""
    from estimand.compat import keras_choice

    keras_choice.choose(int(keras) if keras else None, script)
    with quiet_start(context.obj["verbose"]):
        import tensorflow  # noqa: F401 - loads quietly here rather than noisily later

        from estimand.compat.script import run_script
    from estimand.core import lines_of_old, tf_private

    if not lines_of_old.is_verbose() and not tf_private.has_gpu_device():
        tf_private.look_for_devices_quietly()  # which the program could have wanted to hide
    with told_from_its_side(context.obj["verbose"]), lines_of_old.written_once():
        run_script(script, arguments, v1)
