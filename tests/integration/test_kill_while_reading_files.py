"""Killed with SIGKILL amid shuffled CSV files, training misses no row and repeats none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimand.engine.checkpoints import api as checkpoints
from estimand.inputs import csv_input_fn
from tests.integration.processes import child, run, wait_until
from tests.integration.programs import BATCH, IDS, remembering, seen_by

STEPS = 3000


def train_on_files(model_dir: str, files: str, started: str) -> None:
    read = csv_input_fn(files, BATCH, shuffle_buffer_size=40, on_error="skip")

    def input_fn(mode: str) -> tf.data.Dataset:
        Path(started).touch()
        return read(mode).map(lambda features: features["id"])

    options = {"save_checkpoints_steps": 50, "tf_random_seed": 7, "block_mode": "plain"}
    remembering(model_dir, steps=STEPS, batch=BATCH, **options).train(input_fn, max_steps=STEPS)


def newest_step(model_dir: Path) -> int:
    path = checkpoints.latest_checkpoint(model_dir)
    return -1 if path is None else checkpoints.checkpoint_step(path)


@pytest.mark.slow
def test_killed_twice_it_reads_what_the_uninterrupted_run_reads(tmp_path: Path) -> None:
    for part in range(4):
        rows = [f"{i},w{i}" for i in range(part, IDS, 4)] + ["broken"]
        (tmp_path / f"part{part}.csv").write_text("\n".join(["id,w", *rows]))
    files, log = str(tmp_path / "part*.csv"), tmp_path / "log"
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for life, enough in enumerate((100, 1000)):
        started = tmp_path / f"started-{life}"
        with child(train_on_files, str(killed), files, str(started), log=log) as process:
            wait_until(lambda: newest_step(killed) >= enough, process)  # noqa: B023
    assert 1000 <= newest_step(killed) < STEPS
    run(train_on_files, str(killed), files, str(tmp_path / "started-last"), log=log)
    run(train_on_files, str(whole), files, str(tmp_path / "started-whole"), log=log)
    seen = seen_by(killed)
    assert seen.shape == (STEPS, BATCH)
    assert (seen == seen_by(whole)).all()
    epochs = seen.reshape(-1, IDS)
    assert (np.sort(epochs, axis=1) == np.arange(IDS)).all()
