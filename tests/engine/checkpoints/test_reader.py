"""Reading checkpoints: which one, what does not fit, what is damaged."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.errors import CheckpointError, NoCheckpointError
from estimand.engine.checkpoints import reader as checkpoint_reader
from estimand.engine.checkpoints.api import (
    CheckpointDamaged,
    CheckpointMismatch,
    CheckpointWriter,
    Entry,
    KeepPolicy,
    Wanted,
    checkpoint_candidates,
    checkpoint_step,
    latest_checkpoint,
    read_tensors,
    restore_newest_intact,
)

KERNEL = np.arange(8, dtype=np.float32).reshape(4, 2)
WANTED = [Wanted("dense/kernel", tf.float32, (4, 2)), Wanted("global_step", tf.int64, ())]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Checkpoints of the steps 1, 2, 3."""
    with CheckpointWriter(tmp_path) as writer:
        for step in (1, 2, 3):
            writer.save(
                step,
                [
                    Entry("dense/kernel", tf.constant(KERNEL * step)),
                    Entry("dense/bias", tf.zeros([2])),
                    Entry("global_step", tf.constant(step, tf.int64)),
                ],
            )
    return tmp_path


def prefix(directory: Path, step: int) -> str:
    return str(directory / f"model.ckpt-{step}")


def data(directory: Path, step: int) -> Path:
    return directory / f"model.ckpt-{step}.data-00000-of-00001"


def index(directory: Path, step: int) -> Path:
    return directory / f"model.ckpt-{step}.index"


def flip_a_bit(file: Path, position: int) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= 1
    file.write_bytes(content)


# ------------------------------------------------------------------ which one


def test_newest_comes_first(directory):
    assert latest_checkpoint(directory) == prefix(directory, 3)
    assert checkpoint_candidates(directory) == [prefix(directory, n) for n in (3, 2, 1)]


def test_steps_are_ordered_as_numbers(tmp_path):
    with CheckpointWriter(tmp_path, KeepPolicy(None)) as writer:
        for step in (9, 10, 100):
            writer.save(step, [Entry("w", tf.ones([]))])
    (tmp_path / "checkpoint").unlink()
    assert [checkpoint_step(p) for p in checkpoint_candidates(tmp_path)] == [100, 10, 9]


def test_directory_without_checkpoints_has_no_latest(tmp_path):
    assert latest_checkpoint(tmp_path) is None
    assert latest_checkpoint(tmp_path / "not there") is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="missing"),
        pytest.param(b"", id="empty"),
        pytest.param(b'model_checkpoint_path: "mod', id="cut short"),
        pytest.param(b"\xff\xfe\x00\x01", id="not text"),
        pytest.param(b'model_checkpoint_path: "model.ckpt-77"', id="names a file that is gone"),
    ],
)
def test_state_file_that_is_no_use_is_made_up_for(directory, text):
    state = directory / "checkpoint"
    state.unlink() if text is None else state.write_bytes(text)
    assert latest_checkpoint(directory) == prefix(directory, 3)


