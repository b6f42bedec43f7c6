"""Steps per second of a recommender: 30 tables of 10,000 rows, and a small network on top."""

from __future__ import annotations

from typing import Any

import numpy as np

from workloads.mid_size import Model, tokens

_TABLES, _ROWS, _WIDTH = 30, 10_000, 16


def _keras(keras: Any) -> Any:
    layers = keras.layers
    inputs = keras.Input((_TABLES,), dtype="int32")
    rows = [layers.Embedding(_ROWS, _WIDTH)(inputs[:, k]) for k in range(_TABLES)]
    x = layers.Dense(128, activation="relu")(layers.Concatenate()(rows))
    return keras.Model(inputs, layers.Dense(2)(layers.Dense(64, activation="relu")(x)))


def _torch(torch: Any) -> Any:
    nn = torch.nn
    return nn.Sequential(
        nn.Embedding(_TABLES * _ROWS, _WIDTH),
        nn.Flatten(),
        nn.Linear(_TABLES * _WIDTH, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(),
        nn.Linear(64, 2),
    )  # fmt: skip


def _rows_of_one_table(x: np.ndarray) -> np.ndarray:
    """PyTorch is fastest with all tables in one."""
    return x.astype(np.int64) + np.arange(_TABLES) * _ROWS


WORKLOAD = Model(
    "30 embeddings of 10,000 x 16, batch 512, Adam",
    lambda: tokens(65_536, _TABLES, _ROWS),
    512,
    _keras,
    _torch,
    _rows_of_one_table,
    aim=1.5,
).workload()
