"""Recurrent layers without a loop, against Keras' own loop."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from estimand.core import tf_private
from estimand.core.tf_private import recurrent

LAYERS = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU}
STATES = {"lstm": 2, "gru": 1}
BATCH, TIME, FEATURES, UNITS = 5, 7, 3, 4
WAYS = {
    "last output": {},
    "sequences": {"return_sequences": True},
    "states": {"return_state": True},
    "all": {"return_sequences": True, "return_state": True},
    "backwards": {"go_backwards": True, "return_sequences": True, "return_state": True},
    "without bias": {"use_bias": False},
}
MASKS = {
    "none": None,
    "padded right": [[t < 7 - row for t in range(TIME)] for row in range(BATCH)],
    "padded left": [[t >= row for t in range(TIME)] for row in range(BATCH)],
    "gaps": [[(t + row) % 3 != 0 for t in range(TIME)] for row in range(BATCH)],
    "nothing": [[False] * TIME] * BATCH,
}


def sequences(dtype="float32", time=TIME):
    return np.random.default_rng(1).normal(size=(BATCH, time, FEATURES)).astype(dtype)


def built(kind, dtype="float32", **arguments):
    keras.utils.set_random_seed(3)
    layer = LAYERS[kind](UNITS, dtype=dtype, bias_initializer="glorot_uniform", **arguments)
    layer.build((BATCH, TIME, FEATURES))
    return layer


def values_and_gradients(call, weights, inputs, batch=None):
    """What `call` gives, and the gradients of a sum over all of it, by `tf.gradients`."""

    def build(*tensors):
        outputs = tf.nest.flatten(call(*tensors))
        loss = tf.add_n([tf.reduce_sum(tf.sin(out + 0.1 * n)) for n, out in enumerate(outputs)])
        gradients = tf.gradients(loss, [*tensors, *weights])
        return outputs, [tf.convert_to_tensor(g) for g in gradients]

    specs = [tf.TensorSpec((batch, *value.shape[1:]), value.dtype) for value in inputs]
    function = tf.function(build, autograph=False).get_concrete_function(*specs)
    outputs, gradients = function(*map(tf.constant, inputs))
    types = {op.type for op in function.graph.get_operations()}
    return [t.numpy() for t in outputs], [t.numpy() for t in gradients], types


def compare(call, weights, inputs, tolerance=1e-5, batch=None, loops=False):
    """`call` with and without the loop."""
    expected, expected_gradients, types = values_and_gradients(call, weights, inputs, batch)
    assert types & {"While", "StatelessWhile"}
    with tf_private.short_sequences_without_loop():
        outputs, gradients, types = values_and_gradients(call, weights, inputs, batch)
    assert bool(types & {"While", "StatelessWhile"}) is loops
    for ours, theirs in zip(outputs + gradients, expected + expected_gradients, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def variables(layer):
    return [v.value for v in layer.trainable_variables]


@pytest.mark.parametrize("batch", [BATCH, None])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", LAYERS)
def test_values_and_gradients_are_those_of_the_loop(kind, way, batch):
    layer = built(kind, **WAYS[way])
    compare(layer, variables(layer), [sequences()], batch=batch)


@pytest.mark.parametrize("kind", LAYERS)
def test_in_64_bits_they_agree_further(kind):
    layer = built(kind, dtype="float64", return_sequences=True, return_state=True)
    compare(layer, variables(layer), [sequences("float64")], tolerance=1e-13)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("way", ["last output", "all", "backwards"])
@pytest.mark.parametrize("mask", [name for name in MASKS if name != "none"])
@pytest.mark.parametrize("kind", LAYERS)
def test_masked_steps_change_no_state(kind, mask, way, zeros):
    layer = built(kind, zero_output_for_mask=zeros, **WAYS[way])
    mask = tf.constant(MASKS[mask])
    compare(lambda x: layer(x, mask=mask), variables(layer), [sequences()])


@pytest.mark.parametrize("kind", LAYERS)
def test_initial_states_are_begun_with_and_have_gradients(kind):
    layer = built(kind, return_state=True)
    first = np.random.default_rng(2).normal(size=(BATCH, UNITS)).astype("float32")
    states = [first + n for n in range(STATES[kind])]
    mask = tf.constant(MASKS["gaps"])

    def call(x, *states):
        return [layer(x, initial_state=states), layer(x, initial_state=states, mask=mask)]

    compare(call, variables(layer), [sequences(), *states])


@pytest.mark.parametrize("kind", LAYERS)
def test_both_directions(kind):
    layer = keras.layers.Bidirectional(built(kind, return_sequences=True))
    layer.build((BATCH, TIME, FEATURES))
    compare(layer, variables(layer), [sequences()])


@pytest.mark.parametrize("kind", LAYERS)
def test_states_go_on_from_batch_to_batch(kind):
    layer = built(kind, stateful=True)

    def last_of_three():
        layer.reset_state()
        run = tf.function(lambda x: layer(x), autograph=False)
        for _ in range(3):
            output = run(tf.constant(sequences()))
        return [output.numpy(), *(state.numpy() for state in layer.states)]

    expected = last_of_three()
    with tf_private.short_sequences_without_loop():
        for ours, theirs in zip(last_of_three(), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_tape_and_a_gradient_of_the_gradient_go_through_the_ops(kind):
    layer = built(kind)
    x = tf.constant(sequences())

    def penalty():
        with tf.GradientTape() as outer, tf.GradientTape() as inner:
            inner.watch(x)
            outer.watch(x)
            loss = tf.reduce_sum(layer(x) ** 2)
            slope = inner.gradient(loss, x)
        return slope, outer.gradient(slope, x)

    def by_tf_gradients():
        [slope] = tf.gradients(tf.reduce_sum(layer(x) ** 2), x)
        return slope, tf.gradients(slope, x)[0]

    expected = tf.function(penalty, autograph=False)()
    with tf_private.short_sequences_without_loop():
        for way in (penalty, by_tf_gradients):
            for ours, theirs in zip(tf.function(way, autograph=False)(), expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", LAYERS)
def test_inputs_are_dropped_by_the_same_draw(kind):
    def trained():
        layer = built(kind, dropout=0.5, seed=4)
        return tf.function(lambda x: layer(x, training=True), autograph=False)(sequences())

    expected = trained()
    with tf_private.short_sequences_without_loop():
        np.testing.assert_allclose(trained(), expected, rtol=1e-5, atol=1e-6)


LEFT_ALONE = {
    "another activation": {"activation": "relu"},
    "another gate": {"recurrent_activation": "hard_sigmoid"},
    "dropped states": {"recurrent_dropout": 0.5},
    "gates apart": {"implementation": 1},
}


@pytest.mark.parametrize("kind, why", [("lstm", w) for w in LEFT_ALONE] + [("gru", "reset before")])
def test_what_is_not_known_keeps_its_loop(kind, why):
    layer = built(kind, **{**LEFT_ALONE, "reset before": {"reset_after": False}}[why])
    compare(layer, variables(layer), [sequences()], loops=True)


def test_long_sequences_and_those_of_unknown_length_keep_their_loop():
    layer = built("lstm")
    long = sequences(time=recurrent.LONGEST + 1)
    compare(layer, variables(layer), [long], loops=True)

    with tf_private.short_sequences_without_loop():
        run = tf.function(lambda x: layer(x), autograph=False)
        graph = run.get_concrete_function(tf.TensorSpec((None, None, FEATURES))).graph
    assert "While" in {op.type for op in graph.get_operations()}


def test_half_precision_computes_in_the_dtype_of_the_layer():
    layer = built("lstm", dtype="mixed_bfloat16")
    with tf_private.short_sequences_without_loop():
        run = tf.function(lambda x: layer(x), autograph=False)
        assert run(tf.constant(sequences())).dtype == tf.bfloat16


def test_keras_is_as_it_was_afterwards():
    before = [layer.inner_loop for layer in LAYERS.values()]
    with tf_private.short_sequences_without_loop():
        assert keras.layers.LSTM.inner_loop is not before[0]
    assert [layer.inner_loop for layer in LAYERS.values()] == before


@pytest.mark.parametrize("mask", ["none", "padded right", "gaps"])
@pytest.mark.parametrize("way", ["last output", "all", "backwards"])
@pytest.mark.parametrize("kind", LAYERS)
def test_keras_2_agrees_too(kind, way, mask):
    tf_keras = pytest.importorskip("tf_keras")
    tf_keras.utils.set_random_seed(3)
    layer = getattr(tf_keras.layers, kind.upper())(UNITS, **WAYS[way])
    layer.build((BATCH, TIME, FEATURES))
    mask = None if MASKS[mask] is None else tf.constant(MASKS[mask])
    x = sequences()

    def build(tensor):
        outputs = tf.nest.flatten(layer(tensor, mask=mask))
        loss = tf.add_n([tf.reduce_sum(tf.sin(out)) for out in outputs])
        return outputs + tf.gradients(loss, [tensor, *layer.trainable_variables])

    expected = tf.function(build, autograph=False)(tf.constant(x))
    with tf_private.short_sequences_without_loop():
        function = tf.function(build, autograph=False).get_concrete_function(tf.constant(x))
    names = [f.name for f in function.graph.as_graph_def().library.function]
    assert not [name for name in names if "while" in name]
    for ours, theirs in zip(function(tf.constant(x)), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
