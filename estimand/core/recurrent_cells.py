"""The arithmetic of recurrent cells between their matrix products, with gradients of few ops.

TensorFlow's own gradients of sums and products ask for the shapes of both sides, in a dozen ops for
each of them where the size of a batch is not known. These here are for sides of one shape. They are
tied to an op that hands on its inputs, and built where `tf.gradients` comes to it; whoever does not
ask for them (gradient tapes, a gradient of the gradient) goes on into the ops before it, which are
TensorFlow's.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

_LSTM, _GRU = GRADIENTS = "EstimandLSTMCell", "EstimandGRUCell"
_Gradients = list[tf.Tensor | None]
_sigmoid_grad, _tanh_grad = tf.raw_ops.SigmoidGrad, tf.raw_ops.TanhGrad


def lstm_cell(of_input: tf.Tensor, of_state: tf.Tensor, c: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """The new h and c, of both parts of the gates i, f, c, o and the last c."""
    i, f, new, o = tf.split(of_input + of_state, 4, axis=1)
    c_new = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(new)
    h_new = tf.sigmoid(o) * tf.tanh(c_new)
    return _with_gradient(_LSTM, [of_input, of_state, c], [h_new, c_new])


def gru_cell(of_input: tf.Tensor, of_state: tf.Tensor, h: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """The new h, of both parts of the gates z, r, h and the last h."""
    units = h.shape[1]
    x_gates, x_new = tf.split(of_input, [2 * units, units], axis=1)
    h_gates, h_new = tf.split(of_state, [2 * units, units], axis=1)
    gates = tf.sigmoid(x_gates + h_gates)
    z, r = tf.split(gates, 2, axis=1)
    new = tf.tanh(x_new + r * h_new)
    return _with_gradient(_GRU, [of_input, of_state, h], [new + z * (h - new)])


def _with_gradient(
    name: str, inputs: Sequence[tf.Tensor], results: Sequence[tf.Tensor]
) -> tuple[tf.Tensor, ...]:
    if tf.executing_eagerly():
        return tuple(results)
    with tf.compat.v1.get_default_graph().gradient_override_map({"IdentityN": name}):
        handed_on = tf.identity_n([*inputs, *results])
    return tuple(handed_on[len(inputs) :])


@tf.RegisterGradient(_LSTM)
def _lstm_gradient(op: tf.Operation, *gradients: tf.Tensor) -> _Gradients:
    *_, c, h_new, c_new = op.inputs
    *_, dh, dc = gradients
    o, tanh_c = h_new.op.inputs
    kept, added = c_new.op.inputs
    f, _ = kept.op.inputs
    i, new = added.op.inputs
    dc += _tanh_grad(y=tanh_c, dy=dh * o)
    of_gates = tf.concat(
        [
            _sigmoid_grad(y=i, dy=dc * new),
            _sigmoid_grad(y=f, dy=dc * c),
            _tanh_grad(y=new, dy=dc * i),
            _sigmoid_grad(y=o, dy=dh * tanh_c),
        ],
        axis=1,
    )
    return [of_gates, of_gates, dc * f, None, None]


@tf.RegisterGradient(_GRU)
def _gru_gradient(op: tf.Operation, *gradients: tf.Tensor) -> _Gradients:
    new, moved = op.inputs[-1].op.inputs
    z, way = moved.op.inputs
    r, h_new = new.op.inputs[0].op.inputs[1].op.inputs
    gates, dh = z.op.inputs[1], gradients[-1]
    of_last = dh * z
    of_new = _tanh_grad(y=new, dy=dh - of_last)
    of_gates = _sigmoid_grad(y=gates, dy=tf.concat([dh * way, of_new * h_new], axis=1))
    of_input = tf.concat([of_gates, of_new], axis=1)
    of_state = tf.concat([of_gates, of_new * r], axis=1)
    return [of_input, of_state, of_last, None]
