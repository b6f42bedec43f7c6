"""Tensors that cross between a worker and its servers, put into few messages."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.distributed import bundling
from estimand.engine.distributed.bundling import bundled

_HERE = "/job:localhost/replica:0/task:0/device:CPU:0"


ON_ONE_SERVER = {f"handle_{n}": _HERE for n in range(5)}


class Step:
    """A step of a model with three tables and two dense variables, as a graph."""

    def __init__(self, batch: int | None = 4) -> None:
        self.variables = [
            tf.Variable(np.arange(20.0, dtype=np.float32).reshape(10, 2) / (n + 1))
            for n in range(3)
        ]
        self.variables += [tf.Variable([[1.0], [-2.0]]), tf.Variable(0.25, dtype=tf.float64)]
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.handles = [
                tf.compat.v1.placeholder(tf.resource, [], name=f"handle_{n}")
                for n in range(len(self.variables))
            ]
            self.ids = tf.compat.v1.placeholder(tf.int64, [batch], name="ids")
            self.outputs = self._build()

    def _build(self) -> list:
        *tables, kernel, scale = self.handles
        ids = [(self.ids + n) % 10 for n in range(len(tables))]
        rows = [
            tf.raw_ops.ResourceGather(resource=t, indices=i, dtype=tf.float32)
            for t, i in zip(tables, ids, strict=True)
        ]
        for row in rows:
            row.set_shape([self.ids.shape[0], 2])
        weights = tf.raw_ops.ReadVariableOp(resource=kernel, dtype=tf.float32)
        weights.set_shape([2, 1])
        factor = tf.raw_ops.ReadVariableOp(resource=scale, dtype=tf.float64)
        factor.set_shape([])
        out = sum(rows) @ weights * tf.cast(factor, tf.float32)
        loss = tf.reduce_sum(out * out)
        gradients = tf.gradients(loss, [*rows, weights])
        updates = [
            tf.raw_ops.ResourceScatterAdd(resource=t, indices=u[0], updates=g[: tf.size(u[0])])
            for t, u, g in zip(tables, map(tf.unique, ids), gradients[:3], strict=True)
        ]
        updates.append(tf.raw_ops.AssignSubVariableOp(resource=kernel, value=gradients[3]))
        with tf.control_dependencies(updates):
            return [tf.identity(loss, name="loss"), tf.identity(out, name="out")]

    def run(self, definition, ids) -> list[np.ndarray]:
        """The outputs, and the variables afterwards."""

        used = {tensor for node in definition.node for tensor in node.input}

        @tf.function(autograph=False)
        def step(ids):
            given = {
                h.name: tf_private.capture(v.handle)
                for h, v in zip(self.handles, self.variables, strict=True)
                if h.op.name in used
            }
            return tf.graph_util.import_graph_def(
                definition, {**given, "ids:0": ids}, [t.name for t in self.outputs]
            )

        before = [v.numpy() for v in self.variables]
        found = [t.numpy() for t in step(tf.constant(ids, tf.int64))]
        found += [v.numpy() for v in self.variables]
        for variable, value in zip(self.variables, before, strict=True):
            variable.assign(value)
        return found

    @property
    def definition(self):
        part = self.graph.as_graph_def()
        outside = [node for node in part.node if node.op == "Placeholder"]
        for node in outside:
            part.node.remove(node)
        return part


def messages(definition, servers) -> collections.Counter:
    """How many tensors go from where to where, if each is sent once."""
    places = {}
    for node in definition.node:
        used = [servers[i] for i in node.input if i in servers]
        places[node.name] = used[0] if used else node.device
    sent = set()
    constants = {n.name for n in definition.node if n.op == "Const"}
    for node in definition.node:
        for tensor in node.input:
            name = tensor.split(":")[0]
            if tensor[0] != "^" and tensor not in servers and name not in constants:
                sent.add((tensor, places.get(name, ""), places[node.name]))
    return collections.Counter((a, b) for _, a, b in sent if a != b)


def source_of_bundled(definition, tensor: str) -> str:
    """The op whose output comes out of a bundle as `tensor`."""
    nodes = {node.name: node for node in definition.node}
    node = nodes[tensor.split(":")[0]]
    while node.op != "SplitV":
        tensor = node.input[0]
        node = nodes[tensor.split(":")[0]]
    joined = nodes[nodes[node.input[0]].input[0]]  # before its arrival
    node = nodes[joined.input[int(tensor.split(":")[1] if ":" in tensor else 0)].split(":")[0]]
    while node.name.startswith("estimand_bundle"):
        node = nodes[node.input[0].split(":")[0]]
    return node.name


@pytest.mark.parametrize("batch", [4, None])
def test_a_step_computes_the_same_with_one_message_each_way_at_a_time(batch):
    step = Step(batch)
    joined = bundled(step.definition, step.graph, ON_ONE_SERVER)
    assert sum(messages(step.definition, ON_ONE_SERVER).values()) > 12
    # Indices there, rows and dense variables back, gradients there.
    assert messages(joined, ON_ONE_SERVER) == {("", _HERE): 2, (_HERE, ""): 1}
    ids = [3, 3, 9, 0]
    for one, other in zip(step.run(joined, ids), step.run(step.definition, ids), strict=True):
        np.testing.assert_array_equal(one, other)


def test_tables_on_two_servers_have_bundles_of_their_own():
    step = Step()
    first, second = "/job:ps/task:0/device:CPU:0", "/job:ps/task:1/device:CPU:0"
    servers = {f"handle_{n}": second if n == 2 else first for n in range(5)}
    found = messages(bundled(step.definition, step.graph, servers), servers)
    assert found == {("", first): 2, (first, ""): 1, ("", second): 2, (second, ""): 1}


def test_large_tensors_go_alone(monkeypatch):
    step = Step()
    monkeypatch.setattr(bundling, "_MOST_BYTES", 4)
    joined = bundled(step.definition, step.graph, ON_ONE_SERVER)
    assert messages(joined, ON_ONE_SERVER)[_HERE, ""] == 3  # rows, and the two dense variables


def test_rows_are_asked_for_once():
    step = Step()
    joined = bundled(step.definition, step.graph, ON_ONE_SERVER)
    unique = [node.name for node in joined.node if node.op == "Unique"]
    assert len(unique) == 3  # those of the gradients; none is made anew
    lookups = [node for node in joined.node if node.op == "ResourceGather"]
    taken = [source_of_bundled(joined, node.input[1]) for node in lookups]
    assert taken == unique


def test_changes_of_one_variable_stay_in_order():
    class TwoChanges(Step):
        def _build(self):
            for handle in self.handles[:2]:
                new = tf.cast(tf.fill([10, 2], tf.reduce_sum(self.ids)), tf.float32)
                tf.raw_ops.AssignVariableOp(resource=handle, value=new)
                tf.raw_ops.AssignAddVariableOp(resource=handle, value=tf.ones([10, 2]))
            return [tf.identity(self.ids, name="out")]

    step = TwoChanges()
    joined = bundled(step.definition, step.graph, ON_ONE_SERVER)
    assert messages(joined, ON_ONE_SERVER) == {("", _HERE): 1}
    _, first, second, *_ = step.run(joined, [3, 3, 9, 0])
    assert np.all(first == 16.0) and np.all(second == 16.0)


def test_a_step_without_servers_stays_as_it_is():
    step = Step()
    part = step.definition
    assert bundled(part, step.graph, {}) is part


def test_gradients_of_a_row_are_added_up_before_they_are_sent():
    """As where an optimizer of Keras makes a gradient of the whole table of them."""
    table = tf.Variable(np.arange(20.0, dtype=np.float32).reshape(10, 2))
    with tf.Graph().as_default() as graph:
        handle = tf.compat.v1.placeholder(tf.resource, [], name="handle_0")
        ids = tf.compat.v1.placeholder(tf.int64, [None], name="ids")
        rows = tf.raw_ops.ResourceGather(resource=handle, indices=ids, dtype=tf.float32)
        rows.set_shape([None, 2])
        gradients = tf.matmul(rows, tf.ones([2, 2]))  # by the worker
        change = tf.math.unsorted_segment_sum(gradients, tf.reshape(ids, [-1]), 10, name="whole")
        tf.raw_ops.AssignSubVariableOp(resource=handle, value=change * 0.1, name="update")
    part = graph.as_graph_def()
    for node in [node for node in part.node if node.op == "Placeholder"]:
        part.node.remove(node)

    def after(definition) -> np.ndarray:
        @tf.function(autograph=False)
        def step(ids):
            given = {"handle_0:0": tf_private.capture(table.handle), "ids:0": ids}
            tf.graph_util.import_graph_def(definition, given, ["update"])

        before = table.numpy()
        step(tf.constant([3, 4, 3, 9, 3], tf.int64))
        found = table.numpy()
        table.assign(before)
        return found

    smaller = bundled(part, graph, {"handle_0": _HERE})
    np.testing.assert_array_equal(after(smaller), after(part))
    nodes = {node.name: node for node in smaller.node}
    assert nodes["whole"].device == _HERE
    assert nodes["whole/rows"].device == ""
    assert nodes["whole"].input[1].split(":")[0] not in ("ids", "Reshape")


def test_what_needs_nothing_of_the_worker_waits_for_its_message():
    """As a count of steps does, which may go up only if there is a batch."""

    class Counting(Step):
        def _build(self):
            counted = tf.raw_ops.AssignAddVariableOp(
                resource=self.handles[4], value=tf.constant(1.0, tf.float64)
            )
            outputs = super()._build()
            with tf.control_dependencies([counted]):
                return [*outputs, tf.identity(outputs[0], name="counted")]

    step = Counting()
    joined = bundled(step.definition, step.graph, ON_ONE_SERVER)
    nodes = {node.name: node for node in joined.node}
    [count] = [node for node in nodes.values() if node.op == "AssignAddVariableOp"]
    [message] = [nodes[name[1:]] for name in count.input if name.startswith("^estimand_bundle")]
    assert message.name.endswith("/arrived") and message.device == _HERE
    ids = [3, 3, 9, 0]
    for one, other in zip(step.run(joined, ids), step.run(step.definition, ids), strict=True):
        np.testing.assert_array_equal(one, other)