def test_state_file_edited_by_hand_rewinds(directory):
    (directory / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-2"')
    assert checkpoint_candidates(directory) == [prefix(directory, n) for n in (2, 1, 3)]


def test_moved_directory_with_absolute_paths_in_its_state_file(directory, tmp_path_factory):
    old = prefix(directory, 3)
    (directory / "checkpoint").write_text(f'model_checkpoint_path: "{old}"')
    moved = tmp_path_factory.mktemp("elsewhere") / "model"
    shutil.move(directory, moved)
    assert latest_checkpoint(moved) == prefix(moved, 3)


def test_newest_with_visible_damage_is_passed_over(directory):
    index(directory, 3).write_bytes(b"")
    data(directory, 2).unlink()
    assert checkpoint_candidates(directory) == [prefix(directory, 1)]


def test_step_is_in_the_name_or_else_in_the_file(directory):
    for kind in ("index", "data-00000-of-00001"):
        shutil.copy(f"{prefix(directory, 2)}.{kind}", directory / f"best.{kind}")
    assert checkpoint_step(prefix(directory, 3)) == 3
    assert checkpoint_step(directory / "best") == 2


def test_step_that_cannot_be_told(tmp_path):
    with pytest.raises(CheckpointError, match=r"Cannot tell the step of checkpoint .*best"):
        checkpoint_step(tmp_path / "best")


# ------------------------------------------------------------------ what fits


def test_tensors_come_in_the_order_wanted(directory):
    step, kernel = read_tensors(prefix(directory, 2), WANTED[::-1])
    assert step == 2
    np.testing.assert_array_equal(kernel, KERNEL * 2)


def test_shape_may_be_left_open(directory):
    wanted = [Wanted("dense/kernel", tf.float32, None), Wanted("dense/bias", tf.float32, (None,))]
    assert [tuple(t.shape) for t in read_tensors(prefix(directory, 1), wanted)] == [(4, 2), (2,)]


def test_parts_may_be_cut_otherwise_than_they_were_saved(tmp_path):
    whole = np.arange(40, dtype=np.float32).reshape(10, 4)
    with CheckpointWriter(tmp_path) as writer:
        path = writer.save(
            0,
            [
                Entry("w", tf.constant(whole[:5]), "10 4 0,5:0,4"),
                Entry("w", tf.constant(whole[5:]), "10 4 5,5:0,4"),
            ],
        )
    middle, everything = read_tensors(
        path,
        [
            Wanted("w", tf.float32, (6, 4), "10 4 2,6:0,4"),
            Wanted("w", tf.float32, (10, 4)),
        ],
    )
    np.testing.assert_array_equal(middle, whole[2:8])
    np.testing.assert_array_equal(everything, whole)


# ------------------------------------------------------------------ what does not fit


def test_names_and_shapes_are_listed_side_by_side(directory):
    wanted = [
        Wanted("dense/kernel", tf.float32, (4, 3)),
        Wanted("dense_1/bias", tf.float32, (2,)),
        Wanted("global_step", tf.int32, ()),
    ]
    with pytest.raises(CheckpointMismatch) as caught:
        read_tensors(prefix(directory, 3), wanted)
    lines = str(caught.value).splitlines()
    assert lines[0] == (
        f"Restoring from checkpoint failed: {prefix(directory, 3)} does not fit the model."
    )
    assert lines[1:5] == [
        "  variable     | model          | checkpoint",
        "  dense/kernel | (4, 3) float32 | (4, 2) float32",
        "  dense_1/bias | (2,) float32   | Key dense_1/bias not found in checkpoint",
        "  global_step  | () int32       | () int64",
    ]
    assert lines[5:7] == [
        "In the checkpoint, but not in the model:",
        "  dense/bias ((2,) float32), like dense_1/bias",
    ]
    assert "train into another model_dir" in lines[-1]


@pytest.mark.parametrize(
    ("wanted", "kind", "words"),
    [
        (Wanted("v", tf.float32, ()), tf.errors.NotFoundError, "graph key that is missing"),
        (
            Wanted("dense/kernel", tf.float32, (4, 3)),
            tf.errors.InvalidArgumentError,
            "a mismatch between the current graph and the graph from the checkpoint",
        ),
    ],
)
def test_what_does_not_fit_is_caught_as_the_error_of_a_session(directory, wanted, kind, words):
    with pytest.raises(kind, match=words) as caught:
        read_tensors(prefix(directory, 3), [wanted])
    assert isinstance(caught.value, CheckpointMismatch) and isinstance(caught.value, ValueError)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert type(copied) is type(caught.value) and str(copied) == str(caught.value)


def test_part_of_a_variable_of_another_shape_does_not_fit(directory):
    wanted = [Wanted("dense/kernel", tf.float32, (2, 2), "6 2 0,2:0,2")]
    with pytest.raises(CheckpointMismatch, match=r"\(6, 2\) float32 \| \(4, 2\) float32"):
        read_tensors(prefix(directory, 3), wanted)


def test_long_lists_are_cut(directory):
    wanted = [Wanted(f"layer_{n}", tf.float32, ()) for n in range(60)]
    with pytest.raises(CheckpointMismatch, match="and 10 more"):
        read_tensors(prefix(directory, 3), wanted)


def test_object_based_checkpoint_is_called_so(tmp_path):
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).write(str(tmp_path / "ckpt"))
    with pytest.raises(CheckpointMismatch, match="object-based"):
        read_tensors(path, [Wanted("v", tf.float32, ())])


def test_checkpoint_that_is_not_there(tmp_path):
    with pytest.raises(NoCheckpointError, match=r"model\.ckpt-5\.index does not exist"):
        read_tensors(str(tmp_path / "model.ckpt-5"), WANTED)


