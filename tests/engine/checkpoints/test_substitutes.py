"""Restoring a variable from other names than its own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimand.engine.checkpoints.api import CheckpointWriter, Entry, read_tensors
from estimand.engine.checkpoints.fitting import CheckpointMismatch, Wanted
from estimand.engine.checkpoints.substitutes import Source, note_substitutes, substitutes

WANTED = [Wanted("own", tf.float32, (2,)), Wanted("new", tf.float32, (2,))]


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    entries = [Entry("own", tf.constant([1.0, 2.0])), Entry("old", tf.constant([3.0, 4.0]))]
    with CheckpointWriter(tmp_path) as writer:
        return writer.save(1, entries)


def only_new(source: Source | None) -> Callable[[str, Collection[str]], Source | None]:
    def find(name: str, stored: Collection[str]) -> Source | None:
        assert name == "new", "asked for what is there"
        assert set(stored) == {"own", "old"}
        return source

    return find


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (Source(("old",)), [3.0, 4.0]),
        (Source(("old",), lambda old: -2.0 * np.asarray(old)), [-6.0, -8.0]),
        (Source(("own", "old"), lambda own, old: own + old), [4.0, 6.0]),
        (Source((), 0.5), [0.5, 0.5]),
    ],
)
def test_what_is_missing_is_made_of_its_source(
    checkpoint: str, source: Source, expected: list[float]
) -> None:
    own, new = read_tensors(checkpoint, WANTED, only_new(source))
    assert own.numpy().tolist() == [1.0, 2.0]
    assert new.numpy().tolist() == expected


def test_without_a_source_it_is_missing(checkpoint: str) -> None:
    with pytest.raises(CheckpointMismatch, match="Key new not found in checkpoint"):
        read_tensors(checkpoint, WANTED, only_new(None))


def test_a_source_of_another_shape_is_named(checkpoint: str) -> None:
    wanted = [Wanted("new", tf.float32, (3,))]
    with pytest.raises(CheckpointMismatch, match=r"old .*\(3,\) float32 .*\(2,\) float32"):
        read_tensors(checkpoint, wanted, lambda name, stored: Source(("old",)))


def test_the_first_that_knows_a_source_is_taken() -> None:
    graph = tf.Graph()
    assert substitutes(graph.get_collection) is None
    note_substitutes(graph, lambda name, stored: None)
    note_substitutes(graph, lambda name, stored: Source((name, *stored)))
    find = substitutes(graph.get_collection)
    assert find is not None
    assert find("a", ["b"]) == Source(("a", "b"))
