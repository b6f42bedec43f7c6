"""A job that goes on: with the same model and the same input, or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import estimand as est
from estimand.batch import predicting
from estimand.batch.plan import known_of, load_job
from estimand.batch.predict_task import PredictTask, Settings, fingerprint
from estimand.batch.predicting import plan_job
from tests.batch.conftest import rows_of, write_rows


@pytest.fixture
def base(exports: dict[str, str], tmp_path: Path) -> Path:
    """A directory with one version."""
    copy = tmp_path / "exports"
    shutil.copytree(exports["raw"], copy)
    return copy


def plan(base: Path, paths: Any, out: Path, **settings: Any) -> Any:
    return plan_job(base, paths, out, Settings(**settings), 16)[0]


def test_what_was_planned_is_what_a_worker_finds(base: Path, tmp_path: Path) -> None:
    write_rows(tmp_path / "a.parquet", rows_of(range(25)))
    write_rows(tmp_path / "b.jsonl", rows_of(range(5)))
    paths = [tmp_path / "a.parquet", tmp_path / "b.jsonl"]
    job = plan(base, paths, tmp_path / "out", shard_rows=10, keep=("id",))
    assert [(os.path.basename(s.path), s.begin, s.end) for s in job.shards] == [
        ("a.parquet", 0, 10), ("a.parquet", 10, 20), ("a.parquet", 20, 25), ("b.jsonl", 0, None),
    ]  # fmt: skip
    known = known_of(job.output)
    assert known is not None
    task = PredictTask.of_plan(known, job.task.for_workers())
    assert load_job(job.output, task, known) == job
    assert plan(base, paths, tmp_path / "out", shard_rows=10, keep=("id",)) == job


def test_a_newer_version_does_not_get_into_a_job_that_goes_on(base: Path, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", rows_of(range(5)))
    first = plan(base, path, tmp_path / "out")
    newer = base / str(int(os.path.basename(first.task.export)) + 1)
    shutil.copytree(first.task.export, newer)
    (newer / "assets").mkdir(exist_ok=True)
    (newer / "assets" / "words.txt").write_text("another vocabulary")
    assert fingerprint(str(newer)) != fingerprint(first.task.export)
    assert plan(base, path, tmp_path / "out").task.export == first.task.export
    assert plan(base, path, tmp_path / "other").task.export == str(newer)
    shutil.rmtree(first.task.export)
    with pytest.raises(est.errors.NoModelError, match="no longer in"):
        plan(base, path, tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"keep": ("id",)}, r"begun with keep \[\], and is now asked for \['id'\]"),
        ({"format": "csv"}, "begun with format None, and is now asked for 'csv'"),
        ({"signature": "serving_default"}, "begun with signature None"),
    ],
)
def test_another_question_is_another_job(
    base: Path, tmp_path: Path, change: dict[str, Any], text: str
) -> None:
    path = write_rows(tmp_path / "a.jsonl", rows_of(range(5)))
    plan(base, path, tmp_path / "out")
    with pytest.raises(est.errors.InputError, match=text):
        plan(base, path, tmp_path / "out", **change)


def test_other_input_is_another_job(base: Path, tmp_path: Path) -> None:
    first = write_rows(tmp_path / "a.jsonl", rows_of(range(5)))
    plan(base, first, tmp_path / "out")
    second = write_rows(tmp_path / "b.jsonl", rows_of(range(5)))
    with pytest.raises(est.errors.InputError, match=r"b.jsonl was not there, or not given"):
        plan(base, [first, second], tmp_path / "out")
    with pytest.raises(est.errors.InputError, match=r"a.jsonl is no longer there, or not given"):
        plan(base, second, tmp_path / "out")
    write_rows(first, rows_of(range(6)))
    with pytest.raises(est.errors.InputError, match=r"a.jsonl has changed since"):
        plan(base, first, tmp_path / "out")


def test_what_the_job_has_written_is_no_input_of_it(base: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_rows(tmp_path / "in" / "a.jsonl", rows_of(range(5)))
    first = plan(base, f"{tmp_path}/*/*.jsonl", tmp_path / "out")
    write_rows(Path(first.file(0)), rows_of(range(5)))
    assert plan(base, f"{tmp_path}/*/*.jsonl", tmp_path / "out") == first
    with pytest.raises(est.errors.InputError, match="all that was found to read lies in the outp"):
        plan(base, f"{tmp_path}/out/*.jsonl", tmp_path / "out")


def test_of_two_commands_that_begin_at_the_same_moment_one_is_refused(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write_rows(tmp_path / f"{i}.jsonl", rows_of(range(5))) for i in range(2)]
    first = plan(base, paths[0], tmp_path / "out")
    # The other one has looked before this one had begun.
    monkeypatch.setattr(predicting, "known_of", lambda folder: None)
    with pytest.raises(est.errors.InputError, match=r"0.jsonl is no longer there, or not given"):
        plan(base, paths[1], tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out" / "_job")) == ["plan.json"]
    assert plan(base, paths[0], tmp_path / "out") == first  # the same command twice does no harm


def test_a_shard_is_done_when_its_mark_and_its_file_are_there(base: Path, tmp_path: Path) -> None:
    job = plan(base, write_rows(tmp_path / "a.jsonl", rows_of(range(5))), tmp_path / "out")
    Path(job.mark(0)).write_text("{}")
    assert job.finished() == {}
    Path(job.file(0)).touch()
    assert job.finished() == {0: {}}


def test_a_directory_that_cannot_be_made_is_told(base: Path, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", rows_of(range(5)))
    for out in (path, path / "below", Path("/proc/nowhere")):
        with pytest.raises(est.errors.InputError, match=f"^{out} cannot be the directory of the"):
            plan(base, path, out)


def test_a_damaged_plan_is_told_and_a_damaged_mark_is_none(base: Path, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", rows_of(range(5)))
    job = plan(base, path, tmp_path / "out")
    Path(job.file(0)).touch()
    for text in ("", "{", "[]"):
        Path(job.mark(0)).write_text(text)
        assert job.finished() == {}
    (tmp_path / "out" / "_job" / "plan.json").write_text("{")
    with pytest.raises(est.errors.InputError, match=r"plan.json is damaged. Begin anew"):
        plan(base, path, tmp_path / "out")


def test_a_directory_with_other_things_is_left_alone(base: Path, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", rows_of(range(5)))
    with pytest.raises(est.errors.InputError, match=r"is not empty.*'a.jsonl'"):
        plan(base, path, tmp_path)


def test_names_that_cannot_be_are_told_before_anything_begins(base: Path, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", rows_of(range(5)))
    out = tmp_path / "out"
    with pytest.raises(est.errors.InputError, match="There is no signature 'classify'"):
        plan(base, path, out, signature="classify")
    with pytest.raises(est.errors.InputError, match="'y' cannot be kept"):
        plan(base, path, out, keep=("y",))
    with pytest.raises(est.errors.InputError, match="workers must be at least 1"):
        est.batch.predict(base, path, out, workers=0)
    with pytest.raises(est.errors.InputError, match="format must be one of csv, json"):
        est.batch.predict(base, path, out, format="xls")
    assert not out.exists()
