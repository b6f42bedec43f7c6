"""Keras models to convert, and what `fit` and the converted estimator make of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1
ROWS, BATCH = 48, 12


class LossesOfSteps(est.SessionRunHook):
    """Notes the loss of every step."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def begin(self) -> None:
        self._loss = v1.get_collection(v1.GraphKeys.LOSSES)[-1]

    def before_run(self, run_context: Any) -> Any:
        return est.SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.losses.append(float(run_values.results))


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def classes(count: int, rows: int = ROWS, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, count, rows)


def read(x: Any, y: Any = None, *, epochs: int | None = None, batch: int = BATCH) -> Any:
    """An input function of unshuffled batches."""
    data = tf.data.Dataset.from_tensor_slices(x if y is None else (x, y))
    return lambda: data.batch(batch).repeat(epochs)


def train(estimator: est.Estimator, input_fn: Callable[[], Any], steps: int) -> list[float]:
    hook = LossesOfSteps()
    estimator.train(input_fn, hooks=[hook], steps=steps)
    return hook.losses


def fit(model: Any, dataset: tf.data.Dataset, steps: int) -> list[float]:
    """An epoch of one batch each: what `fit` calls the loss is then that of the batch."""
    history = model.fit(dataset, steps_per_epoch=1, epochs=steps, verbose=0, shuffle=False)
    return history.history["loss"]


def convert(model: Any, directory: Path, **kwargs: Any) -> est.Estimator:
    return est.keras.model_to_estimator(model, model_dir=str(directory), **kwargs)


def small_model(**compiled: Any) -> Any:
    """Dense, batch normalization, dropout, dense."""
    keras.utils.set_random_seed(5)
    model = keras.Sequential(
        [
            keras.Input([4]),
            keras.layers.Dense(6, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.4),
            keras.layers.Dense(3),
        ]
    )
    settings = {
        "optimizer": keras.optimizers.Adam(0.02),
        "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "metrics": ["accuracy"],
    }
    model.compile(**{**settings, **compiled})
    return model


X, Y = numbers(ROWS, 4), classes(3)


# ------------------------------------------------------------------ kinds of models


@dataclass
class Case:
    make: Callable[[], Any]
    x: Any
    y: Any


class Scaled(keras.layers.Layer):
    """A custom layer with a variable, a loss of its own, and a mean that moves in training."""

    def build(self, input_shape: Any) -> None:
        self.scale = self.add_weight(shape=(input_shape[-1],), initializer="ones", name="scale")
        self.mean = self.add_weight(
            shape=(input_shape[-1],), initializer="zeros", trainable=False, name="mean"
        )

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            self.mean.assign(0.9 * self.mean + 0.1 * keras.ops.mean(inputs, axis=0))
        self.add_loss(0.01 * keras.ops.sum(keras.ops.square(self.scale)))
        return (inputs - self.mean) * self.scale


class Subclassed(keras.Model):
    """Layers as attributes, one of them used twice; built when it is first called."""

    def __init__(self) -> None:
        super().__init__()
        self.first = keras.layers.Dense(4, activation="tanh", kernel_regularizer="l2")
        self.drop = keras.layers.Dropout(0.3)
        self.last = keras.layers.Dense(1)

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.last(self.drop(self.first(self.first(inputs)), training=training))


def subclassed() -> Any:
    model = Subclassed()
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse", metrics=["mae"])
    return model


