"""A process that dies while it saves: at every file operation, and at random moments."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.files import atomic_files
from estimand.engine.checkpoints import publishing as checkpoint_publish
from estimand.engine.checkpoints.api import (
    CheckpointWriter,
    Entry,
    KeepPolicy,
    Wanted,
    checkpoint_candidates,
    checkpoint_step,
    companion_prefix,
    latest_checkpoint,
    read_meta,
    read_tensors,
    restore_newest_intact,
)
from estimand.engine.model_dir import ModelDirLock

WANTED = [
    Wanted("values", tf.float64, (None,)),
    Wanted("sum", tf.float64, ()),
    Wanted("global_step", tf.int64, ()),
]


def contents(step: int, seed: int) -> list[Entry]:
    values = np.random.default_rng(seed).normal(size=5)
    return [
        Entry("values", tf.constant(values)),
        Entry("sum", tf.constant(values.sum())),
        Entry("global_step", tf.constant(step, tf.int64)),
    ]


def save(writer: CheckpointWriter, step: int, seed: int, **kwargs) -> None:
    companion = writer.temporary_prefix(step)
    checkpoint_publish.write_bundle(companion, contents(step, seed))
    writer.save(step, contents(step, seed), companion=companion, meta={"step": step}, **kwargs)
    writer.wait()


def assert_whole(path: str) -> None:
    """The checkpoint, its companion and its meta are each of one piece."""
    for prefix in filter(None, (path, companion_prefix(path))):
        values, total, step = read_tensors(prefix, WANTED)
        assert values.numpy().sum() == total
        assert step == checkpoint_step(path)
    assert read_meta(path) in (None, {"step": checkpoint_step(path)})


def assert_everything_readable(directory: Path) -> None:
    candidates = checkpoint_candidates(directory)
    assert candidates
    for path in candidates:
        assert_whole(path)
        assert companion_prefix(path) is not None
    # TensorFlow's own functions agree.
    newest = tf.train.latest_checkpoint(str(directory))
    assert newest is not None
    assert tf.train.load_checkpoint(newest).get_tensor("sum").shape == ()


# ------------------------------------------------------------------ at every file operation


class Died(BaseException):
    """What a killed process does next: nothing."""


class Mortality:
    """Lets the first operations on files happen, and none after them."""

    def __init__(self, operations: int) -> None:
        self.left = operations

    def limit(self, function):
        def limited(*args, **kwargs):
            if self.left <= 0:
                raise Died
            self.left -= 1
            return function(*args, **kwargs)

        return limited


def save_and_die(monkeypatch, directory: Path, operations: int, action) -> bool:
    """Whether `action(writer)` got to its end before it had used up its operations."""
    writer = CheckpointWriter(directory, KeepPolicy(2))
    mortality = Mortality(operations)
    with monkeypatch.context() as patch:
        for name in ("replace", "rename", "remove", "unlink", "link", "fsync"):
            patch.setattr(os, name, mortality.limit(getattr(os, name)))
        try:
            action(writer)
        except Died:
            return False
    return True


def as_another_process(monkeypatch) -> None:
    """From here on the temporary files of before are those of a dead process."""
    token = f"{random.getrandbits(32):08x}"
    maker = atomic_files.Maker(os.getpid(), token, atomic_files.this_process().host)
    monkeypatch.setattr(atomic_files, "this_process", lambda: maker)


ACTIONS = {
    "next step, and the oldest is removed": lambda w: save(w, 30, seed=30),
    "same step, other contents": lambda w: save(w, 20, seed=21),
    "same step, equal contents": lambda w: save(w, 20, seed=20),
    "same step, kept": lambda w: save(w, 20, seed=20, if_exists="keep"),
}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS.keys())
def test_death_at_any_file_operation_leaves_everything_readable(
    tmp_path, monkeypatch, caplog, action
):
    start = tmp_path / "start"
    with CheckpointWriter(start, KeepPolicy(2)) as writer:
        save(writer, 10, seed=10)
        save(writer, 20, seed=20)

    for operations in itertools.count():
        directory = tmp_path / str(operations)
        shutil.copytree(start, directory)
        finished = save_and_die(monkeypatch, directory, operations, action)

        assert_everything_readable(directory)
        newest, _ = restore_newest_intact(directory, WANTED)
        assert checkpoint_step(newest) >= 20
        assert caplog.text == ""  # nothing had to be passed over

        as_another_process(monkeypatch)
        with ModelDirLock(directory), CheckpointWriter(directory, KeepPolicy(2)) as writer:
            assert_everything_readable(directory)
            save(writer, 40, seed=40)
            save(writer, 50, seed=50)  # in case that 20 was left with data in two forms
        assert_everything_readable(directory)
        assert_nothing_left_over(directory, most=2)
        shutil.rmtree(directory)
        if finished:
            break
    assert operations > 5  # something was interrupted


def assert_nothing_left_over(directory: Path, most: int) -> None:
    names = os.listdir(directory)
    assert not [name for name in names if name.startswith(".tmp-")]
    steps = {name.split(".")[1] for name in names if name.startswith("model.ckpt-")}
    assert len(steps) <= most
    assert steps == {os.path.basename(p).split(".")[1] for p in checkpoint_candidates(directory)}
    assert len([name for name in names if ".data-" in name]) == len(steps)
    positions = directory / "input_position"
    beside = os.listdir(positions) if positions.exists() else []
    assert {name.split(".")[1] for name in beside} <= steps


def test_checkpoint_that_was_published_but_not_listed_is_listed_by_the_next_writer(
    tmp_path, monkeypatch
):
    writer = CheckpointWriter(tmp_path)
    save(writer, 10, seed=10)
    replace = os.replace

    def die_at_the_state_file(source, target):
        if os.path.basename(target) == "checkpoint":
            raise Died
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", die_at_the_state_file)
        patch.setattr(os, "remove", lambda path: None)  # the dead do not clean up
        with pytest.raises(Died):
            save(writer, 20, seed=20)
    assert checkpoint_step(latest_checkpoint(tmp_path)) == 10

    as_another_process(monkeypatch)
    CheckpointWriter(tmp_path).close()
    assert checkpoint_step(latest_checkpoint(tmp_path)) == 20
    assert tf.train.latest_checkpoint(str(tmp_path)) == latest_checkpoint(tmp_path)


# ------------------------------------------------------------------ at random moments

# Imports once, then forks a saver for each round: TensorFlow has done nothing yet, so this is
# safe. A round is one line in (seconds until the kill) and one line out.
KILLED_AGAIN_AND_AGAIN = """
import itertools, os, signal, sys, time
from tests.engine.checkpoints.test_crash import (
    CheckpointWriter, KeepPolicy, ModelDirLock, checkpoint_step, latest_checkpoint, save
)

