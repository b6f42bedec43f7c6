"""Images of three colours in folders, and a small random network to look at them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

COLOURS = {"blue": (30, 30, 200), "green": (30, 200, 30), "red": (200, 30, 30)}
SIZE = 12


def write_images(folder: Path, each: int = 10) -> Path:
    """JPEG and PNG files of different sizes."""
    generator = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for number in range(each):
            noise = generator.normal(0, 25, (14 + number, 17, 3))
            image = np.clip(np.array(colour) + noise, 0, 255).astype("uint8")
            if number % 2:
                data, ending = tf.io.encode_png(image), "png"
            else:
                data, ending = tf.io.encode_jpeg(image), "jpg"
            (folder / name / f"{number}.{ending}").write_bytes(data.numpy())
    return folder


def network(*before: Any, classifier: bool = True) -> Any:
    keras.utils.set_random_seed(2)
    layers = [
        keras.Input([SIZE, SIZE, 3]),
        *before,
        keras.layers.Conv2D(6, 3, activation="relu", name="conv"),
        keras.layers.BatchNormalization(),
        keras.layers.GlobalAveragePooling2D(name="pool"),
        keras.layers.Dropout(0.5),
    ]
    if classifier:
        layers.append(keras.layers.Dense(7, activation="softmax"))
    return keras.Sequential(layers)
