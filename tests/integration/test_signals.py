"""SIGTERM and Ctrl-C: the step is finished, everything saved, and the next run goes on."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import estimand as est
from tests import forked
from tests.integration.processes import PATIENCE, child, wait_until
from tests.integration.programs import (
    BATCH,
    ENDLESS,
    assert_every_epoch_is_whole,
    remembering,
    seen_by,
    shuffled_ids,
    train_endlessly,
)

SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # also when started in the background
from tests.integration.programs import train_endlessly
train_endlessly(sys.argv[1])
print("train() has returned")
"""


def continue_for(steps: int, model_dir: Path) -> np.ndarray:
    estimator = remembering(model_dir, steps=ENDLESS, batch=BATCH)
    estimator.train(shuffled_ids, steps=steps)
    return seen_by(model_dir)


@pytest.fixture(params=[signal.SIGTERM, signal.SIGINT], ids=lambda s: s.name)
def stopped(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A program of its own, sent a signal while it trains."""
    log = tmp_path / "log"
    with log.open("wb") as file:
        process = forked.Program(
            ["-c", SCRIPT, tmp_path / "model"],
            stdout=file,
            stderr=file,
            cwd=forked.REPOSITORY,
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while not re.search(r"step = [1-9]", log.read_text()):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.01)
        process.send_signal(request.param)
        code = process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
    yield {
        "code": code, "printed": log.read_text(), "model": tmp_path / "model",
        "signal": request.param,
    }  # fmt: skip


@pytest.mark.slow
def test_program_saves_and_leaves_and_goes_on_with_the_next_unseen_batch(
    stopped: dict[str, Any],
) -> None:
    printed = stopped["printed"]
    assert stopped["code"] == 128 + stopped["signal"]
    assert "Traceback" not in printed and "train() has returned" not in printed
    before = seen_by(stopped["model"])
    name = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C"}[stopped["signal"]]
    assert f"Stopped by {name} at step {len(before)}; saved." in printed
    after = continue_for(60, stopped["model"])
    assert len(after) == len(before) + 60
    assert (after[: len(before)] == before).all()
    assert_every_epoch_is_whole(after)


def test_second_signal_does_not_wait(tmp_path: Path) -> None:
    with child(_train_with_a_stuck_hook, str(tmp_path / "model"), log=tmp_path / "log") as stuck:
        wait_until(lambda: "stuck" in stuck.printed, stuck)
        stuck.send(signal.SIGTERM)
        wait_until(lambda: "told once" in stuck.printed, stuck)  # two at once would be one
        stuck.send(signal.SIGTERM)
        assert stuck.wait() == -signal.SIGTERM


def _train_with_a_stuck_hook(model_dir: str) -> None:
    class Stuck(est.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            waits_for_the_end = signal.getsignal(signal.SIGTERM)
            print("stuck", flush=True)
            while signal.getsignal(signal.SIGTERM) == waits_for_the_end:
                time.sleep(0.01)  # Python handles signals between two of them
            print("told once", flush=True)
            time.sleep(100)

    train_endlessly(model_dir, [Stuck()])


def test_signal_that_was_ignored_stays_ignored(tmp_path: Path) -> None:
    """As under nohup, or in the background of a shell without job control."""
    with child(_train_ignoring_interrupts, str(tmp_path / "model"), log=tmp_path / "log") as deaf:
        assert deaf.wait() == 0
    assert len(seen_by(tmp_path / "model")) == 8


def _train_ignoring_interrupts(model_dir: str) -> None:
    class Interrupt(est.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    estimator = remembering(model_dir, batch=BATCH)
    estimator.train(shuffled_ids, max_steps=8, hooks=[Interrupt()])


def test_handlers_of_the_program_are_back_after_training(tmp_path: Path) -> None:
    before = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)]
    remembering(tmp_path, batch=BATCH).train(shuffled_ids, max_steps=3)
    assert [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)] == before


def test_without_checkpoints_the_message_promises_nothing(tmp_path: Path, caplog) -> None:
    class Interrupt(est.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    estimator = remembering(tmp_path, batch=BATCH, save_checkpoints_steps=None)
    with pytest.raises(SystemExit) as error:
        estimator.train(shuffled_ids, max_steps=30, hooks=[Interrupt()])
    assert error.value.code == 143
    assert "Stopped by SIGTERM at step 1." in caplog.messages


def test_ctrl_c_at_a_prompt_gives_the_prompt_back(tmp_path: Path, monkeypatch) -> None:
    class Interrupt(est.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            remembering(tmp_path, batch=BATCH).train(shuffled_ids, steps=30, hooks=[Interrupt()])
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(seen_by(tmp_path)) == 1
