"""Behind `estimand query`: rows of a file to requests, and answers to a table."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from estimand.cli.commands import predict
from estimand.core.errors import InputError
from estimand.export.loaded import rows as export_rows
from estimand.export.loaded.row_files import read_rows

if TYPE_CHECKING:
    from estimand.serving.client.client import Client
    from estimand.serving.client.values import RemoteSignature

IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp"})
_SHOWN = 6  # values of an array in a cell of the table


@dataclass(frozen=True)
class Called:
    """One signature of one model at one server."""

    client: Client
    model: str
    signature: str | None = None
    version: int | None = None
    label: str | None = None

    def contract(self) -> RemoteSignature:
        signatures = self.client.metadata(self.model, version=self.version, label=self.label)
        name = self.signature or "serving_default"
        if name not in signatures:
            raise InputError(
                f"Model {self.model!r} has no signature {name!r}. Use one of: "
                f"{', '.join(f'--signature={name}' for name in sorted(signatures))}."
            )
        return signatures[name]

    def answers(self, rows: Iterable[Any], batch_size: int) -> Iterator[dict[str, Any]]:
        """One dict of plain values for each row."""
        source = iter(rows)
        while batch := list(itertools.islice(source, batch_size)):
            given: Any = batch
            if not isinstance(batch[0], Mapping):
                given = _one_array(batch)
            outputs = self.client.predict(
                self.model,
                given,
                version=self.version,
                label=self.label,
                signature=self.signature,
            )
            for name, array in outputs.items():
                if array.shape[:1] != (len(batch),):
                    raise InputError(
                        f"The output {name!r} has shape {list(array.shape)} for {len(batch)} "
                        "rows: it does not give one value per row. Choose another --signature."
                    )
            for i in range(len(batch)):
                yield {name: export_rows.plain_value(array[i]) for name, array in outputs.items()}


def _one_array(batch: list[Any]) -> Any:
    """Serialized tf.Examples, or pictures."""
    import numpy as np

    if isinstance(batch[0], bytes):
        array: Any = np.empty(len(batch), object)
        array[:] = batch
        return array
    return np.stack(batch)


def read(path: str, called: Called, feature: str | None, pixels: str | None) -> Iterable[Any]:
    """Rows of a table, or a picture in the form that the model takes."""
    if os.path.splitext(path)[1].lower() not in IMAGES:
        return read_rows(path)
    if not os.path.isfile(path):
        raise InputError(f"There is no file {path!r}.")
    with open(path, "rb") as file:
        content = file.read()
    signature = called.contract()
    if len(signature.inputs) != 1:
        raise InputError(f"A picture is one input, but the {signature}. Give rows in JSON.")
    info = next(iter(signature.inputs.values()))
    if info.dtype != "string":
        return [_pixels(content, info, pixels)]
    if feature:
        return [export_rows.example_of_row({feature: content}, {feature: _STRING})]
    return [content]


_STRING = {"dtype": "string"}


def _pixels(content: bytes, info: Any, pixels: str | None) -> Any:
    """As [height, width, channels], in the size that the model takes."""
    import tensorflow as tf

    shape = (None, None, None) if info.shape is None else info.shape[1:]
    if len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] not in (None, 1, 3, 4)):
        raise InputError(f"{info} takes no pictures. Give rows in JSON.")
    channels = shape[2] if len(shape) == 3 else 1
    try:
        image = tf.io.decode_image(content, channels or 0, expand_animations=False)
    except tf.errors.InvalidArgumentError as error:
        raise InputError(f"The picture cannot be read: {error.message.splitlines()[0]}") from error
    size = (shape[0] or image.shape[0], shape[1] or image.shape[1])
    if tuple(image.shape[:2]) != size:
        image = tf.cast(tf.round(tf.image.resize(image, size, antialias=True)), tf.uint8)
    array = image.numpy() if len(shape) == 3 else image.numpy()[:, :, 0]
    if "int" in info.dtype:
        return array
    if pixels is None:
        raise InputError(
            f"{info} takes floating-point pixels. Say what they mean: --pixels=0-1 or "
            "--pixels=0-255."
        )
    return array.astype("float32") / (255.0 if pixels == "0-1" else 1.0)


# ------------------------------------------------------------------ writing


def write(answers: Iterable[dict[str, Any]], output_format: str) -> None:
    if output_format != "table":
        predict.write(answers, output_format)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    answered = list(answers)
    table = Table()
    for name in answered[0] if answered else ():
        table.add_column(escape(name), overflow="fold")
    for answer in answered:
        table.add_row(*(escape(_cell(value)) for value in answer.values()))
    Console().print(table)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        more = ", ..." if len(value) > _SHOWN else ""
        return f"[{', '.join(map(_cell, value[:_SHOWN]))}{more}]"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def show_model(called: Called) -> None:
    """States and signatures."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from estimand.export.loaded.arrays import feature_rows, shape_text

    for version in called.client.status(called.model, version=called.version):
        click.echo(f"{called.model} {version}")
    signatures = called.client.metadata(called.model, version=called.version, label=called.label)
    features = called.client.features(called.model, version=called.version, label=called.label)
    for name, signature in sorted(signatures.items()):
        method = signature.method.rpartition("/")[2]
        table = Table(title=escape(f"{name} ({method})"), title_justify="left", title_style="bold")
        for column in ("", "name", "type", "shape"):
            table.add_column(column, overflow="fold")
        for part in ("inputs", "outputs"):
            for key, info in getattr(signature, part).items():
                kind = " ".join(filter(None, (info.kind, info.dtype)))
                table.add_row(part[:-1], *map(escape, (key, kind, shape_text(info.shape))))
            if part == "inputs" and signature.takes_examples:
                for key, kind, shape in feature_rows(features):
                    table.add_row("feature", *map(escape, (key, kind, shape)))
        Console().print(table)
