"""By what an input is recognized: the same in every process, and told from similar ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.feeding.fingerprint import Batches, Fingerprint, batches_of
from estimand.inputs.contract import call_input_fn

Dataset = tf.data.Dataset
X = np.arange(400, dtype=np.float32).reshape(100, 4)
REPOSITORY = Path(__file__).resolve().parents[3]


def rows(data: np.ndarray = X) -> Dataset:
    return Dataset.from_tensor_slices(({"x": data, "y": data[:, 0]}, data[:, 1]))


def text_files(folder: Path) -> list[str]:
    names = [str(folder / f"part-{i}.txt") for i in range(3)]
    for name in names:
        if not Path(name).exists():
            Path(name).write_text("".join(f"{i}\n" for i in range(20)))
    return names


def generated() -> Dataset:
    signature = tf.TensorSpec([4], tf.float32)
    return Dataset.from_generator(lambda: iter(X), output_signature=signature)


def ready_made(**settings: object) -> Dataset:
    read = est.inputs.numpy_input_fn({"x": X}, X[:, 0], **{"shuffle": True, **settings})
    return call_input_fn(read, mode="train", params=None, config=None).dataset


def pipelines(folder: Path) -> dict[str, Callable[[], Dataset]]:
    """Many kinds of pipelines, each of another kind than all others."""
    names = text_files(folder)

    def parsed(line: tf.Tensor) -> tf.Tensor:
        return tf.strings.to_number(line)

    def lines(name: tf.Tensor) -> Dataset:
        return tf.data.TextLineDataset(name).map(parsed)

    return {
        "shuffled": lambda: rows().shuffle(30).repeat().batch(8),
        "seeded": lambda: rows().shuffle(30, seed=3).repeat().batch(8, drop_remainder=True),
        "in order": lambda: rows().batch(8),
        "epochs": lambda: rows().batch(8).repeat(3).prefetch(2),
        "mapped": lambda: rows().map(lambda x, y: (x, y + 1)).cache().batch(16),
        "range": lambda: Dataset.range(1000).shuffle(10).batch(5),
        "zipped": lambda: Dataset.zip((Dataset.range(9), Dataset.range(9))).padded_batch(3),
        "files": lambda: tf.data.TextLineDataset(names).map(parsed).batch(4),
        "interleaved": lambda: Dataset.from_tensor_slices(names).interleave(lines).batch(4),
        "listed": lambda: Dataset.list_files(f"{folder}/part-*").interleave(lines).batch(4),
        "generator": lambda: generated().batch(6),
        "numpy": lambda: ready_made(batch_size=8, num_epochs=None),
        "numpy epochs": lambda: ready_made(batch_size=8, num_epochs=2, shuffle=False),
        "csv": lambda: est.inputs.csv_input_fn(names[0], 4, column_names=["a"], header=False)(
            mode="train"
        ),
        "sampled": lambda: Dataset.sample_from_datasets([Dataset.range(9), Dataset.range(8)]),
        "texts": lambda: Dataset.from_tensor_slices(["a", "b", "c"]).repeat().batch(2),
    }


def fingerprints(folder: Path) -> dict[str, dict]:
    found = {}
    for name, make in pipelines(folder).items():
        tf.random.set_seed(5)
        found[name] = Fingerprint.of(make()).as_json()
    return found


def test_another_process_finds_the_same(tmp_path: Path) -> None:
    here = fingerprints(tmp_path)
    program = (
        "import json, pathlib, sys; from tests.engine.feeding import test_fingerprint as t;"
        "print(json.dumps(t.fingerprints(pathlib.Path(sys.argv[1]))))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1]) == here


def test_no_two_of_them_are_alike(tmp_path: Path) -> None:
    found = fingerprints(tmp_path)
    alike = [
        (one, other)
        for one in found
        for other in found
        if one < other and found[one]["arrangement"] == found[other]["arrangement"]
    ]
    assert alike == []


CHANGES: dict[str, tuple[Callable[[], Dataset], set[str]]] = {
    "batch size": (lambda: rows().shuffle(30, seed=1).batch(16), {"arrangement", "batch_rows"}),
    "drop remainder": (
        lambda: rows().shuffle(30, seed=1).batch(8, drop_remainder=True),
        {"arrangement"},
    ),
    "buffer": (lambda: rows().shuffle(40, seed=1).batch(8), {"arrangement"}),
    "no shuffle": (lambda: rows().batch(8), {"arrangement", "seeds"}),
    "seed": (lambda: rows().shuffle(30, seed=2).batch(8), {"seeds"}),
    "other values": (lambda: rows(X + 1).shuffle(30, seed=1).batch(8), {"data"}),
    "fewer rows": (lambda: rows(X[:50]).shuffle(30, seed=1).batch(8), {"data"}),
    "reversed": (lambda: rows(X[::-1]).shuffle(30, seed=1).batch(8), {"data"}),
    "repeated": (lambda: rows().shuffle(30, seed=1).repeat().batch(8), {"arrangement"}),
    "other key": (
        lambda: rows().shuffle(30, seed=1).map(lambda x, y: ({"z": x["x"]}, y)).batch(8),
        {"arrangement", "structure"},
    ),
    "prefetch": (lambda: rows().shuffle(30, seed=1).batch(8).prefetch(3), set()),
    "parallel": (lambda: rows().shuffle(30, seed=1).batch(8, num_parallel_calls=2), set()),
    "nothing": (lambda: rows().shuffle(30, seed=1).batch(8), set()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_has_changed_is_told(change: str) -> None:
    tf.random.set_seed(5)
    saved = Fingerprint.of(rows().shuffle(30, seed=1).batch(8)).as_json()
    tf.random.set_seed(5)
    make, expected = CHANGES[change]
    assert Fingerprint.of(make()).differs_in(json.loads(json.dumps(saved))) == expected


@pytest.mark.parametrize("name", ["float8_e5m2", "int4"])
def test_data_of_types_that_numpy_has_not(name: str) -> None:
    dtype = getattr(tf.dtypes.experimental, name)
    one, two = (tf.constant((X % n).astype(dtype.as_numpy_dtype)) for n in (3, 4))
    first = Fingerprint.of(Dataset.from_tensor_slices(one))
    assert first == Fingerprint.of(Dataset.from_tensor_slices(one))
    assert first.data != Fingerprint.of(Dataset.from_tensor_slices(two)).data


def test_function_of_a_map_may_change() -> None:
    one = Fingerprint.of(rows().map(lambda x, y: (x, y)).batch(8))
    other = Fingerprint.of(rows().map(lambda x, y: (x, y * 2 + 1)).batch(8))
    assert one == other


def test_files_are_known_by_name_wherever_they_lie(tmp_path: Path) -> None:
    found = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        text_files(folder)
        found.append(fingerprints(folder))
    assert found[0] == found[1]
    (tmp_path / "b" / "part-1.txt").write_text("1\n")
    changed = fingerprints(tmp_path / "b")
    for name in ("files", "interleaved", "listed"):
        assert changed[name] == {**found[0][name], "files": changed[name]["files"]}
        assert changed[name]["files"] != found[0][name]["files"]


def test_data_that_is_large_is_looked_at_in_places(monkeypatch: pytest.MonkeyPatch) -> None:
    large = np.zeros(2**25, np.float32)  # 128 MB
    before = Fingerprint.of(Dataset.from_tensor_slices(large).batch(8))
    large[:100] = 1
    assert Fingerprint.of(Dataset.from_tensor_slices(large).batch(8)).differs_in(
        before.as_json()
    ) == {"data"}


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: rows().repeat().batch(8), Batches(8)),
        (lambda: rows().batch(8), Batches(8, 100)),
        (lambda: rows().batch(8, drop_remainder=True).repeat(), Batches(8, 100, True)),
        (lambda: rows().batch(8).map(lambda x, y: x).shard(2, 1), Batches(8, 100, share=2)),
        (lambda: ready_made(batch_size=8, num_epochs=2), Batches(8)),
        (lambda: Dataset.range(9).padded_batch(4), Batches(4, 9)),
        (lambda: rows().batch(4).rebatch(10), Batches(10)),
        (lambda: Dataset.from_tensors(X).repeat(), Batches(100)),
        (lambda: rows().batch(8).unbatch(), None),
        (lambda: rows().batch(8).filter(lambda x, y: True), None),
        (lambda: generated().batch(6), Batches(6)),
    ],
)  # fmt: skip
def test_rows_of_batches(make: Callable[[], Dataset], expected: Batches | None) -> None:
    assert batches_of(make()) == expected


def test_rows_of_batches_are_told_where_shapes_are_those_of_tensorflow_1() -> None:
    tf.compat.v1.disable_v2_tensorshape()  # a dimension is then an object, and not hashable
    try:
        assert batches_of(rows().batch(8)) == Batches(8, 100)
    finally:
        tf.compat.v1.enable_v2_tensorshape()


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("repeat", [False, True])
def test_rows_and_batches_are_counted_as_a_dataset_gives_them(drop: bool, repeat: bool) -> None:
    """Against the Dataset itself: the first row of each batch is where it stands."""
    for size in (3, 5, 7, 10, 12):
        source = Dataset.range(10)
        dataset = source.repeat(3).batch(size, drop) if repeat else source.batch(size, drop)
        if not repeat:
            dataset = dataset.repeat(3)
        batches = batches_of(dataset)
        assert batches is not None
        for number, batch in enumerate(dataset.as_numpy_iterator()):
            start = batches.rows_of(number)
            assert start % 10 == batch[0]
            assert batches.within(start) == number
            assert batches.within(start + len(batch) - 1) == number
