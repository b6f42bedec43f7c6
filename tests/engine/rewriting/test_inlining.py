"""Parts of a graph, placed into others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import tensorflow as tf

from estimand.engine.rewriting import inlining
from estimand.engine.rewriting.inlining import GraphCopy

v1 = tf.compat.v1
NUMBER = tf.TensorSpec([])


@pytest.fixture
def graph() -> tf.Graph:
    @tf.function(input_signature=[tf.TensorSpec([None, 2], name="x")])
    def step(x: tf.Tensor) -> tf.Tensor:
        return tf.add(tf.reduce_sum(x) * tf.cast(tf.shape(x)[0], tf.float32), 1.0, name="y")

    return step.get_concrete_function().graph


def test_a_part_that_is_placed_again_is_simplified_once(
    graph: tf.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    simplified = inlining.simplified

    def counted(*args: Any) -> Any:
        made.append(simplified(*args))
        return made[-1]

    monkeypatch.setattr(inlining, "simplified", counted)
    copy = GraphCopy(graph)
    three, four = ({"x:0": tf.TensorShape([rows, 2])} for rows in (3, 4))
    first, fits = copy.part(["y:0"], three)
    unchanged = first.SerializeToString(deterministic=True)
    del first.node[:]  # as it pleases whoever asked
    again, fits_again = copy.part(["y:0", "y:0"], three)
    assert again.SerializeToString(deterministic=True) == unchanged
    assert fits and fits_again and len(made) == 1
    copy.part(["y:0"], four)
    copy.part(["y:0"], three)
    assert len(made) == 3


@pytest.mark.parametrize("rows", [3, 4, 3])
def test_what_is_placed_gives_what_it_gave(graph: tf.Graph, rows: int) -> None:
    copy = GraphCopy(graph)
    [given], [wanted] = graph.inputs, graph.outputs  # type: ignore[attr-defined]

    @tf.function(autograph=False)
    def placed(x: tf.Tensor) -> list[Any]:
        return [copy.place([wanted], [given], [x])[0] for _ in range(2)]

    for result in placed(tf.ones([rows, 2])):
        assert float(result) == 2 * rows * rows + 1


class Step:
    """A traced step, and the same placed into another function and run once."""

    def __init__(self, build: Callable[..., Any], *inputs: tf.TensorSpec) -> None:
        self.made: list[Any] = []

        def function(*batch: tf.Tensor) -> list[Any]:
            self.made = list(build(*batch))
            return []

        self.graph: Any = v1.wrap_function(function, list(inputs)).graph
        self.inputs = self.graph.inputs[: len(inputs)]

    def run(self, *batch: Any, fetches: Sequence[Any] | None = None, **options: Any) -> list[Any]:
        wanted = self.made if fetches is None else fetches

        @tf.function(autograph=False)
        def placed() -> list[Any]:
            values = [tf.convert_to_tensor(value) for value in batch]
            got = GraphCopy(self.graph).place(wanted, self.inputs, values, **options)
            return [one for one in got if not isinstance(one, tf.Operation)]

        return [result.numpy() for result in placed()]


def test_only_what_is_wanted_is_copied() -> None:
    counted, other = tf.Variable(0.0), tf.Variable(0.0)

    def build(x: tf.Tensor) -> list[Any]:
        return [counted.assign_add(x, read_value=False), other.assign_add(x, read_value=False)]

    step = Step(build, NUMBER)
    assert step.run(3.0, fetches=step.made[:1]) == []
    assert counted.numpy() == 3.0 and other.numpy() == 0.0


def test_what_is_waited_for_is_copied_too() -> None:
    counted = tf.Variable(0.0)

    def build(x: tf.Tensor) -> list[Any]:
        with tf.control_dependencies([counted.assign_add(1.0, read_value=False)]):
            return [tf.identity(x)]

    assert Step(build, NUMBER).run(3.0) == [3.0]
    assert counted.numpy() == 1.0


def test_input_that_is_fetched_is_what_was_given() -> None:
    step = Step(lambda x: [x * 2.0], NUMBER)
    assert step.run(3.0, fetches=[step.inputs[0], *step.made]) == [3.0, 6.0]


def test_mere_read_is_of_the_value_before_the_step() -> None:
    """Wherever it stands: a v1 session reads what nothing was told to wait for."""
    variable = tf.Variable(1.0)

    def build(x: tf.Tensor) -> list[Any]:
        update = variable.assign_add(x, read_value=False)
        late = variable.read_value()
        in_a_branch = tf.cond(tf.constant(True), lambda: variable + 0.0, lambda: 0.0)
        with tf.control_dependencies([update]):
            after = variable.read_value()
        return [update, late, in_a_branch, after]

    assert Step(build, NUMBER).run(5.0) == [1.0, 1.0, 6.0]


def test_branch_that_writes_keeps_its_place() -> None:
    variable = tf.Variable(1.0)

    def build(x: tf.Tensor) -> list[Any]:
        update = variable.assign_add(x, read_value=False)
        doubled = tf.cond(x > 0.0, lambda: variable.assign(variable * 2.0), lambda: 0.0)
        return [update, tf.identity(doubled)]

    assert Step(build, NUMBER).run(5.0) == [12.0]


def test_batch_that_never_comes_is_counted_nowhere() -> None:
    """Nothing of a step is done that needs no batch, where there is none."""
    counted = tf.Variable(0.0)
    step = Step(lambda x: [counted.assign_add(1.0, read_value=False), x + 1.0], NUMBER)
    iterator = iter(tf.data.Dataset.from_tensors(4.0))

    @tf.function(autograph=False)
    def once() -> Any:
        return GraphCopy(step.graph).place(step.made, step.inputs, [next(iterator)])[1]

    assert once().numpy() == 5.0 and counted.numpy() == 1.0
    with pytest.raises(tf.errors.OutOfRangeError):
        once()
    assert counted.numpy() == 1.0


def test_batch_that_does_not_fit_fails_when_it_is_run() -> None:
    def build(x: tf.Tensor, y: tf.Tensor) -> list[Any]:
        return [tf.reduce_sum(x + y)]

    step = Step(build, tf.TensorSpec([None]), tf.TensorSpec([None]))
    assert step.run([1.0, 2.0], [3.0, 4.0]) == [10.0]
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"Incompatible shapes: \[2\] vs. \[3\]"
    ):
        step.run([1.0, 2.0], [3.0, 4.0, 5.0])


def test_rewrite_is_given_the_part_and_says_what_is_placed() -> None:
    def to_products(part: Any) -> Any:
        [add] = [node for node in part.node if node.op == "AddV2"]
        add.op = "Mul"
        return part

    step = Step(lambda x: [x + 5.0], NUMBER)
    assert step.run(3.0, rewrite=to_products) == [15.0]
    assert step.run(3.0) == [8.0]
