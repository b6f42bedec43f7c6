"""Real processes, and what becomes of a job when they are killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import estimand as est
from estimand.batch import processes
from tests.batch.conftest import assert_right, read_answers, rows_of, write_rows
from tests.forked import REPOSITORY

FILES, ROWS, SHARD = 4, 3000, 300  # shards of which each takes many calls of the model
PATIENCE = 120.0


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    for number in range(FILES):
        begin = number * ROWS
        write_rows(folder / f"{number}.parquet", rows_with_faults(range(begin, begin + ROWS)))
    return folder


def rows_with_faults(numbers: range) -> list[dict[str, Any]]:
    rows = rows_of(numbers)
    for row in rows:
        if row["id"] % 997 == 5:
            row["x"] = -1.0
    return rows


class Command:
    """`estimand predict` in a process of its own, with two workers."""

    def __init__(self, export: str, rows: Path, out: Path) -> None:
        arguments = [
            *("predict", export, "--input", str(rows / "*.parquet"), "--output", str(out)),
            *("--workers", "2", "--batch-size", "8", "--shard-rows", str(SHARD), "--keep", "id"),
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "estimand", *arguments],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def workers(self) -> list[int]:
        pid = self._process.pid
        children: set[int] = set()
        for task in Path(f"/proc/{pid}/task").iterdir():  # those that each thread has started
            children |= {int(child) for child in (task / "children").read_text().split()}
        return sorted(children)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def finish(self) -> str:
        out, err = self._process.communicate(timeout=PATIENCE)
        assert self._process.returncode == 0, err
        return out

    def wait_until(self, is_so: Callable[[], bool]) -> bool:
        """False if it has come to its end before."""
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            if self._process.poll() is not None:
                return False
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return True


def finished(out: Path) -> int:
    return len(list(out.glob("_job/done-*")))


def wanted_of(file: Path) -> list[dict[str, Any]]:
    number = int(file.name.split("-")[1])
    per_file = ROWS // SHARD
    begin = number // per_file * ROWS + number % per_file * SHARD
    rows = rows_with_faults(range(begin, begin + SHARD))
    return [row for row in rows if row["x"] >= 0]


def assert_whole(out: Path) -> None:
    """What is there under its name is complete."""
    for file in out.glob("predictions-*"):
        assert_right(read_answers(file), wanted_of(file))


def assert_complete(out: Path) -> None:
    """Each row is answered once, or told once among the errors."""
    assert_whole(out)
    answered = [row["id"] for file in sorted(out.glob("pred*")) for row in read_answers(file)]
    texts = [path.read_text() for path in sorted(out.glob("_errors/*.jsonl"))]
    broken = [json.loads(line)["input"]["id"] for text in texts for line in text.splitlines()]
    assert sorted(answered + broken) == list(range(FILES * ROWS))
    assert broken == [i for i in range(FILES * ROWS) if i % 997 == 5]
    counts = json.loads((out / "_SUCCESS").read_text())
    assert counts == {"rows": len(answered), "errors": len(broken)}
    left = [path for path in out.rglob("*") if path.name.startswith(".tmp-")]
    assert left == []


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE
    while any(Path(f"/proc/{pid}").exists() and not _is_zombie(pid) for pid in pids):
        assert time.monotonic() < deadline, "workers outlive their job"
        time.sleep(0.05)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="finds processes by /proc")
def test_killed_workers_lose_and_double_nothing(
    exports: dict[str, str], rows: Path, tmp_path: Path
) -> None:
    out, chance = tmp_path / "out", random.Random(1)
    command = Command(exports["parsing"], rows, out)
    kills = 0
    for _ in range(2):
        before = finished(out)
        if not command.wait_until(lambda: finished(out) > before):  # noqa: B023
            break
        time.sleep(chance.random() * 0.1)
        if pids := command.workers():
            os.kill(chance.choice(pids), signal.SIGKILL)
            kills += 1
    assert "rows in 40 files" in command.finish()
    assert kills == 2
    assert_complete(out)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="finds processes by /proc")
def test_a_killed_job_goes_on_where_it_was(
    exports: dict[str, str], rows: Path, tmp_path: Path
) -> None:
    out, chance = tmp_path / "out", random.Random(2)
    kills = 0
    for delay in (None, 0.0, chance.random() * 0.2):  # bench/batch_prediction.py kills more often
        before = finished(out)
        command = Command(exports["parsing"], rows, out)
        if delay is None:  # while the plan is made
            begun = command.wait_until(lambda: (out / "_job").exists())
        else:
            begun = command.wait_until(lambda: finished(out) > before)  # noqa: B023
            time.sleep(delay)
        workers = command.workers() if begun else []
        command.kill()
        wait_until_gone(workers)  # nobody told them
        assert_whole(out)
        assert finished(out) >= before
        kills += begun
        if not begun:
            break
    assert kills == 3
    times = {path: path.stat().st_mtime_ns for path in out.glob("_job/done-*")}
    Command(exports["parsing"], rows, out).finish()
    assert_complete(out)
    assert {path: path.stat().st_mtime_ns for path in times} == times, "done again"


def test_processes_share_the_shards(exports: dict[str, str], rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = est.batch.predict(
        exports["raw"], str(rows / "*.parquet"), out, workers=2, keep=["id"], shard_rows=SHARD
    )
    assert (done.rows, done.errors, len(done.files)) == (11987, 13, 40)
    assert_complete(out)
    again = est.batch.predict(
        exports["raw"], str(rows / "*.parquet"), out, workers=2, keep=["id"], shard_rows=SHARD
    )
    assert again.done_before == 40
    assert (again.rows, again.errors) == (done.rows, done.errors)


class Mortal:
    """In the place of a process: dies of shard 1, as often as it is told to."""

    deaths = stillborn = started = 0

    def __init__(self, job: Any, count: int) -> None:
        Mortal.started += 1

    def is_ready(self) -> bool:
        return Mortal.started > Mortal.stillborn

    def ask(self, number: int) -> dict[str, int] | None:
        if number == 1 and Mortal.deaths:
            Mortal.deaths -= 1
            return None
        return {"rows": 10 * number}

    def last_words(self) -> str:
        return " (exit code -11)."

    def end(self) -> None:
        pass


@pytest.mark.parametrize("deaths", [0, 1, 2, 3])
def test_a_shard_that_kills_processes_is_given_up(
    monkeypatch: pytest.MonkeyPatch, deaths: int
) -> None:
    monkeypatch.setattr(processes, "_Process", Mortal)
    monkeypatch.setattr(Mortal, "deaths", deaths)
    outcomes: dict[int, processes.Outcome] = {}
    for outcome in processes.run(None, range(4), 2):  # type: ignore[arg-type]
        assert outcome.number not in outcomes
        outcomes[outcome.number] = outcome
    assert outcomes.keys() == {0, 1, 2, 3}
    assert [outcomes[i].rows for i in (0, 2, 3)] == [0, 20, 30]
    gave_up = outcomes[1].failure
    assert gave_up is None if deaths < 3 else "3 processes died of it (exit code -11)." in gave_up


@pytest.mark.parametrize(("stillborn", "is_done"), [(3, True), (1000, False)])
def test_processes_that_are_killed_while_they_start(
    monkeypatch: pytest.MonkeyPatch, stillborn: int, is_done: bool
) -> None:
    monkeypatch.setattr(processes, "_Process", Mortal)
    monkeypatch.setattr(Mortal, "stillborn", stillborn)
    monkeypatch.setattr(Mortal, "started", 0)
    job = processes.run(None, range(4), 1)  # type: ignore[arg-type]
    if is_done:
        assert sorted(outcome.number for outcome in job) == [0, 1, 2, 3]
    else:
        with pytest.raises(est.errors.BatchError, match="do not come to begin"):
            list(job)


def test_a_model_that_cannot_be_loaded_ends_the_job_with_the_reason(
    exports: dict[str, str], tmp_path: Path
) -> None:
    import shutil

    export = est.load_model(exports["raw"])
    export.close()
    broken = tmp_path / "export"
    shutil.copytree(export.directory, broken)
    for path in broken.glob("variables/variables.data*"):
        path.write_bytes(b"")
    path = write_rows(tmp_path / "rows.jsonl", rows_of(range(3)))
    with pytest.raises(est.errors.BatchError, match=r"could not begin \(exit code 1\)"):
        est.batch.predict(broken, path, tmp_path / "out")
