"""Which ops of a traced graph change something, and in which order they run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from estimand.engine.variables import effects
from estimand.engine.variables.engine_variable import EngineVariable

v1 = tf.compat.v1


class Built:
    """A graph in which nothing is ordered by itself, as that of a model function."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self.made: Any = None

        def function() -> list[tf.Tensor]:
            self.made = build()
            return []

        self._wrapped = v1.wrap_function(function, [])
        self.graph: tf.Graph = self._wrapped.graph

    def run(self, *fetches: Any) -> list[Any]:
        results = self._wrapped.prune([], list(fetches))()
        return [r if r is None else r.numpy() for r in results]


def ran_before(op: tf.Operation) -> set[str]:
    return set(effects.ancestors([op])) - {op.name}


# What Keras code assigns


def test_each_read_sees_the_write_before_it_and_none_after_it() -> None:
    variable = tf.Variable(1.0)

    def build() -> list[Any]:
        reads = [variable.read_value()]
        for value in (2.0, 3.0):
            variable.assign(value, read_value=False)
            reads.append(variable.read_value())
        return reads

    built = Built(build)
    writes = effects.order_program_effects(built.graph, [variable])
    assert [op.type for op in writes] == ["AssignVariableOp"] * 2
    for _ in range(20):  # any order would do it now and then
        variable.assign(1.0)
        assert built.run(*built.made, *writes)[:3] == [1.0, 2.0, 3.0]


def test_write_does_not_wait_for_reads_of_what_it_does_not_change() -> None:
    first, second = tf.Variable(1.0), tf.Variable(2.0)

    def build() -> tuple[Any, Any]:
        return second.read_value().op, first.assign(5.0, read_value=False)

    built = Built(build)
    read, write = built.made
    assert effects.order_program_effects(built.graph, [first, second]) == [write]
    assert not ran_before(write) & {read.name}


def test_writes_come_in_program_order_whichever_variable_is_asked_for_first() -> None:
    first, second = tf.Variable(1.0), tf.Variable(2.0)

    def build() -> list[Any]:
        return [v.assign_add(1.0, read_value=False) for v in (first, second, first)]

    built = Built(build)
    assert effects.order_program_effects(built.graph, [second, first]) == built.made


def test_variable_that_is_used_nowhere_has_no_effects() -> None:
    built = Built(lambda: tf.constant(1.0))
    assert effects.order_program_effects(built.graph, [tf.Variable(1.0)]) == []


def test_what_a_saver_restores_is_left_to_it() -> None:
    variable = EngineVariable(1.0, name="weight")

    def build() -> Any:
        v1.train.Saver([variable])
        return variable.assign_add(2.0)

    built = Built(build)
    (only,) = effects.order_program_effects(built.graph, [variable])
    assert only.type == "AssignAddVariableOp"


def test_writes_of_v1_code_are_left_to_its_wires() -> None:
    """Of its optimizers, and of `assign` outside of Keras, also to variables of Keras layers."""
    variable = EngineVariable([1.0, 1.0])
    variable.of_keras = True

    def build() -> list[Any]:
        by_keras = tf.raw_ops.AssignAddVariableOp(resource=variable.handle, value=[1.0, 1.0])
        by_hand = variable.assign([2.0, 2.0], read_value=False)
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        return [by_keras, by_hand, optimizer.apply_gradients([(tf.ones([2]), variable)])]

    built = Built(build)
    by_keras, by_hand, by_optimizer = built.made
    assert effects.order_program_effects(built.graph, [variable]) == [by_keras]
    assert by_keras.name not in ran_before(by_hand) | ran_before(by_optimizer)


# What v1 code overwrites


def clipped_after(variable: tf.Variable) -> list[Any]:
    update = variable.assign_add(10.0, read_value=False)
    return [update, variable.assign(tf.minimum(variable.read_value(), 2.0), read_value=False)]


def test_what_is_assigned_after_an_update_is_computed_of_it() -> None:
    variable = tf.Variable(1.0)
    built = Built(lambda: clipped_after(variable))
    effects.order_overwriting(built.graph, [variable], effects.ancestors(built.made))
    for _ in range(20):
        variable.assign(1.0)
        built.run(*built.made)
        assert variable.numpy() == 2.0


