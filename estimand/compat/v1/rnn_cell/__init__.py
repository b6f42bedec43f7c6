"""`tf.compat.v1.nn.rnn_cell`, which Keras 3 removed: cells with the variable names of old.

They go with what TensorFlow still has: `tf.compat.v1.nn.dynamic_rnn` and its kin.

>>> import tensorflow as tf
>>> from estimand.compat.v1 import rnn_cell
>>> with tf.Graph().as_default():
...     x = tf.ones([4, 7, 3])
...     outputs, state = tf.compat.v1.nn.dynamic_rnn(rnn_cell.LSTMCell(5), x, dtype=tf.float32)
...     [variable.name for variable in tf.compat.v1.trainable_variables()]
['rnn/lstm_cell/kernel:0', 'rnn/lstm_cell/bias:0']
"""

from __future__ import annotations

from estimand.compat.v1.rnn_cell.base import RNNCell
from estimand.compat.v1.rnn_cell.lstm import BasicLSTMCell, LSTMCell, LSTMStateTuple
from estimand.compat.v1.rnn_cell.multi import MultiRNNCell
from estimand.compat.v1.rnn_cell.simple import BasicRNNCell, GRUCell
from estimand.compat.v1.rnn_cell.wrappers import DeviceWrapper, DropoutWrapper, ResidualWrapper

__all__ = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "GRUCell",
    "LSTMCell",
    "LSTMStateTuple",
    "MultiRNNCell",
    "RNNCell",
    "ResidualWrapper",
]
