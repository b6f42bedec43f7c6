"""An interrupted run that is continued with another input: told in one sentence, never an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.feeding import resident
from tests.integration.programs import CrashAt, Crashed, v1

STEPS, WIDEST = 40, 64
SAVED = 10  # the step of the checkpoint that a crash at 13 leaves
Dataset = tf.data.Dataset
InputFn = Callable[[], Any]
TOLD = "input_fn gives another input than the interrupted run had"


def widening_model_fn(features: Any, mode: str) -> est.EstimatorSpec:
    """Keeps the ids of every batch, of whatever size, in the row of its step."""
    ids = tf.cast(features["id"] if isinstance(features, dict) else features, tf.int64)
    step = v1.train.get_global_step()
    seen = v1.get_variable(
        "seen", [STEPS, WIDEST], tf.int64, v1.constant_initializer(-1), trainable=False
    )
    row = tf.concat([ids, -tf.ones([WIDEST - tf.size(ids)], tf.int64)], axis=0)
    with tf.control_dependencies([v1.scatter_update(seen, step, row)]):
        train_op = step.assign_add(1)
    return est.EstimatorSpec(mode, loss=tf.reduce_mean(tf.cast(ids, tf.float32)), train_op=train_op)


def train(model_dir: Path, input_fn: InputFn, *hooks: Any, **config: Any) -> list[list[int]]:
    """Train as far as the input goes; the ids of every step."""
    settings = {"save_checkpoints_steps": 5, "progress": False, "check_data": False, **config}
    made = est.Estimator(widening_model_fn, str(model_dir), est.RunConfig(**settings))
    made.train(input_fn, max_steps=STEPS, hooks=hooks)
    seen = made.get_variable_value("seen")[: made.get_variable_value("global_step")]
    return [[int(i) for i in row if i >= 0] for row in seen]


def continued(
    model_dir: Path, first: InputFn, second: InputFn, caplog: Any, **config: Any
) -> tuple[list[list[int]], list[str]]:
    """The ids of the steps after a crash in `first`, and what was said about the change."""
    with pytest.raises(Crashed):
        train(model_dir, first, CrashAt(SAVED + 3), **config)
    caplog.clear()
    rows = train(model_dir, second, **config)
    if len(rows) == STEPS:
        assert train(model_dir, second, **config) == rows, "the next start finds it finished"
    return rows[SAVED:], [m for m in caplog.messages if m.startswith(TOLD)]


def ids(count: int = 1000, begin: int = 0) -> Dataset:
    return Dataset.from_tensor_slices(np.arange(begin, begin + count))


def chunks(numbers: Any, size: int) -> list[list[int]]:
    numbers = list(numbers)
    return [numbers[i : i + size] for i in range(0, len(numbers), size)]


@pytest.mark.sample(3)
@pytest.mark.parametrize("drop_remainder", [False, True])
@pytest.mark.parametrize("sizes", [(16, 32), (32, 16), (16, 24), (4, 64)])
@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_of_another_size_go_on_after_the_rows_that_were_read(
    tmp_path: Path, caplog, sizes: tuple[int, int], shuffle: bool, drop_remainder: bool
) -> None:
    def batches_of(size: int) -> InputFn:
        def input_fn() -> Dataset:
            data = ids().shuffle(200) if shuffle else ids()
            return data.repeat().batch(size, drop_remainder)

        return input_fn

    old, new = sizes
    rows, told = continued(
        tmp_path / "a", batches_of(old), batches_of(new), caplog, tf_random_seed=3
    )
    whole = train(tmp_path / "b", batches_of(new), tf_random_seed=3)
    skipped = SAVED * old // new
    compared = min(STEPS - SAVED, STEPS - skipped)
    assert compared > 0 and rows[:compared] == whole[skipped:][:compared]
    [sentence] = told
    assert f"batches of {new} rows instead of {old}" in sentence
    assert f"{SAVED * old} rows had been read" in sentence
    again = SAVED * old - skipped * new
    assert ("come again" in sentence) == (again > 0)


def test_finite_input_ends_with_its_last_row(tmp_path: Path, caplog) -> None:
    rows, [sentence] = continued(
        tmp_path, lambda: ids(256).batch(4), lambda: ids(256).batch(32), caplog
    )
    assert rows == chunks(range(32, 256), 32)
    assert "after its first batch (8 of them come again)" in sentence


def test_epochs_that_end_in_a_smaller_batch_are_counted_exactly(tmp_path: Path, caplog) -> None:
    """Ten rows in batches of 4: 4, 4, 2; three epochs and one batch are 34 rows."""
    rows, _ = continued(
        tmp_path, lambda: ids(10).batch(4).repeat(), lambda: ids(10).batch(2).repeat(), caplog
    )
    assert rows[:4] == [[4, 5], [6, 7], [8, 9], [0, 1]]


OTHERS: dict[str, tuple[InputFn, InputFn, list[int], str]] = {
    "other rows": (
        lambda: ids().batch(4),
        lambda: ids(begin=5000).batch(4),
        [5000, 5001, 5002, 5003],
        "other data): training goes on at the start",
    ),
    "fewer rows": (
        lambda: ids().batch(4),
        lambda: ids(32).batch(4),
        [0, 1, 2, 3],
        "other data): training goes on at the start",
    ),
    "more rows": (
        lambda: ids(60).batch(4),
        lambda: ids(600).batch(4),
        [0, 1, 2, 3],
        "other data): training goes on at the start",
    ),
    "shorter": (
        lambda: ids().batch(4),
        lambda: ids().take(20).batch(4),
        [0, 1, 2, 3],
        "no more rows than the 40 that had been read",
    ),
    "no shuffle any more": (
        lambda: ids().shuffle(1000).batch(4),
        lambda: ids().batch(4),
        [40, 41, 42, 43],
        "40 rows had been read, so training goes on after its first 10 batches",
    ),
    "another structure": (
        lambda: ids().batch(4),
        lambda: ids().map(lambda i: {"id": i, "more": i}).batch(4),
        [40, 41, 42, 43],
        "other features or labels",
    ),
    "another stage": (
        lambda: ids().batch(4).repeat(),
        lambda: ids().repeat().batch(4, drop_remainder=True),
        [40, 41, 42, 43],
        "40 rows had been read",
    ),
    "a generator": (
        lambda: ids().batch(4),
        lambda: ({"id": np.arange(i, i + 2)} for i in range(0, 1000, 2)),
        [0, 1],
        "training goes on at the start",
    ),
    "numpy_input_fn": (
        est.inputs.numpy_input_fn({"id": np.arange(400)}, batch_size=4, shuffle=False),
        est.inputs.numpy_input_fn({"id": np.arange(400)}, batch_size=8, shuffle=False),
        list(range(40, 48)),
        "batches of 8 rows instead of 4",
    ),
}


@pytest.mark.parametrize("change", OTHERS)
def test_other_inputs_begin_where_it_makes_sense(tmp_path: Path, caplog, change: str) -> None:
    first, second, expected, words = OTHERS[change]
    rows, [sentence] = continued(tmp_path, first, second, caplog)
    assert rows[0] == expected
    assert words in sentence


def test_file_that_was_mended_goes_on_after_the_rows_that_were_read(tmp_path: Path, caplog) -> None:
    file = tmp_path / "ids.txt"
    file.write_text("".join(f"{i}\n" for i in range(400)))

    def lines() -> Dataset:
        return tf.data.TextLineDataset(str(file)).map(tf.strings.to_number).batch(4)

    with pytest.raises(Crashed):
        train(tmp_path / "model", lines, CrashAt(SAVED + 3))
    file.write_text("".join(f"{i:07}\n" for i in range(400)))
    rows = train(tmp_path / "model", lines)
    assert rows[SAVED:] == chunks(range(40, 160), 4)
    assert any("files of other sizes" in m for m in caplog.messages)


@pytest.mark.parametrize("change", ["prefetch", "map", "seed", "parallel"])
def test_changes_that_move_no_row_go_on_with_the_next_one(
    tmp_path: Path, caplog, change: str
) -> None:
    def first() -> Dataset:
        return ids().shuffle(200, seed=1).repeat().map(lambda i: i).batch(4)

    def second() -> Dataset:
        data = ids().shuffle(200, seed=2 if change == "seed" else 1).repeat()
        data = data.map(lambda i: i + 0 if change == "map" else i)
        data = data.batch(4, num_parallel_calls=2 if change == "parallel" else None)
        return data.prefetch(5) if change == "prefetch" else data

    rows, told = continued(tmp_path / "a", first, second, caplog)
    assert told == []
    assert rows == train(tmp_path / "b", first)[SAVED:]
    assert any("the order that was begun goes on" in m for m in caplog.messages) == (
        change == "seed"
    )


def test_run_that_is_killed_again_before_it_saves_decides_the_same(tmp_path: Path, caplog) -> None:
    with pytest.raises(Crashed):
        train(tmp_path, lambda: ids().batch(4), CrashAt(SAVED + 3))
    for _ in range(2):
        with pytest.raises(Crashed):
            train(tmp_path, lambda: ids().batch(8), CrashAt(SAVED + 2))
    rows = train(tmp_path, lambda: ids().batch(8))
    assert rows[SAVED] == list(range(40, 48))


def test_changed_twice(tmp_path: Path) -> None:
    with pytest.raises(Crashed):
        train(tmp_path, lambda: ids().batch(4), CrashAt(SAVED + 3))
    with pytest.raises(Crashed):
        train(tmp_path, lambda: ids().batch(8), CrashAt(18))  # the last checkpoint is that of 15
    rows = train(tmp_path, lambda: ids().batch(10))
    assert rows[10:15] == chunks(range(40, 80), 8)
    assert rows[15:] == chunks(range(80, 330), 10)


def test_eager_run_with_batches_of_another_size(tmp_path: Path, caplog) -> None:
    rows, [sentence] = continued(
        tmp_path, lambda: ids().batch(4), lambda: ids().batch(8), caplog, run_eagerly=True
    )
    assert rows[0] == list(range(40, 48)) and "instead of 4" in sentence


def test_position_of_an_older_version_is_tried_before_the_first_step(
    tmp_path: Path, caplog
) -> None:
    """It does not say what its input was: only an element that comes from it shows."""
    with pytest.raises(Crashed):
        train(tmp_path, lambda: ids().shuffle(1).batch(16, drop_remainder=True), CrashAt(SAVED + 3))
    [note] = tmp_path.glob(f"model.ckpt-{SAVED}.run.json")
    meta = json.loads(note.read_text())
    for name in ("rows", "pipeline"):
        del meta["input"][name]
    note.write_text(json.dumps(meta))
    rows = train(tmp_path, lambda: ids().batch(32, drop_remainder=True))
    assert rows[SAVED] == list(range(320, 352))
    assert any("Skipping 10 batches by counting instead" in m for m in caplog.messages)


def test_rows_in_memory_go_on_after_a_second_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one had another batch size: the positions since then count from its start, too."""
    monkeypatch.setattr(resident, "_ROWS_AT_ONCE", 16)  # so that some are taken after the last

    def of(size: int) -> InputFn:
        return est.inputs.numpy_input_fn(
            {"id": np.arange(100)}, batch_size=size, num_epochs=None, shuffle=True
        )

    runs = {}
    for name, crashes in {"once": [], "twice": [CrashAt(23)]}.items():
        settings = {"tf_random_seed": 3}
        with pytest.raises(Crashed):
            train(tmp_path / name, of(4), CrashAt(SAVED + 3), **settings)
        for crash in crashes:
            with pytest.raises(Crashed):
                train(tmp_path / name, of(8), crash, **settings)
        runs[name] = train(tmp_path / name, of(8), **settings)
    assert runs["twice"] == runs["once"]