def unbuilt_sequential() -> Any:
    model = keras.Sequential([keras.layers.Dense(5, activation="relu"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.RMSprop(0.01), "mse")
    return model


def two_towers() -> Any:
    """Two inputs through one shared layer, two outputs with losses and weights by name."""
    left, right = keras.Input([4], name="left"), keras.Input([4], name="right")
    shared = keras.layers.Dense(5, activation="relu", name="shared")
    both = keras.layers.Concatenate()([shared(left), shared(right)])
    price = keras.layers.Dense(1, name="price")(both)
    kind = keras.layers.Dense(3, activation="softmax", name="kind")(both)
    model = keras.Model([left, right], [price, kind])
    model.compile(
        keras.optimizers.Adam(0.01),
        loss={"price": "mse", "kind": "sparse_categorical_crossentropy"},
        loss_weights={"price": 0.5, "kind": 2.0},
        metrics={"kind": ["accuracy"], "price": ["mae"]},
    )
    return model


def dict_outputs() -> Any:
    inputs = {"a": keras.Input([4], name="a"), "b": keras.Input([4], name="b")}
    sum_ = keras.layers.Add()(list(inputs.values()))
    outputs = {
        "up": keras.layers.Dense(1)(sum_),
        "down": keras.layers.Dense(1, activation="tanh")(sum_),
    }
    model = keras.Model(inputs, outputs)
    model.compile("sgd", loss={"up": "mse", "down": "mae"})
    return model


def nested() -> Any:
    inner = keras.Sequential(
        [keras.Input([4]), keras.layers.Dense(4), keras.layers.BatchNormalization()], name="inner"
    )
    x = keras.Input([4])
    model = keras.Model(x, keras.layers.Dense(1)(inner(x) + inner(2 * x)))
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    model.compile(keras.optimizers.SGD(schedule, clipnorm=1.0), "mse")
    return model


def custom_layer() -> Any:
    x = keras.Input([4])
    model = keras.Model(x, keras.layers.Dense(1)(Scaled()(x)))
    model.compile(keras.optimizers.AdamW(0.01, weight_decay=0.1), "huber")
    return model


def recurrent() -> Any:
    model = keras.Sequential(
        [
            keras.Input([4], dtype="int32"),
            keras.layers.Embedding(11, 4),
            keras.layers.GRU(3, dropout=0.3, recurrent_dropout=0.2),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(keras.optimizers.Adagrad(0.1), "binary_crossentropy", metrics=["accuracy"])
    return model


def convolutional() -> Any:
    model = keras.Sequential(
        [
            keras.Input([6, 6, 2]),
            keras.layers.Conv2D(3, 3, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.SpatialDropout2D(0.3),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.GaussianNoise(0.1),
            keras.layers.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    return model


def half_precision() -> Any:
    """Its first steps overflow: the scale of the loss has to be found."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        x = keras.Input([4])
        hidden = keras.layers.BatchNormalization()(keras.layers.Dense(8, activation="relu")(x))
        model = keras.Model(x, keras.layers.Dense(1, dtype="float32")(hidden))
        model.compile(keras.optimizers.Adam(0.01), "mse")
    finally:
        keras.config.set_dtype_policy("float32")
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    return model


def accumulating() -> Any:
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2), "mse")
    return model


def words() -> Any:
    x = keras.Input([1], dtype="string")
    ids = keras.layers.StringLookup(vocabulary=["red", "green"])(x)
    vectors = keras.layers.Flatten()(keras.layers.Embedding(3, 3)(ids))
    model = keras.Model(x, keras.layers.Dense(1)(vectors))
    model.compile("sgd", "mse")
    return model


def normalized() -> Any:
    layer = keras.layers.Normalization()
    layer.adapt(3 * X + 1)
    model = keras.Sequential([keras.Input([4]), layer, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def attentive() -> Any:
    x = keras.Input([5, 4])
    seen = keras.layers.MultiHeadAttention(2, 4, dropout=0.2)(x, x)
    pooled = keras.layers.GlobalAveragePooling1D()(keras.layers.LayerNormalization()(seen + x))
    model = keras.Model(x, keras.layers.Dense(1)(pooled))
    metrics = [keras.metrics.R2Score(), keras.metrics.RootMeanSquaredError()]
    model.compile(keras.optimizers.Lion(0.01), "mse", metrics=metrics)
    return model


LEFT, RIGHT = X, numbers(ROWS, 4, seed=2)
AMOUNT = numbers(ROWS, 1, seed=3)
COLOURS = np.array([["red"], ["green"], ["blue"], ["red"]] * (ROWS // 4))
CASES = {
    "accumulating": Case(accumulating, X, AMOUNT),
    "attentive": Case(attentive, numbers(ROWS, 5, 4), AMOUNT),
    "custom_layer": Case(custom_layer, X, AMOUNT),
    "convolutional": Case(convolutional, numbers(ROWS, 6, 6, 2), Y),
    "dict_outputs": Case(dict_outputs, {"a": LEFT, "b": RIGHT}, {"up": AMOUNT, "down": AMOUNT}),
    "half_precision": Case(half_precision, X, AMOUNT),
    "normalized": Case(normalized, X, AMOUNT),
    "nested": Case(nested, X, AMOUNT),
    "recurrent": Case(recurrent, classes(11, ROWS * 4).reshape(ROWS, 4), classes(2)[:, None]),
    "subclassed": Case(subclassed, X, AMOUNT),
    "two_towers": Case(
        two_towers, {"left": LEFT, "right": RIGHT}, {"price": AMOUNT, "kind": Y[:, None]}
    ),
    "unbuilt_sequential": Case(unbuilt_sequential, X, AMOUNT),
    "words": Case(words, COLOURS, AMOUNT),
}
