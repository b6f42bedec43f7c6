"""The whole screen of a training, on a terminal and in a pipe: each line that is there."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import tensorflow as tf

import estimand as est
from tests.integration.processes import run
from tests.integration.terminal import Terminal, rendered, write_to
from tests.line import batches, endless, model_fn

# Whatever differs from one run to the next.
VARYING = (
    (r"\b\d\d:\d\d:\d\d\b", "TIME"),
    (r"\b\d+:\d\d\b", "SPAN"),
    (r"[\d.,]+ (steps|batches)/s", r"N \1/s"),
    (r"\b1\d{9}\b", "VERSION"),
    (r"/\S*/(runs)\b", r"HERE/\1"),
    # Which values end in which digit depends on the processor.
    (r"\b\d\.\d+(e-\d+)?", "X"),
)


def told(lines: list[str]) -> list[str]:
    for pattern, word in VARYING:
        lines = [re.sub(pattern, word, line) for line in lines]
    return [line.rstrip() for line in lines]


def receiver_fn() -> est.export.ServingInputReceiver:
    x = tf.compat.v1.placeholder(tf.float32, [None], name="x")
    return est.export.ServingInputReceiver({"x": x}, {"x": x})


def train_and_evaluate(terminal: str | None, folder: str, steps: int = 40) -> None:
    """Loss and error fall with each evaluation, so that each is the best."""
    if terminal is not None:
        write_to(terminal)
    os.chdir(folder)
    np.seterr(all="ignore")
    config = est.RunConfig("runs/line", tf_random_seed=1, log_step_count_steps=1000)
    est.train_and_evaluate(
        est.Estimator(model_fn, config=config),
        est.TrainSpec(endless, max_steps=steps),
        est.EvalSpec(
            batches,
            steps=None,
            every_n_steps=20,
            exporters=est.BestExporter("best", receiver_fn),
        ),
    )


CLOSING = [
    "TIME best:     step 40  loss X  mae X",
    "TIME exported: runs/line/export/best/VERSION",
    "TIME next:     estimand serve runs/line/export/best",
    "TIME watch:    estimand board runs/line",
]


def test_training_and_evaluating_on_a_terminal(tmp_path: Path) -> None:
    terminal = Terminal()
    run(train_and_evaluate, terminal.name, str(tmp_path), log=tmp_path / "log")
    shown = terminal.close()
    assert told(rendered(shown)) == [
        "TIME training from step 0 to 40 in HERE/runs/line",
        "    step      loss       mae",
        "      20  X  X  best",
        "TIME exported HERE/runs/line/export/best/VERSION",
        "      40  X  X  best",
        "TIME exported HERE/runs/line/export/best/VERSION",
        "training  40/40 steps  N steps/s  loss X  elapsed SPAN",
        *CLOSING,
    ]
    live = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", shown)
    assert "training  0/40 steps" in live and "evaluating  0/2 batches" in live


def test_training_and_evaluating_in_a_pipe_and_what_is_said_when_it_is_run_again(
    tmp_path: Path,
) -> None:
    def printed(steps: int) -> list[str]:
        log = tmp_path / f"log{steps}"
        done = run(train_and_evaluate, None, str(tmp_path), steps, log=log)
        assert "\x1b" not in done.printed
        return told(sorted(done.printed.splitlines(), key=lambda line: "saved " in line))

    first = [
        "TIME training from step 0 to 40 in HERE/runs/line",
        "TIME evaluated step 20: loss X  mae X",
        "TIME exported HERE/runs/line/export/best/VERSION",
        "TIME evaluated step 40: loss X  mae X",
        "TIME exported HERE/runs/line/export/best/VERSION",
        "TIME training  40/40 steps  N steps/s  loss X  elapsed SPAN",
        *CLOSING,
        # Files are written beside the training, and so is what is said of them.
        *(f"TIME saved HERE/runs/line/model.ckpt-{step}" for step in (0, 20, 40)),
    ]
    assert printed(40) == first
    finished = [
        "TIME warning: train: nothing to do, HERE/runs/line stands at step 40 already "
        "(max_steps=40). To train on, give a larger max_steps, or steps=...; to begin anew, "
        "another model_dir.",
        "TIME evaluated step 40: loss X  mae X",
        *CLOSING,
    ]
    again = tmp_path / "again"
    done = run(train_and_evaluate, None, str(tmp_path), 40, log=again)
    assert told(done.printed.splitlines()) == finished
    assert printed(60)[:3] == [
        "TIME resumed from HERE/runs/line/model.ckpt-40",
        "TIME training from step 40 to 60 in HERE/runs/line",
        "TIME evaluated step 60: loss X  mae X",
    ]
