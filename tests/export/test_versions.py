"""Versions appear whole, leftovers go, and nothing that is in use is deleted."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from pathlib import Path

import pytest

from estimand.core.errors import ExportWriteError
from estimand.export import versions
from tests.export.programs import (
    FILE_SIZE,
    FILES,
    fill,
    hold_until_killed,
    write_versions_without_end,
)
from tests.integration import processes


def is_whole(version: Path) -> bool:
    paths = [version / name for name in FILES]
    return all(path.is_file() and path.stat().st_size == FILE_SIZE for path in paths)


def numbered(base: Path) -> list[Path]:
    return sorted(path for path in base.iterdir() if path.name.isdecimal())


def leftovers(base: Path) -> list[str]:
    return sorted(path.name for path in base.iterdir() if path.name.startswith("temp-"))


# Writing


def test_versions_are_ten_digits_and_count_up_without_waiting(tmp_path: Path) -> None:
    before = time.time()
    names = [os.path.basename(versions.write_version(tmp_path, fill)) for _ in range(3)]
    assert all(re.fullmatch(r"\d{10}", name) for name in names)
    assert [int(name) - int(names[0]) for name in names] == [0, 1, 2] or names == sorted(set(names))
    assert int(names[0]) - before < 60


def test_a_new_version_is_the_newest_even_if_the_clock_was_set_back(tmp_path: Path) -> None:
    future = str(int(time.time()) + 10_000)
    (tmp_path / future).mkdir()
    written = versions.write_version(tmp_path, fill)
    assert int(os.path.basename(written)) == int(future) + 1


def test_an_error_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: str) -> None:
        fill(folder)
        raise KeyError("no")

    with pytest.raises(KeyError):
        versions.write_version(tmp_path, fail)
    assert os.listdir(tmp_path) == []


def test_threads_exporting_at_once_get_a_version_each(tmp_path: Path) -> None:
    written: list[str] = []
    threads = [
        threading.Thread(target=lambda: written.append(versions.write_version(tmp_path, fill)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(written)) == 6
    assert all(is_whole(Path(path)) for path in written)


def test_a_file_in_place_of_the_base_is_named(tmp_path: Path) -> None:
    (tmp_path / "base").write_text("")
    with pytest.raises(ExportWriteError, match="a file is in its place"):
        versions.write_version(tmp_path / "base", fill)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_base_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ExportWriteError, match=re.escape(str(tmp_path))):
            versions.write_version(tmp_path, fill)
    finally:
        tmp_path.chmod(0o700)


def test_a_base_that_cannot_be_made_is_named() -> None:
    with pytest.raises(ExportWriteError, match="/proc/nothing"):
        versions.write_version("/proc/nothing", fill)


def test_a_remote_base_is_refused() -> None:
    with pytest.raises(ExportWriteError, match="mount"):
        versions.write_version("gs://bucket/models", fill)


# Leftovers


def test_what_a_living_export_writes_is_not_taken_for_a_leftover(tmp_path: Path) -> None:
    seen: list[str] = []

    def write(folder: str) -> None:
        versions.write_version(tmp_path, fill)  # a second export, while this one is being written
        seen.extend(leftovers(tmp_path))
        fill(folder)

    versions.write_version(tmp_path, write)
    assert len(seen) == 1
    assert leftovers(tmp_path) == []
    assert len(numbered(tmp_path)) == 2


def test_drafts_of_tf_estimator_are_given_up_after_an_hour(tmp_path: Path) -> None:
    for name in ("temp-1700000000", "temp-1700000001"):
        (tmp_path / name).mkdir()
    os.utime(tmp_path / "temp-1700000000", (1, 1))
    versions.write_version(tmp_path, fill)
    assert leftovers(tmp_path) == ["temp-1700000001"]


@pytest.mark.slow
def test_kills_leave_no_half_version_and_the_next_export_cleans_up(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    chance = random.Random(5)
    broken, cut_off = [], 0
    for _ in range(10):
        count = len(numbered(base))
        with processes.child(write_versions_without_end, str(base), log=tmp_path / "log") as child:
            processes.wait_until(lambda: len(numbered(base)) > count, child)  # noqa: B023
            time.sleep(chance.random() * 0.02)
        cut_off += len(leftovers(base)) > 0
        broken += [path for path in numbered(base) if not is_whole(path)]
    assert not broken
    assert cut_off > 0, "no kill came while a version was being written"
    versions.write_version(base, fill)
    assert leftovers(base) == []


# Garbage


def test_the_newest_are_kept(tmp_path: Path) -> None:
    written = [versions.write_version(tmp_path, fill) for _ in range(4)]
    assert versions.collect_garbage(tmp_path, keep=2) == written[:2]
    assert versions.versions(tmp_path) == written[2:]


def test_only_versions_are_collected(tmp_path: Path) -> None:
    for name in ("1", "12345678901", "notes", "temp-1700000000"):
        (tmp_path / name).mkdir()
    (tmp_path / "1700000001").touch()
    for _ in range(2):
        newest = versions.write_version(tmp_path, fill)
    versions.collect_garbage(tmp_path, keep=1)
    kept = {"1", "12345678901", "notes", "temp-1700000000", "1700000001"}
    assert {p.name for p in tmp_path.iterdir()} == {*kept, Path(newest).name}


def test_none_keeps_all(tmp_path: Path) -> None:
    for _ in range(2):
        versions.write_version(tmp_path, fill)
    assert versions.collect_garbage(tmp_path, keep=None) == []
    assert len(numbered(tmp_path)) == 2


def test_what_another_process_holds_is_not_collected(tmp_path: Path) -> None:
    old = versions.write_version(tmp_path / "base", fill)
    versions.write_version(tmp_path / "base", fill)
    ready = tmp_path / "ready"
    with processes.child(hold_until_killed, old, str(ready), log=tmp_path / "log") as child:
        processes.wait_until(ready.exists, child)
        assert versions.collect_garbage(tmp_path / "base", keep=1) == []
    assert versions.collect_garbage(tmp_path / "base", keep=1) == [old]


def test_a_reader_with_open_files_reads_on_while_its_version_is_collected(tmp_path: Path) -> None:
    old = versions.write_version(tmp_path, fill)
    versions.write_version(tmp_path, fill)
    with open(os.path.join(old, FILES[1])) as file:
        versions.collect_garbage(tmp_path, keep=1)
        assert not os.path.exists(old)
        assert len(file.read()) == FILE_SIZE
