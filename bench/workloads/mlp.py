"""Steps per second of a plain network for pictures of 28 x 28."""

from __future__ import annotations

from typing import Any

import numpy as np

from workloads.mid_size import Model


def _examples() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    x = random.normal(size=(4096, 784)).astype(np.float32)
    return x, random.integers(0, 10, 4096, dtype=np.int32)


def _keras(keras: Any) -> Any:
    layers = keras.layers
    hidden = [layers.Dense(512, activation="relu") for _ in range(2)]
    return keras.Sequential([keras.Input((784,)), *hidden, layers.Dense(10)])


def _torch(torch: Any) -> Any:
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )


WORKLOAD = Model(
    "network of 784-512-512-10, batch 128, Adam", _examples, 128, _keras, _torch
).workload()
