"""`tfrecord_input_fn`: which records come, in which order, and what is parsed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import InputError
from tests.inputs.reading import as_numpy, batches, call, save_and_continue

ROWS = 100
SPEC = {
    "n": tf.io.FixedLenFeature([], tf.int64),
    "x": tf.io.FixedLenFeature([2], tf.float32),
    "words": tf.io.VarLenFeature(tf.string),
}
DENSE = {name: SPEC[name] for name in ("n", "x")}


@pytest.fixture
def files(tmp_path: Path) -> str:
    table = {
        "n": np.arange(ROWS),
        "x": np.random.default_rng(0).normal(size=(ROWS, 2)),
        "words": [["w"] * (n % 3) for n in range(ROWS)],
    }
    est.records.write(tmp_path / "a", table, shards=3)
    return str(tmp_path / "a-*")


def numbers(given: Any, count: int | None = None) -> list[int]:
    read = batches(given, count)
    return [n for features, labels in read for n in (features["n"] if labels is None else labels)]


@pytest.mark.parametrize("spec", [SPEC, DENSE])
@pytest.mark.parametrize("cache", [False, True])
def test_evaluation_reads_all_once_in_order_as_parse_example_does(
    files: str, spec: dict, cache: bool
) -> None:
    read = est.inputs.tfrecord_input_fn(files, spec, batch_size=32, cache=cache)
    records = list(tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(files))).as_numpy_iterator())
    wanted = [
        (as_numpy(tf.io.parse_example(records[i : i + 32], spec)), None) for i in range(0, ROWS, 32)
    ]
    assert batches(call(read, mode="eval")) == wanted


@pytest.mark.parametrize("spec", [SPEC, DENSE])
@pytest.mark.parametrize("cache", [False, True])
def test_training_shuffles_and_never_ends(files: str, spec: dict, cache: bool) -> None:
    read = est.inputs.tfrecord_input_fn(files, spec, "n", batch_size=25, cache=cache)
    order = numbers(call(read, mode="train"), 12)
    epochs = [order[i : i + ROWS] for i in range(0, 3 * ROWS, ROWS)]
    assert all(sorted(epoch) == list(range(ROWS)) for epoch in epochs)
    assert epochs[0] != sorted(epochs[0])
    assert epochs[0] != epochs[1]


def test_epochs_follow_without_a_gap(files: str) -> None:
    read = est.inputs.tfrecord_input_fn(
        files, DENSE, "n", batch_size=40, num_epochs=2, shuffle=False
    )
    sizes = [len(labels) for _, labels in batches(call(read))]
    assert sizes == [40] * 5
    assert numbers(call(read)) == [*range(ROWS), *range(ROWS)]


@pytest.mark.parametrize("spec", [SPEC, DENSE])
@pytest.mark.parametrize("cache", [False, True])
def test_dropped_remainder_makes_shapes_static(files: str, spec: dict, cache: bool) -> None:
    read = est.inputs.tfrecord_input_fn(
        files, spec, "n", batch_size=30, drop_remainder=True, cache=cache
    )
    given = call(read, mode="eval")
    assert given.element_spec[1].shape == [30]
    assert given.element_spec[0]["x"].shape == [30, 2]
    assert numbers(given) == list(range(90))


def test_spec_is_inferred(files: str) -> None:
    features, labels = next(iter(est.inputs.tfrecord_input_fn(files, label_key="n")(mode="eval")))
    assert labels.dtype == tf.int64
    assert (features["x"].shape, features["x"].dtype) == ((ROWS, 2), tf.float32)
    assert isinstance(features["words"], tf.SparseTensor)


def test_several_labels_are_a_dict(files: str) -> None:
    read = est.inputs.tfrecord_input_fn(files, SPEC, ["n", "x"], batch_size=2)
    [(features, labels)] = batches(call(read, mode="eval"), 1)
    assert list(features) == ["words"]
    assert labels["n"] == [0, 1]


def test_sequence_examples(tmp_path: Path) -> None:
    rows = [{"id": n, "steps": [float(n)] * (n + 1)} for n in range(4)]
    est.records.write(tmp_path / "s", rows, sequence_keys=["steps"])
    read = est.inputs.tfrecord_input_fn(tmp_path / "s", label_key="id", batch_size=2)
    first, second = batches(call(read, mode="eval"))
    assert first == ({"steps": [[0.0, 0.0], [1.0, 1.0]]}, [0, 1])
    assert second == ({"steps": [[2.0, 2.0, 2.0, 0.0], [3.0] * 4]}, [2, 3])


def test_files_of_different_compression_are_told_apart(tmp_path: Path) -> None:
    for name, compression in (("0", None), ("1", "GZIP"), ("2", "ZLIB")):
        est.records.write(tmp_path / name, {"n": [int(name)]}, compression=compression)
    read = est.inputs.tfrecord_input_fn(tmp_path / "*")
    assert numbers(call(read, mode="eval")) == [0, 1, 2]


def test_readers_in_parallel_give_every_record_in_a_fixed_order(files: str) -> None:
    read = est.inputs.tfrecord_input_fn(files, DENSE, "n", shuffle=False, readers=3)
    first, second = numbers(call(read, mode="eval")), numbers(call(read, mode="eval"))
    assert sorted(first) == list(range(ROWS))
    assert first == second


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize(("workers", "by_file"), [(3, True), (5, False)])
def test_workers_share_files_or_records(
    files: str, workers: int, by_file: bool, cache: bool
) -> None:
    parts = []
    for worker in range(workers):
        context = tf.distribute.InputContext(workers, worker, workers)
        read = est.inputs.tfrecord_input_fn(files, DENSE, "n", shuffle=False, cache=cache)
        parts.append(numbers(call(read, mode="eval", input_context=context)))
    assert sorted(n for part in parts for n in part) == list(range(ROWS))
    contiguous = [part == list(range(part[0], part[0] + len(part))) for part in parts]
    assert all(contiguous) is by_file


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("workers", [3, 5])
def test_workers_share_shuffled_records_though_each_draws_an_order_of_its_own(
    files: str, workers: int, on_error: str
) -> None:
    found = []
    for worker in range(workers):
        tf.random.set_seed(worker)
        context = tf.distribute.InputContext(workers, worker, workers)
        read = est.inputs.tfrecord_input_fn(files, DENSE, "n", num_epochs=1, on_error=on_error)
        found += numbers(call(read, mode="train", input_context=context))
    assert sorted(found) == list(range(ROWS))


@pytest.mark.parametrize("spec", [SPEC, DENSE])
@pytest.mark.parametrize("cache", [False, True])
def test_position_continues_with_the_next_unseen_batch(
    files: str, tmp_path: Path, spec: dict, cache: bool
) -> None:
    def make() -> Any:
        tf.random.set_seed(3)
        return call(
            est.inputs.tfrecord_input_fn(files, spec, "n", 16, shuffle_buffer=30, cache=cache)
        )

    straight_on, restored = save_and_continue(make, before=9, after=9, folder=tmp_path)
    assert straight_on == restored


def test_position_in_compressed_files_is_saved_too(tmp_path: Path) -> None:
    """What looks at the end of such a file must not stand in the way."""
    table = {"n": range(ROWS), "x": np.zeros((ROWS, 2))}
    est.records.write(tmp_path / "a", table, shards=2, compression="GZIP")
    read = est.inputs.tfrecord_input_fn(tmp_path / "a-*", DENSE, "n", batch_size=7)

    def make() -> Any:
        tf.random.set_seed(3)
        return call(read)

    straight_on, restored = save_and_continue(make, before=20, after=20, folder=tmp_path)
    assert straight_on == restored


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, given: 0"),
        ({"num_epochs": 0}, "num_epochs must be None or at least 1, given: 0"),
        ({"readers": 0}, "readers must be None or at least 1"),
        ({"on_error": "ignore"}, "on_error must be 'raise' .*'skip'.*given: 'ignore'"),
        ({"compression": "LZ4"}, "given: 'LZ4'"),
    ],
)
def test_unusable_arguments_are_refused_at_once(arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        est.inputs.tfrecord_input_fn("a", **arguments)


def test_unusable_specs_are_named(files: str) -> None:
    for arguments, message in (
        ({"features": {"n": tf.int64}}, r"features\['n'\] must be one of tf.io.FixedLenFeature"),
        ({"features": SPEC, "label_key": "y"}, r"label_key 'y' is not among the features: \['n'"),
        ({"features": {"n": SPEC["n"]}, "label_key": "n"}, "no feature is left beside the label"),
    ):
        with pytest.raises(InputError, match=message):
            est.inputs.tfrecord_input_fn(files, **arguments)(mode="eval")


def test_cache_refuses_what_it_cannot_keep(tmp_path: Path) -> None:
    est.records.write(tmp_path / "s", [{"id": 1, "s": [1.0]}], sequence_keys=["s"])
    with pytest.raises(InputError, match="cache=True cannot keep the feature 's'"):
        est.inputs.tfrecord_input_fn(tmp_path / "s", cache=True)(mode="eval")
