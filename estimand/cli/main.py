"""The command group: options that every command shares, and the list of commands."""

from __future__ import annotations

import click

from estimand import __version__
from estimand.cli.checkpoint import checkpoint
from estimand.cli.convert import convert
from estimand.cli.data_service import data_service
from estimand.cli.doctor import doctor
from estimand.cli.eval import evaluate
from estimand.cli.label import label
from estimand.cli.launch import launch
from estimand.cli.migrate import migrate
from estimand.cli.predict import predict
from estimand.cli.query import query
from estimand.cli.records import records
from estimand.cli.retrain import retrain
from estimand.cli.run import run
from estimand.cli.serve import serve
from estimand.cli.show import show


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="estimand")
@click.option("--verbose", is_flag=True, help="Show what TensorFlow prints while it starts.")
@click.pass_context
def main(context: click.Context, verbose: bool) -> None:
    """Train, evaluate and predict with an input function and a model function."""
    context.obj = {"verbose": verbose}


main.add_command(checkpoint)
main.add_command(convert)
main.add_command(data_service)
main.add_command(doctor)
main.add_command(evaluate)
main.add_command(label)
main.add_command(launch)
main.add_command(migrate)
main.add_command(records)
main.add_command(predict)
main.add_command(query)
main.add_command(retrain)
main.add_command(run)
main.add_command(serve)
main.add_command(show)
