"""`estimand launch`: a cluster of processes, here or on Ray, or manifests for Kubernetes."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from estimand.cli.ray_option import ray_option
from estimand.cluster.description import ClusterDescription


@click.command(
    context_settings={
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "max_content_width": 100,
    }
)
@click.option("--workers", type=click.IntRange(0), default=0, help="Workers besides the chief.")
@click.option("--ps", type=click.IntRange(0), default=0, help="Parameter servers.")
@click.option(
    "--min-workers",
    type=click.IntRange(1),
    metavar="N",
    help="With --ps: begin when N workers are there; others may come later, leave, and move.",
)
@click.option("--evaluator", is_flag=True, help="A process that evaluates each new checkpoint.")
@click.option("--v1", is_flag=True, help="Run it through `estimand run --v1`: TensorFlow 1 code.")
@click.option(
    "--restart",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Start a process that failed again, up to N times.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="SECS",
    help="How long processes may take to end after SIGTERM.",
)
@click.option("--log-dir", type=click.Path(file_okay=False), help="Keep each output in a file.")
@ray_option("Run all")
@click.option("--dry-run", is_flag=True, help="Print each TF_CONFIG and start nothing.")
@click.option(
    "--kubernetes",
    type=click.Choice(["jobset", "job", "tfjob"]),
    help="Print manifests for Kubernetes and start nothing.",
)
@click.option("--image", help="Kubernetes: the container image with the program.")
@click.option("--name", help="Kubernetes: the name of the job.")
@click.option("--namespace", help="Kubernetes: the namespace.")
@click.option("--port", type=int, default=2222, show_default=True, help="Kubernetes: the port.")
@click.option("--cpu", help="Kubernetes: processors for each pod, such as 4 or 500m.")
@click.option("--memory", help="Kubernetes: memory for each pod, such as 8Gi.")
@click.option(
    "--gpus", type=click.IntRange(0), default=0, help="Kubernetes: GPUs for each trainer."
)
@click.option(
    "--volume",
    "volumes",
    multiple=True,
    metavar="CLAIM:PATH",
    help="Kubernetes: a PersistentVolumeClaim that all pods mount, for the model_dir. Repeatable.",
)
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def launch(script: str, arguments: tuple[str, ...], **options: Any) -> None:
    """Run SCRIPT with ARGUMENTS in every role of a cluster, each with its own TF_CONFIG.

    There is always a chief. With --ps, workers and parameter servers serve it; without, chief and
    workers train together. It ends with the exit code of the first process that failed, or 0.
    """
    roles = ("workers", "ps", "evaluator", "min_workers")
    cluster = ClusterDescription(*(options[role] for role in roles))
    if options["kubernetes"]:
        _print_manifests(cluster, script, arguments, options)
        return
    if not os.path.isfile(script):
        raise click.UsageError(f"There is no file {script!r} to run.")
    if options["dry_run"]:
        _print_tf_configs(cluster)
        return
    sys.exit(_run(cluster, script, arguments, options))


def _run(
    cluster: ClusterDescription, script: str, arguments: tuple[str, ...], options: dict[str, Any]
) -> int:
    from estimand.cli.forkable import modules_to_import
    from estimand.cluster.local_job import LocalJob
    from estimand.cluster.places import LocalMachine, Place

    if options["log_dir"]:
        os.makedirs(options["log_dir"], exist_ok=True)
    if options["ray"]:
        from estimand.cluster.on_ray import OnRay

        place: Place = OnRay(options["ray"])
    else:
        place = LocalMachine(() if options["v1"] else modules_to_import(script))
    command = [sys.executable, *_program(script, arguments, options["v1"])]
    job = LocalJob(
        cluster,
        command,
        sys.stdout,
        restarts=options["restart"],
        grace_secs=options["grace"],
        log_dir=options["log_dir"],
        place=place,
    )
    return job.run()


def _program(script: str, arguments: tuple[str, ...], v1: bool) -> list[str]:
    """What comes after the interpreter's name."""
    return [*(("-m", "estimand", "run", "--v1") if v1 else ()), script, *arguments]


def _print_tf_configs(cluster: ClusterDescription) -> None:
    from estimand.cluster.places import local_tf_configs

    for task, text in local_tf_configs(cluster).items():
        click.echo(f"{task}: TF_CONFIG='{text}'")


def _print_manifests(
    cluster: ClusterDescription, script: str, arguments: tuple[str, ...], options: dict[str, Any]
) -> None:
    from estimand.cluster.kubernetes import KubernetesJob, manifests, to_yaml

    for name in ("image", "name"):
        if not options[name]:
            raise click.UsageError(f"--kubernetes needs --{name}.")
    if options["kubernetes"] == "tfjob" and cluster.min_workers is not None:
        raise click.UsageError(
            "--min-workers is written into TF_CONFIG, and that of a TFJob is written by Kubeflow's "
            "operator. Use --kubernetes jobset or job."
        )
    job = KubernetesJob(
        cluster,
        name=options["name"],
        image=options["image"],
        command=("python", *_program(script, arguments, options["v1"])),
        namespace=options["namespace"],
        port=options["port"],
        restarts=options["restart"],
        grace_secs=options["grace"],
        cpu=options["cpu"],
        memory=options["memory"],
        gpus=options["gpus"],
        volumes=tuple(options["volumes"]),
    )
    click.echo(to_yaml(manifests(job, options["kubernetes"])), nl=False)
