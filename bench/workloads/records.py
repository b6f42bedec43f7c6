"""TFRecord files: checking them, writing them from a table, and reading batches of them.

Each contestant is one way to do one of the three; `verify` is compared with cat, which only
reads. The table is like the census: five numbers, eight words and a label, about 300 bytes a
record; a second file to be checked holds records of 10 kB, such as small images are.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from environments import PROJECT
from turns import Turns
from workload import Contestant, Measure, Target, Workload

_WORDS = ["Private", "Self-emp-not-inc", "Bachelors", "Married-civ-spouse", "Exec-managerial"]
_LARGE_BYTES = 200_000_000


def _rows(turns: Turns) -> int:
    return 50_000 if turns.quick else 200_000


def table(turns: Turns) -> dict[str, np.ndarray]:
    random, rows = np.random.default_rng(0), _rows(turns)
    columns: dict[str, np.ndarray] = {
        "age": random.integers(17, 90, rows),
        "weight": random.integers(0, 10**6, rows),
        "hours": random.integers(1, 99, rows),
        "gain": random.normal(size=rows).astype(np.float32),
        "loss": random.normal(size=rows).astype(np.float32),
    }
    for column in range(8):
        columns[f"word{column}"] = random.choice(_WORDS, rows)
    columns["label"] = random.integers(0, 2, rows)
    return columns


def _small_records(turns: Turns) -> str:
    import estimand as est

    path = os.path.join(tempfile.mkdtemp(), "census.tfrecord")
    est.records.write(path, table(turns))
    return path


def _large_records() -> str:
    import estimand as est

    path = os.path.join(tempfile.mkdtemp(), "images.tfrecord")
    blob = np.random.default_rng(0).bytes(1 << 20)
    count = _LARGE_BYTES // 10_000
    est.records.write(path, (blob[i % 1000 :][: 9_000 + i % 2000] for i in range(count)))
    return path


def _check_files(turns: Turns, check: Callable[[str], None]) -> None:
    files = {"small": _small_records(turns), "large": _large_records()}
    while True:
        turns.wait()
        rates = {}
        for name, path in files.items():
            start = time.perf_counter()
            check(path)
            seconds = time.perf_counter() - start
            rates[f"check_{name}"] = os.path.getsize(path) / seconds / 1e6
        turns.report(**rates)


def verify(turns: Turns) -> None:
    import estimand as est

    _check_files(turns, lambda path: est.records.verify(path) and None)


def cat(turns: Turns) -> None:
    _check_files(
        turns, lambda path: subprocess.run(["cat", path], stdout=subprocess.DEVNULL) and None
    )


def _write_files(turns: Turns, write: Callable[[str, Any], None]) -> None:
    import pandas as pd

    frame = pd.DataFrame(table(turns))
    path = os.path.join(tempfile.mkdtemp(), "out.tfrecord")
    while True:
        turns.wait()
        start = time.perf_counter()
        write(path, frame)
        turns.report(write=len(frame) / (time.perf_counter() - start))


def write(turns: Turns) -> None:
    import estimand as est

    _write_files(turns, lambda path, frame: est.records.write(path, frame) and None)


def python_loop(turns: Turns) -> None:
    """A tenth of the rows: it is the rate that counts."""
    import tensorflow as tf

    train = tf.train

    def feature(value: Any) -> Any:
        if isinstance(value, str):
            return train.Feature(bytes_list=train.BytesList(value=[value.encode()]))
        if isinstance(value, float):
            return train.Feature(float_list=train.FloatList(value=[value]))
        return train.Feature(int64_list=train.Int64List(value=[value]))

    def write_part(path: str, frame: Any) -> None:
        with tf.io.TFRecordWriter(path) as writer:
            for row in frame.to_dict("records"):
                features = {name: feature(value) for name, value in row.items()}
                example = train.Example(features=train.Features(feature=features))
                writer.write(example.SerializeToString())

    import pandas as pd

    frame = pd.DataFrame(table(turns)).head(_rows(turns) // 10)
    path = os.path.join(tempfile.mkdtemp(), "out.tfrecord")
    while True:
        turns.wait()
        start = time.perf_counter()
        write_part(path, frame)
        turns.report(write=len(frame) / (time.perf_counter() - start))


def read_files(turns: Turns, path: str, make: Callable[[str, bool], Any]) -> None:
    """Rows per second of the pipelines that `make(path, shuffle)` makes, of batches and labels.

    A fresh iterator for each pass, as reading ahead while waiting would be a gift. Building the
    pipeline, which is done once for a training of any length, does not count.
    """

    def rate(shuffle: bool) -> float:
        batches = make(path, shuffle)
        start, rows = time.perf_counter(), 0
        for _, labels in batches:
            rows += int(labels.shape[0])
        return rows / (time.perf_counter() - start)

    while True:
        turns.wait()
        turns.report(read=rate(False), read_shuffled=rate(True))


def _spec(path: str) -> dict[str, Any]:
    import estimand as est

    return est.records.parse_spec(path, limit=10)


def input_fn(turns: Turns) -> None:
    import estimand as est

    def make(path: str, shuffle: bool) -> Any:
        read = est.inputs.tfrecord_input_fn(
            path, _spec(path), "label", 128, num_epochs=1, shuffle=shuffle
        )
        return read(mode="train")

    read_files(turns, _small_records(turns), make)


def _by_hand(tuned: bool) -> Callable[[Turns], None]:
    def run(turns: Turns) -> None:
        import tensorflow as tf

        def make(path: str, shuffle: bool) -> Any:
            spec = _spec(path)

            def parse(records: Any) -> Any:
                features = tf.io.parse_example(records, spec)
                return features, features.pop("label")

            data = tf.data.TFRecordDataset(path)
            if shuffle:
                data = data.shuffle(10_000)
            data = data.batch(128)
            if tuned:
                return data.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(
                    tf.data.AUTOTUNE
                )
            return data.map(parse)

        read_files(turns, _small_records(turns), make)

    return run


_TUNED, _PLAIN = "tf.data by hand, AUTOTUNE", "tf.data by hand, sequential"

WORKLOAD = Workload(
    title="TFRecord files: check, write, read",
    contestants=[
        Contestant("records.verify", PROJECT, verify),
        Contestant("cat", PROJECT, cat),
        Contestant("records.write", PROJECT, write),
        Contestant("loop over tf.train.Example", PROJECT, python_loop),
        Contestant("tfrecord_input_fn", PROJECT, input_fn),
        Contestant(_TUNED, PROJECT, _by_hand(True)),
        Contestant(_PLAIN, PROJECT, _by_hand(False)),
    ],
    measures=[
        Measure("check_small", "check records of 300 bytes", "MB/s"),
        Measure("check_large", "check records of 10 kB", "MB/s"),
        Measure("write", "write from a DataFrame", "rows/s"),
        Measure("read", "batches of 128, in order", "rows/s"),
        Measure("read_shuffled", "batches of 128, shuffled", "rows/s"),
    ],
    baseline=["cat", "loop over tf.train.Example", _TUNED],
    targets=[
        Target("records.write", ["loop over tf.train.Example"], at_least=3, measure="write"),
        Target("tfrecord_input_fn", [_TUNED, _PLAIN], at_least=0.95, measure="read"),
        Target("tfrecord_input_fn", [_TUNED, _PLAIN], at_least=0.95, measure="read_shuffled"),
    ],
    rounds=8,
    quick_rounds=3,
)
