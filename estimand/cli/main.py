"""The `estimand` command: options that every command shares, and the list of commands."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import click

from estimand.cli.group import Commands, Entry
from estimand.core.interpreter import postponed
from estimand.core.version import __version__

_VERBOSE = "ESTIMAND_VERBOSE"
ENTRIES = {
    "board": Entry(
        "estimand.cli.commands.board:board",
        "Show trainings in TensorBoard, with more than their curves.",
        (
            "estimand board runs",
            "estimand board runs/census --program program.py",
            "estimand board runs/text --words word_embedding=words.txt --port 6007",
        ),
    ),
    "checkpoint": Entry(
        "estimand.cli.commands.checkpoint:checkpoint",
        "Look into checkpoints, compare them, convert their names.",
        {
            "show": (
                "estimand checkpoint show runs/census",
                "estimand checkpoint show runs/census/model.ckpt-500 --stats",
            ),
            "diff": (
                "estimand checkpoint diff runs/a runs/b",
                "estimand checkpoint diff runs/a runs/b --tolerance 1e-6",
            ),
            "convert": (
                "estimand checkpoint convert runs/old_v1 runs/new",
                "estimand checkpoint convert runs/new runs/as_v1 --to v1",
            ),
        },
    ),
    "convert": Entry(
        "estimand.cli.commands.convert:convert",
        "Make one file of an exported model: TFLite, ONNX, frozen.",
        (
            "estimand convert runs/census/export/best --to tflite --out census.tflite",
            "estimand convert runs/census/export/best --to onnx --out census.onnx",
        ),
    ),
    "data-service": Entry(
        "estimand.cli.commands.data_service:data_service",
        "Prepare input in other processes, by tf.data's service.",
        {
            "dispatcher": ("estimand data-service dispatcher --port 5050",),
            "worker": ("estimand data-service worker --dispatcher host:5050 --port 0",),
            "local": ("estimand data-service local --workers 2",),
        },
    ),
    "doctor": Entry(
        "estimand.cli.commands.doctor:doctor",
        "Check this machine: versions, extras, GPUs, threads, disk.",
        ("estimand doctor", "estimand doctor --thorough"),
    ),
    "eval": Entry(
        "estimand.cli.commands.eval:evaluate",
        "Evaluate checkpoints of the model that a program makes.",
        (
            "estimand eval program.py",
            "estimand eval program.py:make_experiment --all --set params.units=64",
        ),
    ),
    "explain": Entry(
        "estimand.cli.commands.explain:explain",
        "Say which columns an exported model relies on.",
        (
            "estimand explain runs/census/export/best rows.csv --label income",
            "estimand explain runs/census/export/best rows.csv --method shapley",
        ),
    ),
    "label": Entry(
        "estimand.cli.commands.label:label",
        "Name what a retrained model sees in images.",
        ("estimand label --model runs/flowers rose.jpg", "estimand label --model m --json *.jpg"),
    ),
    "launch": Entry(
        "estimand.cli.commands.launch:launch",
        "Run a program as a cluster, here or on Kubernetes.",
        (
            "estimand launch --workers 2 program.py --steps 1000",
            "estimand launch --ps 1 --workers 2 --evaluator program.py",
            "estimand launch --ray=auto --workers 4 program.py",
            "estimand launch --kubernetes job --name census --image me/census:1 program.py",
        ),
    ),
    "migrate": Entry(
        "estimand.cli.commands.migrate:migrate",
        "Say what of tf.estimator code runs as it is.",
        {
            "check": ("estimand migrate check src/", "estimand migrate check old.py --all"),
            "fix": ("estimand migrate fix src/", "estimand migrate fix old.py --write"),
        },
    ),
    "new": Entry(
        "estimand.cli.commands.new:new",
        "Write a small project that trains, tests and serves.",
        ("estimand new demo", "estimand new work/churn"),
    ),
    "predict": Entry(
        "estimand.cli.commands.predict:predict",
        "Answer the rows of a file, or of many, with an exported model.",
        (
            "estimand predict runs/census/export/best --input rows.csv",
            "estimand predict runs/census/export/best --input rows.json --format csv",
            "estimand predict exports --input 'rows/*.parquet' --output answers --workers 4",
        ),
    ),
    "query": Entry(
        "estimand.cli.commands.query:query",
        "Ask a model server, with the rows of a file.",
        (
            "estimand query localhost:8500 census",
            "estimand query localhost:8500 census --input rows.csv",
            "estimand query http://localhost:8501 census --input rows.csv --output json",
        ),
    ),
    "records": Entry(
        "estimand.cli.commands.records:records",
        "Make, look into and check TFRecord files.",
        {
            "make": (
                "estimand records make census.csv census.tfrecord",
                "estimand records make images/ flowers.tfrecord --shards 4",
                "estimand records make 'rows/*.parquet' records/ --workers 4",
            ),
            "show": ("estimand records show census.tfrecord --first 1",),
            "verify": ("estimand records verify 'data/*.tfrecord'",),
            "schema": ("estimand records schema census.tfrecord --python",),
        },
    ),
    "report": Entry(
        "estimand.cli.commands.report:report",
        "Write a page with pictures of one or several trainings.",
        (
            "estimand report runs/census",
            "estimand report runs/a runs/b --out compared.html",
            "estimand report --program program.py",
        ),
    ),
    "retrain": Entry(
        "estimand.cli.commands.retrain:retrain",
        "Train a classifier of images on top of a Keras network.",
        ("estimand retrain --images flowers/ --base mobilenet.keras --out runs/flowers",),
    ),
    "run": Entry(
        "estimand.cli.commands.run:run",
        "Run a program written for tf.estimator, as it is.",
        ("estimand run old_program.py --steps=1000", "estimand run --v1 old_program.py"),
    ),
    "serve": Entry(
        "estimand.cli.commands.serve:serve",
        "Serve exported models over gRPC and REST.",
        (
            "estimand serve runs/census/export/best",
            "estimand serve --model_name=census --model_base_path=/models/census --port=8500",
            "estimand serve --model_config_file=models.config --rest_api_port=8501",
        ),
    ),
    "show": Entry(
        "estimand.cli.commands.show:show",
        "Say what an exported model takes and answers.",
        ("estimand show runs/census/export/best", "estimand show runs/census/export/best --json"),
    ),
    "sweep": Entry(
        "estimand.cli.commands.sweep:sweep",
        "Search good parameters of the model that a program makes.",
        (
            "estimand sweep program.py --param params.units=16,32,64 --method grid",
            "estimand sweep program.py --param rate=log:1e-4..1e-1 --trials 20 --workers 2",
        ),
    ),
    "train": Entry(
        "estimand.cli.commands.train:train",
        "Train and evaluate the model that a program makes.",
        (
            "estimand train program.py",
            "estimand train program.py:make_experiment --set params.units=64",
            "estimand train program.py --config big.toml --set model_dir=runs/big",
            "estimand train program.py -- --data census.csv",
        ),
    ),
}


@click.group(
    cls=Commands,
    entries=ENTRIES,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nFirst steps:\n  estimand doctor\n  estimand new demo",
)
@click.version_option(__version__, prog_name="estimand")
@click.option("--verbose", is_flag=True, help="Show what is held back: TensorFlow's start, frames.")
@click.pass_context
def main(context: click.Context, verbose: bool) -> None:
    """tf.estimator's lifecycle on TensorFlow 2: train, evaluate, export, serve."""
    context.obj = {"verbose": verbose}
    postponed.postpone()
    if verbose:
        context.with_resource(_told_to_be_verbose())


@contextlib.contextmanager
def _told_to_be_verbose() -> Iterator[None]:
    """For this command, and the processes that it starts."""
    before = os.environ.get(_VERBOSE)
    os.environ[_VERBOSE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VERBOSE]
        else:
            os.environ[_VERBOSE] = before
