"""Steps per second of the convolutional network of the old MNIST tutorial, batch 100."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
from environments import PROJECT, TORCH, UPSTREAM
from turns import Turns
from workload import Contestant, Target, Workload

from workloads import dnn

_BATCH = 100
_EXAMPLES = 10_000
_LEARNING_RATE = 0.01
_MEASURED_SECONDS = 1.2  # a step takes some 50 ms


def _examples() -> tuple[np.ndarray, np.ndarray]:
    """Noisy pictures of ten patterns."""
    random = np.random.default_rng(0)
    patterns = random.random((10, 28, 28, 1), dtype=np.float32)
    labels = random.integers(0, 10, _EXAMPLES)
    noise = random.random((_EXAMPLES, 28, 28, 1), dtype=np.float32)
    return patterns[labels] * 0.6 + noise * 0.4, labels.astype(np.int64)


def _dataset(tf: Any, *, named: bool = True) -> Any:
    images, labels = _examples()
    data = tf.data.Dataset.from_tensor_slices(({"x": images} if named else images, labels))
    data = data.shuffle(_EXAMPLES).repeat().batch(_BATCH, drop_remainder=True)
    return data.prefetch(tf.data.AUTOTUNE)


def _model_fn(tf: Any, layers: Any, estimator_api: Any) -> Any:
    v1 = tf.compat.v1

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        net = tf.reshape(features["x"], [-1, 28, 28, 1])
        for filters in (32, 64):
            net = layers.conv2d(
                inputs=net,
                filters=filters,
                kernel_size=[5, 5],
                padding="same",
                activation=tf.nn.relu,
            )
            net = layers.max_pooling2d(inputs=net, pool_size=[2, 2], strides=2)
        net = tf.reshape(net, [-1, 7 * 7 * 64])
        net = layers.dense(inputs=net, units=1024, activation=tf.nn.relu)
        net = layers.dropout(inputs=net, rate=0.4, training=mode == "train")
        logits = layers.dense(inputs=net, units=10)
        tf.nn.softmax(logits, name="softmax_tensor")
        loss = v1.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
        optimizer = v1.train.GradientDescentOptimizer(_LEARNING_RATE)
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
        return estimator_api.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def estimand(turns: Turns) -> None:
    import tensorflow as tf

    import estimand as est
    from estimand.compat.v1 import layers

    turns.measured_seconds = _MEASURED_SECONDS
    estimator = est.Estimator(_model_fn(tf, layers, est), model_dir=tempfile.mkdtemp())
    estimator.train(lambda: _dataset(tf), hooks=[dnn.estimand_counter(turns, 5)])


def upstream(turns: Turns) -> None:
    import tensorflow as tf

    turns.measured_seconds = _MEASURED_SECONDS
    model_fn = _model_fn(tf, tf.compat.v1.layers, tf.estimator)
    estimator = tf.estimator.Estimator(model_fn, model_dir=tempfile.mkdtemp())
    estimator.train(lambda: _dataset(tf), hooks=[dnn.upstream_counter(turns)])


def keras_fit(turns: Turns) -> None:
    import keras
    import tensorflow as tf

    turns.measured_seconds = _MEASURED_SECONDS
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(32, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(1024, activation="relu"),
            layers.Dropout(0.4),
            layers.Dense(10),
        ]
    )
    losses = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # On CPU, Keras' own choice is not to compile with XLA, which is slower for convolutions.
    model.compile(keras.optimizers.SGD(_LEARNING_RATE), losses)
    data = _dataset(tf, named=False)
    model.fit(data, steps_per_epoch=10**9, verbose=0, callbacks=[dnn.keras_counter(turns)])


def torch_loop(turns: Turns) -> None:
    import torch

    turns.measured_seconds = _MEASURED_SECONDS
    torch.set_num_threads(2)
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Dropout(0.4), nn.Linear(1024, 10),
    )  # fmt: skip
    images, labels = (torch.from_numpy(a) for a in _examples())
    images = images.permute(0, 3, 1, 2).contiguous()
    optimizer, losses = torch.optim.SGD(model.parameters(), _LEARNING_RATE), nn.CrossEntropyLoss()
    while True:
        chosen = torch.randint(0, _EXAMPLES, (_BATCH,))
        optimizer.zero_grad(set_to_none=True)
        losses(model(images[chosen]), labels[chosen]).backward()
        optimizer.step()
        turns.tick()


# TensorFlow leaves the faster kernels of oneDNN out on processors without AVX-512, unless told so
# for the whole process. Estimand asks for them in the step, where they turn out to be faster.
_ONEDNN = {"TF_ENABLE_ONEDNN_OPTS": "1"}
_OTHERS = ["Keras fit", "PyTorch loop, 2 threads"]

WORKLOAD = Workload(
    title="Steps per second: convolutional network, batch 100",
    contestants=[
        Contestant("Estimand", PROJECT, estimand),
        Contestant("Estimand, oneDNN on", PROJECT, estimand, _ONEDNN, in_quick=False),
        Contestant("tf.estimator", UPSTREAM, upstream),
        Contestant("tf.estimator, oneDNN on", UPSTREAM, upstream, _ONEDNN, in_quick=False),
        Contestant("Keras fit", PROJECT, keras_fit),
        Contestant("PyTorch loop, 2 threads", TORCH, torch_loop),
    ],
    baseline=["tf.estimator"],
    targets=[
        Target("Estimand", ["tf.estimator"], at_least=1.2),
        Target("Estimand", _OTHERS, at_least=1),
        Target("Estimand, oneDNN on", ["tf.estimator, oneDNN on", *_OTHERS], at_least=1),
    ],
    rounds=15,
    quick_rounds=2,
)
