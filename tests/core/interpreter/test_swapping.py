"""What is replaced in TensorFlow for a while is in its place again afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from estimand.core import tf_private
from estimand.core.interpreter.swapping import swapped
from estimand.engine.eager import lending as eager_lending
from estimand.engine.eager import summaries as eager_summaries
from estimand.engine.tracing import summaries
from estimand.engine.tracing import trace as tracing
from estimand.engine.variables import eager_writes as eager_writes

v1 = tf.compat.v1


def replaced_now() -> list[object]:
    import keras

    places = [
        (v1.train.Optimizer, "compute_gradients"),
        (tf, "group"),
        (tf, "identity"),
        (v1.metrics, "accuracy"),
        (v1.summary, "scalar"),
        (tf.summary, "write"),
        (keras.random.SeedGenerator, "next"),
    ]
    return [getattr(owner, name) for owner, name in places]


def eager_step():
    nothing: Any = None  # only what asks a step for something would use it
    metrics, writes = eager_lending.Metrics(), eager_writes.Writes(True, {})
    step = eager_lending.Step(tf.GradientTape(), nothing, metrics, writes, nothing)
    return eager_lending.lent_to(step)


BLOCKS: dict[str, Callable] = {
    "v1 code runs eagerly": eager_step,
    "eager summaries": eager_summaries.kept,
    "v2 summaries": summaries.collect_v2_summaries,
    "building": lambda: tracing.building_scopes(3),
    "v1 summaries": tf_private.v1_summaries_stay_v1,
    "keras losses": tf_private.keras_losses_are_whole,
    "keras seeds": tf_private.keras_seeds_differ_by_replica,
    "collective keys": tf_private.collective_keys_in_the_graph,
}


@pytest.mark.parametrize("first", BLOCKS)
@pytest.mark.parametrize("second", ["v1 code runs eagerly", "eager summaries"])
def test_two_threads_leave_everything_as_it_was(first: str, second: str) -> None:
    """The first begins first and ends first, which no stack of replacements survives."""
    before = replaced_now()
    begun, second_is_in, first_is_out = (threading.Event() for _ in range(3))

    def begin_second() -> None:
        begun.wait()
        with BLOCKS[second]():
            second_is_in.set()
            first_is_out.wait()

    thread = threading.Thread(target=begin_second)
    thread.start()
    with BLOCKS[first]():
        begun.set()
        second_is_in.wait(0.05)  # it must not get in, but would at once if it could
    first_is_out.set()
    thread.join()
    assert replaced_now() == before


def test_blocks_of_one_thread_are_nested() -> None:
    class Foreign:
        answer = 1

    def plus(number: int) -> Callable[[int], int]:
        return lambda original: original + number

    with swapped([(Foreign, "answer", plus(1))]):
        with pytest.raises(KeyError), swapped([(Foreign, "answer", plus(10))]):
            assert Foreign.answer == 12
            raise KeyError
        assert Foreign.answer == 2
    assert Foreign.answer == 1


def test_what_cannot_be_replaced_leaves_the_rest_as_it_was() -> None:
    class Foreign:
        answer = 1

    def fail(original: int) -> int:
        raise ZeroDivisionError

    swaps = [(Foreign, "answer", lambda original: 2), (Foreign, "answer", fail)]
    with pytest.raises(ZeroDivisionError), swapped(swaps):
        pass
    assert Foreign.answer == 1
