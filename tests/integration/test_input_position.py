"""Where the input goes on: on the next unseen batch after a crash, at its start in a new call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.integration.programs import (
    BATCH,
    IDS,
    CrashAt,
    Crashed,
    assert_every_epoch_is_whole,
    remembering,
    seen_by,
    shuffled_ids,
)

EPOCH = IDS // BATCH
CANNOT_SAVE = "The position of the input pipeline cannot be saved"
InputFn = Callable[[], Any]


def crash(model_dir: Path, input_fn: InputFn, at: int, **config: Any) -> None:
    config = {"save_checkpoints_steps": 5, **config}
    with pytest.raises(Crashed):
        remembering(model_dir, **config).train(input_fn, max_steps=60, hooks=[CrashAt(at)])


def crash_and_resume(model_dir: Path, input_fn: InputFn, **config: Any) -> np.ndarray:
    """Crash at step 13, of which 10 are saved, and go on in a new estimator up to 60."""
    config = {"save_checkpoints_steps": 5, **config}
    crash(model_dir, input_fn, at=13, **config)
    assert len(seen_by(model_dir)) == 10
    remembering(model_dir, **config).train(input_fn, max_steps=60)
    return seen_by(model_dir)


def uninterrupted(model_dir: Path, input_fn: InputFn, **config: Any) -> np.ndarray:
    config = {"save_checkpoints_steps": 5, **config}
    remembering(model_dir, **config).train(input_fn, max_steps=60)
    return seen_by(model_dir)


# ------------------------------------------------------------------ pipelines of TensorFlow ops


def test_unseeded_shuffle_goes_on_with_what_it_has_not_given_yet(tmp_path: Path) -> None:
    seen = crash_and_resume(tmp_path, shuffled_ids)
    assert len(seen) == 60
    assert_every_epoch_is_whole(seen)


def seeded_shuffle() -> tf.data.Dataset:
    return tf.data.Dataset.range(IDS).shuffle(30, seed=3).repeat().batch(BATCH)


def interleaved_files(folder: Path) -> InputFn:
    for number in range(4):
        with tf.io.TFRecordWriter(str(folder / f"part-{number}")) as writer:
            for i in range(number, IDS, 4):
                writer.write(np.int64(i).tobytes())

    def input_fn() -> tf.data.Dataset:
        files = tf.data.Dataset.list_files(str(folder / "part-*"))
        records = files.interleave(tf.data.TFRecordDataset, cycle_length=2)
        ids = records.map(lambda record: tf.io.decode_raw(record, tf.int64)[0])
        return ids.shuffle(20).repeat().batch(BATCH).prefetch(3)

    return input_fn


def plain_tensorflow(input_fn: InputFn, batches: int) -> np.ndarray:
    """What the dataset gives in a program that sets no global seed."""
    tf.random.set_seed(None)
    return np.stack(list(input_fn().take(batches).as_numpy_iterator()))


def test_order_of_a_seeded_shuffle_is_the_same_in_every_run(tmp_path: Path) -> None:
    whole = uninterrupted(tmp_path, seeded_shuffle)
    assert (whole == plain_tensorflow(seeded_shuffle, 60)).all()


def test_seeded_shuffle_is_resumed(tmp_path: Path) -> None:
    resumed = crash_and_resume(tmp_path, seeded_shuffle)
    assert (resumed == plain_tensorflow(seeded_shuffle, 60)).all()


def test_tf_random_seed_makes_an_unseeded_shuffle_repeat_the_uninterrupted_run(
    tmp_path: Path,
) -> None:
    whole = uninterrupted(tmp_path / "whole", shuffled_ids, tf_random_seed=5)
    crashed = crash_and_resume(tmp_path / "crashed", shuffled_ids, tf_random_seed=5)
    assert (crashed == whole).all()


def test_record_files_go_on_with_what_was_not_read_yet(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    seen = crash_and_resume(tmp_path / "model", interleaved_files(folder))
    assert len(seen) == 60
    assert_every_epoch_is_whole(seen)


def test_several_crashes_in_a_row(tmp_path: Path) -> None:
    for at in (7, 13, 14, 22, 41):
        crash(tmp_path, shuffled_ids, at)
    remembering(tmp_path).train(shuffled_ids, max_steps=60)
    assert_every_epoch_is_whole(seen_by(tmp_path))


def test_finite_input_ends_where_it_would_have_ended(tmp_path: Path) -> None:
    def one_epoch() -> tf.data.Dataset:
        return tf.data.Dataset.range(IDS).shuffle(IDS).batch(BATCH)

    seen = crash_and_resume(tmp_path, one_epoch)
    assert sorted(seen.ravel()) == list(range(IDS))


def test_finite_input_of_unknown_length_ends_where_it_would_have_ended(tmp_path: Path) -> None:
    def even_ids() -> tf.data.Dataset:
        ids = tf.data.Dataset.range(2 * IDS).filter(lambda i: i % 2 == 0)
        return ids.shuffle(IDS).batch(BATCH)

    seen = crash_and_resume(tmp_path, even_ids)
    assert sorted(seen.ravel()) == list(range(0, 2 * IDS, 2))


# ------------------------------------------------------------------ pipelines that run Python


def from_generator() -> tf.data.Dataset:
    def ids() -> Iterator[int]:
        yield from range(1000)

    signature = tf.TensorSpec([], tf.int64)
    return tf.data.Dataset.from_generator(ids, output_signature=signature).batch(BATCH)


def through_py_function() -> tf.data.Dataset:
    def same(i: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.py_function(lambda value: value, [i], tf.int64), [])

    return tf.data.Dataset.range(1000).map(same).batch(BATCH)


def plain_python() -> Iterator[np.ndarray]:
    for first in range(0, 1000, BATCH):
        yield np.arange(first, first + BATCH)


@pytest.mark.parametrize("input_fn", [from_generator, through_py_function])
def test_python_in_the_pipeline_is_resumed_by_counting_with_one_warning(
    tmp_path: Path, caplog, input_fn: InputFn
) -> None:
    crash(tmp_path, input_fn, at=13)
    warnings = [m for m in caplog.messages if CANNOT_SAVE in m]
    assert len(warnings) == 1
    assert "PyFunc is stateful" in warnings[0] and "counting" in warnings[0]
    caplog.clear()
    remembering(tmp_path).train(input_fn, max_steps=60)
    assert (seen_by(tmp_path).ravel() == np.arange(60 * BATCH)).all()


def test_python_generator_as_input_is_resumed_by_counting(tmp_path: Path) -> None:
    seen = crash_and_resume(tmp_path, plain_python)
    assert (seen.ravel() == np.arange(60 * BATCH)).all()


def test_finite_generator_resumed_by_counting_ends_where_it_would_have_ended(
    tmp_path: Path,
) -> None:
    def input_fn() -> tf.data.Dataset:
        return from_generator().take(20)

    seen = crash_and_resume(tmp_path, input_fn)
    assert (seen.ravel() == np.arange(20 * BATCH)).all()


# ------------------------------------------------------------------ not wanted, or not fitting


def in_order() -> tf.data.Dataset:
    return tf.data.Dataset.range(1000).batch(BATCH)


def test_without_save_input_position_a_resumed_run_starts_its_input_over(tmp_path: Path) -> None:
    seen = crash_and_resume(tmp_path, in_order, save_input_position=False)
    first = np.arange(40).reshape(10, BATCH)
    rest = np.arange(200).reshape(50, BATCH)
    assert (seen == np.concatenate([first, rest])).all()
    assert not list(tmp_path.glob("input_position/*"))


def test_other_pipeline_than_the_saved_one_is_skipped_into_with_a_warning(
    tmp_path: Path, caplog
) -> None:
    def other() -> tf.data.Dataset:
        return tf.data.Dataset.range(1000).shuffle(1).map(lambda i: i + 5000).repeat().batch(BATCH)

    crash(tmp_path, in_order, at=13)
    caplog.clear()
    remembering(tmp_path).train(other, max_steps=60)
    told = [m for m in caplog.messages if "another order or other steps" in m]
    assert len(told) == 1 and "goes on after its first 10 batches" in told[0]
    assert (seen_by(tmp_path)[10:].ravel() == 5000 + np.arange(40, 240)).all()


def test_damaged_position_is_replaced_by_counting(tmp_path: Path, caplog) -> None:
    crash(tmp_path, in_order, at=13)
    [data] = tmp_path.glob("input_position/model.ckpt-10.data-*")
    data.write_bytes(b"\0" * data.stat().st_size)
    remembering(tmp_path).train(in_order, max_steps=60)
    assert (seen_by(tmp_path).ravel() == np.arange(60 * BATCH)).all()
    assert any("Skipping 10 batches" in m for m in caplog.messages)


def test_lost_position_is_replaced_by_counting(tmp_path: Path) -> None:
    crash(tmp_path, in_order, at=13)
    for file in tmp_path.glob("input_position/model.ckpt-10.*"):
        file.unlink()
    remembering(tmp_path).train(in_order, max_steps=60)
    assert (seen_by(tmp_path).ravel() == np.arange(60 * BATCH)).all()


# ------------------------------------------------------------------ a new call


def test_new_call_after_a_completed_one_starts_its_input_over(tmp_path: Path) -> None:
    estimator = remembering(tmp_path)
    estimator.train(in_order, steps=10)
    estimator.train(in_order, steps=10)
    assert (seen_by(tmp_path) == np.tile(np.arange(40).reshape(10, 4), (2, 1))).all()


def test_new_process_after_a_completed_call_starts_its_input_over(tmp_path: Path) -> None:
    remembering(tmp_path).train(in_order, steps=10)
    remembering(tmp_path).train(in_order, steps=10)
    assert (seen_by(tmp_path) == np.tile(np.arange(40).reshape(10, 4), (2, 1))).all()


def test_second_call_that_crashes_resumes_in_its_own_input(tmp_path: Path) -> None:
    remembering(tmp_path).train(in_order, max_steps=10)
    with pytest.raises(Crashed):
        remembering(tmp_path).train(in_order, max_steps=60, hooks=[CrashAt(14)])
    remembering(tmp_path).train(in_order, max_steps=60)  # 10 was the last one saved
    seen = seen_by(tmp_path)
    assert (seen[10:].ravel() == np.arange(50 * BATCH)).all()


def test_older_checkpoint_of_a_completed_call_starts_its_input_over(tmp_path: Path) -> None:
    """The newest one turned out to be damaged: what is retrained is not what was seen before."""
    remembering(tmp_path, save_checkpoints_steps=5).train(shuffled_ids, max_steps=20)
    [data] = tmp_path.glob("model.ckpt-20.data-*")
    data.write_bytes(b"\0" * data.stat().st_size)
    remembering(tmp_path).train(shuffled_ids, max_steps=60)
    seen = seen_by(tmp_path)
    assert len(seen) == 60
    assert_every_epoch_is_whole(seen[15:])


@pytest.mark.parametrize("config", [{}, {"run_eagerly": True}], ids=["traced", "eager"])
def test_older_checkpoint_of_a_crashed_call_goes_on_in_its_input(tmp_path: Path, config) -> None:
    crash(tmp_path, shuffled_ids, at=23)
    [data] = tmp_path.glob("model.ckpt-20.data-*")
    data.write_bytes(b"\0" * data.stat().st_size)
    remembering(tmp_path, **config).train(shuffled_ids, max_steps=60)
    assert len(seen_by(tmp_path)) == 60
    assert_every_epoch_is_whole(seen_by(tmp_path))


def test_epoch_by_epoch_loop_sees_all_rows_each_time_in_a_new_order(tmp_path: Path) -> None:
    def one_epoch() -> tf.data.Dataset:
        return tf.data.Dataset.range(IDS).shuffle(IDS).batch(BATCH)

    estimator = remembering(tmp_path)
    for _ in range(3):
        estimator.train(one_epoch)
    epochs = seen_by(tmp_path).reshape(3, IDS)
    assert (np.sort(epochs, axis=1) == np.arange(IDS)).all()
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_epoch_by_epoch_loop_with_tf_random_seed_is_reproducible(tmp_path: Path) -> None:
    def one_epoch() -> tf.data.Dataset:
        return tf.data.Dataset.range(IDS).shuffle(IDS).batch(BATCH)

    runs = []
    for name in ("first", "second"):
        estimator = remembering(tmp_path / name, tf_random_seed=3)
        for _ in range(2):
            estimator.train(one_epoch)
        runs.append(seen_by(tmp_path / name))
    assert (runs[0] == runs[1]).all()


def test_evaluation_in_between_moves_no_input(tmp_path: Path) -> None:
    estimator = remembering(tmp_path, save_checkpoints_steps=5)
    with pytest.raises(Crashed):
        estimator.train(in_order, max_steps=60, hooks=[CrashAt(13)])
    estimator.evaluate(in_order, steps=3)
    estimator.train(in_order, max_steps=60)
    assert (seen_by(tmp_path).ravel() == np.arange(60 * BATCH)).all()


def test_record_of_a_finished_call_says_so(tmp_path: Path) -> None:
    remembering(tmp_path, save_checkpoints_steps=5).train(in_order, max_steps=10)
    assert json.loads((tmp_path / "model.ckpt-10.run.json").read_text())["complete"] is True
    assert json.loads((tmp_path / "model.ckpt-5.run.json").read_text())["complete"] is False


def noisy_in_parallel() -> tf.data.Dataset:
    def noisy(identity: tf.Tensor) -> tf.Tensor:
        return identity + tf.cast(tf.random.uniform([]) * 0.0, identity.dtype)

    return tf.data.Dataset.range(IDS).repeat().map(noisy, num_parallel_calls=2).batch(BATCH)


def test_random_ops_in_parallel_are_told_to_repeat_in_no_run(tmp_path: Path, caplog) -> None:
    remembering(tmp_path, save_checkpoints_steps=5).train(noisy_in_parallel, max_steps=2)
    [told] = [message for message in caplog.messages if CANNOT_SAVE in message]
    assert "draws random numbers in parallel" in told and "leave out num_parallel_calls" in told
