"""Where the layers can be used, and what may be given to them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from estimand.compat.v1 import layers
from tests.compat.layer_programs import SPATIAL_PROGRAMS, ramp

v1 = tf.compat.v1


@pytest.fixture
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def placeholder(*shape: int | None, dtype: Any = tf.float32) -> Any:
    return v1.placeholder(dtype, [None, *shape])


def evaluate(fetches: Any, feed: Any = None) -> Any:
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        return session.run(fetches, feed)


def names(variables: list[Any]) -> list[str]:
    return [variable.name for variable in variables]


# --- places


def test_inside_wrap_function_variables_are_named_and_shared_and_updates_wait() -> None:
    def model(x: Any) -> Any:
        hidden = layers.dense(x, 3, kernel_regularizer=tf.nn.l2_loss)
        again = layers.dense(x, 3, name="dense", reuse=True, kernel_regularizer=tf.nn.l2_loss)
        return layers.batch_normalization(hidden + again, training=True, momentum=0.5)

    function = v1.wrap_function(model, [tf.TensorSpec([None, 2], tf.float32)])
    variables = {variable.name: variable for variable in function.graph.variables}
    assert set(variables) == {
        "dense/kernel:0",
        "dense/bias:0",
        "batch_normalization/gamma:0",
        "batch_normalization/beta:0",
        "batch_normalization/moving_mean:0",
        "batch_normalization/moving_variance:0",
    }
    assert len(function.graph.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES)) == 1

    x = ramp((4, 2))
    function(tf.constant(x))
    moving_mean = variables["batch_normalization/moving_mean:0"]
    np.testing.assert_array_equal(moving_mean, np.zeros(3))

    updates = function.graph.get_collection(v1.GraphKeys.UPDATE_OPS)
    function.prune(function.inputs[:1], updates)(tf.constant(x))
    batch_mean = (2 * x @ variables["dense/kernel:0"].numpy()).mean(axis=0)
    np.testing.assert_allclose(moving_mean, 0.5 * batch_mean, rtol=1e-5)


def test_eagerly_a_creator_that_remembers_by_name_shares_the_variables() -> None:
    made: dict[str, Any] = {}

    def remember(next_creator: Any, **kwargs: Any) -> Any:
        if kwargs["name"] not in made:
            made[kwargs["name"]] = next_creator(**kwargs)
        return made[kwargs["name"]]

    x = ramp((4, 2))
    with tf.variable_creator_scope(remember):
        first = layers.dense(x, 3, name="eager_layer")
        second = layers.dense(x, 3, name="eager_layer")
    assert list(made) == ["eager_layer/kernel", "eager_layer/bias"]
    np.testing.assert_allclose(first, x @ made["eager_layer/kernel"].numpy(), rtol=1e-5)
    np.testing.assert_array_equal(first, second)


def test_eagerly_losses_follow_the_weights() -> None:
    layer = layers.Dense(2, kernel_regularizer=tf.nn.l2_loss, activity_regularizer=tf.reduce_sum)
    for _ in range(2):
        outputs = layer(ramp((4, 2)))
    layer.kernel.assign(tf.ones_like(layer.kernel))
    weights, activity = layer.losses
    assert weights == 2.0  # half the sum of four squares
    np.testing.assert_allclose(activity, np.sum(outputs) / 4, rtol=1e-5)


def test_importing_the_package_does_not_load_tensorflow() -> None:
    program = "import sys, estimand.compat.v1 as v1; print('tensorflow' in sys.modules, dir(v1))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("False")
    assert "'layers'" in done.stdout


@pytest.mark.parametrize("shape", [[None, 2], (None, 2), tf.TensorShape([None, 2])])
def test_built_by_hand_a_layer_is_called_with_what_it_has(graph: tf.Graph, shape: Any) -> None:
    layer = layers.Dense(3, name="output")
    layer.build(shape)
    assert layer.built and names(layer.variables) == ["output/kernel:0", "output/bias:0"]
    outputs = layer(placeholder(2))
    assert names(v1.global_variables()) == ["output/kernel:0", "output/bias:0"]
    ones = [v1.assign(variable, tf.ones_like(variable)) for variable in layer.variables]
    with v1.Session() as session:
        session.run(ones)
        np.testing.assert_array_equal(session.run(outputs, {"Placeholder:0": [[1, 2]]}), [[4] * 3])


def test_convolution_and_normalization_are_built_by_hand(graph: tf.Graph) -> None:
    convolution, normalization = layers.Conv2D(4, 3), layers.BatchNormalization()
    convolution.build([None, 8, 8, 2])
    normalization.build([None, 5])
    assert [v.shape.as_list() for v in convolution.variables] == [[3, 3, 2, 4], [4]]
    assert normalization.gamma.shape.as_list() == [5]


def test_a_subclass_adds_to_what_its_base_class_builds(graph: tf.Graph) -> None:
    class Scaled(layers.Dense):
        def build(self, input_shape: Any) -> None:
            super().build(input_shape)
            self.scale = self.add_weight("scale", [])

    layer = Scaled(3, name="scaled")
    layer.build([None, 2])
    assert names(layer.variables) == ["scaled/kernel:0", "scaled/bias:0", "scaled/scale:0"]


# --- what may be given


def test_without_initializer_kernels_are_glorot_uniform(graph: tf.Graph) -> None:
    layers.dense(placeholder(50), 150)
    kernel, bias = evaluate(v1.trainable_variables())
    limit = np.sqrt(6 / 200)
    assert 0.95 * limit < np.abs(kernel).max() <= limit
    assert abs(kernel.mean()) < 0.1 * limit
    np.testing.assert_array_equal(bias, np.zeros(150))


@pytest.mark.parametrize("initializer", ["he_normal", "random_uniform", "orthogonal", "ones"])
def test_initializers_may_be_named(graph: tf.Graph, initializer: str) -> None:
    layers.dense(placeholder(4), 4, kernel_initializer=initializer)
    assert np.any(evaluate(v1.trainable_variables())[0])


def test_keras_initializers_regularizers_and_constraints_are_accepted(graph: tf.Graph) -> None:
    outputs = layers.dense(
        placeholder(2),
        1,
        use_bias=False,
        kernel_initializer=keras.initializers.Constant(2.0),
        kernel_regularizer=keras.regularizers.L2(0.5),
        kernel_constraint=keras.constraints.NonNeg(),
    )
    step = v1.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(outputs))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(v1.losses.get_regularization_loss()) == 4.0
        session.run(step, {"Placeholder:0": [[1.0, 5.0]]})
        np.testing.assert_array_equal(session.run(v1.trainable_variables()[0]), [[1.0], [0.0]])


def test_a_custom_getter_decides_what_is_trainable(graph: tf.Graph) -> None:
    def freeze(getter: Any, *args: Any, **kwargs: Any) -> Any:
        return getter(*args, **{**kwargs, "trainable": False})

    layer = layers.Dense(2)
    with v1.variable_scope("frozen", custom_getter=freeze):
        layer(placeholder(3))
    assert layer.trainable_weights == []
    assert names(layer.non_trainable_weights) == ["frozen/dense/kernel:0", "frozen/dense/bias:0"]


def test_sparse_inputs_of_dense(graph: tf.Graph) -> None:
    dense_rows = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]], np.float32)
    layer = layers.Dense(2)
    outputs = layer(tf.sparse.from_dense(dense_rows))
    value, kernel = evaluate([outputs, layer.kernel])
    np.testing.assert_allclose(value, dense_rows @ kernel, rtol=1e-5)


def test_lists_of_numbers_are_inputs(graph: tf.Graph) -> None:
    assert layers.dense([[1.0, 2.0]], 3).shape == [1, 3]


@pytest.mark.parametrize("dtype", [tf.float16, tf.float64])
def test_variables_take_the_dtype_of_the_inputs(graph: tf.Graph, dtype: Any) -> None:
    outputs = layers.dense(placeholder(3, dtype=dtype), 2)
    assert [outputs.dtype, *(v.dtype.base_dtype for v in v1.global_variables())] == [dtype] * 3


def test_dropout_asked_at_run_time(graph: tf.Graph) -> None:
    training = v1.placeholder(tf.bool, [])
    kept = layers.dropout(tf.ones([1000]), rate=0.25, training=training)
    np.testing.assert_array_equal(evaluate(kept, {training: False}), np.ones(1000))
    dropped = evaluate(kept, {training: True})
    np.testing.assert_allclose(np.unique(dropped), [0, 1 / 0.75], rtol=1e-6)
    assert 650 < np.count_nonzero(dropped) < 850


@pytest.mark.parametrize("name", SPATIAL_PROGRAMS)
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_layers_foretell_the_shape_of_their_outputs(
    graph: tf.Graph, name: str, data_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    foretold = []
    call = layers.Layer.__call__

    def note(self: Any, inputs: Any, **kwargs: Any) -> Any:
        foretold.append(self.compute_output_shape(inputs.shape))
        return call(self, inputs, **kwargs)

    monkeypatch.setattr(layers.Layer, "__call__", note)
    program = SPATIAL_PROGRAMS[name]
    inputs = tf.ones(program.input_shape)
    if data_format == "channels_first":
        inputs = tf.experimental.numpy.moveaxis(inputs, -1, 1)
    outputs = program.build(layers, inputs, data_format=data_format)
    assert foretold == [outputs.shape]


# --- layers of one's own


class Scale(layers.Layer):
    def build(self, input_shape: Any) -> None:
        self.factor = self.add_variable("factor", [input_shape[-1]], regularizer=tf.nn.l2_loss)
        self.calls = self.add_weight("calls", [], initializer="zeros", trainable=False)

    def call(self, inputs: Any, shift: float = 0.0) -> Any:
        self.add_update(self.calls.assign_add(1.0), inputs=inputs)
        return inputs * self.factor + shift


def test_a_layer_of_ones_own(graph: tf.Graph) -> None:
    layer = Scale()
    x = placeholder(3)
    with v1.variable_scope("outer"):
        layer(x, shift=1.0)
    layer.apply(x)
    assert layer.scope_name == "outer/scale"
    assert layer.name == "scale"
    assert names(layer.variables) == ["outer/scale/factor:0", "outer/scale/calls:0"]
    assert names(layer.trainable_weights) == ["outer/scale/factor:0"]
    assert layer.count_params() == 4
    assert layer.losses == layer.get_losses_for(None)
    assert layer.losses == v1.losses.get_regularization_losses()
    assert layer.updates == layer.get_updates_for(x)
    assert layer.updates == v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    assert len(layer.updates) == 2


def test_a_frozen_layer_has_no_trainable_variables_and_no_updates(graph: tf.Graph) -> None:
    layer = Scale(trainable=False)
    layer(placeholder(3))
    assert layer.trainable_variables == []
    assert len(layer.non_trainable_variables) == 2
    assert layer.updates == []
    assert v1.trainable_variables() == []


def test_in_a_second_graph_the_updates_of_the_first_stay_away() -> None:
    layer = layers.BatchNormalization()
    x = tf.constant(ramp((4, 3)))

    def model() -> Any:
        return layer(x, training=True)

    first = v1.wrap_function(model, [])
    second = v1.wrap_function(model, [])
    for function in (first, second):
        updates = function.graph.get_collection(v1.GraphKeys.UPDATE_OPS)
        assert len(updates) == 2
        assert all(update.graph is function.graph for update in updates)


def test_call_may_ask_for_its_scope(graph: tf.Graph) -> None:
    class Asking(layers.Layer):
        def call(self, inputs: Any, scope: Any = None) -> Any:
            return inputs * v1.get_variable("made_in_call", [])

    layer = Asking()
    layer(layer(placeholder(3)))
    assert names(v1.global_variables()) == ["asking/made_in_call:0"]
