"""What a report says of trainings that went wrong."""

from __future__ import annotations

import math
from pathlib import Path

import estimand as est
from estimand.engine.checkpoints import files
from estimand.engine.events import EventWriter
from estimand.report import faults, history
from tests import line


def told(model_dir: Path) -> list[tuple[int, str]]:
    return [(fault.step, fault.what) for fault in faults.found(history.read(model_dir))]


def test_numbers_that_are_none_are_told_from_where_they_begin(tmp_path: Path) -> None:
    writer = EventWriter.get(tmp_path)
    for step, loss in ((10, 1.0), (20, math.inf), (30, math.nan)):
        writer.scalar("loss", loss, step)
    writer.close()
    writer = EventWriter.get(tmp_path / "eval_test")
    writer.scalar("accuracy", math.nan, 30)
    writer.close()
    assert told(tmp_path) == [(20, "loss became inf"), (30, "eval_test/accuracy became nan")]


def test_a_run_that_was_killed_is_told_with_the_steps_that_were_made_again(tmp_path: Path) -> None:
    config = est.RunConfig(
        save_checkpoints_steps=10, save_summary_steps=1, tf_random_seed=1, progress=False
    )
    model = est.Estimator(line.model_fn, tmp_path, config)
    model.train(line.endless, max_steps=27)
    # As a kill at step 27 leaves it: the checkpoint of the end was never written.
    for path in [*tmp_path.glob("model.ckpt-27*"), *tmp_path.glob("*/model.ckpt-27*")]:
        path.unlink()
    (tmp_path / "checkpoint").unlink()
    assert told(tmp_path) == [(20, "the last call of train is still running, or was broken off")]
    est.Estimator(line.model_fn, tmp_path, config).train(line.endless, max_steps=30)
    ((step, what),) = told(tmp_path)
    assert step == 27 and "resumed at step 21" in what and "at least 7 steps" in what


def test_a_run_in_two_calls_has_no_faults(tmp_path: Path) -> None:
    model = est.Estimator(line.model_fn, tmp_path, est.RunConfig(progress=False))
    for steps in (10, 20):
        model.train(line.endless, max_steps=steps)
    assert told(tmp_path) == [] and len(history.read(tmp_path).starts) == 2


def test_a_damaged_checkpoint_is_a_fault_and_the_page_shows_it(tmp_path: Path) -> None:
    model = est.Estimator(line.model_fn, tmp_path / "run", est.RunConfig(progress=False))
    model.train(line.endless, max_steps=10)
    newest = files.latest_checkpoint(str(tmp_path / "run"))
    Path(f"{newest}.data-00000-of-00001").write_bytes(b"")
    page = Path(est.report.write(tmp_path / "r.html", [tmp_path / "run"])).read_text()
    assert "run: faults" in page and "model.ckpt-10 cannot be used" in page
