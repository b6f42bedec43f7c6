"""Where the ops of a step run: on the worker, or on the server that holds a variable."""

from __future__ import annotations

import tensorflow as tf

from estimand.engine.distributed import placing
from estimand.engine.rewriting.subgraph import tensor

_SERVER = "/job:ps/task:0"
_v1 = tf.compat.v1


def places(build) -> dict[str, str]:
    """By the names of the ops that `build` makes; those called server_... are fixed there."""
    with tf.Graph().as_default() as graph:
        build()
    nodes = {node.name: node for node in graph.as_graph_def().node}
    fixed = {name: _SERVER if name.startswith("server") else placing.WORKER for name in nodes}

    def spec_of(name: str) -> tf.TensorSpec:
        return tf.TensorSpec.from_tensor(graph.get_tensor_by_name(tensor(name)))

    return placing.placed([op.name for op in graph.get_operations()], nodes, fixed, spec_of)


def test_arithmetic_on_what_an_optimizer_keeps_is_done_beside_it():
    def build():
        rows = _v1.placeholder(tf.float32, [None, 4], "rows")
        ids = _v1.placeholder(tf.int64, [None], "ids")
        gradient = tf.math.unsorted_segment_sum(rows, ids, 1000, name="whole")
        kept = _v1.placeholder(tf.float32, [1000, 4], "server_kept")
        change = tf.multiply(tf.subtract(gradient, kept, name="difference"), 0.1, name="change")
        tf.raw_ops.Snapshot(input=change, name="server_write")

    found = places(build)
    assert {name for name, place in found.items() if place == _SERVER} >= {
        "whole", "difference", "change",
    }  # fmt: skip


def test_what_is_computed_from_the_batch_alone_is_sent_when_it_is_smallest():
    def build():
        parts = [_v1.placeholder(tf.float32, [100, 4], f"part_{n}") for n in range(2)]
        total = tf.add_n(parts, name="total")
        tf.raw_ops.Snapshot(input=tf.reduce_sum(total, name="sum"), name="server_write")

    found = places(build)
    assert found["total"] == found["sum"] == placing.WORKER


def test_products_of_matrices_stay_on_the_worker():
    def build():
        weights = _v1.placeholder(tf.float32, [100, 100], "server_weights")
        product = tf.matmul(weights, weights, name="product")
        tf.raw_ops.Snapshot(input=product, name="server_write")

    assert places(build)["product"] == placing.WORKER


def test_what_is_used_in_two_places_stays_on_the_worker():
    def build():
        kept = _v1.placeholder(tf.float32, [100], "server_kept")
        doubled = tf.add(kept, kept, name="doubled")
        tf.raw_ops.Snapshot(input=doubled, name="server_write")
        tf.linalg.matmul(doubled[:, None], doubled[None, :], name="elsewhere")

    assert places(build)["doubled"] == placing.WORKER
