"""Short ways to call an input function and to read what comes of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.inputs.contract import ModelInput, call_input_fn


def call(input_fn: Callable[..., Any], **arguments: Any) -> ModelInput:
    return call_input_fn(input_fn, **{"mode": "train", "params": None, "config": None, **arguments})


def as_numpy(structure: Any) -> Any:
    def convert(leaf: Any) -> Any:
        if isinstance(leaf, tf.SparseTensor):
            leaf = tf.sparse.to_dense(leaf)
        if isinstance(leaf, tf.RaggedTensor):
            return leaf.to_list()
        return None if leaf is None else np.asarray(leaf).tolist()

    return tf.nest.map_structure(convert, structure)


def batches(given: ModelInput, count: int | None = None) -> list[Any]:
    """(features, labels) of the first `count` batches, or of all, as plain Python values."""
    return [
        as_numpy(given.unpack(element)) for element in itertools.islice(iter(given.dataset), count)
    ]


def save_and_continue(make: Callable[[], ModelInput], before: int, after: int, folder: Path) -> Any:
    """The batches after a save, as read on, and as read by a pipeline built anew and restored."""
    given = make()
    iterator = iter(given.dataset)
    for _ in range(before):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(folder / "position"))
    straight_on = [as_numpy(given.unpack(next(iterator))) for _ in range(after)]
    again = make()
    iterator = iter(again.dataset)
    tf.train.Checkpoint(iterator=iterator).read(path).assert_consumed()
    return straight_on, [as_numpy(again.unpack(next(iterator))) for _ in range(after)]


def read_fault(given: ModelInput) -> Exception:
    """What the input has to say of the error that ends reading it."""
    try:
        batches(given)
    except tf.errors.OpError as error:
        told = [source.explain_error(error) for source in given.sources]
        [fault] = [one for one in told if one is not None]
        return fault
    raise AssertionError("it can be read to its end")


def skipped(given: ModelInput) -> list[str]:
    return [said for source in given.sources if (said := source.report_skipped())]
