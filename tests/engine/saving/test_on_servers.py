"""Parts of a checkpoint that others have written, as parameter servers do."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.errors import CheckpointWriteError
from estimand.engine.checkpoints import slices
from estimand.engine.checkpoints.api import CheckpointWriter, Entry, Wanted, read_tensors
from estimand.engine.saving import on_servers

ROWS = np.arange(40.0, dtype=np.float32).reshape(10, 4)
STEP = [Entry("global_step", tf.constant(3, tf.int64))]


@pytest.fixture
def parts():
    """Two of one variable, and a scalar, with what makes entries of them."""
    first, second = tf.Variable(ROWS[:6]), tf.Variable(ROWS[6:])
    number = tf.Variable(7.0)
    return [
        (first, lambda value: Entry("table", value, "10 4 0,6:0,4")),
        (second, lambda value: Entry("table", value, "10 4 6,4:0,4")),
        (number, lambda value: Entry("number", value)),
    ]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("bytes_of_a_slice", [16, 32, 1 << 20])
def test_what_others_wrote_is_one_checkpoint_with_the_rest(
    tmp_path, parts, shared, bytes_of_a_slice, monkeypatch
):
    monkeypatch.setattr(slices, "MOST_BYTES", bytes_of_a_slice)
    monkeypatch.setattr(on_servers, "_MOST_BYTES_OF_A_FILE", 70)
    with CheckpointWriter(tmp_path) as writer:
        path = writer.save(
            3, STEP, write_others=lambda prefix: on_servers.write(prefix, parts, shared=shared)
        )
    reader = tf.train.load_checkpoint(path)
    np.testing.assert_array_equal(reader.get_tensor("table"), ROWS)
    assert reader.get_tensor("number") == 7.0
    assert reader.get_tensor("global_step") == 3
    [middle] = read_tensors(path, [Wanted("table", tf.float32, (5, 4), "10 4 3,5:0,4")])
    np.testing.assert_array_equal(middle, ROWS[3:8])
    data = [name for name in os.listdir(tmp_path) if ".data-" in name]
    assert len(data) == 3  # the rest; the number and the second part; the first part
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".tmp")]


def test_a_variable_in_slices_is_read_by_slices(tmp_path, parts, monkeypatch):
    monkeypatch.setattr(slices, "MOST_BYTES", 50)  # three rows
    with CheckpointWriter(tmp_path) as writer:
        path = writer.save(
            3, STEP, write_others=lambda prefix: on_servers.write(prefix, parts, shared=True)
        )
    wanted = [Wanted("number", tf.float32, ()), Wanted("table", tf.float32, (10, 4))]
    [(number, table)] = slices.in_slices(path, wanted).items()
    entries = list(table.entries("new"))
    assert number == 1
    assert [e.slice_spec for e in entries] == [f"10 4 {n},{min(3, 10 - n)}:-" for n in (0, 3, 6, 9)]
    np.testing.assert_array_equal(np.concatenate([e.tensor for e in entries]), ROWS)


def test_a_part_that_could_not_be_written_leaves_nothing(tmp_path):
    def fail(prefix):
        on_servers.write(prefix, [(tf.Variable(1.0), lambda v: Entry("v", v))], shared=True)
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    writer = CheckpointWriter(tmp_path)
    with pytest.raises(CheckpointWriteError, match="disk is full"):
        writer.save(3, STEP, write_others=fail)
    assert not os.listdir(tmp_path)


def test_a_server_that_is_lost_while_it_writes_is_told_as_lost(tmp_path):
    def fail(prefix):
        del prefix
        raise tf.errors.UnavailableError(None, None, "Socket closed")

    with pytest.raises(tf.errors.UnavailableError):
        CheckpointWriter(tmp_path).save(3, STEP, write_others=fail)


def test_values_that_are_there_already_are_not_written_again(tmp_path):
    with CheckpointWriter(tmp_path) as writer:
        writer.save(3, STEP, synchronous=True)
        asked = []
        writer.save(3, STEP, if_exists="keep", write_others=lambda p: asked.append(p) or [])
    assert not asked


def test_a_directory_is_shared_if_it_can_be_read_and_written_there(tmp_path):
    device = "/device:CPU:0"
    assert on_servers.shared_by(str(tmp_path), [device])
    assert not os.listdir(tmp_path)
    assert not on_servers.shared_by(str(tmp_path / "nowhere"), [device])
    assert not on_servers.shared_by(str(tmp_path), ["/job:ps/task:7/device:CPU:0"])
