"""Cells around cells of `tf.contrib.rnn`."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from estimand.compat.v1 import contrib

v1 = tf.compat.v1


def test_a_projection_behind_a_cell_has_its_variables_in_its_own_scope() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        cell = contrib.rnn.OutputProjectionWrapper(contrib.rnn.GRUCell(3), 5)
        outputs, state = v1.nn.dynamic_rnn(cell, tf.ones([2, 4, 1]), dtype=tf.float32)
        session.run(v1.global_variables_initializer())
        shapes = {v.op.name: v.shape.as_list() for v in v1.global_variables()}
        assert session.run([outputs, state])[0].shape == (2, 4, 5)
    assert shapes["rnn/output_projection_wrapper/kernel"] == [3, 5]
    assert shapes["rnn/output_projection_wrapper/gru_cell/candidate/kernel"] == [4, 3]


def test_reading_backwards_is_reading_the_reversed_sequences() -> None:
    x = np.random.RandomState(0).normal(size=(4, 2, 3)).astype("float32")  # time first
    backwards = x.copy()
    backwards[:3, 0], backwards[:, 1] = x[2::-1, 0], x[::-1, 1]
    lengths = [3, 4]
    with tf.Graph().as_default(), v1.Session() as session:
        cell = contrib.rnn.LSTMBlockFusedCell(2)
        plain, state = cell(backwards, dtype=tf.float32, sequence_length=lengths)
        turned, turned_state = contrib.rnn.TimeReversedFusedRNN(cell)(
            x, dtype=tf.float32, sequence_length=lengths
        )
        session.run(v1.global_variables_initializer())
        plain, turned, h, turned_h = session.run([plain, turned, state.h, turned_state.h])
    np.testing.assert_allclose(turned_h, h, rtol=1e-6)
    np.testing.assert_allclose(turned[:3, 0], plain[2::-1, 0], rtol=1e-6)
    np.testing.assert_allclose(turned[:, 1], plain[::-1, 1], rtol=1e-6)
