"""Random ops keyed by the step, against TensorFlow's own stateless ones."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.engine.rewriting import op_kinds
from estimand.engine.tracing import randomness
from estimand.engine.tracing.randomness import Draws

v1 = tf.compat.v1
SHAPE = [4]
STATELESS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "uniform": (
        lambda: tf.random.uniform(SHAPE, seed=5),
        lambda seed: tf.random.stateless_uniform(SHAPE, seed, alg="philox"),
    ),
    "normal": (
        lambda: tf.random.normal(SHAPE, seed=5),
        lambda seed: tf.random.stateless_normal(SHAPE, seed, alg="philox"),
    ),
    "truncated normal": (
        lambda: tf.random.truncated_normal(SHAPE, seed=5),
        lambda seed: tf.random.stateless_truncated_normal(SHAPE, seed, alg="philox"),
    ),
    "integers": (
        lambda: tf.random.uniform(SHAPE, -3, 1000, tf.int32, seed=5),
        lambda seed: tf.random.stateless_uniform(
            SHAPE, seed, -3, 1000, dtype=tf.int32, alg="philox"
        ),
    ),
}


class Drawing:
    """What `build` draws in a graph, keyed by a count of steps, once per `draw`."""

    def __init__(
        self, build: Callable[[], Any], count: Draws | tf.Variable | None = None, worker: int = 0
    ) -> None:
        self.draws: Any = Draws() if count is None else count
        self.built: list[tf.Tensor] = []

        def function() -> list[tf.Tensor]:
            v1.set_random_seed(3)
            self.built = tf.nest.flatten(build())
            return [tf.identity(tensor) for tensor in self.built]

        self.wrapped = v1.wrap_function(function, [])
        randomness.key_random_ops(self.wrapped.graph, self.draws, worker)
        # As a step is cut out of its graph: what was replaced is not part of it.
        self._step = self.wrapped.prune([], self.wrapped.graph.outputs)

    def draw(self) -> list[list[float]]:
        return [result.numpy().tolist() for result in self._step()]

    def step(self) -> list[list[float]]:
        """Draw, and go on to the next step."""
        values = self.draw()
        self.draws.advance()
        return values


def one() -> tf.Tensor:
    return tf.random.uniform(SHAPE)


def two_alike() -> list[tf.Tensor]:
    return [tf.random.uniform(SHAPE, seed=5) for _ in range(2)]


@pytest.mark.parametrize("kind", STATELESS)
def test_numbers_are_those_of_the_stateless_op_of_the_step(kind: str) -> None:
    build, stateless = STATELESS[kind]
    drawing = Drawing(build)
    [original] = [o for o in drawing.wrapped.graph.get_operations() if "seed2" in o.node_def.attr]
    seeds = [original.get_attr(name) for name in ("seed", "seed2")]
    fixed = randomness.stream(*seeds, number=1, worker=0)
    for step in range(3):
        expected = stateless([fixed, step])
        np.testing.assert_array_equal(drawing.draw(), [expected])
        np.testing.assert_array_equal(drawing.step(), [expected])  # as often as it is run


def test_resumed_run_draws_what_the_other_would_have_drawn() -> None:
    whole, resumed = Drawing(two_alike), Drawing(two_alike)
    drawn = [whole.step() for _ in range(5)]
    assert whole.draws.steps == 5
    resumed.draws.start(3)
    assert [resumed.step() for _ in range(2)] == drawn[3:]
    assert len({str(numbers) for numbers in drawn}) == 5


def test_ops_with_one_seed_draw_different_numbers() -> None:
    first, second = Drawing(two_alike).draw()
    assert first != second


def test_each_worker_draws_numbers_of_its_own() -> None:
    count = Draws()
    assert Drawing(one, count, worker=0).draw() != Drawing(one, count, worker=1).draw()


def test_numbers_may_be_keyed_by_the_global_step() -> None:
    step = tf.Variable(7, dtype=tf.int64)
    by_step, by_count = Drawing(one, step), Drawing(one)
    by_count.draws.start(7)
    before = by_step.draw()
    assert before == by_count.draw()
    step.assign_add(1)
    assert by_step.draw() != before


def test_twin_has_the_shape_that_is_known_of_the_original() -> None:
    def build() -> tf.Tensor:
        number = tf.random.uniform(tf.stack([tf.size(tf.zeros([2]))]))
        number.set_shape([2])
        return number

    [taken] = [t.op.inputs[0] for t in Drawing(build).wrapped.graph.outputs]
    assert op_kinds.is_random_twin(taken.op.name) and taken.shape == [2]


def test_what_nobody_uses_is_left_alone() -> None:
    def build() -> tf.Tensor:
        one()
        return tf.constant(1.0)

    drawing = Drawing(build)
    assert not drawing.draws.in_use
    assert not any(
        op_kinds.is_random_twin(op.name) for op in drawing.wrapped.graph.get_operations()
    )


def test_ops_that_depend_on_the_count_are_known_with_what_they_replaced() -> None:
    drawing = Drawing(two_alike)
    twins = [t.op.inputs[0].op.name for t in drawing.wrapped.graph.outputs]
    originals = [tensor.op.name for tensor in drawing.built]
    assert drawing.draws.in_use and drawing.draws.replaced == dict(
        zip(twins, originals, strict=True)
    )


# What hooks run between steps


def test_what_is_run_between_steps_draws_anew_and_changes_no_step() -> None:
    drawing, undisturbed = Drawing(one), Drawing(one)
    steps = [undisturbed.step() for _ in range(3)]
    assert drawing.step() == steps[0]
    between = []
    for _ in range(3):
        drawing.draws.run_between()
        between.append(drawing.draw())
    assert len({str(numbers) for numbers in [*between, *steps]}) == 6
    drawing.draws.settle()
    assert [drawing.step() for _ in range(2)] == steps[1:]


def test_tickets_of_bodies_begin_anew_with_each_step() -> None:
    draws = Draws()
    draws.start(4)

    @tf.function
    def body() -> tf.Tensor:
        return draws.ticket()

    runs = [body().numpy().tolist() for _ in range(3)]
    assert len({str(run) for run in runs}) == 3
    assert len(draws.variables) == 2
    for begin_anew in (draws.advance, lambda: draws.start(4)):
        begin_anew()
        assert [body().numpy().tolist() for _ in range(3)] == runs


# What is out of reach


def told(build: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> list[str]:
    graph = v1.wrap_function(lambda: [build()], []).graph
    with caplog.at_level(logging.WARNING, "tensorflow"):
        randomness.warn_about_uncovered_ops(graph.get_operations())
    return caplog.messages


def test_ops_that_can_be_keyed_are_not_told(caplog: pytest.LogCaptureFixture) -> None:
    assert not told(one, caplog)


def test_ops_without_a_twin_are_told(caplog: pytest.LogCaptureFixture) -> None:
    [message] = told(lambda: tf.random.shuffle(tf.range(3), name="mixed"), caplog)
    assert message.startswith("Some random numbers will not be the same again")
    assert "RandomShuffle (mixed" in message


def test_ops_in_a_body_that_was_traced_before_are_told(caplog: pytest.LogCaptureFixture) -> None:
    used_before = tf.function(one)
    used_before()
    [message] = told(used_before, caplog)
    assert "RandomUniform (" in message
