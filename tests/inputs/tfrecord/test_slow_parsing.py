"""A pipeline that parses its records one by one is noticed, and only that."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.inputs.tfrecord.slow_parsing import parses_one_by_one
from tests.inputs.reading import call

SPEC = {"x": tf.io.FixedLenFeature([], tf.float32)}
STEPS = {"x": tf.io.FixedLenSequenceFeature([], tf.float32)}


def one(record: tf.Tensor) -> Any:
    return tf.io.parse_single_example(record, SPEC)


def several(records: tf.Tensor) -> Any:
    return tf.io.parse_example(records, SPEC)


def one_sequence(record: tf.Tensor) -> Any:
    return tf.io.parse_single_sequence_example(record, None, STEPS)[1]


def several_sequences(records: tf.Tensor) -> Any:
    return tf.io.parse_sequence_example(records, None, STEPS)[1]


def read() -> tf.data.Dataset:
    return tf.data.TFRecordDataset("a")


def read_parsed(path: tf.Tensor) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(path).map(one)


@pytest.mark.parametrize(
    "make",
    [
        lambda: read().map(one).batch(2),
        lambda: read().map(several).batch(2),
        lambda: read().map(one, num_parallel_calls=2).shuffle(9).repeat().batch(2).prefetch(1),
        lambda: read().map(one_sequence).batch(2),
        lambda: read().map(tf.function(one)).batch(2),
        lambda: tf.data.Dataset.from_tensors("a").interleave(read_parsed).batch(2),
        lambda: tf.data.Dataset.zip((read().map(one).batch(2), read().batch(2))),
    ],
)
def test_single_parsing_is_seen_wherever_it_is(make: Callable[[], tf.data.Dataset]) -> None:
    assert parses_one_by_one(make())


@pytest.mark.parametrize(
    "make",
    [
        lambda: read().batch(2).map(several),
        lambda: read().batch(2).map(several_sequences),
        lambda: tf.data.Dataset.range(3).map(lambda n: n + 1).batch(2),
    ],
)
def test_parsing_of_batches_is_not(make: Callable[[], tf.data.Dataset]) -> None:
    assert not parses_one_by_one(make())


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_our_own_input_function_is_not(tmp_path: Path, on_error: str) -> None:
    est.records.write(tmp_path / "a", {"x": [1.0]})
    assert not parses_one_by_one(
        est.inputs.tfrecord_input_fn(tmp_path / "a", SPEC, on_error=on_error)(mode="eval")
    )


def test_the_user_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    def slow_input_fn() -> tf.data.Dataset:
        return read().map(one).batch(2)

    with caplog.at_level(logging.WARNING, "tensorflow"):
        call(slow_input_fn)
    [record] = [r for r in caplog.records if "one at a time" in r.getMessage()]
    assert "slow_input_fn" in record.getMessage()
    assert "tf.io.parse_example(records, spec)" in record.getMessage()
    assert record.name == "tensorflow"  # the logger that has a handler while a model trains
