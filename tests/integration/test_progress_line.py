"""The live line of a real program on a terminal, and its absence everywhere else."""

from __future__ import annotations

import re
from pathlib import Path

import tensorflow as tf

from tests.integration.processes import run
from tests.integration.terminal import Terminal, write_to
from tests.line import endless, estimator

STEPS = 30_000  # for long enough to be seen, on a fast machine too


def train_on(terminal: str | None, model_dir: str) -> None:
    """A program whose standard streams are those of a terminal, if one is given."""
    if terminal is not None:
        write_to(terminal)
    tf.get_logger().setLevel("INFO")
    made = estimator(model_dir, progress=None, log_step_count_steps=1000)
    made.train(endless, steps=STEPS)
    made.evaluate(endless, steps=500)


def test_line_on_a_terminal_tells_step_rate_loss_and_time_left(
    tmp_path: Path,
) -> None:
    terminal = Terminal()
    run(train_on, terminal.name, str(tmp_path / "model"), log=tmp_path / "log")
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.close())
    lines = [line for line in re.split(r"[\r\n]+", shown) if line.startswith("training")]
    number = r"[\d.,e+-]+"
    live = (
        rf"training  {number}/{STEPS:,} steps  {number} steps/s  loss {number}  "
        r"elapsed \d:\d\d  left \d:\d\d"
    )
    assert any(re.fullmatch(live, line) for line in lines)
    assert lines[-1].startswith(f"training  {STEPS:,}/{STEPS:,} steps")
    assert re.search(r"evaluating  [\d,]+/500 batches", shown)
    assert "INFO:tensorflow:Loss for final step" in shown  # whole lines beside the live one


def test_nothing_but_log_lines_goes_into_a_file(tmp_path: Path) -> None:
    printed = run(train_on, None, str(tmp_path / "model"), log=tmp_path / "log").printed
    assert "\x1b" not in printed and "\r" not in printed
    assert all(line.startswith("INFO:tensorflow:") for line in printed.splitlines())
    assert "INFO:tensorflow:loss = " in printed
