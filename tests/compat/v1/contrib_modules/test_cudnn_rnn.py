"""`tf.contrib.cudnn_rnn` without a GPU: shapes, names in checkpoints, and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.compat.v1 import contrib

v1 = tf.compat.v1
cudnn = contrib.cudnn_rnn
TIME, BATCH, DEPTH, UNITS = 5, 3, 4, 6
X = np.random.RandomState(0).normal(size=(TIME, BATCH, DEPTH)).astype(np.float32)


def run(build: Any) -> tuple[Any, dict[str, Any]]:
    with tf.Graph().as_default(), v1.Session() as session:
        made = build()
        session.run(v1.global_variables_initializer())
        random = np.random.RandomState(1)
        for variable in v1.trainable_variables():
            variable.load(random.normal(scale=0.5, size=variable.shape.as_list()), session)
        return session.run([made, {v.op.name: v for v in v1.global_variables()}])


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm(x: Any, kernel: Any, bias: Any, h: Any, c: Any) -> Any:
    outputs = []
    for one in x:
        i, j, f, o = np.split(np.concatenate([one, h], 1) @ kernel + bias, 4, 1)
        c = c * sigmoid(f) + sigmoid(i) * np.tanh(j)
        h = np.tanh(c) * sigmoid(o)
        outputs.append(h)
    return np.stack(outputs), h, c


def test_two_layers_of_lstm_from_a_state() -> None:
    start = np.random.RandomState(2).normal(size=(2, 2, BATCH, UNITS)).astype(np.float32)
    (outputs, (h, c)), v = run(
        lambda: cudnn.CudnnLSTM(2, UNITS)(X, initial_state=tuple(start), training=False)
    )
    prefix = "cudnn_lstm/rnn/multi_rnn_cell/cell_{}/cudnn_compatible_lstm_cell/{}"
    assert list(v) == [prefix.format(i, name) for i in range(2) for name in ("kernel", "bias")]
    x = X
    for i in range(2):
        weights = v[prefix.format(i, "kernel")], v[prefix.format(i, "bias")]
        x, last_h, last_c = lstm(x, *weights, start[0, i], start[1, i])
        np.testing.assert_allclose(h[i], last_h, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(c[i], last_c, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(outputs, x, rtol=1e-4, atol=1e-5)


def test_both_directions() -> None:
    (outputs, (h, c)), v = run(
        lambda: cudnn.CudnnLSTM(2, UNITS, direction="bidirectional")(X, training=False)
    )
    assert outputs.shape == (TIME, BATCH, 2 * UNITS)
    assert h.shape == c.shape == (4, BATCH, UNITS)
    name = "cudnn_lstm/stack_bidirectional_rnn/cell_{}/bidirectional_rnn/{}/{}"
    nothing = np.zeros((BATCH, UNITS))
    x = X
    for i in range(2):
        sides = []
        for place, side in enumerate(("fw", "bw")):
            kernel, bias = (
                v[name.format(i, side, f"cudnn_compatible_lstm_cell/{n}")]
                for n in ("kernel", "bias")
            )
            given = x if side == "fw" else x[::-1]
            made, last_h, _ = lstm(given, kernel, bias, nothing, nothing)
            sides.append(made if side == "fw" else made[::-1])
            np.testing.assert_allclose(h[2 * i + place], last_h, rtol=1e-4, atol=1e-5)
        x = np.concatenate(sides, 2)
    np.testing.assert_allclose(outputs, x, rtol=1e-4, atol=1e-5)


def test_gru() -> None:
    (outputs, (h,)), v = run(lambda: cudnn.CudnnGRU(1, UNITS)(X))
    v = {name.partition("cudnn_compatible_gru_cell/")[2]: value for name, value in v.items()}
    state = np.zeros((BATCH, UNITS))
    for time in range(TIME):
        x = X[time]
        sums = np.concatenate([x, state], 1) @ v["gates/kernel"] + v["gates/bias"]
        r, z = np.split(sigmoid(sums), 2, 1)
        given = x @ v["candidate/input_projection/kernel"] + v["candidate/input_projection/bias"]
        kept = state @ v["candidate/hidden_projection/kernel"]
        kept = kept + v["candidate/hidden_projection/bias"]
        state = (1 - z) * np.tanh(given + r * kept) + z * state
        np.testing.assert_allclose(outputs[time], state, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(h[0], state, rtol=1e-4, atol=1e-5)


def test_a_layer_is_called_twice_and_made_as_asked() -> None:
    def build() -> Any:
        layer = cudnn.CudnnLSTM(
            1, UNITS, kernel_initializer=v1.ones_initializer(), dropout=0.5, name="mine"
        )
        assert layer.state_shape(7) == ([1, 7, UNITS],) * 2
        made = layer(X)[0], layer(X.transpose(1, 0, 2), time_major=False)[0]
        assert len(layer.trainable_variables) == 2
        assert layer.trainable_variables[0].op.name.startswith("mine/rnn/multi_rnn_cell/cell_0")
        return made

    (one, other), _ = run(build)
    np.testing.assert_allclose(one, other.transpose(1, 0, 2), rtol=1e-5)
    with tf.Graph().as_default(), v1.Session() as session:
        build()
        session.run(v1.global_variables_initializer())
        kernel, bias = session.run(v1.trainable_variables())
    assert (kernel == 1).all()
    assert (bias == 0).all()


def test_other_directions_are_refused() -> None:
    with pytest.raises(ValueError, match="direction is 'backward', and can be unidirectional or"):
        cudnn.CudnnLSTM(1, UNITS, direction="backward")
