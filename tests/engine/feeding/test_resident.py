"""Input in memory, read by the numbers of its rows: the same batches in the same order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import InputError
from estimand.engine.checkpoints.api import CheckpointWriter
from estimand.engine.feeding.feeder import Feeder, InputPosition
from estimand.engine.feeding.fingerprint import Fingerprint
from estimand.engine.feeding.in_order import InOrderFeeder, rows_in_order
from estimand.engine.feeding.resident import ResidentFeeder, open_feeder, rows_of
from estimand.inputs import permutation

_ROWS = 53
_X = np.arange(_ROWS * 3, dtype="f").reshape(_ROWS, 3)
_Y = np.arange(_ROWS)


def _slices() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(({"x": _X}, _Y))


def _arranged(x: Any, y: Any) -> Any:
    return {"x": x}, y


_IN_ORDER: dict[str, Callable[[], tf.data.Dataset]] = {
    "batch": lambda: _slices().batch(8),
    "full batches": lambda: _slices().batch(8, drop_remainder=True),
    "first rows": lambda: _slices().take(21).batch(8).prefetch(2),
    "more rows than there are": lambda: _slices().take(100).batch(8),
    "all rows": lambda: _slices().take(-1).batch(8),
    "first batches": lambda: _slices().batch(8).take(4),
    "parallel": lambda: _slices().batch(8, num_parallel_calls=2).with_options(tf.data.Options()),
    "arranged": lambda: tf.data.Dataset.from_tensor_slices((_X, _Y)).map(_arranged).batch(4),
    "swapped": lambda: _slices().batch(8).map(lambda x, y: (y, x)),
    "numpy": est.inputs.numpy_input_fn({"x": _X}, _Y, 8, num_epochs=1, shuffle=False),
    "numpy, texts": est.inputs.numpy_input_fn(_Y.astype("S"), _Y, 8, num_epochs=1, shuffle=False),
}
_PIPELINES: dict[str, Callable[[], tf.data.Dataset]] = {
    "shuffle, repeat, batch": lambda: _slices().shuffle(20).repeat().batch(8),
    "full batches": lambda: _slices().shuffle(20).repeat(3).batch(8, drop_remainder=True),
    "batch, repeat": lambda: _slices().shuffle(100).batch(8).repeat(),
    "repeat, shuffle": lambda: _slices().repeat(3).shuffle(30, seed=3).batch(8),
    "shuffled batches": lambda: _slices().batch(8).shuffle(5).repeat(4).prefetch(3),
    "one order": lambda: _slices().shuffle(9, reshuffle_each_iteration=False).repeat(4).batch(7),
    "cached order": lambda: _slices().shuffle(20).cache().repeat(4).batch(7),
    "a part": lambda: _slices().shard(3, 1).shuffle(20).repeat(4).batch(7).skip(1).take(6),
    "arranged": lambda: (
        tf.data.Dataset.from_tensor_slices((_X, _Y)).shuffle(9).map(_arranged).repeat().batch(4)
    ),
    "in order, twice": lambda: _slices().batch(8).repeat(2),
    "rows": lambda: _slices().shuffle(11).repeat(2),
    "options": lambda: (
        _slices().shuffle(9).batch(8, num_parallel_calls=2).with_options(tf.data.Options())
    ),
    "numpy": est.inputs.numpy_input_fn({"x": _X}, _Y, 8, num_epochs=None, shuffle=True),
    "numpy, epochs": est.inputs.numpy_input_fn({"x": _X}, _Y, 8, num_epochs=3, shuffle=True),
    "numpy, in order": est.inputs.numpy_input_fn({"x": _X}, _Y, 8, num_epochs=3, shuffle=False),
    "numpy, part": lambda: est.inputs.numpy_input_fn(
        {"x": _X}, _Y, 8, num_epochs=9, shuffle=True
    )().skip(5),
}


@pytest.fixture(params=_PIPELINES)
def pipeline(request: pytest.FixtureRequest) -> Callable[[], tf.data.Dataset]:
    def make() -> tf.data.Dataset:
        tf.random.set_seed(7)
        return _PIPELINES[request.param]()

    return make


def _as_it_is(element: Any) -> Any:
    return element


def _next(feeder: Feeder) -> list[list[Any]] | None:
    try:
        return [part.numpy().tolist() for part in feeder.next_batch()]
    except tf.errors.OutOfRangeError:
        return None


def test_batches_and_their_order_are_those_of_the_pipeline(
    pipeline: Callable[[], tf.data.Dataset],
) -> None:
    plain, resident = Feeder(pipeline(), _as_it_is), open_feeder(pipeline(), _as_it_is)
    assert isinstance(resident, ResidentFeeder)
    assert resident.size == plain.size
    for _ in range(120):
        batch = _next(plain)
        assert _next(resident) == batch
        if batch is None:
            break


@pytest.mark.parametrize("name", _IN_ORDER)
def test_batches_in_order_are_slices(name: str) -> None:
    plain, sliced = (opened(_IN_ORDER[name](), _as_it_is) for opened in (Feeder, open_feeder))
    assert isinstance(sliced, InOrderFeeder)
    assert sliced.size == plain.size
    following: list[Any] = []
    while not following or following[-1] is not None:
        following.append(_next(plain))
        assert _next(sliced) == following[-1]
    sliced.pass_over(3)
    assert [_next(sliced) for _ in following[3:]] == following[3:]
    entries, record = InputPosition(sliced, sliced.dataset, resumable=True).take()
    assert not entries and (record["kind"], record["batches"]) == ("count", sliced.size)


@pytest.mark.parametrize(
    "other",
    [
        *(make for name, make in _PIPELINES.items() if name != "numpy, part"),
        lambda: _slices().batch(8, num_parallel_calls=2, deterministic=False),
        lambda: _slices().skip(3).batch(8),
        lambda: _slices(),
        lambda: _slices().batch(2).batch(2),
        est.inputs.numpy_input_fn({"x": _X}, _Y, 8, num_epochs=2, shuffle=False),
        est.inputs.numpy_input_fn({"x": _X}, _Y, 8, num_epochs=1, shuffle=True),
    ],
)
def test_whatever_is_not_in_order_is_not_sliced(other: Callable[[], tf.data.Dataset]) -> None:
    assert rows_in_order(other()) is None


@pytest.mark.sample(4)
@pytest.mark.parametrize("before", [0, 1, 4])
def test_it_goes_on_from_a_saved_position(
    pipeline: Callable[[], tf.data.Dataset],
    before: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # So few that positions lie in the middle of what was taken at once, and across.
    monkeypatch.setattr("estimand.engine.feeding.resident._MOST_BATCHES_AT_ONCE", 3)
    feeder = open_feeder(pipeline(), _as_it_is)
    for _ in range(before):
        _next(feeder)
    entries, record = InputPosition(feeder, feeder.dataset, resumable=True).take()
    assert record["kind"] == "rows"
    with CheckpointWriter(str(tmp_path)) as writer:
        saved = writer.save(1, entries)
    following = [_next(feeder) for _ in range(9)]
    resumed = open_feeder(pipeline(), _as_it_is)
    InputPosition.restore(resumed, saved, before)
    assert resumed.batches == before
    assert [_next(resumed) for _ in range(9)] == following


def test_a_position_of_other_pieces_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeder = open_feeder(_PIPELINES["numpy"](), _as_it_is)
    entries, _ = InputPosition(feeder, feeder.dataset, resumable=True).take()
    with CheckpointWriter(str(tmp_path)) as writer:
        saved = writer.save(1, entries)
    monkeypatch.setattr("estimand.engine.feeding.resident._MOST_BATCHES_AT_ONCE", 3)
    other = open_feeder(_PIPELINES["numpy"](), _as_it_is)
    with pytest.raises(InputError, match="does not fit this input_fn"):
        InputPosition.restore(other, saved, 0)


def test_a_dataset_that_is_read_again_shuffles_anew() -> None:
    def twice(opened: Callable[..., Feeder]) -> list[Any]:
        tf.random.set_seed(7)
        dataset = _slices().shuffle(9).batch(8)
        return [_next(opened(dataset, _as_it_is)) for _ in range(2)]

    first, second = twice(open_feeder)
    assert first != second
    assert [first, second] == twice(Feeder)


def test_pipelines_that_begin_with_one_shuffle_shuffle_anew_each() -> None:
    """As `train(lambda: rows.batch(8))`, called twice, has it."""

    def twice(opened: Callable[..., Feeder]) -> list[Any]:
        tf.random.set_seed(7)
        rows = _slices().shuffle(9)
        return [_next(opened(rows.batch(8), _as_it_is)) for _ in range(2)]

    first, second = twice(open_feeder)
    assert first != second
    assert [first, second] == twice(Feeder)


_BESIDE = tf.zeros([200])  # so many that a function is given it, and does not hold a copy


@pytest.mark.parametrize(
    "other",
    [
        lambda: _slices().map(lambda x, y: (x, y + 1)).batch(3),
        lambda: _slices().map(lambda x, y: (x, _BESIDE)).batch(3),
        lambda: _slices().filter(lambda x, y: y > 3).batch(3),
        lambda: _slices().batch(2).batch(2),
        lambda: _slices().batch(2).concatenate(_slices().batch(2)),
        lambda: tf.data.Dataset.range(4).batch(2),
        lambda: tf.data.Dataset.from_tensor_slices(tf.sparse.eye(4)).batch(2),
        lambda: tf.data.Dataset.from_tensor_slices(np.zeros([4, 2**20])).batch(2),
    ],
)
def test_any_other_pipeline_is_left_as_it_is(other: Callable[[], tf.data.Dataset]) -> None:
    assert rows_of(other()) is None
    assert type(open_feeder(other(), _as_it_is)) is Feeder


@pytest.mark.parametrize("rows", [1, 2, 3, 150, 9000])
@pytest.mark.parametrize("version", [1, 3, permutation.CURRENT_ORDER])
def test_each_epoch_is_a_permutation_whatever_is_asked_for_at_once(rows: int, version: int) -> None:
    with permutation.in_order(version):
        row_at = permutation.rows_in_order(rows, tf.constant([5, 6], tf.int64))
    whole = row_at(tf.range(3 * rows, dtype=tf.int64)).numpy()
    for epoch in whole.reshape(3, rows):
        assert sorted(epoch) == list(range(rows))
    for begin, end in ((0, 1), (rows - 1, rows + 1), (rows, 3 * rows), (3 * rows - 1, 3 * rows)):
        part = row_at(tf.range(begin, end, dtype=tf.int64)).numpy()
        assert part.tolist() == whole[begin:end].tolist()


def test_the_rows_of_an_older_run_are_the_same_and_so_is_their_pipeline() -> None:
    read = est.inputs.numpy_input_fn(
        {"x": np.arange(20)}, batch_size=2, num_epochs=None, shuffle=True
    )
    given = {}
    for version in (3, permutation.CURRENT_ORDER):
        tf.random.set_seed(3)
        with permutation.in_order(version):
            given[version] = read()
    orders = [[b["x"].tolist() for b in d.take(9).as_numpy_iterator()] for d in given.values()]
    assert orders[0] == orders[1]
    assert {int(d.cardinality()) for d in given.values()} == {tf.data.INFINITE_CARDINALITY}
    seen = [Fingerprint.of(dataset) for dataset in given.values()]
    assert seen[0].data == seen[1].data and seen[0].arrangement != seen[1].arrangement
