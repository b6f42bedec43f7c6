"""Cells of contrib against their formulas in NumPy, with the names of their variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.compat.v1 import contrib, rnn_cell

v1 = tf.compat.v1
rnn = contrib.rnn
Arrays = dict[str, Any]
BATCH, TIME, DEPTH, UNITS = 3, 4, 5, 6


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def inputs(*shape: int) -> Any:
    return np.random.RandomState(0).normal(size=shape or (BATCH, TIME, DEPTH)).astype(np.float32)


def run(build: Callable[[], Any]) -> tuple[Any, Arrays]:
    """What a graph gives, with random variables, and those by the end of their name."""
    with tf.Graph().as_default(), v1.Session() as session:
        made = build()
        session.run(v1.global_variables_initializer())
        random = np.random.RandomState(1)
        for variable in v1.trainable_variables():
            variable.load(random.normal(scale=0.5, size=variable.shape.as_list()), session)
        names = {v.op.name.removeprefix("rnn/"): v for v in v1.global_variables()}
        return session.run([made, names])


def dynamic(cell: Any, x: Any) -> Any:
    return v1.nn.dynamic_rnn(cell, tf.constant(x), dtype=tf.float32)


def stepped(step: Callable[..., Any], x: Any, *state: Any) -> tuple[Any, Any]:
    """The outputs of all steps, and the last state."""
    outputs = []
    for time in range(x.shape[1]):
        output, *state = step(x[:, time], *state)  # type: ignore[assignment]
        outputs.append(output)
    return np.stack(outputs, 1), state


def zeros(size: int = UNITS) -> Any:
    return np.zeros((BATCH, size))


def beside(*parts: Any) -> Any:
    return np.concatenate(parts, 1)


def same(one: Any, other: Any) -> None:
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer_norm", [True, False])
def test_layer_norm_basic_lstm(layer_norm: bool) -> None:
    x = inputs()
    (outputs, state), v = run(
        lambda: dynamic(rnn.LayerNormBasicLSTMCell(UNITS, layer_norm=layer_norm), x)
    )
    v = {name.removeprefix("layer_norm_basic_lstm_cell/"): value for name, value in v.items()}
    parts = ("input", "transform", "forget", "output")
    norms = {f"{p}/{n}" for p in (*parts, "state") for n in ("gamma", "beta")}
    assert set(v) == {"kernel"} | (norms if layer_norm else {"bias"})

    def norm(value: Any, part: str) -> Any:
        if not layer_norm:
            return value
        normal = (value - value.mean(1, keepdims=True)) / value.std(1, keepdims=True)
        return normal * v[f"{part}/gamma"] + v[f"{part}/beta"]

    def step(x: Any, c: Any, h: Any) -> Any:
        sums = beside(x, h) @ v["kernel"] + v.get("bias", 0)
        i, j, f, o = (norm(s, p) for s, p in zip(np.split(sums, 4, 1), parts, strict=True))
        c = norm(c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j), "state")
        h = np.tanh(c) * sigmoid(o)
        return h, c, h

    expected, (c, h) = stepped(step, x, zeros(), zeros())
    same(outputs, expected)
    same(state.c, c)
    same(state.h, h)


def test_layer_norm_lstm_drops_when_training() -> None:
    cell = rnn.LayerNormBasicLSTMCell(UNITS, dropout_keep_prob=tf.constant(0.5))
    (outputs, _), _ = run(
        lambda: dynamic(rnn.LayerNormBasicLSTMCell(UNITS, dropout_keep_prob=0.5), inputs())
    )
    assert np.isfinite(outputs).all()
    assert cell.state_size == rnn_cell.LSTMStateTuple(UNITS, UNITS)


def test_layer_norm_lstm_in_a_stack_of_cells() -> None:
    cells = [rnn.LayerNormBasicLSTMCell(UNITS) for _ in range(2)]
    _, v = run(lambda: dynamic(rnn.MultiRNNCell(cells), inputs()))
    assert "multi_rnn_cell/cell_1/layer_norm_basic_lstm_cell/kernel" in v


@pytest.mark.parametrize("layer_norm", [True, False])
def test_coupled_gates(layer_norm: bool) -> None:
    x = inputs()
    (outputs, _), v = run(
        lambda: dynamic(
            rnn.CoupledInputForgetGateLSTMCell(
                UNITS, use_peepholes=True, num_proj=2, num_unit_shards=2, layer_norm=layer_norm
            ),
            x,
        )
    )
    v = {name.partition("/")[2]: value for name, value in v.items()}

    def norm(value: Any, part: str) -> Any:
        if not layer_norm:
            return value
        normal = (value - value.mean(1, keepdims=True)) / value.std(1, keepdims=True)
        return normal * v[f"{part}/gamma"] + v[f"{part}/beta"]

    def step(x: Any, c: Any, h: Any) -> Any:
        kernel = np.concatenate([v["W_0"], v["W_1"]])
        sums = beside(x, h) @ kernel + (0 if layer_norm else v["B"])
        j, f, o = np.split(sums, 3, 1)
        j, f, o = norm(j, "transform"), norm(f, "forget"), norm(o, "output")
        keep = sigmoid(f + 1 + v["W_F_diag"] * c)
        c = norm(keep * c + (1 - keep) * np.tanh(j), "state")
        h = (sigmoid(o + v["W_O_diag"] * c) * np.tanh(c)) @ v["W_P_0"]
        return h, c, h

    same(outputs, stepped(step, x, zeros(), zeros(2))[0])


def test_nas_cell() -> None:
    x = inputs()
    (outputs, _), v = run(lambda: dynamic(rnn.NASCell(UNITS, use_biases=True), x))

    def step(x: Any, c: Any, h: Any) -> Any:
        m = np.split(h @ v["nas_cell/recurrent_kernel"] + v["nas_cell/bias"], 8, 1)
        x = np.split(x @ v["nas_cell/kernel"], 8, 1)
        relu = lambda y: np.maximum(y, 0)  # noqa: E731
        one = [sigmoid(x[0] + m[0]), relu(x[1] + m[1]), sigmoid(x[2] + m[2]), relu(x[3] * m[3]),
               np.tanh(x[4] + m[4]), sigmoid(x[5] + m[5]), np.tanh(x[6] + m[6]),
               sigmoid(x[7] + m[7])]  # fmt: skip
        c = np.tanh(np.tanh(one[0] * one[1]) + c) * np.tanh(one[2] + one[3])
        h = np.tanh(c * np.tanh(np.tanh(one[4] * one[5]) + sigmoid(one[6] + one[7])))
        return h, c, h

    same(outputs, stepped(step, x, zeros(), zeros())[0])


def test_cells_with_one_gate() -> None:
    x = inputs()
    (outputs, _), v = run(lambda: dynamic(rnn.UGRNNCell(UNITS), x))

    def ugrnn(x: Any, h: Any) -> Any:
        g, c = np.split(beside(x, h) @ v["ugrnn_cell/kernel"] + v["ugrnn_cell/bias"], 2, 1)
        h = sigmoid(g + 1) * h + (1 - sigmoid(g + 1)) * np.tanh(c)
        return h, h

    same(outputs, stepped(ugrnn, x, zeros())[0])
    (outputs, _), w = run(lambda: dynamic(rnn.IntersectionRNNCell(UNITS, UNITS), x))
    w = {name.removeprefix("intersection_rnn_cell/"): value for name, value in w.items()}

    def intersection(x: Any, h: Any) -> Any:
        x = x @ w["in_projection/kernel"] + w["in_projection/bias"]
        gh, j, gy, y = np.split(beside(x, h) @ w["kernel"] + w["bias"], 4, 1)
        gh, gy = sigmoid(gh + 1), sigmoid(gy + 1)
        return gy * x + (1 - gy) * np.maximum(y, 0), gh * h + (1 - gh) * np.tanh(j)

    same(outputs, stepped(intersection, x, zeros())[0])
    with pytest.raises(ValueError, match="num_in_proj should be set to num_units"):
        run(lambda: dynamic(rnn.IntersectionRNNCell(UNITS), x))


def test_cells_whose_units_see_themselves() -> None:
    x = inputs()
    (outputs, _), v = run(lambda: dynamic(rnn.IndRNNCell(UNITS, activation=tf.nn.relu), x))
    w, u, b = (v[f"ind_rnn_cell/{name}"] for name in ("kernel_w", "kernel_u", "bias"))
    ind = lambda x, h: (np.maximum(x @ w + h * u + b, 0),) * 2  # noqa: E731
    same(outputs, stepped(ind, x, zeros())[0])

    (outputs, _), g = run(lambda: dynamic(rnn.IndyGRUCell(UNITS), x))
    g = {name.removeprefix("indy_gru_cell/"): value for name, value in g.items()}

    def indy_gru(x: Any, h: Any) -> Any:
        sums = x @ g["gates/kernel_w"] + beside(h, h) * g["gates/kernel_u"] + g["gates/bias"]
        r, z = np.split(sigmoid(sums), 2, 1)
        c = x @ g["candidate/kernel_w"] + r * h * g["candidate/kernel_u"] + g["candidate/bias"]
        h = z * h + (1 - z) * np.tanh(c)
        return h, h

    same(outputs, stepped(indy_gru, x, zeros())[0])

    (outputs, _), s = run(lambda: dynamic(rnn.IndyLSTMCell(UNITS), x))
    s = {name.removeprefix("indy_lstm_cell/"): value for name, value in s.items()}

    def indy_lstm(x: Any, c: Any, h: Any) -> Any:
        sums = x @ s["kernel_w"] + beside(h, h, h, h) * s["kernel_u"] + s["bias"]
        i, j, f, o = np.split(sums, 4, 1)
        c = c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j)
        h = np.tanh(c) * sigmoid(o)
        return h, c, h

    same(outputs, stepped(indy_lstm, x, zeros(), zeros())[0])


def test_simple_recurrent_unit() -> None:
    x = inputs()
    (outputs, state), v = run(lambda: dynamic(rnn.SRUCell(UNITS), x))

    def step(x: Any, c: Any) -> Any:
        x_bar, f, r, passed = np.split(x @ v["sru_cell/kernel"], 4, 1)
        f, r = np.split(sigmoid(beside(f, r) + v["sru_cell/bias"]), 2, 1)
        c = f * c + (1 - f) * x_bar
        return r * np.tanh(c) + (1 - r) * passed, c

    expected, (c,) = stepped(step, x, zeros())
    same(outputs, expected)
    same(state, c)


@pytest.mark.parametrize("skip", [True, False])
def test_convolutional_lstm(skip: bool) -> None:
    x = inputs(BATCH, TIME, 5, 4, 2)
    cell = rnn.Conv2DLSTMCell(
        input_shape=[5, 4, 2], output_channels=3, kernel_shape=[3, 3], skip_connection=skip
    )
    (outputs, _), v = run(lambda: dynamic(cell, x))
    kernel, biases = v["conv_2d_lstm_cell/kernel"], v["conv_2d_lstm_cell/biases"]
    c = h = np.zeros((BATCH, 5, 4, 3), np.float32)
    for time in range(TIME):
        joined = np.concatenate([x[:, time], h], -1)
        sums = tf.nn.conv2d(joined, kernel, 1, "SAME").numpy() + biases
        i, j, f, o = np.split(sums, 4, -1)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
        h = np.tanh(c) * sigmoid(o)
        same(outputs[:, time], np.concatenate([h, x[:, time]], -1) if skip else h)


def test_gru_as_a_block_is_a_gru() -> None:
    x = inputs()
    (plain, _), v = run(lambda: dynamic(rnn.GRUCell(UNITS), x))
    (second, _), v2 = run(lambda: dynamic(rnn.GRUBlockCellV2(UNITS), x))
    (first, _), v1_names = run(lambda: dynamic(rnn.GRUBlockCell(cell_size=UNITS), x))
    assert list(v) == list(v2)
    assert list(v1_names) == [f"gru_cell/{name}" for name in ("w_ru", "b_ru", "w_c", "b_c")]
    same(plain, second)
    same(plain, first)


def test_lstm_as_a_block_learns_as_an_lstm() -> None:
    x = inputs()

    def outputs_and_gradients(cell: Any) -> Any:
        outputs, state = dynamic(cell, x)
        return outputs, state, tf.gradients(outputs, tf.compat.v1.trainable_variables())

    def both_ways() -> Any:
        plain = outputs_and_gradients(rnn.BasicLSTMCell(UNITS, name="lstm_cell"))
        with tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=True):
            block = outputs_and_gradients(rnn.LSTMBlockCell(UNITS))
        return plain, block

    (plain, block), v = run(both_ways)
    assert list(v) == ["lstm_cell/kernel", "lstm_cell/bias"]
    for one, other in zip(tf.nest.flatten(plain), tf.nest.flatten(block), strict=True):
        same(one, other)


def test_a_block_cell_is_used_in_two_loops() -> None:
    x = inputs()

    def twice() -> Any:
        cell = rnn.LSTMBlockCell(UNITS)
        return dynamic(cell, x)[0], dynamic(cell, x)[0]

    (first, second), _ = run(twice)
    same(first, second)


@pytest.mark.parametrize("coupled", [True, False])
def test_highway(coupled: bool) -> None:
    x = inputs(BATCH, TIME, UNITS)
    (outputs, _), v = run(lambda: dynamic(rnn.HighwayWrapper(rnn.BasicRNNCell(UNITS), coupled), x))

    def step(x: Any, h: Any) -> Any:
        h = np.tanh(beside(x, h) @ v["basic_rnn_cell/kernel"] + v["basic_rnn_cell/bias"])
        carry = sigmoid(x @ v["carry_w"] + v["carry_b"])
        transform = 1 - carry if coupled else sigmoid(x @ v["transform_w"] + v["transform_b"])
        return x * carry + h * transform, h

    same(outputs, stepped(step, x, zeros())[0])


@pytest.mark.parametrize("as_tuple", [True, False])
def test_attention_on_the_last_outputs(as_tuple: bool) -> None:
    x = inputs()
    cell = rnn.AttentionCellWrapper(rnn.GRUCell(UNITS), 2, state_is_tuple=as_tuple)
    (outputs, _), v = run(lambda: dynamic(cell, x))
    v = {name.removeprefix("attention_cell_wrapper/"): value for name, value in v.items()}
    g = {n.removeprefix("gru_cell/"): value for n, value in v.items()}

    def gru(x: Any, h: Any) -> Any:
        r, z = np.split(sigmoid(beside(x, h) @ g["gates/kernel"] + g["gates/bias"]), 2, 1)
        c = np.tanh(beside(x, r * h) @ g["candidate/kernel"] + g["candidate/bias"])
        return z * h + (1 - z) * c

    def step(x: Any, h: Any, seen: Any, window: Any) -> Any:
        h = gru(beside(x, seen) @ v["kernel"] + v["bias"], h)
        asked = h @ v["attention/kernel"] + v["attention/bias"]
        features = window @ v["attention/attn_w"][0, 0] + asked[:, None]
        scores = (v["attention/attn_v"] * np.tanh(features)).sum(2)
        share = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        seen = (share[:, :, None] * window).sum(1)
        output = beside(h, seen) @ v["attn_output_projection/kernel"]
        output = output + v["attn_output_projection/bias"]
        return output, h, seen, np.stack([window[:, 1], output], 1)

    window = np.zeros((BATCH, 2, UNITS))
    same(outputs, stepped(step, x, zeros(), zeros(), window)[0])


def test_ids_are_looked_up_before_a_cell() -> None:
    ids = np.array([[[1], [2]], [[0], [1]]])
    cell = rnn.EmbeddingWrapper(rnn.BasicRNNCell(UNITS), 3, DEPTH)
    (outputs, _), v = run(lambda: dynamic(cell, ids))
    v = {name.removeprefix("embedding_wrapper/"): value for name, value in v.items()}

    def step(x: Any, h: Any) -> Any:
        return (np.tanh(beside(x, h) @ v["basic_rnn_cell/kernel"] + v["basic_rnn_cell/bias"]),) * 2

    same(outputs, stepped(step, v["embedding"][ids[..., 0]], np.zeros((2, UNITS)))[0])


def test_linear_layer_of_cells() -> None:
    x, y = inputs(3, 2), inputs(3, 4)

    def build() -> Any:
        linear = contrib.rnn.python.ops.core_rnn_cell._linear
        with v1.variable_scope("a"):
            made = linear([tf.constant(x), tf.constant(y)], 5, True)
        return made, linear(tf.constant(x), 5, False, scope="b")

    (first, second), v = run(build)
    same(first, beside(x, y) @ v["a/kernel"] + v["a/bias"])
    same(second, x @ v["b/kernel"])


def test_static_and_dynamic_stacks_in_both_directions_agree() -> None:
    x = inputs()

    def build(static: bool) -> Any:
        forward, backward = ([rnn.GRUCell(UNITS) for _ in range(2)] for _ in range(2))
        if not static:
            return rnn.stack_bidirectional_dynamic_rnn(forward, backward, x, dtype=tf.float32)[0]
        steps = tf.unstack(tf.constant(x), axis=1)
        outputs, *_ = rnn.stack_bidirectional_rnn(forward, backward, steps, dtype=tf.float32)
        return tf.stack(outputs, 1)

    (one, names), (other, same_names) = run(lambda: build(False)), run(lambda: build(True))
    assert list(names) == list(same_names)
    same(one, other)


@pytest.mark.parametrize("use_dynamic_rnn", [True, False])
def test_a_cell_is_called_as_a_fused_one(use_dynamic_rnn: bool) -> None:
    x = inputs()
    time_major = x.transpose(1, 0, 2)
    (expected, _), _ = run(lambda: dynamic(rnn.GRUCell(UNITS), x))
    cell = rnn.FusedRNNCellAdaptor(rnn.GRUCell(UNITS), use_dynamic_rnn)
    (outputs, _), _ = run(lambda: cell(tf.constant(time_major), dtype=tf.float32))
    same(outputs, expected.transpose(1, 0, 2))
