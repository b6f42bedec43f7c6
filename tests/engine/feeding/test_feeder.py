"""Positions of an input: wherever one is taken, what follows is what would have followed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.checkpoints.api import CheckpointWriter, Entry
from estimand.engine.distribution import Distribution, Stop
from estimand.engine.feeding.feeder import Feeder, InputPosition
from estimand.engine.feeding.resident import open_feeder
from estimand.estimator.training.resumed_input import InputPlace
from estimand.inputs.contract import call_input_fn

ROWS = 37  # eight batches of five, the last with two rows


def rows() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(tf.range(ROWS))


PIPELINES: dict[str, Callable[[], tf.data.Dataset]] = {
    "batch and repeat": lambda: rows().shuffle(50, seed=2).batch(5).repeat(),
    "the same, elsewhere": lambda: rows().map(lambda x: x + 0).shuffle(50, 2).batch(5).repeat(),
    "shuffled twice": lambda: rows().shuffle(50, 2).shuffle(9, 3).batch(5).repeat(4),
    "read ahead": lambda: (
        rows().shuffle(50, 2).map(lambda x: x + 0, num_parallel_calls=2).batch(5).repeat()
    ),
    "one batch in an epoch": lambda: rows().take(3).shuffle(50, seed=2).batch(5).repeat(),
    "repeat and batch": lambda: rows().shuffle(50, seed=2).repeat().batch(5),
}


def as_it_is(element: Any) -> tuple[Any, None]:
    return element, None


def opened(make: Callable[[], tf.data.Dataset]) -> Feeder:
    tf.random.set_seed(5)
    return open_feeder(make(), as_it_is)


def batches(feeder: Feeder, count: int) -> list[Any]:
    return [feeder.next_batch()[0].numpy().tolist() for _ in range(count)]


def resumed(make: Callable[[], tf.data.Dataset], where: dict[str, Any], saved: str) -> Feeder:
    tf.random.set_seed(5)
    given = call_input_fn(make, mode="train", params=None, config=None)
    place = InputPlace.at(where, given, saved)
    again = lambda: pytest.fail("the position should fit")  # noqa: E731
    return place.feeder(given, again, Distribution(), Stop())


@pytest.mark.parametrize("name", PIPELINES)
def test_every_position_goes_on_as_it_would_have(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = PIPELINES[name]
    kinds = set()
    # So few that what was taken at once ends within an epoch, and at its end.
    monkeypatch.setattr("estimand.engine.feeding.resident._MOST_BATCHES_AT_ONCE", 4)
    with CheckpointWriter(str(tmp_path)) as writer:
        for count in range(1, 18):
            feeder = opened(make)
            batches(feeder, count)
            time.sleep(0.02)  # for what reads ahead
            entries, where = InputPosition(feeder, make(), resumable=True).take()
            kinds.add(where["kind"])
            step = [Entry("step", tf.constant(count))]
            saved = writer.save(count, step, companion=entries or None, synchronous=True)
            again = resumed(make, where, saved)
            assert again.batches == count
            assert batches(again, 9) == batches(feeder, 9)
    if name in ("batch and repeat", "repeat and batch"):
        assert ("count" in kinds) == (name == "batch and repeat")


def test_only_orders_that_may_be_lost_are_looked_for() -> None:
    plain = rows().shuffle(9).repeat().batch(5)
    assert tf_private.shuffles_to_keep(plain) == 0
    assert tf_private.shuffles_to_keep(rows().shuffle(9).batch(5)) == 0
    same = rows().shuffle(9, reshuffle_each_iteration=False).batch(5).repeat()
    assert tf_private.shuffles_to_keep(same) == 0
    assert tf_private.shuffles_to_keep(rows().shuffle(9).batch(5).repeat()) == 1
