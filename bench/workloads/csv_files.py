"""CSV files: batches of them, against pipelines written by hand.

The table is that of `records`: five numbers, eight words and a label.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from environments import PROJECT
from turns import Turns
from workload import Contestant, Measure, Workload

from workloads.records import read_files, table

_BATCH = 128
_SHUFFLED_ROWS = 10_000


def _file(turns: Turns) -> str:
    import pandas as pd

    path = os.path.join(tempfile.mkdtemp(), "census.csv")
    pd.DataFrame(table(turns)).to_csv(path, index=False)
    return path


def _names(path: str) -> list[str]:
    with open(path) as file:
        return file.readline().strip().split(",")


def _default(name: str) -> Any:
    """What `decode_csv` takes for the type of a column."""
    if name.startswith("word"):
        return [""]
    return [0.0] if name in ("gain", "loss") else np.zeros(1, np.int64)


def input_fn(turns: Turns) -> None:
    import estimand as est

    def make(path: str, shuffle: bool) -> Any:
        read = est.inputs.csv_input_fn(
            path, _BATCH, "label", num_epochs=1, shuffle=shuffle, shuffle_buffer_size=_SHUFFLED_ROWS
        )
        return read(mode="train")

    read_files(turns, _file(turns), make)


def _by_hand(tuned: bool) -> Callable[[Turns], None]:
    """The types of the columns written down, every batch decoded at once."""

    def run(turns: Turns) -> None:
        import tensorflow as tf

        def make(path: str, shuffle: bool) -> Any:
            names = _names(path)
            defaults = [_default(name) for name in names]

            def decode(lines: Any) -> Any:
                features = dict(zip(names, tf.io.decode_csv(lines, defaults), strict=True))
                return features, features.pop("label")

            data = tf.data.TextLineDataset(path).skip(1)
            if shuffle:
                data = data.shuffle(_SHUFFLED_ROWS)
            data = data.batch(_BATCH)
            if tuned:
                many = tf.data.AUTOTUNE
                return data.map(decode, num_parallel_calls=many).prefetch(many)
            return data.map(decode)

        read_files(turns, _file(turns), make)

    return run


def make_csv_dataset(turns: Turns) -> None:
    import tensorflow as tf

    def make(path: str, shuffle: bool) -> Any:
        return tf.data.experimental.make_csv_dataset(
            path, _BATCH, label_name="label", num_epochs=1, shuffle=shuffle
        )

    read_files(turns, _file(turns), make)


_TUNED, _PLAIN = "tf.data by hand, AUTOTUNE", "tf.data by hand, sequential"

WORKLOAD = Workload(
    title="CSV files: read",
    contestants=[
        Contestant("csv_input_fn", PROJECT, input_fn),
        Contestant(_TUNED, PROJECT, _by_hand(True)),
        Contestant(_PLAIN, PROJECT, _by_hand(False)),
        Contestant("make_csv_dataset", PROJECT, make_csv_dataset),
    ],
    measures=[
        Measure("read", "batches of 128, in order", "rows/s"),
        Measure("read_shuffled", "batches of 128, shuffled", "rows/s"),
    ],
    baseline=[_TUNED],
    targets=[],
    rounds=8,
    quick_rounds=3,
)
