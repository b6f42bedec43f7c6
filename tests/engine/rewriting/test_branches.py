"""Updates wait for conditions that were to read before them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.rewriting.inlining import GraphCopy

v1 = tf.compat.v1


def placed(build: Any) -> Any:
    """What `build` makes in a traced graph, in another function."""
    made: list[Any] = []
    graph: Any = v1.wrap_function(lambda: made.extend(build()) or [], []).graph

    @tf.function(autograph=False)
    def function() -> list[Any]:
        got = GraphCopy(graph).place(made, [], [])
        return [result for result in got if not isinstance(result, tf.Operation)]

    return function.get_concrete_function()


@pytest.mark.parametrize("condition", ["cond", "switch_case"])
def test_a_branch_reads_before_the_update_in_every_run(condition: str) -> None:
    variable = tf.Variable(1.0)

    def build() -> list[Any]:
        update = variable.assign_add(5.0, read_value=False)
        if condition == "cond":
            read = tf.cond(tf.constant(True), lambda: variable + 0.0, lambda: 0.0)
        else:
            read = tf.switch_case(tf.constant(0), [lambda: variable + 0.0, lambda: 0.0])
        return [update, read]

    step = placed(build)
    seen = set()
    for _ in range(300):  # it failed in one of four
        variable.assign(1.0)
        seen.add(float(step()[0]))
    assert seen == {1.0}


def test_updates_keep_the_order_of_the_program() -> None:
    variable = tf.Variable(1.0)

    def build() -> list[Any]:
        first = variable.assign_add(5.0, read_value=False)
        second = variable.assign(variable.read_value() * 0.0 + 3.0, read_value=False)
        read = tf.cond(tf.constant(True), lambda: variable + 0.0, lambda: 0.0)
        return [first, second, read]

    step = placed(build)
    nodes = {node.name: node for node in step.graph.as_graph_def().node}
    assert "^step/AssignAddVariableOp" in nodes["step/AssignVariableOp"].input
    for update in ("step/AssignAddVariableOp", "step/AssignVariableOp"):
        assert "^step/cond/results" in nodes[update].input
    assert float(step()[0]) == 1.0 and variable.numpy() == 3.0


def test_what_a_branch_changes_is_there_for_those_after_it() -> None:
    variable = tf.Variable(1.0)

    def build() -> list[Any]:
        changed = tf.cond(tf.constant(True), lambda: variable.assign(7.0), lambda: 0.0)
        return [changed, variable.assign_add(1.0, read_value=False)]

    assert float(placed(build)()[0]) == 7.0 and variable.numpy() == 8.0


def test_a_rate_that_a_branch_reads_off_the_step_is_that_of_the_step(tmp_path: Path) -> None:
    def model_fn(features: Any, mode: str) -> est.EstimatorSpec:
        step = v1.train.get_or_create_global_step()
        weight = v1.get_variable("weight", initializer=0.0)
        rate = tf.cond(step < 10, lambda: 0.0, lambda: tf.cast(step, tf.float32))
        moved = weight.assign_add(rate)
        with tf.control_dependencies([moved]):
            train_op = step.assign_add(1)
        return est.EstimatorSpec(
            mode, loss=tf.reduce_sum(features) + 0.0 * weight, train_op=train_op
        )

    config = est.RunConfig(tf_random_seed=1, block_mode="plain")
    estimator = est.Estimator(model_fn, str(tmp_path), config)
    estimator.train(lambda: tf.data.Dataset.from_tensors(tf.zeros([1])).repeat(), max_steps=400)
    assert estimator.get_variable_value("weight") == sum(range(10, 400))
