"""`estimand label`: what a retrained model sees in images."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from estimand.cli.quiet import quiet_start

_BEGINNINGS = {b"\xff\xd8": "JPEG", b"\x89PNG": "PNG", b"GIF8": "GIF", b"BM": "BMP"}


@click.command()
@click.option(
    "--model", "directory", required=True, type=click.Path(exists=True), help="Of retrain --out."
)
@click.option("--top", default=5, show_default=True, type=click.IntRange(min=1))
@click.option("--json", "as_json", is_flag=True, help="One JSON object per image, for programs.")
@click.argument("images", nargs=-1, required=True, type=click.Path())
@click.pass_context
def label(
    context: click.Context, directory: str, top: int, as_json: bool, images: tuple[str, ...]
) -> None:
    """Name the most likely classes of IMAGES, with a model made by `estimand retrain`."""
    for path in images:
        if not os.path.isfile(path):
            raise click.UsageError(f"There is no image {path!r}.")
    with quiet_start(context.obj["verbose"]):
        from estimand.export.loaded.loading import load_model

        model = load_model(_export(directory))
        names = _labels(model.directory)
    with model:
        for path in images:
            _show(path, _likely(model, path, names, top), as_json, len(images) > 1)


def _export(directory: str) -> str:
    """The folder of versions in what `retrain` wrote, or the directory itself."""
    below = os.path.join(directory, "export")
    return below if os.path.isdir(below) else directory


def _labels(export: str) -> list[str]:
    path = os.path.join(export, "assets.extra", "labels.txt")
    if not os.path.exists(path):
        raise click.ClickException(
            f"{export} has no assets.extra/labels.txt: it was not made by `estimand retrain`. "
            "For other models there is `estimand predict`."
        )
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def _likely(model: Any, path: str, names: list[str], top: int) -> list[tuple[str, float]]:
    import tensorflow as tf

    with open(path, "rb") as file:
        encoded = file.read()
    if not encoded.startswith(tuple(_BEGINNINGS)):
        raise click.ClickException(
            f"{path} cannot be read as an image: it is none of {', '.join(_BEGINNINGS.values())}."
        )
    try:
        answer = model({"image_bytes": [encoded]})
    except tf.errors.OpError as error:
        reason = str(error.message).splitlines()[0].strip()
        raise click.ClickException(f"{path} cannot be read as an image: {reason}") from error
    pairs = zip(names, map(float, answer["probabilities"][0]), strict=True)
    return sorted(pairs, key=lambda pair: -pair[1])[:top]


def _show(path: str, likely: list[tuple[str, float]], as_json: bool, several: bool) -> None:
    if as_json:
        click.echo(json.dumps({"image": path, "classes": dict(likely)}, ensure_ascii=False))
        return
    if several:
        click.echo(f"{path}:")
    width = max(len(name) for name, _ in likely)
    for name, probability in likely:
        click.echo(f"{name:<{width}}  {probability:.4f}")
