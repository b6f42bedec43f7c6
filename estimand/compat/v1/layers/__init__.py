"""Layers with the names, arguments, variables and operations of `tf.compat.v1.layers`.

Keras 3 removed them; model functions written for TensorFlow 1 only need another import:

>>> import tensorflow as tf
>>> from estimand.compat.v1 import layers
>>> with tf.Graph().as_default():
...     hidden = layers.dense(tf.ones([4, 3]), 64, activation=tf.nn.relu)
...     logits = layers.dense(hidden, 10, name="logits")
...     [variable.name for variable in tf.compat.v1.trainable_variables()]
['dense/kernel:0', 'dense/bias:0', 'logits/kernel:0', 'logits/bias:0']

With `channels_first` on a machine without a GPU, convolutions and pools run between two
transpositions: `conv2d/Conv2D:0` is then channels_last, the layer's output is not.
"""

from estimand.compat.v1.layers.base import Layer
from estimand.compat.v1.layers.conv_functions import (
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
    separable_conv1d,
    separable_conv2d,
)
from estimand.compat.v1.layers.conv_transpose import Conv2DTranspose, Conv3DTranspose
from estimand.compat.v1.layers.convolutional import Conv1D, Conv2D, Conv3D
from estimand.compat.v1.layers.core import Dense, Dropout, Flatten, dense, dropout, flatten
from estimand.compat.v1.layers.errors import LayerError, LayerTypeError
from estimand.compat.v1.layers.input_spec import InputSpec
from estimand.compat.v1.layers.normalization import BatchNormalization, batch_normalization
from estimand.compat.v1.layers.pooling import (
    AveragePooling1D,
    AveragePooling2D,
    AveragePooling3D,
    MaxPooling1D,
    MaxPooling2D,
    MaxPooling3D,
    average_pooling1d,
    average_pooling2d,
    average_pooling3d,
    max_pooling1d,
    max_pooling2d,
    max_pooling3d,
)
from estimand.compat.v1.layers.separable import SeparableConv1D, SeparableConv2D

__all__ = [
    "AveragePooling1D",
    "AveragePooling2D",
    "AveragePooling3D",
    "BatchNormalization",
    "Conv1D",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "Dense",
    "Dropout",
    "Flatten",
    "InputSpec",
    "Layer",
    "LayerError",
    "LayerTypeError",
    "MaxPooling1D",
    "MaxPooling2D",
    "MaxPooling3D",
    "SeparableConv1D",
    "SeparableConv2D",
    "average_pooling1d",
    "average_pooling2d",
    "average_pooling3d",
    "batch_normalization",
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "dense",
    "dropout",
    "flatten",
    "max_pooling1d",
    "max_pooling2d",
    "max_pooling3d",
    "separable_conv1d",
    "separable_conv2d",
]
