"""Programs of Keras 3: layers, models, optimizers and metrics."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tests.differential.zoo.registry import (
    BATCH,
    CLASSES,
    IDS,
    WIDTH,
    cross_entropy,
    images,
    program,
    ragged,
    sequences,
    sparse,
    trained,
)  # fmt: skip

Features = dict[str, tf.Tensor]


def network(x: tf.Tensor, *between: Any) -> tf.Tensor:
    """Two dense layers, with others in between."""
    x = keras.layers.Dense(5, activation="relu")(x)
    for layer in between:
        x = layer(x, training=True)
    return keras.layers.Dense(CLASSES)(x)


@program("keras")
def keras_sgd(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, network(features["x"]))
    return trained(loss, keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True))


@program("keras")
def keras_adam(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, network(features["x"]))
    return trained(loss, keras.optimizers.Adam(0.01, amsgrad=True))


@program("keras")
def keras_adamw_with_averages(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, network(features["x"]))
    optimizer = keras.optimizers.AdamW(
        0.01, weight_decay=0.01, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=4
    )
    return trained(loss, optimizer)


@program("keras")
def keras_accumulates_gradients(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, network(features["x"]))
    return trained(loss, keras.optimizers.Adam(0.01, gradient_accumulation_steps=3))


@program("keras")
def keras_clips(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, network(features["x"]))
    return trained(loss, keras.optimizers.RMSprop(0.01, global_clipnorm=0.3))


@program("keras")
def keras_schedule(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, network(features["x"]))
    rate = keras.optimizers.schedules.CosineDecay(0.01, 8, warmup_target=0.1, warmup_steps=3)
    return trained(loss, keras.optimizers.Nadam(rate))


@program("keras", tolerance=20)
def keras_lion(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """Takes signs: what differs in the last bit may differ by the whole rate."""
    loss = cross_entropy(labels, network(features["x"]))
    return trained(loss, keras.optimizers.Lion(1e-4))


@program("keras")
def keras_ftrl(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, network(features["x"]))
    return trained(loss, keras.optimizers.Ftrl(0.05, l2_regularization_strength=0.01))


@program("keras")
def keras_batch_normalization(features: Features, labels: tf.Tensor, mode: str) -> Any:
    normalizes = keras.layers.BatchNormalization(momentum=0.8)
    return trained(cross_entropy(labels, network(features["x"], normalizes)))


@program("keras", random=True)
def keras_dropout_and_noise(features: Features, labels: tf.Tensor, mode: str) -> Any:
    noise = [keras.layers.Dropout(0.3, seed=1), keras.layers.GaussianNoise(0.1, seed=2)]
    loss = cross_entropy(labels, network(features["x"], *noise))
    return trained(loss, keras.optimizers.Adam(0.01))


@program("keras", images, tolerance=4)
def keras_convolutions(features: Features, labels: tf.Tensor, mode: str) -> Any:
    net = keras.Sequential(
        [
            keras.layers.Conv2D(4, 3, padding="same", activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.MaxPooling2D(),
            keras.layers.SeparableConv2D(4, 3, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(CLASSES),
        ]
    )
    loss = cross_entropy(labels, net(features["image"], training=True))
    return trained(loss, keras.optimizers.SGD(0.05))


@program("keras", sequences, tolerance=4)
def keras_lstm(features: Features, labels: tf.Tensor, mode: str) -> Any:
    mask = tf.sequence_mask(features["length"], 5)
    x = keras.layers.LSTM(3)(features["x"], mask=mask)
    loss = cross_entropy(labels, keras.layers.Dense(CLASSES)(x))
    return trained(loss, keras.optimizers.Adam(0.01))


@program("keras", sequences, tolerance=4)
def keras_bidirectional_gru(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x = keras.layers.Bidirectional(keras.layers.GRU(3, unroll=True))(features["x"])
    return trained(cross_entropy(labels, keras.layers.Dense(CLASSES)(x)))


@program("keras", sequences, tolerance=4)
def keras_attention(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x = features["x"]
    x = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(2, 2)(x, x))
    x = keras.layers.GlobalAveragePooling1D()(x)
    loss = cross_entropy(labels, keras.layers.Dense(CLASSES)(x))
    return trained(loss, keras.optimizers.Adam(0.01))


@program("keras")
def keras_embedding(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x = keras.layers.Embedding(IDS, 4)(features["id"])
    loss = cross_entropy(labels, keras.layers.Dense(CLASSES)(x))
    return trained(loss, keras.optimizers.Adagrad(0.1))


@program("keras", ragged)
def keras_ragged_embedding(features: dict[str, Any], labels: tf.Tensor, mode: str) -> Any:
    ids = features["ids"]
    x = keras.layers.Embedding(IDS, CLASSES)(ids.to_tensor(shape=[BATCH, 4]))
    weights = tf.sequence_mask(ids.row_lengths(), 4, tf.float32)[:, :, None]
    return cross_entropy(labels, tf.reduce_sum(x * weights, axis=1))


@program("keras", sparse)
def keras_sparse_input(features: dict[str, Any], labels: tf.Tensor, mode: str) -> Any:
    kernel = keras.Variable(tf.ones([WIDTH, CLASSES]) * 0.1, name="kernel")
    x = tf.sparse.sparse_dense_matmul(features["x"], kernel.value)
    return trained(
        cross_entropy(labels, x),
        keras.optimizers.Adam(0.01),
    )


@program("keras", tolerance=100)
def keras_mixed_precision(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """Halves have 11 bits: the order of a sum shows in the third digit."""
    x = keras.layers.Dense(5, activation="relu", dtype="mixed_float16")(features["x"])
    loss = cross_entropy(
        labels, tf.cast(keras.layers.Dense(CLASSES, dtype="mixed_float16")(x), tf.float32)
    )
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.05), initial_scale=64.0, dynamic_growth_steps=4
    )
    return trained(loss, optimizer)


@program("keras", tolerance=400)
def keras_bfloat16(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """Eight bits."""
    x = keras.layers.Dense(5, activation="relu", dtype="mixed_bfloat16")(features["x"])
    logits = keras.layers.Dense(CLASSES, dtype="float32")(x)
    return trained(cross_entropy(labels, logits), keras.optimizers.SGD(0.05))


@program("keras")
def keras_model_with_losses(features: Features, labels: tf.Tensor, mode: str) -> Any:
    inputs = keras.Input([WIDTH])
    x = keras.layers.Dense(5, "gelu", kernel_regularizer="l2", activity_regularizer="l1")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(CLASSES)(x))
    loss = cross_entropy(labels, model(features["x"], training=True)) + tf.add_n(model.losses)
    return trained(loss, keras.optimizers.Adam(0.01))


@program("keras")
def keras_metric_in_training(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """Its counts are run with the step, and are no part of what is trained."""
    logits = network(features["x"])
    accuracy = keras.metrics.SparseCategoricalAccuracy()
    accuracy.update_state(labels, logits)
    tf.compat.v1.summary.scalar("accuracy", accuracy.result())
    return trained(cross_entropy(labels, logits), eval_metric_ops={"accuracy": accuracy})


class Counting(keras.layers.Layer):
    """State of its own, and a branch on it."""

    def build(self, shape: Any) -> None:
        self.calls = self.add_weight(name="calls", shape=(), initializer="zeros", trainable=False)
        self.scale = self.add_weight(name="scale", shape=(shape[-1],), initializer="ones")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        self.calls.assign_add(1.0)
        even = tf.equal(tf.math.floormod(self.calls.value, 2.0), 0.0)
        return tf.cond(even, lambda: x * self.scale.value, lambda: x + self.scale.value)


@program("keras")
def keras_layer_with_state(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x = Counting()(features["x"])
    return trained(cross_entropy(labels, keras.layers.Dense(CLASSES)(x)))
