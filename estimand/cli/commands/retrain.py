"""`estimand retrain`: a classifier for one's own images on top of a trained network."""

from __future__ import annotations

import os

import click

from estimand.cli.quiet import quiet_start

_PIXELS = {"-1:1": (-1.0, 1.0), "0:1": (0.0, 1.0), "0:255": (0.0, 255.0)}


@click.command()
@click.option(
    "--images", required=True, type=click.Path(exists=True), help="One folder of images per class."
)
@click.option("--base", required=True, type=click.Path(exists=True), help="A .keras or .h5 file.")
@click.option("--out", required=True, type=click.Path(), help="The directory to fill.")
@click.option("--steps", default=500, show_default=True, type=click.IntRange(min=1))
@click.option("--batch-size", default=100, show_default=True, type=click.IntRange(min=1))
@click.option("--learning-rate", default=0.005, show_default=True)
@click.option(
    "--dropout", default=0.0, show_default=True, type=click.FloatRange(0, 1, max_open=True)
)
@click.option(
    "--validation",
    default=0.1,
    show_default=True,
    type=click.FloatRange(0, 1, max_open=True),
    help="The fraction of images that is held back to measure with.",
)
@click.option("--layer", help="Take the output of this layer of the network.")
@click.option("--size", type=(int, int), help="Height and width, for a network that takes any.")
@click.option(
    "--pixels",
    type=click.Choice(list(_PIXELS)),
    help="What black and white become; by default -1:1, or 0:255 if the network scales itself.",
)
@click.option("--bottlenecks", type=click.Path(), help="Where they are kept; by default in --out.")
@click.option("--seed", default=0, show_default=True)
@click.pass_context
def retrain(
    context: click.Context,
    images: str,
    base: str,
    out: str,
    steps: int,
    batch_size: int,
    learning_rate: float,
    dropout: float,
    validation: float,
    layer: str | None,
    size: tuple[int, int] | None,
    pixels: str | None,
    bottlenecks: str | None,
    seed: int,
) -> None:
    """Train a classifier of images on top of a Keras network, and export both as one model.

    Every image goes through the network once; what comes out is kept, so that another call with
    more --steps, or with more images, is quick.
    """
    with quiet_start(context.obj["verbose"]):
        from estimand.bridge.retrain import retrain as run

        done = run(
            images,
            base,
            out,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            dropout=dropout,
            validation=validation,
            layer=layer,
            size=size,
            pixels=None if pixels is None else _PIXELS[pixels],
            cache=bottlenecks,
            seed=seed,
            report=click.echo,
        )
    on = f"{done.held_back} held-back" if done.held_back else "the training"
    accuracy, step = done.metrics["accuracy"], done.metrics["global_step"]
    click.echo(f"step {step}: accuracy {accuracy:.3f} on {on} images")
    click.echo(f"exported to {done.export}")
    click.echo(f"try it: estimand label --model {os.fspath(out)} IMAGE")