# ------------------------------------------------------------------ what is damaged

DAMAGES = {
    "a bit of the kernel flipped": lambda d: flip_a_bit(data(d, 3), 12),
    "data cut short": lambda d: os.truncate(data(d, 3), 5),
    "data empty": lambda d: os.truncate(data(d, 3), 0),
    "data gone": lambda d: data(d, 3).unlink(),
    "a bit of the index flipped": lambda d: flip_a_bit(index(d, 3), 5),
    "index cut short": lambda d: os.truncate(index(d, 3), 60),
    "index empty": lambda d: os.truncate(index(d, 3), 0),
}
every_damage = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())


@every_damage
def test_damaged_file_is_named(directory, damage):
    damage(directory)
    with pytest.raises(CheckpointDamaged, match=r"model\.ckpt-3\.(index|data-\*) is damaged: \S"):
        read_tensors(prefix(directory, 3), WANTED)


@every_damage
def test_next_older_one_is_restored_with_one_warning(directory, caplog, damage):
    damage(directory)
    path, [kernel, step] = restore_newest_intact(directory, WANTED)
    assert (path, step) == (prefix(directory, 2), 2)
    np.testing.assert_array_equal(kernel, KERNEL * 2)
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert f"Restoring from {path}, because newer" in record.getMessage()
    assert "model.ckpt-3" in record.getMessage()


def test_intact_checkpoint_is_restored_without_a_warning(directory, caplog):
    path, _ = restore_newest_intact(directory, WANTED)
    assert path == prefix(directory, 3)
    assert not caplog.records


def test_mismatch_is_no_reason_to_take_an_older_one(directory):
    with pytest.raises(CheckpointMismatch, match=r"model\.ckpt-3"):
        restore_newest_intact(directory, [Wanted("other", tf.float32, ())])


def test_all_damaged_is_an_error_that_lists_them(directory):
    for step in (1, 2, 3):
        os.truncate(data(directory, step), 1)
    with pytest.raises(CheckpointDamaged, match=r"(?s)None .*ckpt-3: .*ckpt-2: .*ckpt-1: "):
        restore_newest_intact(directory, WANTED)


def test_nothing_to_restore(tmp_path):
    with pytest.raises(NoCheckpointError, match="Could not find trained model in model_dir: "):
        restore_newest_intact(tmp_path, WANTED)


# ------------------------------------------------------------------ while a training goes on


def interfere_once(monkeypatch, action) -> None:
    """Do something right before the values are read."""
    read = checkpoint_reader._read_values
    pending = [action]

    def interfered_read(*args):
        while pending:
            pending.pop()()
        return read(*args)

    monkeypatch.setattr(checkpoint_reader, "_read_values", interfered_read)


def test_checkpoint_removed_while_being_read_is_not_called_damaged(directory, monkeypatch):
    def remove():
        index(directory, 3).unlink()
        data(directory, 3).unlink()

    interfere_once(monkeypatch, remove)
    with pytest.raises(NoCheckpointError, match="was removed while it was being read"):
        read_tensors(prefix(directory, 3), WANTED)


def test_checkpoint_that_came_meanwhile_is_taken_for_one_that_went(directory, monkeypatch, caplog):
    def rotate():
        with CheckpointWriter(directory, KeepPolicy(1)) as writer:
            writer.save(
                4,
                [
                    Entry("dense/kernel", tf.constant(KERNEL * 4)),
                    Entry("global_step", tf.constant(4, tf.int64)),
                ],
            )

    interfere_once(monkeypatch, rotate)
    path, [_, step] = restore_newest_intact(directory, WANTED)
    assert (path, step) == (prefix(directory, 4), 4)
    assert not caplog.records


def test_checkpoint_replaced_while_being_read_is_read_anew(directory, monkeypatch):
    def replace():
        with CheckpointWriter(directory) as writer:
            writer.save(
                3,
                [
                    Entry("padding", tf.zeros([1000])),
                    Entry("dense/kernel", tf.constant(KERNEL * 33)),
                    Entry("global_step", tf.constant(3, tf.int64)),
                ],
            )
        raise CheckpointDamaged("as a reader with the old index would find")

    interfere_once(monkeypatch, replace)
    kernel, _ = read_tensors(prefix(directory, 3), WANTED)
    np.testing.assert_array_equal(kernel, KERNEL * 33)
