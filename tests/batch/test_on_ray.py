"""A Ray cluster of this machine."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import estimand as est
from estimand.cli.main import main
from tests.batch.conftest import assert_right, read_answers, rows_of, write_rows
from tests.forked import REPOSITORY

pytestmark = [pytest.mark.extras, pytest.mark.timeout(300)]
ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    paths = {"env_vars": {"PYTHONPATH": str(REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "3"}}
    yield ray.init(num_cpus=2, include_dashboard=False, runtime_env=paths, log_to_driver=False)
    ray.shutdown()


def is_ours(pid: int) -> bool:
    """Whether this process is among its ancestors."""
    while pid > 1 and pid != os.getpid():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid == os.getpid()


def test_actors_share_the_shards(cluster: Any, exports: dict[str, str], tmp_path: Path) -> None:
    rows = rows_of(range(300))
    rows[7]["x"] = -1.0
    path = write_rows(tmp_path / "rows.parquet", rows)
    arguments = [
        *("predict", exports["parsing"], "--input", str(path), "--output", str(tmp_path / "out")),
        *("--keep", "id", "--shard-rows", "30", "--workers", "3", "--ray"),
    ]
    done = CliRunner().invoke(main, arguments)  # there is room for two of the three
    assert done.exit_code == 0, done.output
    assert "299 rows in 10 files" in done.output
    found = [row for file in sorted(tmp_path.glob("out/pred*")) for row in read_answers(file)]
    assert_right(found, [row for row in rows if row["x"] >= 0])


def test_a_killed_actor_has_a_successor(
    cluster: Any, exports: dict[str, str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "rows.parquet", rows_of(range(20_000)))
    out = tmp_path / "out"
    killed: list[int] = []

    def kill() -> None:
        while not list(out.glob("_job/done-*")):
            time.sleep(0.01)
        for stat in Path("/proc").glob("[0-9]*/cmdline"):
            pid = int(stat.parent.name)
            if not killed and stat.read_bytes().startswith(b"ray::Work") and is_ours(pid):
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    done = est.batch.predict(
        exports["raw"], path, out, keep=["id"], shard_rows=500, batch_size=4, workers=2, ray="auto"
    )
    killer.join()
    assert killed
    assert (done.rows, done.errors) == (20_000, 0)
    assert_right([row for file in done.files for row in read_answers(file)], rows_of(range(20_000)))


def test_a_cluster_that_is_not_there_is_named(exports: dict[str, str], tmp_path: Path) -> None:
    ray.shutdown()
    path = write_rows(tmp_path / "rows.jsonl", rows_of(range(3)))
    with pytest.raises(est.errors.BatchError, match="no Ray cluster at 'auto'"):
        est.batch.predict(exports["raw"], path, tmp_path / "out", ray="auto")
