"""Which ops of a traced graph change variables."""

from __future__ import annotations

import tensorflow as tf

from estimand.engine.tracing import effects


def test_a_condition_writes_only_what_its_branches_write() -> None:
    read, written = tf.Variable(1.0), tf.Variable(2.0)

    @tf.function(autograph=False)
    def step(go: tf.Tensor) -> tf.Tensor:
        return tf.cond(go, lambda: written.assign_add(read), lambda: read + 0.0)

    graph = step.get_concrete_function(tf.TensorSpec([], tf.bool)).graph
    (condition,) = [op for op in graph.get_operations() if op.type == "If"]
    assert effects.writes_to(graph, [written]) == [condition]
    assert effects.writes_to(graph, [read]) == []
