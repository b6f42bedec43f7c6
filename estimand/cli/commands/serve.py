"""`estimand serve`: models on the network, with TensorFlow Serving's protocol and flags."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click
from click.core import ParameterSource

from estimand.cli.group import INTERRUPTED
from estimand.cli.quiet import quiet_start
from estimand.core.version import __version__
from estimand.serving.flags import Flags
from estimand.serving.lifecycle import base_paths

_REST_PORT = 8501  # TensorFlow Serving's

Command = Callable[..., Any]


def _options(command: Command) -> Command:
    """One option for each flag, under exactly its name."""
    for flag in reversed(fields(Flags)):
        kind = type(flag.default)
        extra: dict[str, Any] = {"type": kind, "default": flag.default}
        if kind is tuple:
            extra = {"type": str, "multiple": True}
        if kind is bool:  # --enable_batching as well as --enable_batching=true
            extra |= {"is_flag": False, "flag_value": "true"}
        option = click.option(
            f"--{flag.name}",
            flag.name,
            help=flag.metadata["help"],
            hidden=flag.metadata["hidden"],
            show_default=flag.default not in ("", ()),
            **extra,
        )
        command = option(command)
    return command


@click.command(context_settings={"max_content_width": 100})
@click.version_option(__version__, prog_name="estimand serve")
@click.argument("directory", required=False)
@_options
@click.pass_context
def serve(context: click.Context, directory: str | None, **given: Any) -> None:
    """Serve exported models over gRPC and REST, as TensorFlow Serving does.

    In short: DIRECTORY, which holds the versions of a model, is one of them, or is a model_dir
    with one export below. REST is at port 8501 then, and the model has the name of the folder.

    One model: --model_name=NAME --model_base_path=DIR, where DIR holds the versions. Several:
    --model_config_file=FILE. New versions are loaded as they appear.
    """
    verbose = context.obj["verbose"]
    flags = _checked(context, directory, given)
    # Read when TensorFlow is imported; without oneDNN a call with one row takes half the time.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with quiet_start(verbose):
        from estimand.serving.process import server, workers

        server.require_packages()
        if flags.num_workers <= 1 or workers.is_worker():  # who only watches needs none
            import tensorflow  # noqa: F401
    server.log_to_stderr(verbose)
    is_interrupted = server.serve(flags, say=click.echo, process_is_fresh=True)
    sys.stdout.flush()
    sys.stderr.flush()
    # Python would wait for a thread in which a model never answers.
    os._exit(INTERRUPTED if is_interrupted else 0)


def _checked(context: click.Context, directory: str | None, given: dict[str, Any]) -> Flags:
    """The flags, with what DIRECTORY adds; wrong usage if they cannot be right."""
    from estimand.core.errors import ConfigError

    try:
        if directory is not None:
            given = {**given, **_short(context, directory, given)}
        flags = Flags(**given).check()
        advice = "" if flags.model_config_file else base_paths.advice(flags.model_base_path)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    if advice and not flags.servable:
        raise click.UsageError(f"There is no version in {flags.model_base_path}. {advice}")
    return flags


def _short(context: click.Context, directory: str, given: dict[str, Any]) -> dict[str, Any]:
    for name in ("model_base_path", "model_config_file"):
        if given[name]:
            raise click.UsageError(f"Give DIRECTORY or --{name}, not both.")
    base_path = base_paths.find(directory)
    added = {"model_base_path": base_path.base_path, "model_version": base_path.version}
    for name, value in (("model_name", base_path.name), ("rest_api_port", _REST_PORT)):
        if context.get_parameter_source(name) is ParameterSource.DEFAULT:
            added[name] = value
    click.echo(f"Model {added.get('model_name', given['model_name'])}: {base_path.text}")
    return added
