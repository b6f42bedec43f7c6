"""What is proven is true: graphs made at random, run joined and alone."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from estimand.serving.rows.proof import Proof
from tests.serving.rows.random_graphs import Maker

_BATCHES = 3


def check(seed: int, operations: int = 25) -> int:
    """How many answers were compared. Fails where a proof does not hold."""
    maker = Maker(seed)
    traced = tf.function(
        lambda *inputs: maker.outputs(operations, *inputs), autograph=False
    ).get_concrete_function(*maker.signature())
    inputs = traced.inputs[:3]
    shapes = {one.name: tuple(size or -1 for size in one.shape) for one in inputs}
    proof = Proof(traced.graph.as_graph_def(), shapes)
    proven = [one.name for one in traced.outputs if proof.of([one.name]).row_by_row]
    compared = 0
    numbers = np.random.default_rng(seed)
    with tf.compat.v1.Session(graph=traced.graph) as session:

        def run(arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
            """Those that can be run."""
            feeds = {one.name: array for one, array in zip(inputs, arrays, strict=True)}
            try:
                return session.run({name: name for name in proven}, feeds)
            except tf.errors.OpError:
                found = {}
                for name in proven:
                    with contextlib.suppress(tf.errors.OpError):
                        found[name] = session.run(name, feeds)
                return found

        for _ in range(_BATCHES if proven else 0):
            requests = _requests(maker, numbers)
            joined = [np.concatenate(column) for column in zip(*requests, strict=True)]
            together = run(joined)  # what fails then is run alone
            ends = np.cumsum([len(one[0]) for one in requests])
            for request, end in zip(requests, ends, strict=True):
                alone = run(request)
                for name, answer in together.items():
                    assert len(answer) == ends[-1], (seed, name)
                    assert name in alone, (seed, name)
                    mine = answer[end - len(request[0]) : end]
                    np.testing.assert_allclose(mine, alone[name], 1e-3, 1e-3, err_msg=f"{seed}")
                    compared += 1
    return compared


def _requests(maker: Maker, numbers: np.random.Generator) -> list[list[np.ndarray]]:
    depth = maker.depth or numbers.integers(1, 4)

    def some(*shape: int) -> np.ndarray:
        return numbers.integers(-2, 3, size=shape).astype(np.float32)

    return [
        [some(rows, maker.width), some(rows, depth, 2), numbers.integers(0, 3, rows, np.int32)]
        for rows in numbers.integers(1, 4, size=numbers.integers(2, 4))
    ]


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_what_is_proven_is_true(first: int) -> None:
    assert sum(check(seed) for seed in range(first, first + 10)) > 20
