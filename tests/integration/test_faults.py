"""Faults that need a process of their own: full disks, second processes, sudden ends."""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.integration.processes import child, wait_until
from tests.integration.programs import seen_by, train_endlessly
from tests.line import checkpoint_steps, endless, estimator, model_fn, v1, weight_after

# ------------------------------------------------------------------ a full disk

LARGE = 50_000  # floats: 200 kB per checkpoint


def large_model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    v1.get_variable("large", [LARGE], initializer=v1.zeros_initializer())
    return model_fn(features, labels, mode)


def fill_the_disk_at(step: int, model_dir: str) -> None:
    """Train until nothing larger than 100 kB can be written any more."""

    class FillUp(est.CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            if global_step_value == step:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # to be told by write itself
                limits = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))

    made = estimator(model_dir, large_model_fn, save_checkpoints_steps=5)
    try:
        made.train(endless, steps=50, saving_listeners=[FillUp()])
    except est.errors.CheckpointWriteError as error:
        print("told:", error, flush=True)


def test_full_disk_is_told_and_earlier_checkpoints_are_intact(tmp_path: Path) -> None:
    model_dir = tmp_path / "model"
    with child(fill_the_disk_at, 10, str(model_dir), log=tmp_path / "log") as full:
        assert full.wait() == 0, full.printed
    assert full.printed == (
        f"told: Could not write checkpoint {model_dir}/model.ckpt-15: a file is too large for its "
        f"file system, or for `ulimit -f` (File too large); earlier checkpoints in {model_dir} "
        "are intact: start again once that is mended.\n"
    )
    assert checkpoint_steps(model_dir) == [0, 5, 10]
    assert not [name for name in os.listdir(model_dir) if "tmp" in name or "-15" in name]
    made = estimator(model_dir, large_model_fn)
    assert made.get_variable_value("w") == pytest.approx(weight_after(10))
    made.train(endless, max_steps=12)
    assert made.get_variable_value("w") == pytest.approx(weight_after(12))


# ------------------------------------------------------------------ two processes


def test_second_process_is_told_of_the_first_which_goes_on(tmp_path: Path) -> None:
    model_dir = tmp_path / "model"
    with child(train_endlessly, str(model_dir), log=tmp_path / "first") as first:
        wait_until(lambda: "step = 100" in first.printed, first)
        with child(train_endlessly, str(model_dir), log=tmp_path / "second") as second:
            assert second.wait() == 1
        assert "ModelDirBusyError" in second.printed
        assert f"process {first.pid} on host" in second.printed
        assert first.running
        first.send(signal.SIGTERM)
        assert first.wait() == 128 + signal.SIGTERM
    assert len(seen_by(model_dir)) > 100


def test_evaluation_beside_a_training_process(tmp_path: Path) -> None:
    model_dir = tmp_path / "model"
    with child(_train_line_endlessly, str(model_dir), log=tmp_path / "log") as training:
        watching = estimator(model_dir)
        steps = set()
        deadline = time.monotonic() + 60
        while len(steps) < 5 and time.monotonic() < deadline:
            assert training.running, training.printed
            steps.add(int(watching.evaluate(endless, steps=1)["global_step"]))
    assert len(steps) == 5


def _train_line_endlessly(model_dir: str) -> None:
    estimator(model_dir, save_checkpoints_steps=20, keep_checkpoint_max=2).train(endless)


def test_directory_is_free_again_after_a_kill(tmp_path: Path) -> None:
    model_dir = tmp_path / "model"
    with child(train_endlessly, str(model_dir), log=tmp_path / "log") as killed:
        wait_until(lambda: "step = 100" in killed.printed, killed)
        killed.kill()
        assert killed.wait() == -signal.SIGKILL
    with child(train_endlessly, str(model_dir), log=tmp_path / "again") as again:
        wait_until(lambda: "step = 100" in again.printed, again)


# ------------------------------------------------------------------ the directory goes away


def test_model_dir_moved_away_by_somebody_else_ends_training_with_a_clear_error(
    tmp_path: Path,
) -> None:
    model_dir = tmp_path / "model"
    with child(
        train_endlessly, str(model_dir), log=tmp_path / "log", save_checkpoints_steps=50
    ) as training:
        wait_until(lambda: "step = 100" in training.printed, training)
        model_dir.rename(tmp_path / "elsewhere")
        assert training.wait() == 1
    last = training.printed.strip().splitlines()[-1]
    # Whoever writes events may have made the directory anew, with none of the files in it.
    told = "has been removed" in last or "somebody else removes files" in last
    assert "CheckpointWriteError" in last and told


# ------------------------------------------------------------------ no hung process


def fail_in(where: str, model_dir: str) -> None:
    def fail(*args: Any) -> None:
        raise LookupError(f"in {where}")

    class Hook(est.SessionRunHook):
        after_run = fail

    class Listener(est.CheckpointSaverListener):
        after_save = fail

    def input_fn() -> tf.data.Dataset:
        def rows() -> Any:
            for number in range(100):
                if number == 5 and where == "generator":
                    fail()
                yield {"x": np.float32([1, 2])}, np.float32([2, 4])

        return rows()

    def broken_model_fn(features: Any, labels: Any, mode: str) -> None:
        fail()

    function = broken_model_fn if where == "model_fn" else model_fn
    estimator(model_dir, function, save_checkpoints_steps=1).train(
        input_fn,
        hooks=[Hook()] if where == "hook" else [],
        saving_listeners=[Listener()] if where == "listener" else [],
    )


@pytest.mark.parametrize("where", ["model_fn", "hook", "listener", "generator"])
def test_program_that_fails_ends(tmp_path: Path, where: str) -> None:
    """No thread that writes, reads or draws keeps it alive."""
    with child(fail_in, where, str(tmp_path / "model"), log=tmp_path / "log") as failing:
        assert failing.wait() == 1
    assert f"in {where}" in failing.printed
    if where != "model_fn":
        estimator(tmp_path / "model").train(endless, steps=2)
