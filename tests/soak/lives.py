"""Processes that are begun, killed and begun again, and what they leave on the disk."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.engine.checkpoints import api as checkpoints
from tests import forked

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE = 300.0  # seconds, on a machine that is busy with other things
IMPORTS = (
    "keras estimand.canned estimand.features estimand.hooks estimand.export "
    "estimand.estimator.lifecycle.train_and_evaluate estimand.export.exporters"
)


class Failed(Exception):
    """Something is not as it would have been without the kills."""


class Life:
    """One or several processes that are one run of a program."""

    def __init__(self, start: Callable[[], Sequence[Any]], log: Path) -> None:
        self.log = log
        self.began = time.monotonic()
        self.processes = list(start())

    @property
    def ended(self) -> bool:
        return all(process.poll() is not None for process in self.processes)

    def wait(self) -> list[int]:
        """The exit codes, once all have ended by themselves."""
        end = time.monotonic() + PATIENCE
        try:
            return [p.wait(max(0.1, end - time.monotonic())) for p in self.processes]
        except subprocess.TimeoutExpired:
            raise Failed(f"still running after {PATIENCE:.0f} s:\n{self.printed()}") from None

    def kill(self, chosen: Sequence[Any] | None = None) -> int:
        """SIGKILL for the chosen ones, or all; how many were alive."""
        alive = [p for p in (chosen or self.processes) if p.poll() is None]
        for process in alive:
            process.send_signal(signal.SIGKILL)
        for process in alive:
            process.wait(PATIENCE)
        return len(alive)

    def printed(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""


def program(what: str, folder: Path, model_dir: Path, settings: str, **environment: str) -> Any:
    """A process that runs one of `programs`."""
    with (folder / "log").open("ab") as log:
        return forked.Program(
            ["-m", "tests.soak.programs", what, folder, model_dir, settings],
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
            cwd=REPOSITORY,
            stdout=log,
            stderr=log,
        )


def outlives(life: Life, moment: Callable[[], bool], seconds: float, pause: float) -> bool:
    """Wait for a moment, or at most so long, and a pause more; whether the life is over by then."""
    end = time.monotonic() + seconds
    while not moment() and time.monotonic() < end and not life.ended:
        time.sleep(0.002)
    end = time.monotonic() + pause
    while time.monotonic() < end and not life.ended:
        time.sleep(min(0.002, pause))
    return life.ended


# ------------------------------------------------------------------ what they leave behind


def values_of(prefix: str) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(prefix)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def newest_values(model_dir: Path) -> dict[str, np.ndarray]:
    """All of the newest checkpoint; that it can be read, checksums included, is checked with it."""
    path = checkpoints.latest_checkpoint(model_dir)
    if path is None:
        return {}
    try:
        return values_of(path)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise Failed(f"the newest checkpoint of {model_dir} cannot be read: {error}") from error


def assert_same(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray], what: str) -> None:
    """Bit for bit."""
    if ours.keys() != theirs.keys() or not ours:
        raise Failed(f"{what}: other variables, {sorted(ours)} and {sorted(theirs)}")
    other = [name for name in ours if ours[name].tobytes() != theirs[name].tobytes()]
    if other:
        name = other[0]
        raise Failed(
            f"{what}: {len(other)} of {len(ours)} variables differ ({', '.join(sorted(other))}); "
            f"{name}: {ours[name].ravel()[:4]} and {theirs[name].ravel()[:4]}"
        )


def exported_values(base: Path) -> dict[str, dict[str, np.ndarray]]:
    """The variables of each version under `base`, which has to be whole."""
    found = {}
    for version in sorted(base.iterdir()) if base.is_dir() else ():
        if not version.name.isdecimal():
            continue
        try:
            assert (version / "saved_model.pb").stat().st_size > 0
            found[version.name] = values_of(str(version / "variables" / "variables"))
        except (OSError, AssertionError, tf.errors.OpError, ValueError) as error:
            raise Failed(f"the version {version} is not whole: {error}") from error
    return found


def copied(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".estimand.lock"))


def pick(chance: random.Random, **choices: Sequence[Any]) -> dict[str, Any]:
    return {name: chance.choice(values) for name, values in choices.items()}