def save_forever(directory, ready):
    latest = latest_checkpoint(directory)
    step = checkpoint_step(latest) if latest else 0
    with ModelDirLock(directory), CheckpointWriter(directory, KeepPolicy(2)) as writer:
        for seed in itertools.count(os.getpid() * 1000):
            save(writer, step, seed)
            os.write(ready, b"x")
            step += seed % 3 > 0  # every third saves the same step again

for line in sys.stdin:
    told, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        save_forever(sys.argv[1], ready)
    os.close(ready)
    os.read(told, 1)
    time.sleep(float(line))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(told)
    print("killed", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fifteen_kills_at_random_moments_leave_the_newest_readable(tmp_path, caplog):
    directory = tmp_path / "model"
    moments = random.Random(5)
    steps, longest = [], 0.15
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_AGAIN_AND_AGAIN, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    ) as killer:
        for _ in range(15):
            killer.stdin.write(f"{moments.uniform(0.0, longest)}\n")
            killer.stdin.flush()
            assert killer.stdout.readline() == "killed\n"
            assert_everything_readable(directory)
            newest, _ = restore_newest_intact(directory, WANTED)
            steps.append(checkpoint_step(newest))
            if steps[-1] == 0:  # a busy machine saves more slowly
                longest *= 1.3
        killer.stdin.close()
    assert steps == sorted(steps)
    assert steps[-1] > 0
    assert caplog.text == ""

    with ModelDirLock(directory), CheckpointWriter(directory, KeepPolicy(2)) as writer:
        save(writer, steps[-1] + 5, seed=1)
        save(writer, steps[-1] + 6, seed=1)
    assert_nothing_left_over(directory, most=2)
