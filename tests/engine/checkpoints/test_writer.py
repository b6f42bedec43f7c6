"""Saving checkpoints: which files appear, in the background, what is kept, what fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.errors import CheckpointWriteError, NoCheckpointError
from estimand.core.files import atomic_files
from estimand.engine.checkpoints import publishing as checkpoint_publish
from estimand.engine.checkpoints import writer as checkpoint_writer
from estimand.engine.checkpoints.api import (
    CheckpointWriter,
    Entry,
    KeepPolicy,
    Wanted,
    checkpoint_candidates,
    companion_prefix,
    delete_checkpoint,
    latest_checkpoint,
    mark_meta,
    read_meta,
    read_tensors,
)
from tests import forked

HOUR = 3600.0


def entries(step: int, value: float = 0.0) -> list[Entry]:
    return [
        Entry("w", tf.fill([3], tf.constant(value, tf.float32))),
        Entry("global_step", tf.constant(step, tf.int64)),
    ]


def value_of(path: str) -> float:
    [w] = read_tensors(path, [Wanted("w", tf.float32, (3,))])
    return float(w[0])


def write_companion(writer: CheckpointWriter, step: int, value: int) -> str:
    prefix = writer.temporary_prefix(step)
    checkpoint_publish.write_bundle(prefix, [Entry("position", tf.constant(value))])
    return prefix


def position_of(path: str) -> int:
    [position] = read_tensors(companion_prefix(path), [Wanted("position", tf.int32, ())])
    return int(position)


def steps_on_disk(directory: Path) -> list[int]:
    return sorted(int(p.name[len("model.ckpt-") : -len(".index")]) for p in indexes(directory))


def indexes(directory: Path) -> Sequence[Path]:
    return list(directory.glob("model.ckpt-*.index"))


# ------------------------------------------------------------------ files


def test_files_have_upstream_names_and_nothing_temporary_remains(tmp_path):
    with CheckpointWriter(tmp_path) as writer:
        path = writer.save(3, entries(3))
    assert path == str(tmp_path / "model.ckpt-3")
    assert sorted(os.listdir(tmp_path)) == [
        "checkpoint",
        "model.ckpt-3.data-00000-of-00001",
        "model.ckpt-3.index",
    ]


def test_state_file_has_relative_paths_oldest_first_and_times(tmp_path):
    times = iter([1000.0, 1001.5, 1002.5])
    with CheckpointWriter(tmp_path, clock=lambda: next(times)) as writer:
        writer.save(0, entries(0))
        writer.save(3, entries(3))
    lines = (tmp_path / "checkpoint").read_text().splitlines()
    assert lines == [
        'model_checkpoint_path: "model.ckpt-3"',
        'all_model_checkpoint_paths: "model.ckpt-0"',
        'all_model_checkpoint_paths: "model.ckpt-3"',
        "all_model_checkpoint_timestamps: 1001.5",
        "all_model_checkpoint_timestamps: 1002.5",
        "last_preserved_timestamp: 1000",
    ]


def test_companion_and_meta_are_part_of_the_checkpoint(tmp_path):
    with CheckpointWriter(tmp_path) as writer:
        path = writer.save(
            3, entries(3), companion=write_companion(writer, 3, 17), meta={"batches": 3}
        )
    assert position_of(path) == 17
    assert read_meta(path) == {"batches": 3}
    assert companion_prefix(path) == str(tmp_path / "input_position" / "model.ckpt-3")
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".tmp")]


def test_companion_of_an_iterator_continues_it(tmp_path):
    dataset = tf.data.Dataset.range(100).shuffle(20, seed=1).batch(3)
    iterator = iter(dataset)
    next(iterator)
    with CheckpointWriter(tmp_path) as writer:
        for _ in range(2):  # the second one replaces the first
            prefix = writer.temporary_prefix(1)
            tf.train.Checkpoint(iterator=iterator).write(prefix)
            path = writer.save(1, entries(1), companion=prefix, synchronous=True)
            expected = next(iterator).numpy()
    fresh = iter(dataset)
    tf.train.Checkpoint(iterator=fresh).read(companion_prefix(path)).assert_consumed()
    assert next(fresh).numpy().tolist() == expected.tolist()


def test_meta_is_changed_in_place_and_keeps_other_entries(tmp_path):
    with CheckpointWriter(tmp_path) as writer:
        path = writer.save(3, entries(3), meta={"batches": 3, "end_of_input": False})
    mark_meta(path, end_of_input=True)
    assert json.loads((tmp_path / "model.ckpt-3.run.json").read_text()) == {
        "batches": 3,
        "end_of_input": True,
    }


def test_meta_of_a_checkpoint_that_is_not_there_cannot_be_marked(tmp_path):
    with pytest.raises(NoCheckpointError, match=r"Cannot mark .*model\.ckpt-3"):
        mark_meta(str(tmp_path / "model.ckpt-3"), x=1)


def test_damaged_meta_is_ignored_with_a_warning(tmp_path, caplog):
    (tmp_path / "model.ckpt-3.run.json").write_text('{"batches": ')
    assert read_meta(str(tmp_path / "model.ckpt-3")) is None
    assert "model.ckpt-3.run.json" in caplog.text


def test_parts_of_a_partitioned_variable_are_saved_as_one(tmp_path):
    whole = np.arange(40, dtype=np.float32).reshape(10, 4)
    parts = [
        Entry("w", tf.constant(whole[5:]), "10 4 5,5:0,4"),
        Entry("w", tf.constant(whole[:5]), "10 4 0,5:0,4"),
    ]
    with CheckpointWriter(tmp_path) as writer:
        path = writer.save(0, parts)
    np.testing.assert_array_equal(tf.train.load_checkpoint(path).get_tensor("w"), whole)


# ------------------------------------------------------------------ in the background


def test_save_returns_before_the_file_is_there_and_wait_waits(tmp_path, monkeypatch):
    may_go_on = threading.Event()
    write = checkpoint_writer.write_bundle

    def slow_write(*args):
        may_go_on.wait()
        write(*args)

    monkeypatch.setattr(checkpoint_writer, "write_bundle", slow_write)
    with CheckpointWriter(tmp_path) as writer:
        path = writer.save(1, entries(1))
        assert latest_checkpoint(tmp_path) is None
        may_go_on.set()
        writer.wait()
        assert latest_checkpoint(tmp_path) == path


def test_second_save_waits_for_the_first(tmp_path, monkeypatch):
    running = []
    most = []
    write = checkpoint_writer.write_bundle

    def watched_write(*args):
        running.append(1)
        most.append(len(running))
        write(*args)
        running.pop()

    monkeypatch.setattr(checkpoint_writer, "write_bundle", watched_write)
    with CheckpointWriter(tmp_path) as writer:
        for step in range(4):
            writer.save(step, entries(step))
    assert most == [1, 1, 1, 1]
    assert steps_on_disk(tmp_path) == [0, 1, 2, 3]


def test_publication_is_told_when_the_checkpoint_is_listed(tmp_path):
    told = []

    def on_published(path):
        told.append((path, latest_checkpoint(tmp_path), threading.current_thread().name))

    with CheckpointWriter(tmp_path) as writer:
        path = writer.save(1, entries(1), on_published=on_published)
        writer.wait()
        assert told == [(path, path, "estimand-save-1")]


def test_error_of_the_publication_callback_reaches_the_caller(tmp_path):
    def on_published(path):
        raise KeyError("mine")

    writer = CheckpointWriter(tmp_path)
    writer.save(1, entries(1), on_published=on_published)
    with pytest.raises(KeyError, match="mine"):
        writer.wait()
    writer.close()


def test_synchronous_save_is_there_when_it_returns(tmp_path):
    with CheckpointWriter(tmp_path) as writer:
        path = writer.save(1, entries(1), synchronous=True)
        assert latest_checkpoint(tmp_path) == path


# ------------------------------------------------------------------ the same step again


def test_position_that_lies_where_it_used_to_is_found_and_goes_with_its_checkpoint(tmp_path):
    with CheckpointWriter(tmp_path) as writer:
        path = writer.save(3, entries(3), companion=write_companion(writer, 3, 17))
    for file in (tmp_path / "input_position").iterdir():
        file.rename(tmp_path / file.name.replace("model.ckpt-3.", "model.ckpt-3.input."))
    assert companion_prefix(path) == path + ".input"
    assert position_of(path) == 17
    delete_checkpoint(path)
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", "input_position"]


def test_same_step_with_other_contents_is_replaced(tmp_path):
    with CheckpointWriter(tmp_path) as writer:
        writer.save(3, entries(3, 1.0), companion=write_companion(writer, 3, 1), meta={"run": 1})
        writer.wait()
        path = writer.save(
            3, entries(3, 2.0), companion=write_companion(writer, 3, 2), meta={"run": 2}
        )
    assert (value_of(path), position_of(path), read_meta(path)) == (2.0, 2, {"run": 2})
    assert sorted(os.listdir(tmp_path)) == [
        "checkpoint",
        "input_position",
        "model.ckpt-3.data-00000-of-00001",
        "model.ckpt-3.index",
        "model.ckpt-3.run.json",
    ]
    assert sorted(os.listdir(tmp_path / "input_position")) == [
        "model.ckpt-3.data-00000-of-00001",
        "model.ckpt-3.index",
    ]
    assert [name for name, _ in tf.train.list_variables(path)] == ["global_step", "w"]


def test_same_step_with_equal_contents_is_left_alone(tmp_path):
    with CheckpointWriter(tmp_path) as writer:
        path = writer.save(3, entries(3, 1.0), synchronous=True)
        before = os.stat(path + ".index")
        writer.save(3, entries(3, 1.0)[::-1])
    assert os.stat(path + ".index").st_ino == before.st_ino
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".tmp")]


def test_replacement_without_companion_and_meta_drops_the_old_ones(tmp_path):
    with CheckpointWriter(tmp_path) as writer:
        companion = write_companion(writer, 3, 1)
        path = writer.save(3, entries(3, 1.0), companion=companion, meta={"run": 1})
        writer.save(3, entries(3, 2.0))
    assert companion_prefix(path) is None
    assert read_meta(path) is None


def test_keeping_an_existing_checkpoint_lists_it_as_the_newest(tmp_path):
    with CheckpointWriter(tmp_path) as writer:
        path = writer.save(3, entries(3, 1.0), meta={"run": 1})
        writer.save(6, entries(6))
        companion = write_companion(writer, 3, 8)
        writer.save(3, entries(3, 2.0), companion=companion, meta={"run": 2}, if_exists="keep")
    assert latest_checkpoint(tmp_path) == path
    assert (value_of(path), read_meta(path)) == (1.0, {"run": 1})
    assert position_of(path) == 8  # there was none
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".tmp")]


def test_keep_still_writes_where_the_existing_one_is_broken(tmp_path):
    with CheckpointWriter(tmp_path) as writer:
        path = writer.save(3, entries(3, 1.0), synchronous=True)
        os.truncate(path + ".index", 10)
        writer.save(3, entries(3, 2.0), if_exists="keep")
    assert value_of(path) == 2.0


def test_damaged_data_under_an_equal_index_is_replaced(tmp_path):
    with CheckpointWriter(tmp_path) as writer:
        path = writer.save(3, entries(3, 1.0), synchronous=True)
        os.truncate(path + ".data-00000-of-00001", 2)
        writer.save(3, entries(3, 1.0))
    assert value_of(path) == 1.0


# ------------------------------------------------------------------ what is kept


def test_newest_are_kept_and_old_ones_lose_all_their_files(tmp_path):
    with CheckpointWriter(tmp_path, KeepPolicy(2)) as writer:
        for step in range(4):
            companion = write_companion(writer, step, step)
            path = writer.save(step, entries(step), companion=companion, meta={}, synchronous=True)
            Path(path + ".meta").write_text("graph")
    left = {name.split(".")[1] for name in os.listdir(tmp_path) if name.startswith("model.")}
    assert left == {"ckpt-2", "ckpt-3"}
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert [os.path.basename(p) for p in state.all_model_checkpoint_paths] == [
        "model.ckpt-2",
        "model.ckpt-3",
    ]


def test_resumed_run_goes_on_with_the_list(tmp_path):
    with CheckpointWriter(tmp_path, KeepPolicy(2)) as writer:
        writer.save(0, entries(0))
        writer.save(3, entries(3))
    with CheckpointWriter(tmp_path, KeepPolicy(2)) as writer:
        writer.save(3, entries(3), if_exists="keep")
        writer.save(6, entries(6))
    assert steps_on_disk(tmp_path) == [3, 6]


def test_checkpoints_of_upstream_count_as_well(tmp_path, upstream_model_dirs):
    shutil.copytree(upstream_model_dirs / "custom_v1" / "model_dir", tmp_path, dirs_exist_ok=True)
    for path in (tmp_path, *tmp_path.iterdir()):
        path.chmod(0o755)
    with CheckpointWriter(tmp_path, KeepPolicy(1)) as writer:
        writer.save(130, entries(130))
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "checkpoint",
        "model.ckpt-130.data-00000-of-00001",
        "model.ckpt-130.index",
    ]


def test_one_every_n_hours_stays_forever_also_across_runs(tmp_path):
    now = [0.0]
    for hour in range(6):
        now[0] = 1e9 + hour * HOUR
        with CheckpointWriter(tmp_path, KeepPolicy(1, 1.5), clock=lambda: now[0]) as writer:
            writer.save(hour, entries(hour))
    # 2 and 4 are each more than 1.5 hours after the last kept (the start; 2). 5 is the newest.
    assert steps_on_disk(tmp_path) == [2, 4, 5]


def test_protected_checkpoint_outlives_its_turn_until_the_close(tmp_path):
    with CheckpointWriter(tmp_path, KeepPolicy(1)) as writer:
        first = writer.save(0, entries(0))
        writer.protect(first)
        writer.save(1, entries(1))
        writer.save(2, entries(2))
        writer.wait()
        assert steps_on_disk(tmp_path) == [0, 2]
        writer.unprotect(first)
    assert steps_on_disk(tmp_path) == [2]


def test_deleting_leaves_files_that_are_no_part_of_the_checkpoint(tmp_path):
    with CheckpointWriter(tmp_path) as writer:
        path = writer.save(1, entries(1))
        writer.save(10, entries(10))
    Path(path + ".notes").write_text("mine")
    delete_checkpoint(path)
    assert sorted(p.name for p in tmp_path.glob("model.ckpt-1*")) == [
        "model.ckpt-1.notes",
        "model.ckpt-10.data-00000-of-00001",
        "model.ckpt-10.index",
    ]


# ------------------------------------------------------------------ leftovers of others


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def temporary_of(pid: int, host: str | None = None) -> str:
    host = host or atomic_files.this_process().host
    return f".tmp-{pid}-0badcafe-{host}-0-model.ckpt-9.index"


@pytest.mark.parametrize(
    ("pid", "host", "stays"),
    [
        pytest.param("dead", None, False, id="dead process of this host"),
        pytest.param("own", None, False, id="earlier process with our pid"),
        pytest.param("parent", None, True, id="living process"),
        pytest.param("dead", "elsewhere", True, id="another host, just now"),
    ],
)
def test_temporary_files_are_removed_only_if_their_process_is_gone(tmp_path, pid, host, stays):
    number = {"dead": dead_pid, "own": os.getpid, "parent": os.getppid}[pid]()
    file = tmp_path / temporary_of(number, host)
    file.write_text("half")
    CheckpointWriter(tmp_path).close()
    assert file.exists() == stays


def test_old_temporary_files_of_another_host_are_removed(tmp_path):
    file = tmp_path / temporary_of(1, "elsewhere")
    file.write_text("half")
    os.utime(file, (1e9, 1e9))
    CheckpointWriter(tmp_path).close()
    assert not file.exists()


def test_with_the_lock_held_all_leftovers_are_removed(tmp_path):
    from estimand.engine.model_dir import ModelDirLock

    (tmp_path / temporary_of(os.getppid())).write_text("half")
    (tmp_path / "model.ckpt-9.data-00000-of-00001").write_text("half")
    (tmp_path / "model.ckpt-9.run.json").write_text("{}")
    (tmp_path / "mine.data-00000-of-00001").write_text("not a checkpoint of ours")
    with ModelDirLock(tmp_path):
        CheckpointWriter(tmp_path).close()
    assert sorted(os.listdir(tmp_path)) == [".estimand.lock", "mine.data-00000-of-00001"]


def test_fresh_data_without_index_is_left_if_somebody_may_be_copying_it(tmp_path):
    file = tmp_path / "model.ckpt-9.data-00000-of-00001"
    file.write_text("being copied")
    CheckpointWriter(tmp_path).close()
    assert file.exists()
    os.utime(file, (1e9, 1e9))
    CheckpointWriter(tmp_path).close()
    assert not file.exists()


# ------------------------------------------------------------------ failures


def test_failed_write_is_told_once_and_leaves_earlier_ones_intact(tmp_path, monkeypatch):
    with CheckpointWriter(tmp_path) as writer:
        good = writer.save(1, entries(1, 1.0), synchronous=True)
        with monkeypatch.context() as patch:
            full = tf.errors.ResourceExhaustedError(None, None, "No space left on device")

            def disk_is_full(*args):
                raise full

            patch.setattr(checkpoint_writer, "write_bundle", disk_is_full)
            writer.save(2, entries(2), companion=write_companion(writer, 2, 2))
            with pytest.raises(
                CheckpointWriteError,
                match=r"model\.ckpt-2: the disk is full .* earlier checkpoints .* are intact",
            ):
                writer.wait()
        writer.wait()  # told once
        assert checkpoint_candidates(tmp_path) == [good]
        assert not [name for name in os.listdir(tmp_path) if name.startswith(".tmp")]
        writer.save(2, entries(2, 2.0))
    assert value_of(latest_checkpoint(tmp_path)) == 2.0


def test_next_save_raises_the_failure_of_the_one_before(tmp_path):
    writer = CheckpointWriter(tmp_path)
    writer.save(1, entries(1), companion=str(tmp_path / "nowhere"))
    with pytest.raises(CheckpointWriteError, match="Could not write"):
        writer.save(2, entries(2))


def test_directory_that_was_removed_is_told_at_once_and_not_made_anew(tmp_path):
    writer = CheckpointWriter(tmp_path)
    shutil.rmtree(tmp_path)
    with pytest.raises(CheckpointWriteError, match="has been removed"):
        writer.save(1, entries(1))
    assert not tmp_path.exists()


def test_error_on_its_way_is_not_hidden_by_a_failed_save(tmp_path, caplog):
    directory = tmp_path / "model"

    def training():
        with CheckpointWriter(directory) as writer:
            writer.save(1, entries(1), companion=str(tmp_path / "nowhere"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        training()
    assert "Could not write checkpoint" in caplog.text


FILE_TOO_LARGE = """
import resource, sys
import tensorflow as tf
from estimand.core.errors import CheckpointWriteError
from estimand.engine.checkpoints.api import CheckpointWriter, Entry, latest_checkpoint
with CheckpointWriter(sys.argv[1]) as writer:
    path = writer.save(1, [Entry("w", tf.ones([10]))], synchronous=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    try:
        writer.save(2, [Entry("w", tf.ones([100_000]))], synchronous=True)
    except CheckpointWriteError as error:
        print(error)
    assert latest_checkpoint(sys.argv[1]) == path
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs file size limits")
def test_disk_that_takes_no_more_bytes_leaves_earlier_checkpoints_intact(tmp_path):
    done = forked.run(["-c", FILE_TOO_LARGE, tmp_path], cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr
    assert "model.ckpt-2: " in done.stdout
    assert "File too large" in done.stdout
    assert sorted(os.listdir(tmp_path)) == [
        "checkpoint",
        "model.ckpt-1.data-00000-of-00001",
        "model.ckpt-1.index",
    ]


def test_save_that_another_follows_at_once_is_not_waited_for_down_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once one is on the disk, and that but a moment ago; none is removed before the next is."""
    synced, in_second_save, may_go_on = [], threading.Event(), threading.Event()
    publish = checkpoint_writer.publish_bundle

    def slow_publish(temporary: str, prefix: str) -> None:
        if prefix.endswith("-2"):
            in_second_save.set()
            assert may_go_on.wait(30)
        publish(temporary, prefix)

    monkeypatch.setattr(checkpoint_writer, "publish_bundle", slow_publish)
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(in_second_save.is_set()))
    writer = CheckpointWriter(tmp_path, KeepPolicy(1))
    writer.save(1, entries(1), synchronous=True)
    writer.save(2, entries(2))
    assert in_second_save.wait(30)
    before = len(synced)
    third = threading.Thread(target=lambda: writer.save(3, entries(3)))
    third.start()
    while not writer._in_a_hurry.is_set():
        time.sleep(0.001)
    assert steps_on_disk(tmp_path) == [1]
    in_second_save.clear()
    may_go_on.set()
    third.join()
    writer.close()
    assert synced[before:] and not any(synced[before:])  # those of the third, none of the second
    assert steps_on_disk(tmp_path) == [3]
