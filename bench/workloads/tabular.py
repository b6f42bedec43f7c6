"""Tables like those of the census and of Criteo, as TFRecord files, and their columns.

Made once with a fixed seed and kept in `bench/.data`; the same files serve all contestants.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

_FOLDER = Path(__file__).resolve().parents[1] / ".data"

CENSUS_ROWS = 32_000
CENSUS_NUMBERS = ["age", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
CENSUS_WORDS = {
    "workclass": 9, "education": 16, "marital_status": 7, "occupation": 15, "relationship": 6,
    "race": 5, "gender": 2, "native_country": 42,
}  # fmt: skip
AGES = [18, 25, 30, 35, 40, 45, 50, 55, 60, 65]

CRITEO_ROWS = 60_000
CRITEO_NUMBERS = [f"I{i}" for i in range(13)]
CRITEO_WORDS = [f"C{i}" for i in range(26)]


def _census_columns() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    rows = CENSUS_ROWS
    columns: dict[str, np.ndarray] = {
        "age": random.integers(17, 90, rows),
        "education_num": random.integers(1, 17, rows),
        "capital_gain": random.exponential(1000, rows).round() * (random.random(rows) < 0.1),
        "capital_loss": random.exponential(80, rows).round() * (random.random(rows) < 0.05),
        "hours_per_week": random.integers(1, 99, rows),
    }
    columns = {name: value.astype(np.float32) for name, value in columns.items()}
    score = sum((v - v.mean()) / v.std() * random.normal() for v in columns.values()) - 2
    for name, count in CENSUS_WORDS.items():
        chosen = random.integers(0, count, rows)
        score = score + random.normal(size=count)[chosen]
        columns[name] = np.array([f"{name[:6]}_{i}".encode() for i in range(count)])[chosen]
    columns["label"] = (random.random(rows) < 1 / (1 + np.exp(-score))).astype(np.int64)
    return columns


def _criteo_columns() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    rows = CRITEO_ROWS
    numbers = random.lognormal(1, 1, (rows, 13)).astype(np.float32)
    words = random.zipf(1.3, (rows, 26)) % 200_000
    columns: dict[str, np.ndarray] = dict(zip(CRITEO_NUMBERS, numbers.T, strict=True))
    for name, chosen in zip(CRITEO_WORDS, words.T, strict=True):
        columns[name] = np.array([b"%08x" % ((int(w) * 2654435761) & 0xFFFFFFFF) for w in chosen])
    columns["label"] = (random.random(rows) < 0.25).astype(np.int64)
    return columns


def _example(tf: Any, row: dict[str, Any]) -> bytes:
    def feature(value: Any) -> Any:
        if isinstance(value, bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        if isinstance(value, np.int64):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))

    features = {name: feature(value) for name, value in row.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _file(tf: Any, name: str, columns: Any) -> str:
    path = _FOLDER / f"{name}.tfrecord"
    if not path.exists():
        _FOLDER.mkdir(exist_ok=True)
        unfinished = f"{path}.{os.getpid()}"
        data = columns()
        with tf.io.TFRecordWriter(unfinished) as writer:
            for values in zip(*data.values(), strict=True):
                row = dict(zip(data, values, strict=True))
                writer.write(
                    _example(
                        tf, {k: bytes(v) if isinstance(v, np.bytes_) else v for k, v in row.items()}
                    )
                )
        os.rename(unfinished, path)
    return str(path)


def census_file(tf: Any) -> str:
    return _file(tf, "census", _census_columns)


def criteo_file(tf: Any) -> str:
    return _file(tf, "criteo", _criteo_columns)


def _spec(tf: Any, numbers: Any, words: Any) -> dict[str, Any]:
    one = tf.io.FixedLenFeature
    return {
        **{k: one([], tf.float32) for k in numbers},
        **{k: one([], tf.string) for k in words},
        "label": one([], tf.int64),
    }


def census_spec(tf: Any) -> dict[str, Any]:
    return _spec(tf, CENSUS_NUMBERS, CENSUS_WORDS)


def criteo_spec(tf: Any) -> dict[str, Any]:
    return _spec(tf, CRITEO_NUMBERS, CRITEO_WORDS)


def dataset(tf: Any, path: str, spec: dict[str, Any], batch: int, *, shuffle: bool = True) -> Any:
    """The best hand-written pipeline: shuffle records, batch, parse the batch."""

    def parse(records: Any) -> Any:
        features = tf.io.parse_example(records, spec)
        label = features.pop("label")
        return features, label

    data = tf.data.TFRecordDataset(path)
    if shuffle:
        data = data.shuffle(10_000, seed=1).repeat()
    data = data.batch(batch, drop_remainder=True)
    return data.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def vocabulary(name: str) -> list[str]:
    return [f"{name[:6]}_{i}" for i in range(CENSUS_WORDS[name])]


def census_columns(fc: Any) -> tuple[list[Any], list[Any]]:
    """The wide and the deep columns, made with the feature_column module `fc`."""
    numbers = [fc.numeric_column(name) for name in CENSUS_NUMBERS]
    words = {
        name: fc.categorical_column_with_vocabulary_list(name, vocabulary(name))
        for name in CENSUS_WORDS
        if name not in ("occupation", "native_country")
    }
    occupation = fc.categorical_column_with_hash_bucket("occupation", 1000)
    country = fc.categorical_column_with_hash_bucket("native_country", 1000)
    age = fc.bucketized_column(numbers[0], AGES)
    wide = [
        *words.values(),
        occupation,
        country,
        age,
        fc.crossed_column(["education", "occupation"], 1000),
        fc.crossed_column(["native_country", "occupation"], 1000),
        fc.crossed_column([age, "education", "occupation"], 1000),
    ]
    indicated = ("workclass", "education", "marital_status", "relationship")
    deep = [
        *numbers,
        *(fc.indicator_column(words[name]) for name in indicated),
        fc.embedding_column(occupation, 8),
        fc.embedding_column(country, 8),
    ]
    return wide, deep


def criteo_columns(fc: Any, dimension: int = 16) -> list[Any]:
    words = [fc.categorical_column_with_hash_bucket(name, 10_000) for name in CRITEO_WORDS]
    return [
        *(fc.numeric_column(name) for name in CRITEO_NUMBERS),
        *(fc.embedding_column(column, dimension) for column in words),
    ]
