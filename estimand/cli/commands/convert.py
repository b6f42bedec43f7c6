"""`estimand convert`: an exported model as one file for other programs."""

from __future__ import annotations

import os

import click

from estimand.cli.group import os_errors_in_a_sentence
from estimand.cli.quiet import quiet_start


@click.command()
@click.argument("directory", type=click.Path(exists=True))
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Choice(["frozen", "tflite", "onnx"]),
    help="frozen: one GraphDef with constants for variables; tflite; onnx (needs estimand[onnx]).",
)
@click.option("--out", required=True, type=click.Path(), help="The file to write.")
@click.option("--signature", help="Which one; by default the default one (frozen: all).")
@click.option("--tf-ops", is_flag=True, help="tflite: allow TensorFlow's own ops (Flex).")
@click.option("--quantize", is_flag=True, help="tflite: weights in 8 bits.")
@click.option("--opset", type=click.IntRange(min=1), help="onnx: the version of its operators.")
@click.pass_context
def convert(
    context: click.Context,
    directory: str,
    target: str,
    out: str,
    signature: str | None,
    tf_ops: bool,
    quantize: bool,
    opset: int | None,
) -> None:
    """Convert the exported model, or newest version, in DIRECTORY."""
    if target != "tflite" and (tf_ops or quantize):
        raise click.UsageError("--tf-ops and --quantize go with --to tflite.")
    if target != "onnx" and opset is not None:
        raise click.UsageError("--opset goes with --to onnx.")
    with quiet_start(context.obj["verbose"]), os_errors_in_a_sentence():
        from estimand.export import converting

        if target == "frozen":
            made = converting.to_frozen_graph(directory, out, signature=signature)
        elif target == "tflite":
            made = converting.to_tflite(
                directory, out, signature=signature, select_tf_ops=tf_ops, quantize=quantize
            )
        else:
            made = converting.to_onnx(directory, out, signature=signature, opset=opset)
    click.echo(f"{made.path} ({os.path.getsize(made.path):,} bytes)")
    for what, names in (("input", made.inputs), ("output", made.outputs)):
        for name, tensor in names.items():
            click.echo(f"  {what} {name}" + (f" = {tensor}" if tensor != name else ""))
    if made.init_op is not None:
        click.echo(f"  Run the op {made.init_op} once before: it fills the lookup tables.")
