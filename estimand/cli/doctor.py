"""`estimand doctor`: five lines that say whether this machine is ready."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from typing import NamedTuple

import click

from estimand.cli.quiet import quiet_start

PYTHON_FROM, PYTHON_BELOW = (3, 11), (3, 14)
TENSORFLOW_FROM, TENSORFLOW_BELOW = (2, 19), (2, 22)
INSTALL_TENSORFLOW = "pip install 'tensorflow>=2.19,<2.22'"


class Check(NamedTuple):
    """`look` returns what it found, and raises if that will not do; `remedy` is what to type."""

    subject: str
    look: Callable[[], str]
    remedy: str


class Finding(NamedTuple):
    subject: str
    in_order: bool
    text: str


class Unfit(Exception):
    """Something is installed and works, but not with this package."""


@click.command()
@click.pass_context
def doctor(context: click.Context) -> None:
    """Check Python, TensorFlow, Keras, devices and disk."""
    with quiet_start(context.obj["verbose"]) as held_back:
        findings = [examine(check) for check in CHECKS]
        healthy = all(finding.in_order for finding in findings)
        held_back.show = not healthy
    for finding in findings:
        click.echo(line(finding))
    context.exit(0 if healthy else 1)


def examine(check: Check) -> Finding:
    try:
        return Finding(check.subject, True, check.look())
    except Unfit as unfit:
        problem = str(unfit)
    except Exception as error:  # a broken installation may fail in any way; report it and go on
        problem = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return Finding(check.subject, False, f"{problem}  Fix: {check.remedy}")


def python() -> str:
    if not PYTHON_FROM <= sys.version_info[:2] < PYTHON_BELOW:
        raise Unfit(f"{sys.version.split()[0]} is not supported.")
    return f"{sys.version.split()[0]}  {sys.executable}"


def tensorflow() -> str:
    tf = importlib.import_module("tensorflow")
    if not TENSORFLOW_FROM <= release(tf.__version__) < TENSORFLOW_BELOW:
        raise Unfit(f"{tf.__version__} is not supported.")
    if int(tf.constant(20) + 22) != 42:
        raise Unfit(f"{tf.__version__} cannot add two numbers.")
    return str(tf.__version__)


def keras() -> str:
    keras = importlib.import_module("keras")
    if release(keras.__version__) < (3, 0):
        raise Unfit(f"{keras.__version__} is not supported.")
    if keras.backend.backend() != "tensorflow":
        raise Unfit(f"{keras.__version__} computes with {keras.backend.backend()}.")
    return str(keras.__version__)


def devices() -> str:
    tf = importlib.import_module("tensorflow")
    names = [device.name.removeprefix("/device:") for device in tf.config.list_logical_devices()]
    if not names:
        raise Unfit("TensorFlow sees no device.")
    threads = tf.config.threading.get_intra_op_parallelism_threads() or "automatic"
    return f"{', '.join(names)}  (cores: {usable_cores()}, threads: {threads})"


def temporary_directory() -> str:
    directory = tempfile.gettempdir()
    with tempfile.NamedTemporaryFile(dir=directory) as probe:
        probe.write(b"x" * 4096)
        probe.flush()
    free = shutil.disk_usage(directory).free / 1e9
    return f"{directory} is writable, {free:.1f} GB free"


CHECKS = (
    Check("Python", python, "use Python 3.11, 3.12 or 3.13"),
    Check("TensorFlow", tensorflow, INSTALL_TENSORFLOW),
    Check("Keras", keras, "export KERAS_BACKEND=tensorflow; pip install 'keras>=3'"),
    Check("Devices", devices, "estimand --verbose doctor shows what TensorFlow says"),
    Check("Temp dir", temporary_directory, "export TMPDIR=/a/directory/with/free/space"),
)


def line(finding: Finding) -> str:
    good, bad = ("✓", "✗") if stdout_can_print("✓✗") else ("ok", "!!")
    mark = click.style(good, fg="green") if finding.in_order else click.style(bad, fg="red")
    return f"{mark} {finding.subject:<10}  {finding.text}"


def stdout_can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # respects containers and taskset; Linux only
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
