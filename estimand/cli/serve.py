"""`estimand serve`: models on the network, with TensorFlow Serving's protocol and flags."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click

from estimand import __version__
from estimand.cli.quiet import quiet_start
from estimand.serving.flags import Flags

Command = Callable[..., Any]


def _options(command: Command) -> Command:
    """One option for each flag, under exactly its name."""
    for one in reversed(fields(Flags)):
        kind = type(one.default)
        extra: dict[str, Any] = {"type": kind, "default": one.default}
        if kind is tuple:
            extra = {"type": str, "multiple": True}
        if kind is bool:  # --enable_batching as well as --enable_batching=true
            extra |= {"is_flag": False, "flag_value": "true"}
        option = click.option(
            f"--{one.name}",
            one.name,
            help=one.metadata["help"],
            hidden=one.metadata["hidden"],
            show_default=one.default not in ("", ()),
            **extra,
        )
        command = option(command)
    return command


@click.command(context_settings={"max_content_width": 100})
@click.version_option(__version__, prog_name="estimand serve")
@_options
@click.pass_context
def serve(context: click.Context, **given: Any) -> None:
    """Serve exported models over gRPC and REST, as TensorFlow Serving does.

    One model: --model_name=NAME --model_base_path=DIR, where DIR holds the versions. Several:
    --model_config_file=FILE. New versions are loaded as they appear.
    """
    flags = Flags(**given)
    from estimand.core.errors import EstimandError

    verbose = context.obj["verbose"]
    try:
        flags.check()
        # Read when TensorFlow is imported; without oneDNN a call with one row takes half the time.
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        with quiet_start(verbose):
            from estimand.serving import server, workers

            server.require_packages()
            if flags.num_workers <= 1 or workers.is_worker():  # who only watches needs none
                import tensorflow  # noqa: F401
        server.log_to_stderr(verbose)
        server.serve(flags, say=click.echo, process_is_fresh=True)
    except EstimandError as error:
        raise click.ClickException(str(error)) from error
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # Python would wait for a thread in which a model never answers
