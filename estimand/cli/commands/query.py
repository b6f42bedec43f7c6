"""`estimand query`: asks a model server, with the rows of a file."""

from __future__ import annotations

import os
from typing import Any

import click

from estimand.cli.quiet import quiet_start


@click.command()
@click.argument("host")
@click.argument("model")
@click.option(
    "--input", "path", type=click.Path(exists=True), help="CSV, JSON, TFRecord or an image."
)
@click.option(
    "--protocol", type=click.Choice(["grpc", "rest"]), help="If the address does not tell."
)
@click.option("--signature", help="Which one to call; the default one if left out.")
@click.option("--version", type=int, help="Which version; the newest one if left out.")
@click.option("--label", help="Which version, by its label.")
@click.option(
    "--output",
    "output_format",
    default="table",
    show_default=True,
    type=click.Choice(["table", "json", "csv"]),
    help="json: one object per line.",
)
@click.option("--batch-size", default=128, show_default=True, type=click.IntRange(min=1))
@click.option("--timeout", default=30.0, show_default=True, help="Seconds for one request.")
@click.option("--feature", help="Put an image into this feature of a tf.Example.")
@click.option(
    "--pixels",
    type=click.Choice(["0-1", "0-255"]),
    help="What an image's numbers mean, where the model takes floating-point pixels.",
)
@click.option("--tls", is_flag=True, default=None, help="As an address with https:// or grpcs://.")
@click.option("--ca-file", type=click.Path(), help="Certificates to trust, in PEM.")
@click.option("--cert-file", type=click.Path(), help="Our certificate, for mutual TLS.")
@click.option("--key-file", type=click.Path(), help="The key of that certificate.")
@click.pass_context
def query(
    context: click.Context,
    host: str,
    model: str,
    path: str | None,
    signature: str | None,
    version: int | None,
    label: str | None,
    output_format: str,
    batch_size: int,
    feature: str | None,
    pixels: str | None,
    **connection: Any,
) -> None:
    """Ask the server at HOST (host:port for gRPC, http://host:port for REST) for predictions.

    Without --input, tell what MODEL takes and answers, and how its versions are doing. The
    environment variable ESTIMAND_API_KEY holds the key, where the server wants one.
    """
    with quiet_start(context.obj["verbose"]):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        from estimand.cli.commands import query_rows
        from estimand.serving.client.client import Client

        api_key = os.environ.get("ESTIMAND_API_KEY") or None
        opened = Client(host, api_key=api_key, **connection)  # loads what its protocol needs
    with opened as client:
        called = query_rows.Called(client, model, signature, version, label)
        if path is None:
            query_rows.show_model(called)
            return
        rows = query_rows.read(path, called, feature, pixels)
        query_rows.write(called.answers(rows, batch_size), output_format)
