"""`tf.contrib.learn.io` and `read_batch_features`: from arrays, tables and files to batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import ConfigError
from estimand.inputs import numpy_input_fn as _numpy_input_fn
from estimand.inputs import pandas_input_fn as _pandas_input_fn

v1 = tf.compat.v1
_SHUFFLED = 10000


def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool = True,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], Any]:
    """An input function of arrays; they are shuffled unless told otherwise."""
    return _numpy_input_fn(x, y, batch_size, num_epochs, shuffle, queue_capacity, num_threads)


def pandas_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool = True,
    queue_capacity: int = 1000,
    num_threads: int = 1,
    target_column: str = "target",
) -> Callable[[], Any]:
    """An input function of a table; it is shuffled unless told otherwise."""
    return _pandas_input_fn(
        x, y, batch_size, num_epochs, shuffle, queue_capacity, num_threads, target_column
    )


def generator_input_fn(
    x: Callable[[], Iterable[Any]],
    target_key: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool = True,
    queue_capacity: int = 1000,
    num_threads: int = 1,
    pad_value: Any = None,
) -> Callable[[], Any]:
    """An input function of a generator of dicts; `target_key` has the label, or labels."""
    del num_threads
    if not callable(x):
        raise ConfigError(
            f"generator_input_fn: x must be a function that gives a generator, given: {x!r}."
        )
    if pad_value is not None:
        raise ConfigError("generator_input_fn: pad_value is not offered. Pad in the generator.")

    def parted(example: dict[str, Any]) -> Any:
        if target_key is None:
            return example
        keys = target_key if isinstance(target_key, list | tuple) else [target_key]
        labels = {key: example.pop(key) for key in keys}
        return example, labels if isinstance(target_key, list | tuple) else labels[target_key]

    def input_fn() -> tf.data.Dataset:
        first = {key: np.asarray(value) for key, value in next(iter(x())).items()}
        spec = {key: tf.TensorSpec(value.shape, value.dtype) for key, value in first.items()}
        dataset = tf.data.Dataset.from_generator(x, output_signature=spec).map(parted)
        if shuffle:
            dataset = dataset.shuffle(queue_capacity)
        return dataset.repeat(num_epochs).batch(batch_size)

    return input_fn


def extract_pandas_data(data: Any) -> Any:
    """The numbers of a table."""
    return data.to_numpy().astype(np.float64) if hasattr(data, "to_numpy") else data


extract_pandas_matrix = extract_pandas_data


def extract_pandas_labels(labels: Any) -> Any:
    """The labels of a table of one column."""
    if hasattr(labels, "columns") and len(labels.columns) > 1:
        raise ConfigError("Only one column for labels is allowed.")
    return labels.to_numpy() if hasattr(labels, "to_numpy") else labels


# Files: as they were read by queues, but by tf.data.


def read_batch_examples(
    file_pattern: Any,
    batch_size: int,
    reader: Any,
    randomize_input: bool = True,
    num_epochs: int | None = None,
    queue_capacity: int = _SHUFFLED,
    num_threads: int = 1,
    read_batch_size: int = 1,
    parse_fn: Callable[[Any], Any] | None = None,
    name: str | None = None,
    seed: int | None = None,
) -> Any:
    """A batch of records out of files, as tensors."""
    del num_threads, read_batch_size
    dataset = _records(file_pattern, reader, randomize_input, num_epochs, queue_capacity, seed)
    if parse_fn is not None:
        dataset = dataset.map(parse_fn)
    return _next(dataset.batch(batch_size), name)


def read_batch_features(
    file_pattern: Any,
    batch_size: int,
    features: Any,
    reader: Any,
    randomize_input: bool = True,
    num_epochs: int | None = None,
    queue_capacity: int = _SHUFFLED,
    feature_queue_capacity: int = 100,
    reader_num_threads: int = 1,
    num_enqueue_threads: int = 2,
    parse_fn: Callable[[Any], Any] | None = None,
    name: str | None = None,
) -> Any:
    """A batch of `tf.Example`s out of files, parsed."""
    del feature_queue_capacity, reader_num_threads, num_enqueue_threads
    dataset = _records(file_pattern, reader, randomize_input, num_epochs, queue_capacity, None)
    if parse_fn is not None:
        dataset = dataset.map(parse_fn)
    parsed = dataset.batch(batch_size).map(lambda batch: tf.io.parse_example(batch, features))
    return _next(parsed, name)


def read_batch_record_features(
    file_pattern: Any,
    batch_size: int,
    features: Any,
    randomize_input: bool = True,
    num_epochs: int | None = None,
    queue_capacity: int = _SHUFFLED,
    reader_num_threads: int = 1,
    name: str | None = "dequeue_record_examples",
) -> Any:
    """The same out of files of TFRecords."""
    del reader_num_threads
    return read_batch_features(
        file_pattern, batch_size, features, v1.TFRecordReader, randomize_input, num_epochs,
        queue_capacity, name=name,
    )  # fmt: skip


def _records(
    pattern: Any, reader: Any, shuffle: bool, epochs: int | None, capacity: int, seed: int | None
) -> tf.data.Dataset:
    files = tf.data.Dataset.list_files(pattern, shuffle=shuffle, seed=seed)
    records = files.flat_map(_reading(reader)).repeat(epochs)
    return records.shuffle(capacity, seed=seed) if shuffle else records


def _reading(reader: Any) -> Any:
    """The dataset that reads what a reader did, which is a class or a function that makes one."""
    by_name = {"TFRecordReader": tf.data.TFRecordDataset, "TextLineReader": tf.data.TextLineDataset}
    name = getattr(reader, "__name__", "")
    if name not in by_name:
        with tf.Graph().as_default():
            name = type(reader()).__name__
    if name not in by_name:
        raise ConfigError(
            f"Files are read by tf.TFRecordReader or tf.TextLineReader here, given: {reader!r}."
        )
    return by_name[name]


def _next(dataset: tf.data.Dataset, name: str | None) -> Any:
    return v1.data.make_one_shot_iterator(dataset).get_next(name)
