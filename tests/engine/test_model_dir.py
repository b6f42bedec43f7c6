"""The lock of a model_dir, the record of its runs, and whether it can be written to."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from estimand.core.errors import CheckpointWriteError, EstimandError, ModelDirBusyError
from estimand.engine import model_dir
from estimand.engine.model_dir import ModelDirLock, RunRecord, ensure_writable, holds_lock

needs_locks = pytest.mark.skipif(model_dir.fcntl is None, reason="needs file locks")

# ------------------------------------------------------------------ the lock

HOLD = """
import sys
from estimand.engine.model_dir import ModelDirLock
with ModelDirLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of `tmp_path`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


@needs_locks
def test_second_process_is_told_who_holds_it_and_what_to_do(tmp_path, holder):
    expected = (
        rf"process {holder.pid} on host {socket.gethostname()} has been training there since "
        rf"\d{{4}}-.*kill {holder.pid}.*its own model_dir"
    )
    with pytest.raises(ModelDirBusyError, match=expected), ModelDirLock(tmp_path):
        pass
    assert not holds_lock(tmp_path)


@needs_locks
def test_killed_holder_leaves_it_free(tmp_path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with ModelDirLock(tmp_path):
        assert holds_lock(tmp_path)


def test_second_training_in_one_process_is_refused(tmp_path):
    with (
        ModelDirLock(tmp_path),
        pytest.raises(ModelDirBusyError, match=rf"this process \(pid {os.getpid()}\)"),
        ModelDirLock(tmp_path / ".." / tmp_path.name),
    ):
        pass


def test_same_lock_may_be_entered_again(tmp_path):
    lock = ModelDirLock(tmp_path)
    with lock:
        with lock:
            pass
        with pytest.raises(ModelDirBusyError), ModelDirLock(tmp_path):
            pass
    with ModelDirLock(tmp_path):
        pass


def test_other_directories_are_free(tmp_path):
    with ModelDirLock(tmp_path / "a"), ModelDirLock(tmp_path / "b"):
        pass


def test_lock_is_free_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), ModelDirLock(tmp_path):
        raise ZeroDivisionError
    with ModelDirLock(tmp_path):
        pass


@needs_locks
def test_lock_file_says_who_holds_it(tmp_path):
    with ModelDirLock(tmp_path):
        holder = json.loads((tmp_path / ".estimand.lock").read_text())
        assert (holder["pid"], holder["host"]) == (os.getpid(), socket.gethostname())
    assert (tmp_path / ".estimand.lock").read_text() == ""


FORK = """
import os, sys
from estimand.engine.model_dir import ModelDirLock, holds_lock
with ModelDirLock(sys.argv[1]):
    child = os.fork()
    if child == 0:
        assert not holds_lock(sys.argv[1])
        os.write(1, b"forked\\n")
        os.read(0, 1)  # until the test closes the pipe
        os._exit(0)
    os.write(1, b"%d\\n" % child)
    os.read(0, 1)
"""


@needs_locks
def test_forked_child_that_outlives_the_run_does_not_keep_the_lock(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", FORK, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as parent:
        assert "forked\n" in (parent.stdout.readline(), parent.stdout.readline())
        with pytest.raises(ModelDirBusyError), ModelDirLock(tmp_path):
            pass
        parent.kill()
        parent.wait()
        with ModelDirLock(tmp_path):
            pass


@needs_locks
def test_file_system_without_locks_is_warned_of_once(tmp_path, monkeypatch, caplog):
    def no_locks(descriptor, operation):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(model_dir.fcntl, "flock", no_locks)
    monkeypatch.setattr(model_dir, "_warned_of_no_locks", False)
    for name in ("a", "b"):
        with ModelDirLock(tmp_path / name):
            assert not holds_lock(tmp_path / name)
            with pytest.raises(ModelDirBusyError), ModelDirLock(tmp_path / name):
                pass
    [record] = caplog.records
    assert "has no file locks (Operation not supported)" in record.getMessage()


# ------------------------------------------------------------------ the record


def test_record_is_read_back(tmp_path):
    RunRecord(random_seed=42, block_mode="xla", extra={"later": [1]}).save(tmp_path)
    assert RunRecord.load(tmp_path) == RunRecord(42, "xla", extra={"later": [1]})


def test_directory_without_a_record_has_an_empty_one(tmp_path, caplog):
    assert RunRecord.load(tmp_path / "not there") == RunRecord()
    assert not caplog.records


def test_unknown_entries_survive(tmp_path):
    file = tmp_path / "estimand_run.json"
    file.write_text('{"random_seed": 1, "of a later version": {"a": null}}')
    record = RunRecord.load(tmp_path)
    record.block_mode = "plain"
    record.save(tmp_path)
    assert json.loads(file.read_text()) == {
        "of a later version": {"a": None},
        "random_seed": 1,
        "block_mode": "plain",
    }


@pytest.mark.parametrize("text", ["", '{"random_se', "[]", '{"random_seed": "x"}', "\x00\x01"])
def test_damaged_record_starts_afresh_with_a_warning(tmp_path, caplog, text):
    (tmp_path / "estimand_run.json").write_text(text)
    assert RunRecord.load(tmp_path) == RunRecord()
    [record] = caplog.records
    assert "estimand_run.json" in record.getMessage()


def test_record_that_cannot_be_written(tmp_path):
    with pytest.raises(CheckpointWriteError, match=r"Could not write .*estimand_run\.json"):
        RunRecord().save(tmp_path / "not there")


# ------------------------------------------------------------------ can it be written to


def test_directory_is_made_with_its_parents(tmp_path):
    path = tmp_path / "a" / "b"
    assert ensure_writable(path) == str(path)
    assert path.is_dir()
    assert not list(path.iterdir())


@pytest.mark.parametrize("inside", ["", "model"])
def test_file_in_its_place_is_told(tmp_path, inside):
    file = tmp_path / "taken"
    file.write_text("")
    with pytest.raises(CheckpointWriteError, match=r"model_dir '.*taken.*another model_dir"):
        ensure_writable(file / inside)


def test_directory_that_may_not_be_written_is_told(tmp_path, monkeypatch):
    def denied(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(model_dir.tempfile, "TemporaryFile", denied)
    with pytest.raises(CheckpointWriteError, match=r"cannot be written to \(Permission denied\)"):
        ensure_writable(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write all")
def test_read_only_directory_is_told(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(CheckpointWriteError, match="cannot be written to"):
        ensure_writable(tmp_path)


def test_address_of_an_object_store_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointWriteError, match=r"'gs://bucket/model' is not a path"):
        ensure_writable("gs://bucket/model")
    assert not list(tmp_path.iterdir())


def test_name_in_which_tensorflow_would_not_find_checkpoints_is_refused(tmp_path):
    with pytest.raises(CheckpointWriteError, match=r"runs\[1\].* has one of \* \? \[ in its name"):
        ensure_writable(tmp_path / "runs[1]")
    assert not list(tmp_path.iterdir())


def test_errors_are_what_old_code_catches():
    assert issubclass(CheckpointWriteError, OSError)
    assert issubclass(ModelDirBusyError, EstimandError)
