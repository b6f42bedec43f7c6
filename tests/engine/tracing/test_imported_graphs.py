"""A graph with variables of its own that a model function imports, as hub.Module does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import ModelFnError
from tests import forked

v1 = tf.compat.v1
REPOSITORY = Path(__file__).parents[3]
KINDS = pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])


def meta_graph(folder: Path, build: Callable[[Any], Any]) -> str:
    with tf.Graph().as_default():
        tf.identity(build(v1.placeholder(tf.float32, [None, 1], name="x")), name="y")
        v1.train.export_meta_graph(str(folder / "module.meta"))
    return str(folder / "module.meta")


def factor(use_resource: bool, **arguments: Any) -> Callable[[Any], Any]:
    """x times a variable that begins with 2."""
    return lambda x: (
        x * v1.get_variable("factor", initializer=2.0, use_resource=use_resource, **arguments)
    )


def estimator(path: str, scope: str = "module", model_dir: str | None = None) -> est.Estimator:
    """Learns the weight and the variables of the graph at `path`."""

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        v1.train.import_meta_graph(path, import_scope=scope, input_map={"x": features})
        y = v1.get_default_graph().get_tensor_by_name(f"{scope}/y:0" if scope else "y:0")
        weight = v1.get_variable("weight", initializer=1.0)
        if mode == est.ModeKeys.PREDICT:
            return est.EstimatorSpec(mode, predictions=weight * y)
        loss = tf.reduce_mean((weight * y - labels) ** 2)
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return est.Estimator(model_fn, model_dir)


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.ones([1, 1])))


@KINDS
def test_its_variables_are_trained_saved_and_found_by_all_modes(
    use_resource: bool, tmp_path: Path
) -> None:
    path = meta_graph(tmp_path, factor(use_resource))
    trained = estimator(path, model_dir=str(tmp_path / "run"))
    trained.train(input_fn)
    # The loss is (w f - 1)^2 at w = 1, f = 2: its gradients are 2 (2 - 1) 2 and 2 (2 - 1) 1.
    assert trained.get_variable_value("weight") == pytest.approx(1 - 0.4)
    assert trained.get_variable_value("module/factor") == pytest.approx(2 - 0.2)
    assert trained.evaluate(input_fn)["loss"] == pytest.approx((0.6 * 1.8 - 1) ** 2, rel=1e-5)
    again = estimator(path, model_dir=str(tmp_path / "run"))
    assert next(iter(again.predict(input_fn))) == pytest.approx([0.6 * 1.8])
    again.train(input_fn)
    assert again.get_variable_value("module/factor") == pytest.approx(1.8 - 0.1 * 2 * 0.08 * 0.6)


@KINDS
def test_those_that_it_does_not_train_stay(use_resource: bool, tmp_path: Path) -> None:
    path = meta_graph(tmp_path, factor(use_resource, trainable=False))
    trained = estimator(path).train(input_fn)
    assert trained.get_variable_value("module/factor") == 2.0


def test_local_variables_of_it_are_not_saved(tmp_path: Path) -> None:
    local = [v1.GraphKeys.LOCAL_VARIABLES]
    path = meta_graph(tmp_path, factor(False, trainable=False, collections=local))
    trained = estimator(path).train(input_fn)
    assert trained.get_variable_names() == ["global_step", "weight"]
    assert trained.evaluate(input_fn)["loss"] == pytest.approx((0.6 * 2 - 1) ** 2)


def test_a_graph_without_variables_is_imported(tmp_path: Path) -> None:
    trained = estimator(meta_graph(tmp_path, lambda x: x * 2.0))
    trained.train(input_fn)
    # The loss is (2 w - 1)^2 at w = 1.
    assert trained.get_variable_value("weight") == pytest.approx(1 - 0.1 * 2 * 2 * 1)


def test_without_collections_the_program_fills_them(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        factor(False)(v1.placeholder(tf.float32, [None, 1], name="x"))
    message = graph.as_graph_def()

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        del features
        value = tf.import_graph_def(message, return_elements=["factor:0"])[0]
        loss = tf.reduce_mean((value * v1.get_variable("weight", initializer=1.0) - labels) ** 2)
        assert [v.op.name for v in v1.trainable_variables()] == ["weight"]
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        fill = v1.train.Scaffold(init_fn=lambda _, session: session.run("import/factor/Assign"))
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=fill)

    trained = est.Estimator(model_fn).train(input_fn)
    assert trained.get_variable_value("weight") == pytest.approx(1 - 0.4)
    assert trained.get_variable_value("import/factor") == 2.0


def test_parts_of_a_variable_are_saved_as_a_whole(tmp_path: Path) -> None:
    def build(x: Any) -> Any:
        table = v1.get_variable(
            "table", [4, 1], partitioner=v1.fixed_size_partitioner(2), initializer=tf.ones
        )
        return x * tf.reduce_sum(tf.convert_to_tensor(table))

    trained = estimator(meta_graph(tmp_path, build)).train(input_fn)
    # Of the loss (w sum(t) - 1)^2 at 1 and 4, each row has the gradient 2 (4 - 1) 1.
    np.testing.assert_allclose(trained.get_variable_value("module/table"), np.full([4, 1], 0.4))


def test_a_name_that_the_model_has_already_is_refused(tmp_path: Path) -> None:
    path = meta_graph(tmp_path, lambda x: x * v1.get_variable("global_step", initializer=2.0))
    with pytest.raises(ModelFnError, match="variable 'global_step' has the name of one that"):
        estimator(path, scope="").train(input_fn)


def test_inside_of_a_branch_it_is_refused(tmp_path: Path) -> None:
    path = meta_graph(tmp_path, factor(True))

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        def imported() -> Any:
            v1.train.import_meta_graph(path, import_scope="module")
            return features

        loss = tf.reduce_mean(tf.cond(tf.reduce_sum(labels) > 0, imported, lambda: features))
        return est.EstimatorSpec(mode, loss=loss, train_op=tf.no_op())

    with pytest.raises(ModelFnError, match=r"\('.*module/factor'\) inside of tf.cond"):
        est.Estimator(model_fn).train(input_fn)


TWO_REPLICAS = """
import sys
import tensorflow as tf
import estimand as est
from tests.engine.tracing import test_imported_graphs as graphs

two = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
config = est.RunConfig(train_distribute=tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
est.Estimator(graphs.estimator(sys.argv[1]).model_fn, config=config).train(graphs.input_fn)
"""


def test_under_a_strategy_of_several_replicas_it_is_refused(tmp_path: Path) -> None:
    done = forked.run(["-c", TWO_REPLICAS, meta_graph(tmp_path, factor(True))], cwd=REPOSITORY)
    assert "under a strategy of 2 replicas, which has no copies of them." in done.stderr


def in_control_flow_of_v1(use_resource: bool, branch: bool, loop: bool) -> Callable[[Any], Any]:
    def build(x: Any) -> Any:
        factor = v1.get_variable("factor", initializer=2.0, use_resource=use_resource)
        y = tf.identity(factor)
        if branch:
            y = v1.cond(tf.reduce_sum(x) > 0, lambda: factor * 2.0, lambda: factor * 7.0)
        if loop:
            _, y = v1.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y + factor), [0, y])
        return x * y

    def of_v1(x: Any) -> Any:
        v1.disable_control_flow_v2()
        try:
            return build(x)
        finally:
            v1.enable_control_flow_v2()

    return of_v1


@KINDS
@pytest.mark.parametrize("branch,loop,slope", [(True, False, 2), (False, True, 4), (True, True, 5)])
def test_branches_and_loops_of_tensorflow_1_are_learned_through(
    use_resource: bool, branch: bool, loop: bool, slope: int, tmp_path: Path
) -> None:
    path = meta_graph(tmp_path, in_control_flow_of_v1(use_resource, branch, loop))
    assert "Switch" in Path(path).read_bytes().decode(errors="ignore")
    trained = estimator(path).train(input_fn)
    # Of (w s f - 1)^2 at w = 1, f = 2, with s the slope.
    expected = 2 - 0.1 * 2 * (2 * slope - 1) * slope
    assert trained.get_variable_value("module/factor") == pytest.approx(expected, rel=1e-5)
    weight = trained.get_variable_value("weight")
    assert trained.evaluate(input_fn)["loss"] == pytest.approx(
        (weight * slope * expected - 1) ** 2, rel=1e-5
    )
    assert next(iter(trained.predict(input_fn))) == pytest.approx([weight * slope * expected])


def test_other_writes_through_references_are_made(tmp_path: Path) -> None:
    def build(x: Any) -> Any:
        table = v1.get_variable("table", initializer=tf.zeros([3]), use_resource=False)
        count = v1.get_variable("count", initializer=0, trainable=False, use_resource=False)
        total = tf.reduce_sum(v1.scatter_add(table, [1], [5.0]))  # after the write
        is_there = tf.cast(v1.is_variable_initialized(table), tf.float32)
        return x * (total + tf.cast(count.count_up_to(10), tf.float32) + is_there)

    path = meta_graph(tmp_path, build)

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        del labels
        v1.train.import_meta_graph(path, import_scope="module", input_map={"x": features})
        loss = tf.reduce_mean(v1.get_default_graph().get_tensor_by_name("module/y:0"))
        step = v1.assign_add(v1.train.get_global_step(), 1)
        return est.EstimatorSpec(mode, loss=loss, train_op=tf.group(step, loss))

    trained = est.Estimator(model_fn)
    trained.train(lambda: input_fn().repeat(2))
    np.testing.assert_array_equal(trained.get_variable_value("module/table"), [0, 10, 0])
    assert trained.get_variable_value("module/count") == 2
    assert trained.evaluate(input_fn)["loss"] == 15 + 2 + 1
