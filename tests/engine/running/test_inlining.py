"""Parts of a graph, placed into others."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from estimand.engine.running import inlining
from estimand.engine.running.inlining import GraphCopy


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

    @tf.function
    def placed(x: tf.Tensor) -> list[Any]:
        return [copy.place([wanted], [given], [x])[0] for _ in range(2)]

    for result in placed(tf.ones([rows, 2])):
        assert float(result) == 2 * rows * rows + 1
