"""A copy of a variable in a checkpoint's making owns its memory until its last reader is done."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.checkpoints import writer as checkpoint_writer
from estimand.engine.saving import snapshot
from estimand.engine.saving.snapshot import SnapshotMemory

v1 = tf.compat.v1
LARGE = 2**21  # floats: enough to get memory of its own


def address(tensor: tf.Tensor) -> int:
    return np.asarray(memoryview(tensor)).ctypes.data


def filled(variable: tf.Variable, value: float) -> list[tf.Tensor]:
    variable.assign(tf.fill([LARGE], value))
    return [variable.read_value()]


def test_memory_is_used_again_once_nobody_reads_it() -> None:
    variable = tf.Variable(tf.zeros([LARGE]))
    memory = SnapshotMemory([variable])
    memory.prepare()
    [first] = memory.take(filled(variable, 1.0))
    place, reader = address(first), tf.reshape(first, [2, -1])
    del first

    [second] = memory.take(filled(variable, 2.0))  # while a view of the first is being read
    variable.assign(tf.fill([LARGE], 3.0))
    assert address(second) != place
    assert set(np.unique(reader)) == {1.0} and set(np.unique(second)) == {2.0}

    del reader, second
    [third] = memory.take(filled(variable, 4.0))
    assert address(third) == place and set(np.unique(third)) == {4.0}


def test_two_threads_that_save_get_copies_of_their_own() -> None:
    variable = tf.Variable(tf.fill([LARGE], 1.0))
    memory = SnapshotMemory([variable])
    memory.prepare()
    taken: list[tf.Tensor] = []
    threads = [
        threading.Thread(target=lambda: taken.extend(memory.take([variable.read_value()])))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    variable.assign(tf.fill([LARGE], 2.0))
    assert len({address(tensor) for tensor in taken}) > 1
    assert all(set(np.unique(tensor)) == {1.0} for tensor in taken)


def endless() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors([1.0]).repeat()


def step_everywhere(features: Any, mode: str) -> est.EstimatorSpec:
    """A large variable whose every element is the number of steps done."""
    step = v1.train.get_global_step()
    large = v1.get_variable("large", [LARGE], initializer=v1.zeros_initializer(), trainable=False)
    with tf.control_dependencies([step.assign_add(1)]):
        train_op = large.assign(tf.fill([LARGE], tf.cast(step.read_value(), tf.float32)))
    return est.EstimatorSpec(mode, loss=tf.reduce_mean(features), train_op=train_op)


def saved_values(directory: Path) -> dict[int, list[float]]:
    """What the large variable holds in each checkpoint, by the checkpoint's step."""
    found = {}
    for index in directory.glob("model.ckpt-*[0-9].index"):
        reader = tf.train.load_checkpoint(str(index.with_suffix("")))
        found[int(reader.get_tensor("global_step"))] = np.unique(reader.get_tensor("large"))
    return {step: values.tolist() for step, values in found.items()}


@pytest.fixture
def written_after(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hold the writing of one checkpoint back until another one is on the disk."""
    done: dict[str, threading.Event] = {}
    waits_for: dict[str, str] = {}
    write = checkpoint_writer.write_bundle

    def key(path: str) -> str:
        return f"{Path(path).parent.name}{path.rpartition('-')[2]}"

    def in_order(prefix: str, entries: Any) -> None:
        name = key(prefix)
        if name in waits_for:
            assert done[waits_for[name]].wait(60)
        write(prefix, entries)
        done.setdefault(name, threading.Event()).set()

    monkeypatch.setattr(checkpoint_writer, "write_bundle", in_order)

    def declare(first: str, second: str) -> None:
        waits_for[first] = second
        done[second] = threading.Event()

    return declare


def test_savers_of_two_directories_write_whole_checkpoints(
    tmp_path: Path, written_after: Any
) -> None:
    """Each is still writing one step while the other takes the next."""
    first, second = tmp_path / "a", tmp_path / "b"
    for of_second, of_first in ((3, 4), (9, 10), (15, 16)):
        written_after(f"b{of_second}", f"a{of_first}")
    written_after("a12", "b12")
    config = est.RunConfig(str(first), keep_checkpoint_max=0, progress=False)
    est.Estimator(step_everywhere, config=config).train(
        endless,
        max_steps=16,
        hooks=[
            est.CheckpointSaverHook(str(first), save_steps=2),
            est.CheckpointSaverHook(str(second), save_steps=3),
        ],
    )
    assert saved_values(first) == {step: [step] for step in range(0, 17, 2)}
    assert saved_values(second) == {step: [step] for step in (0, 3, 6, 9, 12, 15, 16)}


def test_every_save_after_the_first_copies_into_the_same_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is one writer, no copy is still read when the next one is taken."""
    places = []
    lend = snapshot._Place.lend

    def note(place: Any) -> tf.Tensor:
        places.append(place.buffer.ctypes.data)
        return lend(place)

    monkeypatch.setattr(snapshot._Place, "lend", note)
    config = est.RunConfig(str(tmp_path), progress=False, save_checkpoints_steps=2)
    est.Estimator(step_everywhere, config=config).train(endless, max_steps=20)
    saves = 11
    assert len(places) == saves - 1 and len(set(places)) == 1
