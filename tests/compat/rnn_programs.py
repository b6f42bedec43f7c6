"""Small recurrent networks, run the same way on every implementation of the cells.

`data/make_rnn_oracle.py` runs them on `tf.compat.v1.nn.rnn_cell` of TensorFlow 2.15 and keeps the
records; the tests run them on ours and compare. All weights are fixed numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
nn = v1.nn
LENGTHS = [3, 5, 1, 4]


def basic_rnn(cells: Any, x: Any) -> Any:
    return nn.dynamic_rnn(cells.BasicRNNCell(3), x, dtype=tf.float32)


def basic_rnn_relu(cells: Any, x: Any) -> Any:
    return nn.dynamic_rnn(cells.BasicRNNCell(3, activation=tf.nn.relu), x, dtype=tf.float32)


def basic_lstm(cells: Any, x: Any) -> Any:
    return nn.dynamic_rnn(cells.BasicLSTMCell(3, forget_bias=0.5), x, dtype=tf.float32)


def basic_lstm_flat_state(cells: Any, x: Any) -> Any:
    return nn.dynamic_rnn(cells.BasicLSTMCell(3, state_is_tuple=False), x, dtype=tf.float32)


def lstm(cells: Any, x: Any) -> Any:
    return nn.dynamic_rnn(cells.LSTMCell(3), x, sequence_length=LENGTHS, dtype=tf.float32)


def lstm_with_everything(cells: Any, x: Any) -> Any:
    cell = cells.LSTMCell(
        4, use_peepholes=True, cell_clip=0.4, num_proj=2, proj_clip=0.3, forget_bias=2.0, name="me"
    )
    return nn.dynamic_rnn(cell, x, dtype=tf.float32, scope="encoder")


def gru(cells: Any, x: Any) -> Any:
    return nn.dynamic_rnn(cells.GRUCell(3), x, dtype=tf.float32)


def gru_called_by_hand(cells: Any, x: Any) -> Any:
    cell = cells.GRUCell(3)
    state = cell.zero_state(4, tf.float32)
    for step in range(2):
        output, state = cell(x[:, step], state)
    return output, state


def two_layers(cells: Any, x: Any) -> Any:
    cell = cells.MultiRNNCell([cells.LSTMCell(3), cells.GRUCell(2)])
    return nn.dynamic_rnn(cell, x, dtype=tf.float32)


def two_layers_flat_state(cells: Any, x: Any) -> Any:
    cell = cells.MultiRNNCell([cells.GRUCell(3), cells.GRUCell(2)], state_is_tuple=False)
    return nn.dynamic_rnn(cell, x, dtype=tf.float32)


def wrapped_layers(cells: Any, x: Any) -> Any:
    layers = [cells.DropoutWrapper(cells.LSTMCell(2), output_keep_prob=1.0) for _ in range(2)]
    cell = cells.ResidualWrapper(cells.MultiRNNCell(layers))
    return nn.dynamic_rnn(cell, x, dtype=tf.float32)


def dropout_on_the_device(cells: Any, x: Any) -> Any:
    cell = cells.DeviceWrapper(cells.DropoutWrapper(cells.GRUCell(3), 1.0, 1.0), "/cpu:0")
    return nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32)


def both_directions(cells: Any, x: Any) -> Any:
    return nn.bidirectional_dynamic_rnn(
        cells.GRUCell(3), cells.LSTMCell(2), x, sequence_length=LENGTHS, dtype=tf.float32
    )


def statically(cells: Any, x: Any) -> Any:
    return nn.static_rnn(cells.BasicLSTMCell(3), tf.unstack(x, axis=1), dtype=tf.float32)


def both_directions_statically(cells: Any, x: Any) -> Any:
    return nn.static_bidirectional_rnn(
        cells.BasicLSTMCell(3), cells.BasicLSTMCell(3), tf.unstack(x, axis=1), dtype=tf.float32
    )


def reused(cells: Any, x: Any) -> Any:
    results = []
    for reuse in (None, True):
        with v1.variable_scope("tower", reuse=reuse):
            results.append(nn.dynamic_rnn(cells.LSTMCell(3), x, dtype=tf.float32))
    return results


def one_cell_used_twice(cells: Any, x: Any) -> Any:
    cell = cells.GRUCell(2)
    first, _ = nn.dynamic_rnn(cell, x, dtype=tf.float32)
    second, _ = nn.dynamic_rnn(cell, first, dtype=tf.float32)
    return second


def two_rnns_in_a_row(cells: Any, x: Any) -> Any:
    first, _ = nn.dynamic_rnn(cells.GRUCell(2), x, dtype=tf.float32)
    with v1.variable_scope("second"):
        return nn.dynamic_rnn(cells.GRUCell(2), first, dtype=tf.float32)


def seeded_dropout(cells: Any, x: Any) -> Any:
    cell = cells.DropoutWrapper(cells.LSTMCell(3), 0.5, 0.6, 0.7, seed=5)
    return cell(x[:, 0], cell.zero_state(4, tf.float32))


def seeded_variational_dropout(cells: Any, x: Any) -> Any:
    cell = cells.DropoutWrapper(
        cells.LSTMCell(3), 0.5, 0.6, 0.7, True, input_size=2, dtype=tf.float32, seed=5
    )
    return nn.dynamic_rnn(cell, x, dtype=tf.float32)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    function.__name__: function
    for function in (
        basic_rnn,
        basic_rnn_relu,
        basic_lstm,
        basic_lstm_flat_state,
        lstm,
        lstm_with_everything,
        gru,
        gru_called_by_hand,
        two_layers,
        two_layers_flat_state,
        wrapped_layers,
        dropout_on_the_device,
        both_directions,
        statically,
        both_directions_statically,
        reused,
        one_cell_used_twice,
        two_rnns_in_a_row,
        seeded_dropout,
        seeded_variational_dropout,
    )
}


def run(cells: Any, program: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Variables, initial biases, outputs and gradients of a program."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(7)
        x = tf.constant(np.sin(np.arange(40, dtype=np.float32)).reshape(4, 5, 2))
        outputs = tf.nest.flatten(program(cells, x))
        variables = v1.global_variables()
        total = tf.add_n([tf.reduce_sum(tf.sin(output)) for output in outputs])
        gradients = tf.gradients(total, variables)
        session.run(v1.global_variables_initializer())
        biases = {v.op.name: session.run(v).tolist() for v in variables if "bias" in v.op.name}
        for variable in variables:
            count = variable.shape.num_elements()
            numbers = np.cos(np.arange(count) + len(variable.op.name)).reshape(variable.shape)
            variable.load(numbers.astype(np.float32), session)
        values = session.run(outputs)
        return {
            "variables": [[v.op.name, v.shape.as_list()] for v in variables],
            "trainable": [v.op.name for v in v1.trainable_variables()],
            "biases": biases,
            "values": [_rounded(value) for value in values],
            "gradients": [_rounded(value) for value in session.run(gradients)],
        }


def _rounded(value: Any) -> Any:
    return np.round(np.asarray(value, np.float64), 6).tolist()
