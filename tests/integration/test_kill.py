"""Killed with SIGKILL again and again, training ends where it would have ended anyway."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest

from estimand.engine.checkpoints import api as checkpoints
from tests.integration.processes import child, run, wait_until
from tests.integration.programs import train_net, weights

KILLS = 4  # `make soak` goes on for as long as asked
LONGEST_LIFE = 50.0  # seconds from the first step


def assert_identical(first: Path, second: Path) -> None:
    ours, theirs = weights(first), weights(second)
    assert ours.keys() == theirs.keys()
    different = [name for name in ours if ours[name].tobytes() != theirs[name].tobytes()]
    assert not different


def newest_step(model_dir: Path) -> int:
    path = checkpoints.latest_checkpoint(model_dir)
    return -1 if path is None else checkpoints.checkpoint_step(path)


def train_and_kill(model_dir: Path, kills: int, max_steps: int, **config: object) -> list[int]:
    """Kill training `kills` times before it is done; the newest checkpoint at each death."""
    moments = random.Random()
    distances = moments.sample((0, 50, 100, 150), kills)  # each once: most lives get further
    steps = []
    for number in range(kills):
        started = model_dir.with_name(f"{model_dir.name}-started-{number}")
        # However fast the machine, there are steps left for the lives to come.
        enough = max_steps * (number + 1) // (kills + 1)
        log = model_dir.with_suffix(".log")
        with child(train_net, str(model_dir), max_steps, str(started), log=log, **config) as life:
            wait_until(started.exists, life)
            # A random number of checkpoints, then any moment before the next: however slow the
            # machine, there is progress; the limit is for saves that never come.
            far = min(newest_step(model_dir) + distances[number], enough)
            limit = time.monotonic() + LONGEST_LIFE
            wait_until(lambda: newest_step(model_dir) >= far or time.monotonic() > limit, life)  # noqa: B023
            time.sleep(moments.uniform(0, 0.1))
        steps.append(newest_step(model_dir))
    return steps


@pytest.mark.slow
def test_kills_at_random_moments_change_no_bit_of_the_weights(tmp_path: Path) -> None:
    steps, config = 1200, {"tf_random_seed": 7, "save_checkpoints_steps": 50, "block_mode": "plain"}
    log = tmp_path / "log"
    run(train_net, str(tmp_path / "whole"), steps, log=log, **config)
    newest = train_and_kill(tmp_path / "killed", KILLS, steps, **config)
    assert newest == sorted(newest) and len(set(newest)) > 2
    run(train_net, str(tmp_path / "killed"), steps, log=log, **config)
    assert newest_step(tmp_path / "killed") == steps
    assert_identical(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.slow
def test_run_with_seed_and_block_mode_of_its_own_choice_resumes_exactly(tmp_path: Path) -> None:
    """Without any seed: the run is killed early, and goes on from there in two ways."""
    steps, log = 1500, tmp_path / "log"
    train_and_kill(tmp_path / "killed", 1, steps, save_checkpoints_steps=100)
    shutil.copytree(tmp_path / "killed", tmp_path / "whole")
    run(train_net, str(tmp_path / "whole"), steps, log=log, save_checkpoints_steps=100)
    train_and_kill(tmp_path / "killed", 2, steps, save_checkpoints_steps=100)
    run(train_net, str(tmp_path / "killed"), steps, log=log, save_checkpoints_steps=100)
    assert_identical(tmp_path / "whole", tmp_path / "killed")
