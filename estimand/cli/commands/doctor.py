"""`estimand doctor`: whether this machine is ready, and what to type if it is not.

All of it is read from files, so that it takes no second; with --thorough TensorFlow is imported.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import click

from estimand.cli.group import FAILED
from estimand.cli.quiet import quiet_start

PYTHON_FROM, PYTHON_BELOW = (3, 11), (3, 14)
TENSORFLOW_FROM, TENSORFLOW_BELOW = (2, 19), (2, 22)
INSTALL_TENSORFLOW = "pip install 'tensorflow>=2.19,<2.22'"
# What each extra of the package is for, and the modules that it brings.
EXTRAS = {
    "serve": ("grpc", "hpack", "httptools", "orjson", "tensorflow_serving"),
    "pandas": ("pandas",),
    "parquet": ("pyarrow",),
    "forests": ("ydf",),
    "onnx": ("tf2onnx",),
    "keras2": ("tf_keras",),
    "kubernetes": ("yaml",),
    "report": ("plotly", "jinja2", "sklearn"),
    "profile": ("tensorboard_plugin_profile",),
    "sklearn": ("sklearn",),
    "tuning": ("optuna",),
    "mlflow": ("mlflow",),
    "wandb": ("wandb",),
    "shap": ("shap",),
    "ray": ("ray",),
    "beam": ("apache_beam",),
}
THREAD_VARIABLES = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
_LITTLE_SPACE = 1e9  # bytes; a checkpoint of a large model takes as much
_CGROUP = Path("/sys/fs/cgroup")


class Check(NamedTuple):
    """`look` returns what it found, and raises if that will not do; `remedy` is what to type."""

    subject: str
    look: Callable[[], str]
    remedy: str


class Finding(NamedTuple):
    """`in_order` is None for what is good to know, and no fault."""

    subject: str
    in_order: bool | None
    text: str


class Unfit(Exception):
    """Something is installed and works, but not with this package."""


class Hint(Exception):
    """Nothing is broken, but something could be better."""


@click.command()
@click.option("--thorough", is_flag=True, help="Also import TensorFlow and Keras, and compute.")
@click.pass_context
def doctor(context: click.Context, thorough: bool) -> None:
    """Check Python, TensorFlow, Keras, extras, GPUs, threads and disk; say what to type.

    Exit code 1 if something is broken; hints (marked !) are no fault.
    """
    with quiet_start(context.obj["verbose"]) as held_back:
        findings = [examine(check) for check in (*CHECKS, *(THOROUGH if thorough else ()))]
        broken = any(finding.in_order is False for finding in findings)
        held_back.show = broken
    for finding in findings:
        click.echo(line(finding))
    context.exit(FAILED if broken else 0)


def examine(check: Check) -> Finding:
    try:
        return Finding(check.subject, True, check.look())
    except Hint as hint:
        return Finding(check.subject, None, str(hint))
    except Unfit as unfit:
        problem = str(unfit)
    except Exception as error:  # a broken installation may fail in any way; report it and go on
        problem = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return Finding(check.subject, False, f"{problem}  Fix: {check.remedy}")


# ------------------------------------------------------------------ what is installed


def python() -> str:
    if not PYTHON_FROM <= sys.version_info[:2] < PYTHON_BELOW:
        raise Unfit(f"{sys.version.split()[0]} is not supported.")
    return f"{sys.version.split()[0]}  {sys.executable}"


def tensorflow() -> str:
    version = installed("tensorflow", "tensorflow_cpu", "tf_nightly")
    if not TENSORFLOW_FROM <= release(version) < TENSORFLOW_BELOW:
        raise Unfit(f"{version} is not supported.")
    flags = _first_line_with("/proc/cpuinfo", "flags")
    if flags and " avx " not in f"{flags} ":
        raise Unfit(f"{version} needs a processor with AVX, which this one lacks.")
    return version


def keras() -> str:
    version = installed("keras")
    if release(version) < (3, 0):
        raise Unfit(f"{version} is not supported.")
    backend = os.environ.get("KERAS_BACKEND") or _keras_settings().get("backend", "tensorflow")
    if backend != "tensorflow":
        raise Unfit(f"{version} computes with {backend}.")
    return version


def _keras_settings() -> dict[str, str]:
    home = os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras")
    try:
        with open(os.path.join(home, "keras.json"), encoding="utf-8") as file:
            contents = json.load(file)
    except (OSError, ValueError):
        return {}
    return contents if isinstance(contents, dict) else {}


def extras() -> str:
    missing = [name for name, modules in EXTRAS.items() if not all(map(find_spec, modules))]
    there = [name for name in EXTRAS if name not in missing]
    if "serve" in missing:
        raise Hint(
            f"{', '.join(there) or 'none'}; for `estimand serve`: pip install 'estimand[serve]'"
        )
    others = f"  (others: pip install 'estimand[{','.join(missing)}]')" if missing else ""
    return ", ".join(there) + others


# ------------------------------------------------------------------ what there is to compute with


def gpus() -> str:
    names = _nvidia_gpus()
    if not names:
        return "none; everything runs on the processor"
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and hidden.strip() in ("", "-1"):
        raise Hint(
            f"{names}, hidden by CUDA_VISIBLE_DEVICES={hidden!r}: unset CUDA_VISIBLE_DEVICES"
        )
    if not find_spec("nvidia"):
        raise Hint(f"{names}, without CUDA's libraries: pip install 'tensorflow[and-cuda]'")
    return f"{names}  (that TensorFlow sees them: estimand doctor --thorough)"


def _nvidia_gpus() -> str:
    """Their names, by the driver's own tool; empty if there are none."""
    devices = [device for device in Path("/dev").glob("nvidia*") if device.name[6:].isdigit()]
    tool = shutil.which("nvidia-smi")
    if tool is None:
        if devices:
            raise Unfit(f"{len(devices)} in /dev, but nvidia-smi of their driver is missing.")
        return ""
    command = [tool, "--query-gpu=name", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    if done.returncode:
        if not devices:
            return ""
        raise Unfit(
            f"nvidia-smi fails: {(done.stdout or done.stderr).strip().partition(chr(10))[0]}"
        )
    return ", ".join(filter(None, map(str.strip, done.stdout.splitlines())))


def threads() -> str:
    cores = usable_cores()
    given = {name: os.environ[name] for name in THREAD_VARIABLES if os.environ.get(name)}
    settings = ", ".join(f"{name}={value}" for name, value in given.items())
    told = f"{cores} cores, {settings or 'as many threads as there are cores'}"
    quota = cpu_quota()
    if quota is not None and quota < cores and not given:
        count = max(1, round(quota))
        raise Hint(
            f"{told}, but the container may use {quota:g}: export TF_NUM_INTRAOP_THREADS={count} "
            f"TF_NUM_INTEROP_THREADS={count}"
        )
    few = [name for name, value in given.items() if value.isdecimal() and 0 < int(value) < cores]
    if few and (quota is None or quota >= cores):
        raise Hint(f"{told}: some cores stay idle. To use all: unset {' '.join(few)}")
    return told


def cpu_quota() -> float | None:
    """How many processors a container gives; None without a limit."""
    try:
        quota, period = (_CGROUP / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def temporary_directory() -> str:
    return _writable(tempfile.gettempdir())


def working_directory() -> str:
    return _writable(os.getcwd())


def _writable(directory: str) -> str:
    with tempfile.NamedTemporaryFile(dir=directory) as probe:
        probe.write(b"x" * 4096)
        probe.flush()
    free = shutil.disk_usage(directory).free
    if free < _LITTLE_SPACE:
        raise Unfit(f"{directory} has only {free / 1e9:.1f} GB free.")
    return f"{directory} is writable, {free / 1e9:.1f} GB free"


# ------------------------------------------------------------------ with --thorough


def computing() -> str:
    tf = importlib.import_module("tensorflow")
    if int(tf.constant(20) + 22) != 42:
        raise Unfit("TensorFlow cannot add two numbers.")
    keras = importlib.import_module("keras")
    if keras.backend.backend() != "tensorflow":
        raise Unfit(f"Keras computes with {keras.backend.backend()}.")
    return f"TensorFlow {tf.__version__} and Keras {keras.__version__} compute"


def devices() -> str:
    tf = importlib.import_module("tensorflow")
    names = [device.name.removeprefix("/device:") for device in tf.config.list_logical_devices()]
    if not names:
        raise Unfit("TensorFlow sees no device.")
    if _nvidia_gpus() and not any(name.startswith("GPU") for name in names):
        raise Unfit(f"TensorFlow sees {', '.join(names)}, and no GPU.")
    return ", ".join(names)


CHECKS = (
    Check("Python", python, "use Python 3.11, 3.12 or 3.13"),
    Check("TensorFlow", tensorflow, INSTALL_TENSORFLOW),
    Check("Keras", keras, "export KERAS_BACKEND=tensorflow; pip install 'keras>=3'"),
    Check("Extras", extras, "pip install 'estimand[all]'"),
    Check("GPUs", gpus, "install the driver of NVIDIA, and look at: nvidia-smi"),
    Check("Threads", threads, f"unset {' '.join(THREAD_VARIABLES)}"),
    Check("Work dir", working_directory, "cd /a/directory/with/free/space"),
    Check("Temp dir", temporary_directory, "export TMPDIR=/a/directory/with/free/space"),
)
THOROUGH = (
    Check("Computing", computing, INSTALL_TENSORFLOW),
    Check("Devices", devices, "pip install 'tensorflow[and-cuda]'; estimand --verbose doctor"),
)


def line(finding: Finding) -> str:
    good, bad, note = ("✓", "✗", "!") if stdout_can_print("✓✗") else ("ok", "!!", "! ")
    mark = {
        True: click.style(good, fg="green"),
        False: click.style(bad, fg="red"),
        None: click.style(note, fg="yellow"),
    }[finding.in_order]
    return f"{mark} {finding.subject:<10}  {finding.text}"


def stdout_can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def installed(*names: str) -> str:
    """The version of the first that is installed."""
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise Unfit("is not installed.")


def release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # respects containers and taskset; Linux only
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _first_line_with(path: str, start: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return next((line for line in file if line.startswith(start)), "").replace("\n", " ")
    except OSError:
        return ""
