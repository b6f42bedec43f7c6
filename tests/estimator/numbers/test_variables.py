"""Variable scopes: reuse, regularizers, custom getters, partitioners and the names they give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.v1 import layers
from tests.estimator.conftest import run_config, v1

ONES = v1.ones_initializer


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(np.float32([[1, 2]])).repeat()


def trained(model_dir: str, make_loss: Any, steps: int = 1, rate: float = 0.1) -> dict[str, Any]:
    """All variables after some steps of SGD, without the global step."""

    def model_fn(features: tf.Tensor, mode: str) -> est.EstimatorSpec:
        loss = make_loss(features)
        optimizer = v1.train.GradientDescentOptimizer(rate)
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    model = est.Estimator(model_fn, model_dir, run_config()).train(input_fn, steps=steps)
    names = [n for n in model.get_variable_names() if n != "global_step"]
    return {name: model.get_variable_value(name).tolist() for name in names}


def test_reuse_gives_the_same_variable(model_dir: str) -> None:
    def loss(x: tf.Tensor) -> tf.Tensor:
        def scaled() -> tf.Tensor:
            return tf.reduce_sum(x * v1.get_variable("w", [2], initializer=ONES()))

        with v1.variable_scope("tower"):
            first = scaled()
        with v1.variable_scope("tower", reuse=True):
            second = scaled()
        with v1.variable_scope("tower") as scope:
            scope.reuse_variables()
            third = scaled()
        with v1.variable_scope("tower", reuse=v1.AUTO_REUSE):
            return first + second + third + scaled()

    # Four uses, each with gradient x.
    assert trained(model_dir, loss) == {"tower/w": pytest.approx([1 - 0.4, 1 - 0.8])}


def test_asking_twice_without_reuse_is_the_error_of_old(model_dir: str) -> None:
    def loss(x: tf.Tensor) -> tf.Tensor:
        v1.get_variable("w", [2])
        return tf.reduce_sum(v1.get_variable("w", [2]))

    with pytest.raises(ValueError, match="Variable w already exists"):
        trained(model_dir, loss)


def test_reusing_what_is_not_there_is_the_error_of_old(model_dir: str) -> None:
    def loss(x: tf.Tensor) -> tf.Tensor:
        with v1.variable_scope("", reuse=True):
            return tf.reduce_sum(v1.get_variable("w", [2]))

    with pytest.raises(ValueError, match="Variable w does not exist"):
        trained(model_dir, loss)


def test_regularizer_of_a_scope(model_dir: str) -> None:
    def loss(x: tf.Tensor) -> tf.Tensor:
        with v1.variable_scope("net", regularizer=lambda w: 0.5 * tf.reduce_sum(w**2)):
            w = v1.get_variable("w", [2], initializer=ONES())
        return tf.reduce_sum(x * w) + v1.losses.get_regularization_loss()

    # Gradient x + w.
    assert trained(model_dir, loss) == {"net/w": pytest.approx([0.8, 0.7])}


def test_regularizer_of_a_layer(model_dir: str) -> None:
    def loss(x: tf.Tensor) -> tf.Tensor:
        y = layers.dense(
            x,
            1,
            use_bias=False,
            kernel_initializer=ONES(),
            kernel_regularizer=lambda w: 0.5 * tf.reduce_sum(w**2),
        )
        return tf.reduce_sum(y) + tf.add_n(v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES))

    assert trained(model_dir, loss)["dense/kernel"] == [
        pytest.approx([0.8]),
        pytest.approx([0.7]),
    ]


def test_custom_getter(model_dir: str) -> None:
    def doubling(getter: Any, name: str, *args: Any, **kwargs: Any) -> tf.Tensor:
        return 2 * getter(name, *args, **kwargs)

    def loss(x: tf.Tensor) -> tf.Tensor:
        with v1.variable_scope("net", custom_getter=doubling):
            return tf.reduce_sum(x * v1.get_variable("w", [2], initializer=ONES()))

    assert trained(model_dir, loss) == {"net/w": pytest.approx([0.8, 0.6])}


def test_partitioner_keeps_the_name_and_shape_in_the_checkpoint(model_dir: str) -> None:
    def loss(x: tf.Tensor) -> tf.Tensor:
        with v1.variable_scope("net", partitioner=v1.fixed_size_partitioner(2)):
            w = v1.get_variable("w", [4, 2], initializer=ONES())
        rows = tf.nn.embedding_lookup(w, tf.constant([0, 3]))
        return tf.reduce_sum(x * rows)

    once = trained(model_dir, loss)
    assert once == {"net/w": [pytest.approx(r) for r in ([0.9, 0.8], [1, 1], [1, 1], [0.9, 0.8])]}
    again = trained(model_dir, loss)  # restored, and one step on
    assert again["net/w"][3] == pytest.approx([0.8, 0.6])


def test_slots_of_a_partitioned_variable_are_restored(model_dir: str) -> None:
    def model_fn(features: tf.Tensor, mode: str) -> est.EstimatorSpec:
        with v1.variable_scope("net", partitioner=v1.fixed_size_partitioner(2)):
            w = v1.get_variable("w", [2], initializer=ONES())
        loss = tf.reduce_sum(features * tf.convert_to_tensor(w))
        optimizer = v1.train.MomentumOptimizer(0.1, 0.5)
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    for _ in range(2):
        model = est.Estimator(model_fn, model_dir, run_config()).train(input_fn, steps=1)
    # Momentum: 1 at the first step, 1.5 at the second, times gradient x.
    np.testing.assert_allclose(model.get_variable_value("net/w"), [0.75, 0.5], atol=1e-6)
    assert model.get_variable_value("net/w/Momentum").shape == (2,)


def test_scopes_that_are_entered_again_number_their_layers(model_dir: str) -> None:
    def loss(x: tf.Tensor) -> tf.Tensor:
        with v1.variable_scope(None, "block"):
            x = layers.dense(x, 2)
        with v1.variable_scope(None, "block"):
            x = layers.dense(layers.dense(x, 2), 2)
        return tf.reduce_sum(x)

    assert sorted(trained(model_dir, loss)) == [
        "block/dense/bias",
        "block/dense/kernel",
        "block_1/dense/bias",
        "block_1/dense/kernel",
        "block_1/dense_1/bias",
        "block_1/dense_1/kernel",
    ]


def test_variable_that_is_not_trainable_stays(model_dir: str) -> None:
    def loss(x: tf.Tensor) -> tf.Tensor:
        fixed = v1.get_variable("fixed", [2], initializer=ONES(), trainable=False)
        moved = v1.get_variable("moved", [2], initializer=ONES())
        return tf.reduce_sum(x * fixed * moved)

    assert trained(model_dir, loss) == {"fixed": [1, 1], "moved": pytest.approx([0.9, 0.8])}


def test_only_the_variables_of_var_list_are_trained(model_dir: str) -> None:
    def model_fn(features: tf.Tensor, mode: str) -> est.EstimatorSpec:
        a, b = (v1.get_variable(n, [2], initializer=ONES()) for n in "ab")
        loss = tf.reduce_sum(features * a * b)
        chosen = v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES, scope="b")
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        step = v1.train.get_global_step()
        train_op = optimizer.minimize(loss, global_step=step, var_list=chosen)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    model = est.Estimator(model_fn, model_dir, run_config()).train(input_fn, steps=1)
    assert model.get_variable_value("a").tolist() == [1, 1]
    assert model.get_variable_value("b").tolist() == pytest.approx([0.9, 0.8])


def test_constraint_holds_after_the_step(model_dir: str) -> None:
    def loss(x: tf.Tensor) -> tf.Tensor:
        w = v1.get_variable("w", [2], initializer=ONES(), constraint=lambda w: tf.maximum(w, 0.85))
        return tf.reduce_sum(x * w)

    assert trained(model_dir, loss) == {"w": pytest.approx([0.9, 0.85])}


def test_initializer_that_depends_on_another_variable(model_dir: str) -> None:
    def loss(x: tf.Tensor) -> tf.Tensor:
        first = v1.get_variable("first", [2], initializer=v1.constant_initializer(3.0))
        second = v1.get_variable(
            "second", initializer=lambda: first.initialized_value() * 2, trainable=False
        )
        return tf.reduce_sum(x * first * second) * 0

    assert trained(model_dir, loss) == {"first": [3, 3], "second": [6, 6]}


def test_variable_read_after_a_write_sees_it_when_told_to(model_dir: str) -> None:
    """assign, control dependency, read: program order by hand, as v1 code has it."""

    def loss(x: tf.Tensor) -> tf.Tensor:
        count = v1.get_variable("count", [], initializer=v1.zeros_initializer(), trainable=False)
        weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
        with v1.control_dependencies([v1.assign_add(count, 1.0)]):
            return count.read_value() * weight

    assert trained(model_dir, loss, steps=3, rate=1.0) == {"count": 3, "weight": -6}


def test_scattered_updates(model_dir: str) -> None:
    def loss(x: tf.Tensor) -> tf.Tensor:
        table = v1.get_variable("table", [3], initializer=v1.zeros_initializer(), trainable=False)
        weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
        updates = [v1.scatter_add(table, [1, 1], [1.0, 1.0]), v1.scatter_update(table, [2], [7.0])]
        with v1.control_dependencies(updates):
            return tf.identity(weight)

    assert trained(model_dir, loss, steps=3, rate=1.0) == {"table": [0, 6, 7], "weight": -3}


def test_plain_variables_are_named_as_in_a_graph(model_dir: str) -> None:
    def loss(x: tf.Tensor) -> tf.Tensor:
        first, second = tf.Variable([1.0, 1.0]), v1.Variable([1.0, 1.0])
        with v1.name_scope("named"), v1.variable_scope("scope"):
            third = tf.Variable(1.0, name="third")
        return tf.reduce_sum(x * first) + tf.reduce_sum(x * second) + third

    assert trained(model_dir, loss) == {
        "Variable": pytest.approx([0.9, 0.8]),
        "Variable_1": pytest.approx([0.9, 0.8]),
        "named/scope/third": pytest.approx(0.9),
    }


def test_variables_in_sets_and_dicts(model_dir: str) -> None:
    """A variable is equal to itself only, as in a graph of TensorFlow 1."""

    def loss(x: tf.Tensor) -> tf.Tensor:
        a, b = (v1.get_variable(n, [2], initializer=ONES()) for n in "ab")
        frozen = {b}
        assert [v for v in v1.trainable_variables() if v not in frozen] == [a]
        rates = {a: 2.0, b: 0.0}
        return tf.add_n([tf.reduce_sum(x * v) * rates[v] for v in v1.trainable_variables()])

    assert trained(model_dir, loss) == {"a": pytest.approx([0.8, 0.6]), "b": [1, 1]}
