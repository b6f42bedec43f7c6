"""However a program sets up logging, a line of its training appears, and appears once."""

from __future__ import annotations

import collections
import re
import subprocess
from pathlib import Path

import pytest

from tests import forked

TRAIN = """
from tests.line import endless, model_fn
import estimand as est
def train():
    est.Estimator(model_fn, "model", est.RunConfig(tf_random_seed=1)).train(endless, max_steps=9)
"""
PROGRAMS = {
    "nothing": TRAIN + "train()",
    "a warning": "import logging\nlogging.warning('careful')\n" + TRAIN + "train()",
    "basicConfig": "import logging\nlogging.basicConfig(level='INFO')\n" + TRAIN + "train()",
    "absl": TRAIN + "from absl import app\napp.run(lambda _: train())",
    "v1": TRAIN
    + "import tensorflow as tf\n"
    + "tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)\n"
    + "tf.compat.v1.app.run(lambda _: train())",
}
# What logging, absl and ours put before a message.
PREFIX = re.compile(
    r"^(?:(?:INFO|WARNING):\w+:|[IW]\d{4} [\d:.]+ \d+ \S+:\d+\] |\d\d:\d\d:\d\d (?:warning: )?)"
)
OURS = "training from step 0 to 9 in "
OF_OLD = "Saving checkpoints for 9 into "


def lines_of(command: list[object], folder: Path) -> list[str]:
    log = folder / "log"
    with log.open("wb") as file:
        program = forked.Program(command, stdout=file, stderr=subprocess.STDOUT, cwd=folder)
        assert program.wait(60) == 0, log.read_text()
    return [PREFIX.sub("", line) for line in log.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "ours", "of_old", "by"),
    [
        ("nothing", 1, 0, "python"),
        ("a warning", 1, 0, "python"),
        ("basicConfig", 1, 1, "python"),  # who listens to all gets both
        ("absl", 1, 1, "python"),
        ("v1", 0, 1, "python"),  # who asks for those of tf.estimator gets those
        ("nothing", 1, 0, "estimand run"),
        ("v1", 0, 1, "estimand run"),
    ],
)
def test_each_line_appears_once(tmp_path: Path, name: str, ours: int, of_old: int, by: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAMS[name])
    command = ["program.py"] if by == "python" else ["-m", "estimand", "run", "program.py"]
    lines = lines_of([*command], tmp_path)
    twice = [line for line, count in collections.Counter(lines).items() if count > 1]
    assert twice == []
    assert sum(line.startswith(OURS) for line in lines) == ours
    assert sum(line.startswith(OF_OLD) for line in lines) == of_old