def test_update_that_no_step_runs_is_waited_for_by_nobody() -> None:
    variable = tf.Variable(1.0)
    built = Built(lambda: clipped_after(variable))
    update, clip = built.made
    effects.order_overwriting(built.graph, [variable], effects.ancestors([clip]))
    assert update.name not in ran_before(clip)


def test_what_was_read_before_an_update_stays_so() -> None:
    variable = tf.Variable(1.0)

    def build() -> list[Any]:
        before = variable.read_value()
        update = variable.assign_add(10.0, read_value=False)
        return [update, variable.assign(before, read_value=False)]

    built = Built(build)
    update, back = built.made
    effects.order_overwriting(built.graph, [variable], effects.ancestors(built.made))
    assert update.name not in ran_before(back)


# Who writes


def test_a_condition_writes_only_what_its_branches_write() -> None:
    read, written = tf.Variable(1.0), tf.Variable(2.0)

    @tf.function(autograph=False)
    def step(go: tf.Tensor) -> tf.Tensor:
        return tf.cond(go, lambda: written.assign_add(read), lambda: read + 0.0)

    graph = step.get_concrete_function(tf.TensorSpec([], tf.bool)).graph
    (condition,) = [op for op in graph.get_operations() if op.type == "If"]
    assert effects.writes_to(graph, [written]) == [condition]
    assert effects.writes_to(graph, [read]) == []


def test_lookups_change_nothing_and_updates_of_rows_do() -> None:
    table = tf.Variable(tf.zeros([3, 2]))

    def build() -> list[tf.Operation]:
        rows = table.sparse_read([0]).op
        return [rows.inputs[0].op if rows.type == "Identity" else rows,
                table.scatter_add(tf.IndexedSlices(tf.ones([1, 2]), [1])).op]  # fmt: skip

    built = Built(build)
    assert [effects.changes_state(op) for op in built.made] == [False, True]
    assert not effects.changes_state(Built(lambda: tf.constant(1.0).op).made)


def test_ancestors_are_inputs_and_what_is_waited_for() -> None:
    def build() -> tuple[tf.Operation, tf.Operation]:
        with tf.control_dependencies([tf.no_op("first")]):
            after = tf.constant(1.0, name="after")
        return tf.add(after, after, name="sum").op, tf.no_op("beside")

    made, beside = Built(build).made
    assert set(effects.ancestors([made])) == {"sum", "after", "first"}
    assert set(effects.ancestors([made, beside])) == {"sum", "after", "first", "beside"}


# Tables and the like


def test_nameless_resources_get_names_of_their_owner() -> None:
    def build() -> list[tf.Operation]:
        named = tf.raw_ops.MutableHashTableV2(
            key_dtype=tf.int64, value_dtype=tf.int64, shared_name="mine"
        )
        nameless = [
            tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int64, name=name)
            for name in ("early", "late")
        ]
        return [table.op for table in (named, *nameless)]

    built = Built(build)
    named, early, late = built.made
    seen_to = built.graph.get_operations().index(late)
    effects.name_resources(built.graph, "owner", after=seen_to)
    assert [op.get_attr("shared_name") for op in (early, late)] == [b"", b"owner/late"]
    effects.name_resources(built.graph, "owner")
    assert early.get_attr("shared_name") == b"owner/early"
    assert named.get_attr("shared_name") == b"mine"


# Updates that were forgotten


def unwired(count: int, run: bool) -> None:
    def build() -> list[tf.Operation]:
        updates = [tf.no_op(f"update_{i}") for i in range(count)]
        for update in updates:
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        return updates

    built = Built(build)
    effects.warn_about_unwired_updates(built.graph, effects.ancestors(built.made if run else []))


@pytest.mark.parametrize(
    ("count", "names"),
    [(2, "(update_0, update_1)"), (4, "(update_0, update_1, update_2, ...)")],
)
def test_updates_that_no_step_runs_are_told(
    caplog: pytest.LogCaptureFixture, count: int, names: str
) -> None:
    with caplog.at_level(logging.WARNING, "tensorflow"):
        unwired(count, run=True)
        assert not caplog.messages
        unwired(count, run=False)
    [message] = caplog.messages
    assert message.startswith(f"{count} update op(s) in tf.GraphKeys.UPDATE_OPS {names} are not")
